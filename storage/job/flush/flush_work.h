// What a flush does on the disks, in two steps. The first copies and changes nothing that anybody sees; several
// datasets of a run do so at once. The second puts in place and commits: one dataset of a run at a time. Calls block.
#ifndef CAIRN_STORAGE_JOB_FLUSH_FLUSH_WORK_H_
#define CAIRN_STORAGE_JOB_FLUSH_FLUSH_WORK_H_

#include <absl/status/status.h>

#include <set>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/file/transfer/transfer.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/flush_file.h"
#include "storage/place/prefix/prefix.h"
#include "storage/place/publish/publish.h"

namespace cairn {

// The dataset, and who has it. All is borrowed.
struct FlushSource {
  Disk& disk;
  std::string folder;  // of the dataset in the cache
  const scr::Descriptor& descriptor;
  const std::vector<catalogue::Catalogue>& catalogues;
  std::set<std::string> grown = {};  // directories that are on the prefix as far as they had grown (storage/job/grow)
  std::set<Rank> there = {};         // ranks that other nodes have brought: of memory their catalogues are stored
};
struct FlushTarget {
  Disk& disk;
  Prefix& prefix;
  FlushFile& flush_file;
  bool views = true;       // of what is committed BP5 views are made; that they are not is a warning
  LaunchId committer = 0;  // the launch under which it is committed (Publication::committer)
};

struct FlushOutcome {
  absl::Status status;
  bool too_late = false;           // never to be committed: removed there, or others have its id or names
  bool fenced = false;             // a newer launch was made before (Published::fenced); again would not help
  bool there = false;              // fenced, but committed by then: whole on the prefix, chosen by nobody
  std::string damaged_file;        // of the cache; another try would read the same bytes
  std::vector<CopiedFile> copied;  // by the first step
  Withdrawn withdrawn;             // also if it failed: older ones whose files gave way
  std::vector<std::string> warnings;
};

FlushOutcome CopyDataset(const FlushSource& source, const FlushTarget& target, Throttle& throttle,
                         TransferProgress& progress);
// The same for the ranks that are in this cache, of a dataset of which other nodes have the rest: `catalogues` are
// theirs. Of protected memory, files and catalogues come to their places, which are the dataset's own: nobody counts
// them before it is committed, by whoever gathers that. Files of the application's stay under work names: whose names
// they take is decided once for the dataset, by whoever commits it (FilesBrought).
FlushOutcome CopyPart(const FlushSource& source, Disk& disk, Prefix& prefix, Throttle& throttle,
                      TransferProgress& progress);
// Files of the application's that others have brought so, for CommitCopied: each waits, or was in its place before.
// That one is compared with its catalogue once more: others may have come to its name since. That is reading all of it,
// and counts as the flush's.
//   kAborted    a file is neither: it has to be copied again
//   kCancelled  `progress` says so
absl::StatusOr<std::vector<CopiedFile>> FilesBrought(Disk& disk, const Prefix& prefix,
                                                     const std::vector<catalogue::Catalogue>& catalogues,
                                                     Throttle& throttle, TransferProgress& progress);
// By Publish (storage/place/publish); flush.scr tells it afterwards. `gave_way`: to earlier steps and tries.
//   kAborted  too_late; else something has changed since the first step, which has to be done again
FlushOutcome CommitCopied(const FlushSource& source, const FlushTarget& target, const std::vector<CopiedFile>& copied,
                          const Withdrawn& gave_way = {});

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_FLUSH_FLUSH_WORK_H_
