// Takes a BP5 directory that an application has written without Cairn into a run, as a committed dataset of files: what
// `cairn adopt --bp` does once its arguments are understood. Over a Disk, so that tests can pull the plug. Calls block.
#ifndef CAIRN_STORAGE_JOB_ADOPT_ADOPT_BP_H_
#define CAIRN_STORAGE_JOB_ADOPT_ADOPT_BP_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/job/launch/launch_wait.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

struct AdoptBpRequest {
  std::string directory;              // absolute
  std::optional<std::uint64_t> step;  // of the dataset; absent: the number of steps in it
  // What the user should hear, as it becomes known.
  std::function<void(const std::string&)> note;  // required
  LaunchWait wait = {};                          // until the newest launch is over
};

struct AdoptedBp {
  DatasetId dataset = 0;
  bool before = false;  // by an earlier adopt; nothing was written now
  std::string name;     // of the directory below the prefix: as it was called
  std::uint64_t step = 0;
  std::uint32_t steps = 0;  // in it
  bool closed = false;      // its writer had not
  std::uint64_t files = 0, bytes = 0;
};

// The directory's files (md.idx, md.0, mmd.0, data.<k>, profiling.json) become an output of the run, under the same
// names below the prefix, with modes and times; rank 0 of one; launch 0, of none of the run's. All its metadata is
// checked, and that the data of every step is there. One that no writer has closed is taken up to its last whole step,
// and closed. At any instant the prefix is without the dataset or has it whole; what a crash leaves of an unfinished
// one is removed by the next call. In the directory nothing is changed. The same one is taken only once; one that was
// removed since, or was marked FAILED, is taken again.
//
// REQUIRES: no other adopt is under way in this prefix (the command holds a lock); `prefix` is writable.
//   kNotFound            no md.idx there
//   kDataLoss            damaged, or a step's data is missing in a closed directory
//   kFailedPrecondition  BUSY: an application works in the prefix, or one has begun meanwhile; no step in it, or
//   another version; files changed while they were copied; a link leads from its
//                        place out of the prefix
//   kInvalidArgument     its name cannot be used
//   kAlreadyExists       the prefix has a BP5 directory of that name
//   kResourceExhausted   no room for all of it: found out before anything is written, as far as the disk tells
absl::StatusOr<AdoptedBp> AdoptBp(Disk& disk, Prefix& prefix, const AdoptBpRequest& request);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_ADOPT_ADOPT_BP_H_
