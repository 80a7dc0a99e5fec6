// Which blocks of a restore its client reads straight into its memory: those of a file that lie in one piece, in one
// row, at an address that fits. The client checks each against the catalogue's CRC32C, as the daemon does with all
// others, which go through an image (restore.h). Pure.
#ifndef CAIRN_DAEMON_DATA_STRAIGHT_H_
#define CAIRN_DAEMON_DATA_STRAIGHT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/data/restore.h"

namespace cairn {

// Adjacent blocks of a file, of kCrcBlockBytes each, one behind the other in one variable.
struct StraightRun {
  std::uint32_t variable = 0;
  std::uint64_t variable_offset = 0;
  std::uint64_t file_offset = 0;
  std::uint64_t blocks = 0;
};

struct StraightSource {
  std::size_t source = 0;
  std::vector<StraightRun> runs;
};

struct StraightPlan {
  std::vector<StraightSource> sources;  // that have such blocks, ascending
  std::vector<RestorePiece> rest;       // what goes through an image
};

// `alignments`: by source, of addresses that are read to; 0: nothing is read straight from it. `memory`: by variable,
// an address of its first byte, or one that differs from it by a multiple of every alignment; none: it is not in one
// row. Pieces that go on where the one before has ended count as one. What CheckPiece or CheckSource refuses is part of
// the rest.
StraightPlan PlanStraight(std::span<const RestoreSource> sources, const std::vector<RestorePiece>& pieces,
                          std::span<const std::uint64_t> alignments,
                          std::span<const std::optional<std::uint64_t>> memory);

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_STRAIGHT_H_
