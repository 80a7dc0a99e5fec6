// A drain that goes on until it is told to stop: the kernel tells of files that are closed (inotify), and a look now
// and then finds what that has missed. Where there are more folders than the kernel watches for one user, only the
// looks are left. A folder that vanishes, or a target that does, is tried again and again.
#ifndef CAIRN_STORAGE_JOB_DRAIN_WATCH_H_
#define CAIRN_STORAGE_JOB_DRAIN_WATCH_H_

#include <absl/status/status.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/unique_fd.h"
#include "storage/io/disk.h"
#include "storage/job/drain/drain.h"

namespace cairn {

struct DrainWatchOptions {
  DrainOptions drain;                   // its folders may be named by links
  std::uint64_t look_ms = 60'000;       // at least so often all is looked at
  std::uint64_t gather_ms = 200;        // what is closed within this time is brought together
  std::uint64_t retry_ms_max = 30'000;  // of pauses after trouble: 1 s, 2 s, 4 s, ...
  // All are called on the thread of the watch. A pass is over: what it did and what waits.
  std::function<void(const DrainReport& report)> passed = [](const DrainReport&) {};
  // Why there is none now, or, with OK, that it goes on again. The same trouble is told once.
  std::function<void(const absl::Status& status)> trouble = [](const absl::Status&) {};
};

// Returns once `stop` is set and what hangs has come back: a caller who cannot wait for that has a thread for this.
void WatchAndDrain(Disk& disk, const DrainWatchOptions& options, const std::atomic<bool>& stop);

// What the kernel tells of a tree of folders. Not thread-safe.
class FolderWatch {
 public:
  struct Events {
    std::vector<std::string> closed;  // relative paths, as they were named at that time
    std::vector<std::pair<std::string, std::string>> moved;
    bool any = false;   // something happened
    bool over = false;  // the root is gone, or was moved away
  };

  // `root`: absolute. Names are what the watches were made for: folders that are moved are watched under their new
  // names from the next Renew on. kResourceExhausted, kUnavailable: no inotify.
  static absl::StatusOr<std::unique_ptr<FolderWatch>> Make(const std::string& root);
  virtual ~FolderWatch() = default;
  // Watches all folders below the root, those that are there already as well. kResourceExhausted: more than may be.
  virtual absl::Status Renew() = 0;
  // Waits at most so long for the first one.
  virtual Events Wait(std::uint64_t ms) = 0;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_DRAIN_WATCH_H_
