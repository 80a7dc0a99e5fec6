// How files of the application's come to names that an older dataset has: at each instant one of the two datasets is
// committed, and its bytes are whole. Calls block on disk.
//
// The new files are whole and synced, and wait beside the old ones (waiting.h). So both datasets have room for a while.
//
//   1 look      a newer dataset has one of the names, or a newer launch was made: refused
//               -> nothing has changed
//   2 mark      the folders where files wait are synced; place.<id>.cairn is made in .scr; catalogues are stored
//               -> the old dataset is committed, and has its names. Of the new one nothing counts: who goes on with it
//                  begins anew, or takes it away (../publish/unfinished.h)
//   3 commit    commit.cairn, and the look whether it counts (launches.h)
//               -> it counts: both are committed, and both are whole. It does not: it stays where it waits, and the old
//                  one never gives way to it
//   4 withdraw  the old dataset leaves index and commits
//               -> the new one is committed, and whole: each of its files is where it waits
//   5 place     files are renamed and folders synced; md.idx, which shows the steps of a BP5 directory, last
//               -> each file is where it waits, or under its name: a rename moves it from one to the other
//   6 end       the index gets the entry, and the mark goes: from here on SCR, which knows names alone, finds it, too
//
// After step 3 nobody decides anything any more: FinishPlacings goes on at 4, in any process that may write, at its
// next look (Prefix::Contents), and several at once do no harm. A file that another has moved meanwhile is not there to
// be moved again. Who may only read finds the files by StillWaiting. The index may say nothing of a dataset with
// a mark: then it is read from commit.cairn.
//
// Two new datasets with one name: the one with the higher number stays, whoever goes on with them. The lower is
// removed, files that wait first, before the higher one's come to their names: so a process that slept since before
// cannot move one there afterwards. A removal by the user goes the same way.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_PLACING_H_
#define CAIRN_STORAGE_PLACE_PREFIX_PLACING_H_

#include <absl/status/status.h>

#include <map>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/file/transfer/transfer.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/scr_names.h"
#include "storage/place/prefix/shared_records.h"

namespace cairn {

struct Replacement {
  std::map<DatasetId, std::vector<catalogue::Catalogue>> withdrawn;  // as Prefix::Withdraw answers; also after an error
  bool made = false;       // commit.cairn is there: all is whole where it waits
  bool committed = false;  // and it counts: what comes after that is finished sooner or later
};

// All six steps. Each file is under its name, or waits. `committer`: as Prefix::Commit's.
//   kAlreadyExists       it had been committed before; all is done as for one that had not
//   kAborted             too late: a newer dataset has a name, it was removed, or its id is SCR's now. Nothing of it is
//                        left to be committed
//   IsFenced             a newer launch was made before: nobody gave way
//   kFailedPrecondition  a file is neither in its place nor waits; or something is in the way (place.h)
absl::Status ReplaceDatasets(Disk& disk, const std::string& prefix, SharedRecords& records, ScrNames& scr_names,
                             const scr::Descriptor& descriptor, const std::vector<catalogue::Catalogue>& catalogues,
                             LaunchId committer, Replacement* replacement);

// From step 4 on, for all whose mark is there and whose commit counts. What cannot be finished now is a warning of the
// records, and stays as it is; but kUnavailable passes through. The index is left to SharedRecords::Mend.
absl::Status FinishPlacings(Disk& disk, const std::string& prefix, SharedRecords& records, ScrNames& scr_names);

// Renames files that wait, and syncs their folders, md.idx after all others: the data of a step is durable under its
// name before the index that shows the step. As PutInPlace.
absl::Status PutAllInPlace(Disk& disk, const std::vector<CopiedFile>& files);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_PLACING_H_
