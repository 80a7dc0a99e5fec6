#include "tests/support/refusals/refusals.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>

#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::uint32_t kMadvPopulateWrite = 23, kMadvCollapse = 25;  // the distribution's headers are older

Refusal Advice(std::uint32_t advice) {
  return {.call = SYS_madvise, .error = EINVAL, .only_if = {{.index = 2, .value = advice}}};
}

Refusal Registering(std::uint32_t operation, int error) {
  // The highest bit says that the ring is a registered one, too (IORING_REGISTER_USE_REGISTERED_RING).
  return {
      .call = SYS_io_uring_register, .error = error, .only_if = {{.index = 1, .mask = 0x7fffffff, .value = operation}}};
}

// --- The filter ---

sock_filter Statement(int code, std::uint32_t k) {
  return {.code = static_cast<std::uint16_t>(code), .jt = 0, .jf = 0, .k = k};
}
sock_filter Load(std::size_t offset) {
  return Statement(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
}
// Skips so many statements if it is another value.
sock_filter Is(std::uint32_t value, std::size_t otherwise_skip) {
  return {.code = BPF_JMP | BPF_JEQ | BPF_K, .jt = 0, .jf = static_cast<std::uint8_t>(otherwise_skip), .k = value};
}

std::vector<sock_filter> FilterOf(const std::vector<Refusal>& refusals) {
  constexpr std::size_t kOfAnArgument = 3;
  std::vector<sock_filter> filter;
  for (const Refusal& refusal : refusals) {
    std::size_t left = kOfAnArgument * refusal.only_if.size() + 1;  // of this refusal
    filter.push_back(Load(offsetof(seccomp_data, nr)));
    filter.push_back(Is(static_cast<std::uint32_t>(refusal.call), left));
    for (const Refusal::Argument& argument : refusal.only_if) {
      left -= kOfAnArgument;
      filter.push_back(
          Load(offsetof(seccomp_data, args) + sizeof(std::uint64_t) * static_cast<std::size_t>(argument.index)));
      filter.push_back(Statement(BPF_ALU | BPF_AND | BPF_K, argument.mask));
      filter.push_back(Is(argument.value, left));
    }
    filter.push_back(Statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(refusal.error)));
  }
  filter.push_back(Statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  return filter;
}

absl::Status InstallFilter(std::vector<sock_filter> filter) {
  const sock_fprog program{.len = static_cast<unsigned short>(filter.size()), .filter = filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    return FailedPrecondition("a seccomp filter: {}", std::strerror(errno));
  }
  return absl::OkStatus();
}

// --- Locked memory ---

// This thread, and what it starts, may not exceed the limit.
absl::Status DropLockCapability() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  if (::syscall(SYS_capget, &header, sets) != 0) return FailedPrecondition("capget: {}", std::strerror(errno));
  __user_cap_data_struct& set = sets[CAP_TO_INDEX(CAP_IPC_LOCK)];
  constexpr std::uint32_t kBit = CAP_TO_MASK(CAP_IPC_LOCK);
  if ((set.permitted & kBit) == 0) return absl::OkStatus();
  if (::prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK) != 0) return FailedPrecondition("bounding: {}", std::strerror(errno));
  set.permitted &= ~kBit;
  set.effective &= ~kBit;
  set.inheritable &= ~kBit;
  if (::syscall(SYS_capset, &header, sets) != 0) return FailedPrecondition("capset: {}", std::strerror(errno));
  return absl::OkStatus();
}

// Of the process, until it goes.
class NoLockLimit {
 public:
  NoLockLimit() {
    ::getrlimit(RLIMIT_MEMLOCK, &before_);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_MEMLOCK, &none);
  }
  ~NoLockLimit() { ::setrlimit(RLIMIT_MEMLOCK, &before_); }
  NoLockLimit(const NoLockLimit&) = delete;

 private:
  rlimit before_{};
};

absl::Status RunHere(const Refusals& refusals, const std::function<void()>& what) {
  if (!refusals.locked_memory) {
    CAIRN_RETURN_IF_ERROR(InstallFilter(FilterOf(refusals.calls)));
    what();
    return absl::OkStatus();
  }
  const NoLockLimit limit;
  CAIRN_RETURN_IF_ERROR(DropLockCapability());
  return RunHere({.calls = refusals.calls}, what);
}

}  // namespace

void Refusals::Add(const Refusals& more) {
  calls.insert(calls.end(), more.calls.begin(), more.calls.end());
  locked_memory = locked_memory || more.locked_memory;
}

Refusals NoIoUring(int error) {
  return {.calls = {{.call = SYS_io_uring_setup, .error = error}}};
}
Refusals NoHugePages() {
  return {.calls = {Advice(kMadvCollapse), Advice(MADV_HUGEPAGE)}};
}
Refusals NoPopulate() {
  return {.calls = {Advice(kMadvPopulateWrite)}};
}
Refusals NoReservation() {
  return {.calls = {{.call = SYS_fallocate, .error = EOPNOTSUPP}}};
}
// Files are opened without it, and asked for it then; open is refused for those who ask there.
Refusals NoDirectIo() {
  constexpr std::uint32_t kDirect = O_DIRECT;
  return {
      .calls = {{.call = SYS_fcntl,
                 .error = EINVAL,
                 .only_if = {{.index = 1, .value = F_SETFL}, {.index = 2, .mask = kDirect, .value = kDirect}}},
                {.call = SYS_openat, .error = EINVAL, .only_if = {{.index = 2, .mask = kDirect, .value = kDirect}}}}};
}
Refusals NoClones() {
  return {.calls = {{.call = SYS_ioctl, .error = EOPNOTSUPP, .only_if = {{.index = 1, .value = FICLONE}}}}};
}
Refusals NoHardLinks() {
  Refusals refusals{.calls = {{.call = SYS_linkat, .error = EPERM}}};
#ifdef SYS_link  // newer architectures have linkat only
  refusals.calls.push_back({.call = SYS_link, .error = EPERM});
#endif
  return refusals;
}
Refusals NoPinning(int error) {
  return {.calls = {Registering(IORING_REGISTER_BUFFERS_UPDATE, error)}};
}
Refusals NoNumberedMemory() {
  return {.calls = {Registering(IORING_REGISTER_BUFFERS2, EINVAL)}};
}
Refusals NoLockedMemory() {
  return {.locked_memory = true};
}

absl::Status RunRefused(const Refusals& refusals, const std::function<void()>& what) {
  absl::Status status;
  std::thread([&] { status = RunHere(refusals, what); }).join();
  return status;
}

}  // namespace cairn
