// One dataset's folder in the cache: its records as Cairn and SCR read them. Calls block on disk. Stateless.
#ifndef CAIRN_STORAGE_CACHE_DATASET_FOLDER_H_
#define CAIRN_STORAGE_CACHE_DATASET_FOLDER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/disk.h"
#include "storage/base/ids.h"
#include "storage/scr/records.h"
#include "storage/scr/redset.h"

namespace cairn {

// A rank's part of a dataset, as far as the dataset's own records need it.
struct RankFiles {
  std::vector<std::string> data;  // absolute: files, then the catalogue
  std::uint64_t bytes = 0;        // of all of these
};

std::string FilemapPath(const std::string& folder, Rank rank);

// The rank's files are in place in `folder`, synced: its catalogue, filemap and redundancy records, all synced, with
// the directories that hold them and the files. (None of it is believed before the dataset's own records are there.)
//   kFailedPrecondition  a file is missing or has another size than the catalogue says
absl::StatusOr<RankFiles> WriteRankRecords(Disk& disk, const std::string& folder, const std::string& prefix,
                                           const catalogue::Catalogue& catalogue);

// All ranks have theirs: ownership lists, then, after everything else is synced (the folder's own name, too), the
// encode states.
absl::Status WriteDatasetRecords(Disk& disk, const std::string& folder, const std::vector<RankFiles>& ranks);

// The encode states are taken back: SCR takes the dataset for incomplete.
absl::Status EraseEncodeStates(Disk& disk, const std::string& folder);

// Reads and checks everything but the bytes of the files.
//   kDataLoss  what is missing or wrong; other errors: the disk's, which say nothing about the dataset
absl::StatusOr<std::vector<catalogue::Catalogue>> ReadDataset(Disk& disk, const std::string& folder, const RunId& run,
                                                              const scr::Descriptor& descriptor);

}  // namespace cairn

#endif  // CAIRN_STORAGE_CACHE_DATASET_FOLDER_H_
