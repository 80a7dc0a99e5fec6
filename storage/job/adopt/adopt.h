// Takes a checkpoint of FTI into a run, as a committed dataset of Cairn: what `cairn adopt --fti` does once its
// arguments are understood. Over a Disk, so that tests can pull the plug. Calls block on disk.
#ifndef CAIRN_STORAGE_JOB_ADOPT_ADOPT_H_
#define CAIRN_STORAGE_JOB_ADOPT_ADOPT_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "storage/base/ids.h"
#include "storage/file/fti/execution.h"
#include "storage/io/disk.h"
#include "storage/job/launch/launch_wait.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

struct AdoptRequest {
  std::optional<std::int32_t> checkpoint;  // FTI's id; absent: the newest that is whole
  // What the user should hear, as it becomes known: checkpoints that were passed over and why, files made good.
  std::function<void(const std::string&)> note;  // required
  LaunchWait wait = {};                          // until the newest launch is over
};

struct Adopted {
  DatasetId dataset = 0;
  bool before = false;  // by an earlier adopt; nothing was written now
  fti::Level level = fti::Level::kLocal;
  std::int32_t checkpoint = 0;  // FTI's id; the dataset's step
  std::uint32_t ranks = 0;
  std::uint32_t rebuilt = 0;  // of their files
  std::uint64_t bytes = 0;    // of the files on the prefix; 0 if it was adopted before
};

// The newest checkpoint that is whole, or can be made whole, becomes a dataset on the prefix: each application rank's
// file as layout F with the same containers; catalogues that know ids and sizes only (type 0); launch 0, of none of the
// run's; step: FTI's id. It is committed under a launch of its own, which ends at once. Every byte is verified on the
// way. Of a file that ends inside a container, as layout B may, the containers are made anew, one a variable. At any
// instant the prefix is without the dataset or has it whole; what a crash leaves of an unfinished one is removed by the
// next call, whatever it is about. In FTI's folders nothing is changed.
//
// The same checkpoint is taken only once, however its folders are named now: <prefix>/.cairn/adopted.<digest of its
// contents> says which dataset it became. One that was removed since, or was marked FAILED, is taken again.
//
// REQUIRES: no other AdoptCheckpoint is under way in this prefix (the command holds a lock); `prefix` is writable.
//   kNotFound            no checkpoint, or none of that id
//   kDataLoss            none is whole: the message has the first of them, the newest first; why, the notes say
//   kResourceExhausted   no room for all of it: found out before anything is written, as far as the disk tells
//   kFailedPrecondition  BUSY: an application works in the prefix, or one has begun meanwhile; files that were written
//                        are gone or shorter before the commit
//   kUnavailable, kResourceExhausted, …   of the disk; no older checkpoint is tried then
absl::StatusOr<Adopted> AdoptCheckpoint(Disk& disk, Prefix& prefix, const fti::Execution& execution,
                                        const AdoptRequest& request);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_ADOPT_ADOPT_H_
