#include "daemon/supervisor/page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::size_t kCounters = sizeof(WorkerCounters) / sizeof(std::uint64_t);

}  // namespace

absl::StatusOr<CountersPage> CountersPage::Make() {
  UniqueFd fd(::memfd_create("cairnd-counters", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid() || ::ftruncate(fd.get(), kPageBytes) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return Unavailable("a page of counters: {}", std::strerror(errno));
  }
  const void* const place = ::mmap(nullptr, kPageBytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (place == MAP_FAILED) return Unavailable("a page of counters: {}", std::strerror(errno));
  return CountersPage(std::move(fd), place);
}

CountersPage::CountersPage(CountersPage&& other) noexcept
    : fd_(std::move(other.fd_)), place_(std::exchange(other.place_, nullptr)) {}

CountersPage::~CountersPage() {
  if (place_ != nullptr) ::munmap(const_cast<void*>(place_), kPageBytes);
}

WorkerCounters CountersPage::Read() const {
  std::array<std::uint64_t, kCounters> copy{};
  const auto* const words = static_cast<const std::uint64_t*>(place_);
  for (std::size_t i = 0; i < kCounters; ++i) copy[i] = __atomic_load_n(&words[i], __ATOMIC_RELAXED);
  WorkerCounters counters{};
  if (copy[0] == kPageMagic) std::memcpy(&counters, copy.data(), sizeof counters);
  return counters;
}

absl::StatusOr<CountersWriter> CountersWriter::Map(UniqueFd fd) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size != static_cast<off_t>(kPageBytes)) {
    return InvalidArgument("descriptor {} is no page of counters", fd.get());
  }
  void* const place = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (place == MAP_FAILED) return InvalidArgument("the page of counters: {}", std::strerror(errno));
  CountersWriter writer(static_cast<WorkerCounters*>(place));
  writer.Set(&WorkerCounters::magic, kPageMagic);
  return writer;
}

CountersWriter::CountersWriter(CountersWriter&& other) noexcept : place_(std::exchange(other.place_, nullptr)) {}

CountersWriter::~CountersWriter() {
  if (place_ != nullptr) ::munmap(place_, kPageBytes);
}

void CountersWriter::Set(std::uint64_t WorkerCounters::*counter, std::uint64_t value) {
  __atomic_store_n(&(place_->*counter), value, __ATOMIC_RELAXED);
}

void CountersWriter::Add(std::uint64_t WorkerCounters::*counter, std::uint64_t value) {
  __atomic_fetch_add(&(place_->*counter), value, __ATOMIC_RELAXED);
}

}  // namespace cairn
