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

// As ProbeDisk, by a ring of its own in the disk's idle class, with a scratch file of `path`. While one
// daemon measures with the same folder `shared`, others do not. Blocks for about a second.
//   kAborted  another daemon measures now; others as ProbeDisk
absl::StatusOr<DiskSpeeds> ProbeCacheDisk(const std::string& shared, const std::string& path,
                                          const std::function<bool()>& stop);

}  // namespace cairn

#endif  // CAIRN_DAEMON_PROCESS_PROBE_CACHE_H_
