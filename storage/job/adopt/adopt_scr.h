// Takes datasets of an SCR cache into a run, as committed datasets of the application's own files: what `cairn adopt
// --scr` does once its arguments are understood. Over a Disk, so that tests can pull the plug. Calls block on disk.
#ifndef CAIRN_STORAGE_JOB_ADOPT_ADOPT_SCR_H_
#define CAIRN_STORAGE_JOB_ADOPT_ADOPT_SCR_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "storage/base/ids.h"
#include "storage/format/catalogue/verified_by.h"
#include "storage/io/disk.h"
#include "storage/job/adopt/scr_cache.h"
#include "storage/job/launch/launch_wait.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

struct AdoptScrRequest {
  std::optional<DatasetId> dataset;  // SCR's number of one; absent: the newest checkpoint that is whole
  // Every dataset that is whole, outputs too, the oldest first. One that is refused ends it: if it were taken later, it
  // would be the newest.
  bool all = false;
  // Where SCR's prefix was, absolute: a file's name is its path in there, less this. Empty: the run's own directory if
  // all files lie below it, else what the application's own relative names were relative to, else what the
  // directories of all files have in common (then the user is told).
  std::string prefix_was;
  // What the user should hear, as it becomes known: datasets that were passed over and why, files made good.
  std::function<void(const std::string&)> note;  // required
  LaunchWait wait = {};                          // until the newest launch is over
  bool unverified = false;                       // files that nothing verifies are taken, too, and noted as such
};

struct AdoptedScr {
  enum class How : std::uint8_t {
    kNow,
    kBefore,    // by an earlier adopt; nothing was written now
    kOnPrefix,  // SCR has flushed it into this run's prefix; restarts use it from there
  };
  How how = How::kNow;
  DatasetId dataset = 0;
  scr::Descriptor from;  // SCR's own
  std::uint64_t step = 0;
  std::uint32_t ranks = 0;
  std::uint64_t files = 0, bytes = 0;  // 0 but for kNow
  std::uint32_t rebuilt = 0;           // of the files
  // By what how many files were verified when they were adopted, and which were by nothing. Of kBefore as the
  // catalogues have it, as far as they can be read.
  VerifiedCounts verified;
  std::vector<std::string> unverified = {};  // below the prefix
};

// Each dataset becomes one of the run: files under their names below the prefix, with modes and times; launch 0, of
// none of the run's; step: SCR's number of the checkpoint (CKPT; of an output its dataset's); SCR's NAME, unless
// another dataset has it. Every byte is verified by what SCR has left to do that with, and gets its checksums; by what,
// its catalogue entry says. If nothing verifies a file, since rebuilding took all redundancy or SCR kept none, its
// dataset is refused, unless `unverified` is set; no older one is tried then, since a user may want this one. At any
// instant the prefix is without the dataset or has it whole; what a crash leaves of an unfinished one is removed by the
// next call. Files of a dataset that bypassed the cache stay where they are if that is their place in this prefix. In
// SCR's folders nothing is changed.
//
// A file that no committed dataset has is replaced, as by SCR's own flush; and so are those of committed datasets that
// are older than this one: they give way to it. The same dataset is taken only once; one
// that was removed since, or was marked FAILED, is taken again.
//
// REQUIRES: no other adopt is under way in this prefix (the command holds a lock); `prefix` is writable.
//   kNotFound            no checkpoint, or no dataset of that number
//   kDataLoss            none is whole: the message has the reasons, the newest first
//   kAlreadyExists       a file's name belongs to a newer committed dataset, or two files get one name
//   kInvalidArgument     a file is not below `prefix_was`, or gets a name that cannot be used
//   kResourceExhausted   no room for all of it: found out before anything is written, as far as the disk tells
//   kFailedPrecondition  nothing verifies some of a dataset's bytes, and `unverified` is not set. BUSY: an
//   application works in the prefix, or one has begun meanwhile; a symbolic link leads from a file's place out of the
//   prefix, or something else is in its way;
//                        files changed while they were copied, or are gone or shorter before the commit
//   kUnavailable, kResourceExhausted, …   of the disk; no older dataset is tried then
absl::StatusOr<std::vector<AdoptedScr>> AdoptScr(Disk& disk, Prefix& prefix, const ScrCache& cache,
                                                 const AdoptScrRequest& request);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_ADOPT_ADOPT_SCR_H_
