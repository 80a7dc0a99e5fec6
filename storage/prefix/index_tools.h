// What people do with a prefix's index: list, current, drop, remove, add, build. In the manner of scr_index, without a
// daemon. A running one sees it at the next launch. Calls block on disk. Stateless, hence thread-safe.
//
// NAME is a dataset's name in the index, or its number.
#ifndef CAIRN_STORAGE_PREFIX_INDEX_TOOLS_H_
#define CAIRN_STORAGE_PREFIX_INDEX_TOOLS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/disk.h"
#include "storage/base/ids.h"
#include "storage/prefix/settled.h"
#include "storage/scr/prefix_index.h"

namespace cairn {

struct IndexRow {
  scr::IndexEntry entry;
  bool current = false;
  bool by_cairn = false;  // its descriptor names a launch
  bool valid() const { return entry.complete && entry.failed.empty(); }
};

// Newest first. Reads the index alone, whatever lies beside it. No index: none.
//   kDataLoss, kFailedPrecondition  damaged, or another VERSION; nothing is moved aside
// Before that, SCR gets a moment to write it (storage/prefix/settled.h).
absl::StatusOr<std::vector<IndexRow>> ListIndex(Disk& disk, const std::string& prefix, const Pause& pause = {});

// Restarts go no further than this checkpoint, until the next one is committed.
//   kNotFound            no such dataset
//   kFailedPrecondition  no checkpoint, not complete, or failed
absl::Status SetIndexCurrent(Disk& disk, const std::string& prefix, std::string_view name);

// The entries go, the files stay: a restart does not see them any more, Add brings them back. kNotFound.
absl::Status DropFromIndex(Disk& disk, const std::string& prefix, std::string_view name);
// All that are newer than NAME; their ids.
absl::StatusOr<std::vector<DatasetId>> DropAfter(Disk& disk, const std::string& prefix, std::string_view name);

// Entry, records and bytes, of Cairn's datasets and of SCR's: of those, the files that rank2file names below the
// prefix and no other entry has. kNotFound.
absl::Status RemoveFromIndex(Disk& disk, const std::string& prefix, std::string_view name);

// Enters what was dropped, or lost with the index, from the dataset's own records (commit.cairn, or summary.scr and
// rank2file), after looking whether each of its files is there, in its size where that is known.
//   kNotFound  no records, or no such name in any of them, or it was removed
//   kDataLoss  damaged, or files are missing: the message names them
absl::StatusOr<DatasetId> AddToIndex(Disk& disk, const std::string& prefix, std::string_view name);

// What a scavenge has left in .scr/scr.dataset.<id> (filemaps) or ckpt.<id> (catalogues), made whole: when all ranks'
// files are there in their size, rank2file, summary, commit.cairn (of Cairn's) and the entry.
struct IndexBuilt {
  DatasetId id = 0;
  std::uint32_t ranks = 0;
  std::vector<Rank> missing;  // their records or files; then nothing was written
  std::vector<std::string> reasons;
};
//   kNotFound  nothing of that dataset; kAlreadyExists  it is in the index, complete
absl::StatusOr<IndexBuilt> BuildIndex(Disk& disk, const std::string& prefix, DatasetId id);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PREFIX_INDEX_TOOLS_H_
