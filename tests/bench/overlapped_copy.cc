#include "tests/bench/overlapped_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "storage/base/check.h"
#include "storage/base/unique_fd.h"

namespace cairn::bench {
namespace {

constexpr std::uint64_t kRequest = 4 << 20, kPart = 256 << 20;
constexpr int kThreads = 2;  // that write, and that read back

void AwaitAtLeast(const std::atomic<std::uint64_t>& value, std::uint64_t wanted) {
  for (std::uint64_t now = value; now < wanted; now = value) value.wait(now);
}

// `call` for each request of the file, with a buffer, by so many threads.
template <typename Call>
std::vector<std::jthread> ForEach(std::uint64_t bytes, std::atomic<std::uint64_t>& next, Call call) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([=, &next] {
      const std::unique_ptr<void, decltype(&std::free)> buffer(std::aligned_alloc(4096, kRequest), std::free);
      CAIRN_CHECK(buffer != nullptr);
      for (std::uint64_t at = 0; (at = next.fetch_add(kRequest)) < bytes;) {
        call(at, std::min(kRequest, bytes - at), buffer.get());
      }
    });
  }
  return threads;
}

}  // namespace

void OverlappedCopy(const std::string& from, const std::string& to) {
  const UniqueFd in(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd out(::open(to.c_str(), O_RDWR | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC, 0600));
  struct stat info {};
  CAIRN_CHECK(in.valid() && out.valid() && ::fstat(in.get(), &info) == 0);
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  CAIRN_CHECK(::fallocate(out.get(), 0, 0, info.st_size) == 0);
  std::atomic<std::uint64_t> next_write{0}, next_read{0}, synced{0};
  std::vector<std::atomic<std::uint64_t>> written((bytes + kPart - 1) / kPart);
  const auto writers = ForEach(bytes, next_write, [&](std::uint64_t at, std::uint64_t size, void* buffer) {
    CAIRN_CHECK(::pread(in.get(), buffer, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size));
    CAIRN_CHECK(::pwrite(out.get(), buffer, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size));
    written[at / kPart] += size;
    written[at / kPart].notify_one();
  });
  const auto readers = ForEach(bytes, next_read, [&](std::uint64_t at, std::uint64_t size, void* buffer) {
    AwaitAtLeast(synced, at + size);
    CAIRN_CHECK(::pread(out.get(), buffer, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size));
  });
  for (std::size_t part = 0; part < written.size(); ++part) {
    const std::uint64_t end = std::min((part + 1) * kPart, bytes);
    AwaitAtLeast(written[part], end - part * kPart);
    CAIRN_CHECK(::fsync(out.get()) == 0);
    synced = end;
    synced.notify_all();
  }
}

}  // namespace cairn::bench
