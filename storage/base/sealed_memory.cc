#include "storage/base/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

absl::StatusOr<SealedMemory> LookAtMemory(int fd) {
  struct stat info {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || ::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return InvalidArgument("descriptor {}: no memory file", fd);
  }
  if ((seals & kSizeSeals) != kSizeSeals || info.st_size <= 0) {
    return InvalidArgument("descriptor {}: {} bytes of memory with the seals {:x}, expected all of {:x}", fd,
                           info.st_size, seals, kSizeSeals);
  }
  return SealedMemory{.inode = info.st_ino, .bytes = static_cast<std::uint64_t>(info.st_size)};
}

absl::StatusOr<UniqueFd> MakeSealedMemory(const char* name, std::uint64_t bytes) {
  const auto refuse = [](const char* what) { return ResourceExhausted("{}: {}", what, std::strerror(errno)); };
  UniqueFd fd(::memfd_create(name, MFD_ALLOW_SEALING | MFD_CLOEXEC));
  if (!fd.valid()) return refuse("memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return refuse("ftruncate");
  if (::fcntl(fd.get(), F_ADD_SEALS, kSizeSeals) != 0) return refuse("seals");
  return fd;
}

}  // namespace cairn
