// Which files SCR's own datasets have on a prefix, for who is about to replace one of them. Thread-safe. Calls block on
// disk.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_SCR_NAMES_H_
#define CAIRN_STORAGE_PLACE_PREFIX_SCR_NAMES_H_

#include <absl/base/thread_annotations.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "storage/base/ids.h"
#include "storage/format/kvtree/tree.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/shared_records.h"

namespace cairn {

class ScrNames {
 public:
  // Has dataset `id` of SCR's, `entry` in the index, one of these files (normalized, below the prefix)? Its rank2file
  // is read once, and again when the entry has changed. One whose rank2file is damaged has none, since nobody can
  // restore it, nor one whose rank2file may not be read; the records are warned.
  absl::StatusOr<bool> HasOneOf(Disk& disk, SharedRecords& records, DatasetId id, const kvtree::Tree& entry,
                                const std::set<std::string>& names);

 private:
  // A dataset may have a million names: their hashes tell that it has none of those that are asked for.
  struct Known {
    kvtree::Tree entry;
    std::vector<std::size_t> hashes;  // sorted
  };

  absl::Mutex mutex_;
  std::map<DatasetId, Known> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_SCR_NAMES_H_
