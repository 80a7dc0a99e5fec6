#include "daemon/process/machine.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "daemon/process/memory_limit.h"
#include "storage/base/path.h"
#include "storage/base/status.h"

namespace cairn {

absl::StatusOr<Machine> MachineOf(const std::string& cache) {
  struct statvfs info {};
  std::string place = cache;  // or what of it is there already
  while (::statvfs(place.c_str(), &info) != 0) {
    if (errno != ENOENT || place == "/") return Unavailable("cache.path {}: {}", place, std::strerror(errno));
    place = ParentOf(place);
  }
  const std::uint64_t of_root = info.f_bfree - std::min(info.f_bfree, info.f_bavail);  // which others cannot use
  const std::uint64_t blocks = info.f_blocks - std::min<std::uint64_t>(of_root, info.f_blocks);
  return Machine{
      .cache_bytes = blocks * info.f_frsize, .memory_bytes = MemoryOfMachine(), .memory_here = MemoryOfThisProcess()};
}

}  // namespace cairn
