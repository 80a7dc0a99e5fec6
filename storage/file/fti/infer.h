// Ranks, nodes and groups of an execution, from what is told and, where that is not enough, from the files themselves:
// a copy is the file of the left neighbour, a code file fits the data files of its group.
// Used by storage/file/fti/ only. Calls block on disk.
#ifndef CAIRN_STORAGE_FILE_FTI_INFER_H_
#define CAIRN_STORAGE_FILE_FTI_INFER_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "storage/file/fti/execution.h"
#include "storage/io/disk.h"

namespace cairn::fti {

// What options, configuration and Topology.fti say.
struct Told {
  std::optional<std::uint32_t> node_size, group_size, ranks, nodes;
  std::optional<bool> heads;
};

// What names and folders say.
struct Seen {
  std::uint32_t ranks = 0;                                      // all files' ranks are less
  std::uint32_t nodes = 0;                                      // all folders node<k> have less
  std::vector<std::pair<std::uint32_t, std::uint32_t>> places;  // node and rank of each file in a folder node<k>
  std::vector<bool> has_files;                                  // by rank

  // Of how many ranks a node may be, so that each file's rank is in its node: the least and the greatest number (none
  // if the least is the greater).
  std::pair<std::uint32_t, std::uint32_t> NodeSizes() const;
  bool NodeSizeIsClear() const;  // only one fits
};

// Whether its files go around groups of nodes: levels 2 and 3.
inline bool IsGrouped(const Checkpoint& checkpoint) {
  return checkpoint.level == Level::kPartner || checkpoint.level == Level::kEncoded;
}

// Whether what is told fits together, with the least that fits in place of the rest. Errors as CheckTopology.
absl::Status CheckTold(const Told& told);

// The only topology that fits. Where groups do not matter (no checkpoint of level 2 or 3) and are not told, each node
// is a group of its own; where heads are not told and rank 0 has files, there are none.
// REQUIRES: CheckTold(told).ok().
//   kFailedPrecondition  none fits, or several do: the message names the options
absl::StatusOr<Topology> InferTopology(Disk& disk, const Told& told, const Seen& seen,
                                       const std::vector<Checkpoint>& checkpoints);

// Whether the numbers fit each other.
//   kInvalidArgument  a number is 0 or too large, or one is no multiple of another
absl::Status CheckTopology(const Topology& topology);

}  // namespace cairn::fti

#endif  // CAIRN_STORAGE_FILE_FTI_INFER_H_
