// A growing BP5 directory's place on the prefix: whose it is, and what becomes of it. Calls block. The steps in between
// are storage/file/bpdir/follow.h.
#ifndef CAIRN_STORAGE_JOB_FLUSH_GROWN_DIRECTORY_H_
#define CAIRN_STORAGE_JOB_FLUSH_GROWN_DIRECTORY_H_

#include <set>
#include <string>

#include "storage/job/flush/flush_work.h"

namespace cairn {

// Makes `name` the dataset's, before its first byte goes there: the dataset enters the index as not complete, committed
// datasets that have files there are withdrawn and removed, other files of a BP5 directory there go.
//   too_late  never: the dataset was removed, its id is another's, or a newer one has such files
FlushOutcome TakePlace(const FlushTarget& target, const scr::Descriptor& descriptor, const std::string& name);

// The steps that are there stay, as a closed directory that is no dataset. too_late: the place is a newer one's by now,
// and nothing was touched.
FlushOutcome ClosePlace(Disk& disk, Prefix& prefix, DatasetId id, const std::string& name);

// The first step of the flush of a dataset for those of its directories that have grown on the prefix: their files are
// completed where they are, and verified. `done` receives their entries' prefix names.
FlushOutcome FinishGrown(const FlushSource& source, const FlushTarget& target, Throttle& throttle,
                         TransferProgress& progress, std::set<std::string>* done);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_FLUSH_GROWN_DIRECTORY_H_
