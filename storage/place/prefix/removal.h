// Removes datasets from the prefix. Calls block on disk.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_REMOVAL_H_
#define CAIRN_STORAGE_PLACE_PREFIX_REMOVAL_H_

#include <absl/status/status.h>

#include <set>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/shared_records.h"

namespace cairn {

// Nobody restores it from now on, durably, and it cannot be committed again; its bytes stay. kFailedPrecondition: it is
// SCR's own.
absl::Status WithdrawDataset(Disk& disk, SharedRecords& records, DatasetId id);

// The same for a dataset whose bytes go next. On a prefix that has no room for another index the view goes first; if
// that frees too little, the entry stays until the bytes have gone, and the answer is true: FinishWithdrawal takes it
// out. Meanwhile Cairn does not restore the dataset, and SCR, which may try it, goes on to the next one.
//   kResourceExhausted  no room, and nothing that could be given up: it was never committed
absl::StatusOr<bool> WithdrawForRemoval(Disk& disk, const std::string& prefix, SharedRecords& records, DatasetId id);
absl::Status FinishWithdrawal(SharedRecords& records, DatasetId id);

// SCR's own dataset has COMPLETE 0 from now on, durably, in its summary and in the index: SCR and its tools do not
// restore it either. If CURRENT named it, none is current.
absl::Status WithdrawScrDataset(Disk& disk, SharedRecords& records, DatasetId id);

// Removals by policy go as commits do: they name a launch (`committer`), and count unless a newer one was made before.
// Each dataset is marked, durably; then it is looked. OK: all count, and no launch to come restores one of them.
//   IsFenced  none of them is to be removed: their marks are gone again
absl::Status MarkRemovals(Disk& disk, SharedRecords& records, const std::set<DatasetId>& ids, LaunchId committer);
// The removal is through: `removed.cairn` says more.
absl::Status UnmarkRemoval(Disk& disk, SharedRecords& records, DatasetId id, LaunchId committer);

// As Prefix::Remove. `committer` 0: the user's will, or what was never committed.
absl::Status RemoveDataset(Disk& disk, const std::string& prefix, SharedRecords& records, DatasetId id,
                           const std::vector<catalogue::Catalogue>& catalogues, LaunchId committer = 0);

// Removals by policy that a crash cut short after their mark: those that count are done, the others' marks go. Then
// takes away the bytes of removals that were cut short later: the view, checkpoint files, catalogues and work files in
// ckpt.<id>, and SCR's lists. (The application's own files under names of their own are left: nobody says any more
// whose they are.)
absl::Status FinishRemovals(Disk& disk, const std::string& prefix, SharedRecords& records);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_REMOVAL_H_
