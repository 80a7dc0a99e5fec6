// Which blocks a restore needs, and where in its image the pieces of each will lie. Pure.
#ifndef CAIRN_DAEMON_DATA_RESTORE_PLAN_H_
#define CAIRN_DAEMON_DATA_RESTORE_PLAN_H_

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/data/restore.h"

namespace cairn {

// A MiB block of a source; the last one of a file may be shorter.
struct RestoreBlock {
  std::size_t source = 0;
  std::uint64_t index = 0;  // of the block in its file
  std::uint64_t bytes = 0;
  std::uint64_t slot = 0;        // in the image
  std::uint64_t pieces_end = 0;  // its pieces end before this one of the plan; they begin where those before end
};

struct RestorePlan {
  std::vector<RestoreBlock> blocks;  // in the order in which they are read
  std::vector<PlanPiece> pieces;     // in the order of the blocks
};

// kInvalidArgument: a source is not consistent with itself; `source` says which.
absl::Status CheckSource(const RestoreSource& source);
// kInvalidArgument: no such source, or the piece does not lie in it, or its rows overlap.
absl::Status CheckPiece(std::span<const RestoreSource> sources, const RestorePiece& piece);

// The plan in an image of `slots` slots of kWindowBytes. Pieces that fail CheckPiece are left out.
RestorePlan PlanRestore(std::span<const RestoreSource> sources, std::span<const RestorePiece> pieces,
                        std::uint64_t slots);

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_RESTORE_PLAN_H_
