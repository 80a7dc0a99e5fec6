// All checkpoints of a run as one BP5 directory, a step each: what `cairn bp` makes. No byte of data is copied: its
// data files are links to the checkpoint files in the prefix. Calls block on disk.
#ifndef CAIRN_STORAGE_JOB_COMBINE_COMBINE_H_
#define CAIRN_STORAGE_JOB_COMBINE_COMBINE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/prefix.h"

namespace cairn::view {

struct CombinedStep {
  DatasetId dataset = 0;
  std::uint64_t step = 0;  // the application's number
};
struct Combined {
  std::vector<CombinedStep> steps;  // as they are in the directory: by dataset id
  // Datasets that are not in it, and why: the application's own files, SCR's own, or damaged.
  std::vector<std::pair<DatasetId, std::string>> left_out;
};

// Makes the directory `path` (absolute, symbolic links in its parents resolved) over the committed datasets of
// protected memory, or over those of `only` among them. Links are relative if both have a directory below the root in
// common, so that a prefix with the directory inside can be moved. Crash-safe: written under a work name, then renamed.
//   kNotFound       no dataset is left to show (why is in the message); one of `only` is not committed
//   kAlreadyExists  `path` is there and is no directory that this function has made
// Errors of the prefix and the disk pass through.
absl::StatusOr<Combined> CombineRun(Disk& disk, Prefix& prefix, const std::string& path,
                                    const std::optional<std::set<DatasetId>>& only = {});

}  // namespace cairn::view

#endif  // CAIRN_STORAGE_JOB_COMBINE_COMBINE_H_
