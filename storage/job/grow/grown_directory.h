// A growing BP5 directory's place on the prefix: whose it is, and what becomes of it. Calls block. The steps in between
// are storage/file/bpdir/follow.h; the dataset is committed in the end by its flush (storage/job/flush).
#ifndef CAIRN_STORAGE_JOB_GROW_GROWN_DIRECTORY_H_
#define CAIRN_STORAGE_JOB_GROW_GROWN_DIRECTORY_H_

#include <absl/status/status.h>

#include <set>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/file/transfer/transfer.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/prefix.h"
#include "storage/place/publish/publish.h"

namespace cairn {

struct GrowOutcome {
  absl::Status status;
  bool too_late = false;             // the dataset can never be committed, or the place is a newer one's by now
  bool fenced = false;               // a newer launch was made before (IsFenced): nobody gave way
  std::string damaged_file;          // of the cache; another try would read the same bytes
  std::vector<CopiedFile> in_place;  // completed where they are
  Withdrawn withdrawn;               // gave way, also if it failed; FinishGrown leaves their bytes to the commit
  std::vector<std::string> warnings;
};

// Makes `name` the dataset's, before its first byte goes there: the dataset enters the index as not complete, committed
// datasets that have files there are withdrawn and removed, other files of a BP5 directory there go.
//   too_late  never: the dataset was removed, its id is another's, or a newer one has such files
//   fenced    nothing was touched
// `committer`, here and below: the launch under which this is done, as Prefix::Withdraw has it.
GrowOutcome TakePlace(Disk& disk, Prefix& prefix, const scr::Descriptor& descriptor, const std::string& name,
                      LaunchId committer = 0);

// The steps that are there stay, as a closed directory that is no dataset. too_late: the place is a newer one's by now,
// and nothing was touched; nor was it if the outcome is fenced.
GrowOutcome ClosePlace(Disk& disk, Prefix& prefix, DatasetId id, const std::string& name, LaunchId committer = 0);

// A dataset in the cache, with directories that are on the prefix as far as they had grown. All is borrowed.
struct GrownDataset {
  Disk& disk;
  const std::string& folder;  // in the cache
  DatasetId id = 0;
  const std::vector<catalogue::Catalogue>& catalogues;
  const std::set<std::string>& directories;
  LaunchId committer = 0;
};
// The first step of the flush of a dataset for those of its directories that have grown on the prefix: their files are
// completed where they are, and verified. `done` receives their entries' prefix names.
GrowOutcome FinishGrown(const GrownDataset& dataset, Disk& disk, Prefix& prefix, Throttle& throttle,
                        TransferProgress& progress, std::set<std::string>* done);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_GROW_GROWN_DIRECTORY_H_
