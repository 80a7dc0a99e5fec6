// How this process measures the disk that its cache is on.
#ifndef CAIRN_DAEMON_PROCESS_PROBE_CACHE_H_
#define CAIRN_DAEMON_PROCESS_PROBE_CACHE_H_

#include <absl/status/statusor.h>

#include <functional>
#include <string>

#include "storage/io/disk_probe.h"

namespace cairn {

// The highest folder above `path` on the same device that this process may open: the same one for all daemons that see
// this file system at the same place, whatever their caches are called.
std::string FolderOfDevice(const std::string& path);

// As ProbeDisk, by a ring of its own in the disk's idle class, with a scratch file of `path`. Whoever measures with the
// folder `shared` has its lock (flock), and others wait for their turn. Anybody who may read that folder can lock it,
// and keep the lock: then it is held as long as that process wants. Blocks for about a second, and never for the lock.
//   kAborted  another process has the lock, and `turn` is to be awaited; others as ProbeDisk
absl::StatusOr<DiskSpeeds> ProbeCacheDisk(const std::string& shared, const std::string& path, ProbeTurn turn,
                                          const std::function<bool()>& stop);

}  // namespace cairn

#endif  // CAIRN_DAEMON_PROCESS_PROBE_CACHE_H_
