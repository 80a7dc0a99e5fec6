// cindex.scrinfo in memory and on disk. Changes that come while another is being written are written together.
#ifndef CAIRN_STORAGE_PLACE_CACHE_CACHE_INDEX_H_
#define CAIRN_STORAGE_PLACE_CACHE_CACHE_INDEX_H_

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/base/ids.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"

namespace cairn {

inline constexpr std::string_view kCacheIndexName = "cindex.scrinfo";

// Calls block on disk. Thread-safe.
class CacheIndex {
 public:
  using Change = std::function<void(kvtree::Tree&)>;

  // `disk` is borrowed.
  CacheIndex(Disk& disk, std::string path) : disk_(disk), path_(std::move(path)) {}

  const std::string& path() const { return path_; }

  // Writes an empty index if there is none yet.
  static absl::Status MakeIfMissing(Disk& disk, const std::string& path);

  // Replaces what is in memory by the file; none: an empty tree. kDataLoss, and until Rebuild every change is refused.
  absl::Status Read();
  // There should be a file. Until Rebuild every change is refused.
  void MarkLost();
  // The file, whatever it was, has these entries and nothing else, at once and durably. Nothing else may be under way.
  absl::Status Rebuild(const std::map<DatasetId, scr::CacheEntry>& entries);
  // kFailedPrecondition while the file is damaged.
  absl::Status CheckWritable() const;

  // OK: the change is in the file, durably. An error: it is not in memory, and in the file at most until the next
  // change. What changes nothing is not written. Entries of SCR's are kept as they are in the file then.
  absl::Status Apply(const Change& change);
  // The change is in memory; the file follows with the next one that can be written. REQUIRES: none is under way.
  void ApplyLater(const Change& change);

  bool ContainsOwn(DatasetId id) const;  // not SCR's
  std::map<DatasetId, scr::CacheEntry> Entries() const;

 private:
  struct Pending {
    const Change* change;
    bool done = false;
    absl::Status status;
  };

  // An SCR job on this cache may have changed its entries since: they are as in the file.
  void TakeForeign(kvtree::Tree* tree) const;

  Disk& disk_;
  const std::string path_;
  mutable absl::Mutex mutex_;
  absl::CondVar written_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool damaged_ ABSL_GUARDED_BY(mutex_) = false;
  bool uncertain_ ABSL_GUARDED_BY(mutex_) = false;  // the file may have what tree_ has not
  kvtree::Tree tree_ ABSL_GUARDED_BY(mutex_);       // as on disk, unless that is uncertain
  std::vector<Pending*> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_CACHE_CACHE_INDEX_H_
