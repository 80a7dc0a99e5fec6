#include "daemon/process/probe_cache.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"
#include "storage/io/posix_disk.h"
#include "storage/io/scratch.h"

namespace cairn {
namespace {

// The kernel frees the lock when the descriptor is closed. A folder that cannot be opened or locked keeps nobody away.
absl::StatusOr<UniqueFd> TakeTurn(const std::string& shared, ProbeTurn turn) {
  UniqueFd fd(::open(shared.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const bool taken = fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (taken && turn == ProbeTurn::kAwaited) {
    return Aborted("another process has locked {}, as a daemon does that measures this disk", shared);
  }
  return fd;
}

}  // namespace

std::string FolderOfDevice(const std::string& path) {
  struct stat of_path {};
  if (::stat(path.c_str(), &of_path) != 0) return path;
  std::string highest = path;
  for (std::string folder = path; folder != "/";) {
    folder = ParentOf(folder);
    struct stat of_folder {};
    if (::stat(folder.c_str(), &of_folder) != 0 || of_folder.st_dev != of_path.st_dev) break;
    if (::access(folder.c_str(), R_OK) == 0) highest = folder;
  }
  return highest;
}

absl::StatusOr<DiskSpeeds> ProbeCacheDisk(const std::string& shared, const std::string& path, ProbeTurn turn,
                                          const std::function<bool()>& stop) {
  CAIRN_ASSIGN_OR_RETURN(const UniqueFd lock, TakeTurn(shared, turn));
  const auto disk = MakePosixDisk({.engine = {.idle = true}});
  // It takes room, and does not matter to what is measured.
  if (const absl::Status removed = RemoveScratch(*disk, path); !removed.ok()) {
    spdlog::warn("what a crash has left of {} stays: {}", path, MessageOf(removed));
  }
  return ProbeDisk(*disk, path, {}, stop);
}

}  // namespace cairn
