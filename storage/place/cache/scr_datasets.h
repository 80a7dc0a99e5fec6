// Datasets that SCR itself has written into a run's folder, where it went on from Cairn's cache: only looked at, and
// left alone. Calls block on disk. Stateless.
#ifndef CAIRN_STORAGE_PLACE_CACHE_SCR_DATASETS_H_
#define CAIRN_STORAGE_PLACE_CACHE_SCR_DATASETS_H_

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <vector>

#include "storage/base/ids.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"

namespace cairn {

struct ScrCached {
  scr::Descriptor descriptor;  // of its entry; the number alone if it has none
  std::string folder;
  // It was completed, and no file of it is seen to be missing that no redundancy data could make good: restarts have to
  // do with it.
  bool whole = false;
};

// Of folder `path`, whose index has `entries`. An entry without a folder is nothing. By number, ascending. Errors are
// the disk's, for the folder as a whole; a dataset that cannot be read now counts as whole.
absl::StatusOr<std::vector<ScrCached>> FindScrDatasets(Disk& disk, const std::string& path,
                                                       const std::map<DatasetId, scr::CacheEntry>& entries);

// Is what lies in the folder of dataset `id` SCR's own? `entry`: of the index, null: it has none.
absl::StatusOr<bool> IsScrsFolder(Disk& disk, const std::string& folder, const scr::CacheEntry* entry);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_CACHE_SCR_DATASETS_H_
