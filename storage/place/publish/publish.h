// How a dataset is committed in a prefix: what flush, bypass, scavenge and adopt have in common. protocol.h has the
// order of the steps, and what a failure at each of them leaves. Calls block on disk.
#ifndef CAIRN_STORAGE_PLACE_PUBLISH_PUBLISH_H_
#define CAIRN_STORAGE_PLACE_PUBLISH_PUBLISH_H_

#include <absl/status/status.h>

#include <string>
#include <vector>

#include "storage/io/disk.h"
#include "storage/place/prefix/prefix.h"
#include "storage/place/publish/protocol.h"

namespace cairn {

// Puts the files in their places and commits the dataset; older ones that had the names give way first, and are removed
// afterwards. OK: it is committed, also if it was before. What fails after that is in published->warnings, and for the
// view in the prefix' (Prefix::TakeWarnings). `disk` is the prefix'.
//   kFailedPrecondition  nothing has changed: a directory is in the way of a file, or a link leads out of the prefix.
//   Or
//                        the prefix is another run's now
//                        Or published->fenced: a newer launch had been made. The dataset may be there, whole; if it was
//                        so before anybody gave way, nothing has changed
//   kAborted             published->too_late: it can never be committed, as Prefix::Withdraw and Prefix::Commit say it.
//                        Else a file that was in its place is gone or another by now: it has to be copied again
//   others               of the prefix; another try is harmless
absl::Status Publish(Disk& disk, Prefix& prefix, const Publication& what, Published* published);

// Datasets that gave way to one that is committed now, or will never be: what is left of them that nobody else names
// goes. What cannot be removed is told in `warnings`.
void RemoveWithdrawn(Prefix& prefix, const Withdrawn& withdrawn, std::vector<std::string>* warnings);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PUBLISH_PUBLISH_H_
