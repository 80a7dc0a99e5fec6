// Rows of a selection on their way from a checkpoint file into a variable: which of them go together, and where the
// file's containers cut them. Pure.
#ifndef CAIRN_DAEMON_CORE_ROWS_H_
#define CAIRN_DAEMON_CORE_ROWS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/data/restore.h"
#include "storage/base/box.h"

namespace cairn {

// A pattern in bytes, of elements of so many. Levels that go on where the one inside ends become one.
// REQUIRES: both boxes of the pattern have at most 2^64 bytes.
RowPattern InBytes(RowPattern pattern, std::uint64_t element_bytes);

// About how many pieces of a plan a pattern becomes, if rows that lie `stride` apart go together within a window.
std::uint64_t PiecesOf(const RowPattern& pattern);

// A stretch of a variable as it was stored, that is contiguous in the file.
struct Extent {
  std::uint64_t stored_offset = 0;
  std::uint64_t file_offset = 0;
  std::uint64_t bytes = 0;
};

// Appends the rows of `pattern` (in bytes; a: in what is stored, b: in the variable) as pieces like `piece`.
// REQUIRES: the extents are in order, without gaps, and hold all of the pattern.
void AppendRows(const RowPattern& pattern, std::span<const Extent> extents, const RestorePiece& piece,
                std::vector<RestorePiece>& pieces);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_ROWS_H_
