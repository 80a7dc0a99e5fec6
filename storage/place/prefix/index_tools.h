// What people do with a prefix's index: list, current, drop, remove, add, build. In the manner of scr_index, without a
// daemon. A running one sees it at the next launch. Calls block on disk. Stateless, hence thread-safe.
//
// NAME is a dataset's name in the index, or its number.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_INDEX_TOOLS_H_
#define CAIRN_STORAGE_PLACE_PREFIX_INDEX_TOOLS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/ids.h"
#include "storage/format/scr/prefix_index.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/settled.h"

namespace cairn {

struct IndexRow {
  scr::IndexEntry entry;
  bool current = false;
  bool by_cairn = false;  // its descriptor names a launch
  bool valid() const { return entry.complete && entry.failed.empty(); }
};

// Newest first. Reads the index alone, whatever lies beside it. No index: none.
//   kDataLoss, kFailedPrecondition  damaged, or another VERSION; nothing is moved aside
// Before that, SCR gets a moment to write it (storage/place/prefix/settled.h).
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
// prefix and no other entry has. On a full prefix the bytes make the room that the index needs. kNotFound.
absl::Status RemoveFromIndex(Disk& disk, const std::string& prefix, std::string_view name);

// Enters what was dropped, or lost with the index, from the dataset's own records (commit.cairn, or summary.scr and
// rank2file). Of Cairn's datasets every byte is compared with its checksum first, and summary and rank2file are written
// anew if they are damaged; of SCR's own every file has to be there, in its size where that is known. What was marked
// FAILED is not any more then.
//   kNotFound  no records, or no such name in any of them, or it was removed
//   kDataLoss  damaged, or files are missing: the message names them, and when a restart from it has failed
absl::StatusOr<DatasetId> AddToIndex(Disk& disk, const std::string& prefix, std::string_view name);

// What SCR reads of a dataset that Cairn has committed: summary.scr, and rank2file with its parts. What is missing,
// damaged or not as commit.cairn and the catalogues have it, each with its path; empty: nothing.
//   kNotFound, kDataLoss  as Prefix::Catalogues: commit record or catalogues cannot be read
absl::StatusOr<std::vector<std::string>> CheckRecords(Disk& disk, const std::string& prefix, DatasetId id);

// A dataset of SCR's own, by its index entry: are its files there, in their sizes as far as these are known?
struct ScrSizes {
  std::uint32_t ranks = 0;
  std::uint64_t files = 0, bytes = 0;
};
//   kDataLoss  not so: the message names the file or record
absl::StatusOr<ScrSizes> CheckScrSizes(Disk& disk, const std::string& prefix, const scr::Descriptor& descriptor);

// What a scavenge has left in .scr/scr.dataset.<id> (filemaps) or ckpt.<id> (catalogues), made whole: when all ranks'
// files are there in their size, rank2file, summary, commit.cairn (of Cairn's) and the entry. Of what SCR itself has
// flushed whole, as its summary says, only the entry.
struct IndexBuilt {
  DatasetId id = 0;
  std::uint32_t ranks = 0;
  std::vector<Rank> missing;  // their records or files; then nothing was written
  std::vector<std::string> reasons;
};
//   kNotFound  nothing of that dataset; kAlreadyExists  it is in the index, complete
absl::StatusOr<IndexBuilt> BuildIndex(Disk& disk, const std::string& prefix, DatasetId id);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_INDEX_TOOLS_H_
