#include "tests/bench/raw_io.h"

#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "storage/base/unique_fd.h"

namespace cairn::bench {
namespace {

constexpr std::size_t kTransferBytes = 4 << 20;
constexpr unsigned kInFlight = 8;

void Require(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::exit(1);
}

void Transfer(int fd, bool write, std::byte* data, std::size_t bytes) {
  io_uring ring;
  Require(io_uring_queue_init(kInFlight, &ring, 0) == 0, "io_uring");
  std::size_t begun = 0;
  std::size_t done = 0;
  unsigned in_flight = 0;
  while (done < bytes) {
    for (; in_flight < kInFlight && begun < bytes; ++in_flight) {
      const auto part = static_cast<unsigned>(std::min(kTransferBytes, bytes - begun));
      io_uring_sqe* const sqe = io_uring_get_sqe(&ring);
      if (write) {
        io_uring_prep_write(sqe, fd, data + begun, part, begun);
      } else {
        io_uring_prep_read(sqe, fd, data + begun, part, begun);
      }
      begun += part;
    }
    Require(io_uring_submit_and_wait(&ring, 1) >= 0, "io_uring_submit");
    for (io_uring_cqe* cqe = nullptr; io_uring_peek_cqe(&ring, &cqe) == 0; --in_flight) {
      Require(cqe->res > 0, "transfer");
      done += static_cast<std::size_t>(cqe->res);
      io_uring_cqe_seen(&ring, cqe);
    }
  }
  io_uring_queue_exit(&ring);
}

}  // namespace

void RawWrite(const std::string& path, std::span<const std::byte> bytes, bool sync) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600));
  Require(fd.valid(), path.c_str());
  Require(fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes.size())) == 0, "fallocate");
  Transfer(fd.get(), true, const_cast<std::byte*>(bytes.data()), bytes.size());
  if (sync) Require(fdatasync(fd.get()) == 0, "fdatasync");
}

void RawOverwrite(const std::string& path, std::span<const std::byte> bytes) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC));
  Require(fd.valid(), path.c_str());
  Transfer(fd.get(), true, const_cast<std::byte*>(bytes.data()), bytes.size());
  Require(fdatasync(fd.get()) == 0, "fdatasync");
}

void RawRead(const std::string& path, std::span<std::byte> target) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  Require(fd.valid(), path.c_str());
  Transfer(fd.get(), false, target.data(), target.size());
}

std::string BenchFolder() {
  const char* const given = std::getenv("CAIRN_BENCH_DIR");
  return given == nullptr ? "/var/tmp" : given;
}

}  // namespace cairn::bench
