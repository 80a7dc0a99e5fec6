// Saves to the prefix what a node's cache holds of a run, when the application and its daemon are gone: what `cairn
// scavenge` does once its arguments are understood. Over Disks, so that tests can pull the plug. Calls block on disk.
#ifndef CAIRN_STORAGE_JOB_SCAVENGE_SCAVENGE_H_
#define CAIRN_STORAGE_JOB_SCAVENGE_SCAVENGE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/prefix/prefix.h"
#include "storage/place/run_identity.h"

namespace cairn {

struct ScavengeRequest {
  std::optional<DatasetId> dataset;  // only this one
  bool all = false;                  // every dataset, not only what a restart needs
  // What the user should hear, as it becomes known.
  std::function<void(const std::string&)> note;  // required
};

struct MissingRank {
  Rank rank = 0;
  std::string why;  // a damaged file: with its name and the offset
  bool damaged = false;
};

struct SavedDataset {
  enum class State : std::uint8_t {
    kSaved,       // committed on the prefix by this call
    kThere,       // committed before
    kIncomplete,  // ranks are missing; what this node has of it is on the prefix
    kHeldBack,    // all of it is on the prefix, but an output before it is incomplete: not committed
    kTooLate,     // removed from the prefix, or its files' names are a newer dataset's
    kFenced,      // on the prefix, but a newer launch had been made: restorable by number only
  };
  DatasetId id = 0;
  std::uint64_t step = 0;
  bool checkpoint = false, output = false;
  State state = State::kSaved;
  std::uint32_t ranks = 0;           // of the dataset
  std::vector<Rank> saved;           // of this node: verified, and on the prefix
  std::uint64_t bytes = 0;           // of their files
  std::vector<MissingRank> missing;  // from the prefix, by rank
  std::string why;                   // kHeldBack, kTooLate, kFenced
};

// May what the cache holds of this run go to a prefix of that identity?
//   kFailedPrecondition  the prefix is another run's, or a branch of it: a branch does not use the caches of its parent
absl::Status CheckCacheOf(const CacheFolder::Found& run, const std::string& prefix, const RunIdentity& identity);

// What is not on the prefix is copied there, each byte verified: outputs, the oldest first; then checkpoints, the
// newest first, up to one that is whole there afterwards (SCR specification, 12.6). Also of datasets that were never
// completed: the ranks that this node has. When all ranks are on the prefix, perhaps by scavenges on other nodes, the
// dataset is committed; a checkpoint only if every output before it is (unless it was asked for by number, or all
// were). In the cache nothing is changed. At any instant the prefix has a dataset whole or not at all, and the
// next call goes on from there; one that finds nothing to do changes nothing.
//
// An application's own files keep their names. Those that would replace others' are put there only when the whole
// dataset is; the older dataset that had them is removed then. None replaces a newer dataset's.
//
// All is committed under the newest launch that this cache has served. What was made under a launch that the prefix
// does not have, or that began after another had taken over, is left in the cache, and so is what the application has
// rejected, unless it is asked for by number: `note` says so.
//
// REQUIRES: nobody else works in the cache (the command holds the daemon's lock); `prefix` is writable.
//   kFailedPrecondition  as CheckCacheOf
//   kNotFound  `request.dataset` is not in this cache
//   kUnavailable, kResourceExhausted, kAborted, …   of the prefix: nothing more can be saved there, or another changes
//   it now; again is harmless
// Once a dataset is committed nothing that goes wrong with older ones that it replaced is an error: `note` hears it.
absl::StatusOr<std::vector<SavedDataset>> ScavengeRun(Disk& cache_disk, Disk& prefix_disk,
                                                      const CacheFolder::Found& run, Prefix& prefix,
                                                      const ScavengeRequest& request);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_SCAVENGE_SCAVENGE_H_
