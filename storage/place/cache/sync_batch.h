// Syncs of files and directories that need no order among themselves, all at once: a journalling file system then
// writes its journal once for all of them instead of once for each.
#ifndef CAIRN_STORAGE_PLACE_CACHE_SYNC_BATCH_H_
#define CAIRN_STORAGE_PLACE_CACHE_SYNC_BATCH_H_

#include <absl/status/status.h>

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "storage/io/disk.h"

namespace cairn {

// Not thread-safe; Run blocks on disk, and uses as many threads as the disk asks for (Disk::syncs_at_once).
class SyncBatch {
 public:
  explicit SyncBatch(Disk& disk) : disk_(disk) {}

  // Writes a new file now, to be synced by Run; its directory must be added, too. A file of that name gives way first:
  // after a failed sync its inode is not to be trusted.
  absl::Status Write(const std::string& path, std::string_view bytes);
  void AddDirectory(const std::string& path) { directories_.insert(path); }

  // OK: everything written and added is durable. The first error otherwise; the batch is used up.
  absl::Status Run();

 private:
  Disk& disk_;
  std::vector<std::unique_ptr<File>> files_;
  std::set<std::string> directories_;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_CACHE_SYNC_BATCH_H_
