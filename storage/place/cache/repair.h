// A dataset's records for SCR, made anew. Calls block on disk. Stateless.
#ifndef CAIRN_STORAGE_PLACE_CACHE_REPAIR_H_
#define CAIRN_STORAGE_PLACE_CACHE_REPAIR_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "storage/format/scr/records.h"
#include "storage/io/disk.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/cache/dataset_folder.h"
#include "storage/place/run_identity.h"

namespace cairn {

// Of a dataset that is whole by its catalogues: filemaps, redundancy records, ownership lists and encode states that
// are missing, damaged, or do not say what the catalogues say. They are written anew, the encode states last and not
// there meanwhile. What ranks keep for others (`sets`) is there, and not looked at. `warnings` receives each of them
// with its reason. An error says nothing about the dataset; what is wanting is made anew the next time.
absl::Status RepairRecords(Disk& disk, const std::string& folder, const std::string& prefix,
                           const scr::Descriptor& descriptor, const std::vector<StoredCatalogue>& ranks,
                           const RankSets& sets, std::vector<std::string>* warnings);

// Do both encode states say that the dataset was completed, and not given up? kDataLoss: not, and why.
absl::Status CheckEncoded(Disk& disk, const std::string& folder);

// What a lost index said of a whole dataset: its filemaps say what it is, its catalogues that it is whole, its encode
// states, which are written last and taken back first, that it was completed and not given up.
//   kDataLoss  it cannot be shown to be whole, and why; other errors: the disk's, which say nothing about the dataset
absl::StatusOr<scr::CacheEntry> RecoverEntry(Disk& disk, const std::string& folder, const RunIdentity& run,
                                             DatasetId id);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_CACHE_REPAIR_H_
