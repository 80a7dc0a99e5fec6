#include "daemon/core/rows.h"

#include <algorithm>
#include <iterator>

namespace cairn {
namespace {

using RowLevel = RowPattern::Level;

// Rows of this level that may share a window of the file.
std::uint64_t Together(const RowLevel& level) {
  return std::min(level.count, std::max<std::uint64_t>(1, kWindowBytes / std::max<std::uint64_t>(1, level.a_stride)));
}

// The level whose rows go together in most pieces' favour; pattern.levels.end(): there is only one row.
auto BestLevel(const RowPattern& pattern) {
  return std::max_element(pattern.levels.rbegin(), pattern.levels.rend(),
                          [](const RowLevel& a, const RowLevel& b) { return Together(a) < Together(b); });
}

// Cuts rows at the ends of extents.
void AppendCut(std::span<const Extent> extents, RestorePiece rows, std::uint64_t stored,
               std::vector<RestorePiece>& pieces) {
  auto extent = std::upper_bound(extents.begin(), extents.end(), stored,
                                 [](std::uint64_t at, const Extent& other) { return at < other.stored_offset; });
  --extent;
  std::uint64_t row = 0, done = 0;  // bytes of that row
  while (row < rows.rows) {
    const std::uint64_t at = stored + row * rows.file_stride + done;
    while (at - extent->stored_offset >= extent->bytes) ++extent;
    const std::uint64_t within = at - extent->stored_offset, room = extent->bytes - within;
    RestorePiece piece = rows;
    piece.variable_offset += row * rows.variable_stride + done;
    piece.file_offset = extent->file_offset + within;
    piece.bytes = std::min(rows.bytes - done, room);
    piece.rows = 1;
    if (piece.bytes < rows.bytes) {
      done = (done + piece.bytes) % rows.bytes;
      if (done == 0) ++row;
    } else {
      if (rows.rows > 1) piece.rows = std::min(rows.rows - row, 1 + (room - rows.bytes) / rows.file_stride);
      row += piece.rows;
    }
    if (piece.rows == 1) piece.variable_stride = piece.file_stride = 0;
    pieces.push_back(piece);
  }
}

}  // namespace

RowPattern InBytes(RowPattern pattern, std::uint64_t element_bytes) {
  pattern.a_begin *= element_bytes;
  pattern.b_begin *= element_bytes;
  pattern.row *= element_bytes;
  auto& levels = pattern.levels;
  for (RowLevel& level : levels) {
    level.a_stride *= element_bytes;
    level.b_stride *= element_bytes;
  }
  for (std::size_t i = levels.size(); i-- > 1;) {
    const RowLevel inner = levels[i];
    RowLevel& outer = levels[i - 1];
    if (outer.a_stride != inner.count * inner.a_stride || outer.b_stride != inner.count * inner.b_stride) continue;
    outer = {.count = outer.count * inner.count, .a_stride = inner.a_stride, .b_stride = inner.b_stride};
    levels.erase(levels.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return pattern;
}

std::uint64_t PiecesOf(const RowPattern& pattern) {
  const auto best = BestLevel(pattern);
  return best == pattern.levels.rend() ? 1 : pattern.rows() / Together(*best);
}

void AppendRows(const RowPattern& pattern, std::span<const Extent> extents, const RestorePiece& piece,
                std::vector<RestorePiece>& pieces) {
  RestorePiece rows = piece;
  rows.bytes = pattern.row;
  RowPattern others = pattern;
  if (const auto best = BestLevel(pattern); best != pattern.levels.rend()) {
    rows.rows = best->count;
    rows.variable_stride = best->b_stride;
    rows.file_stride = best->a_stride;
    others.levels.erase(others.levels.end() - (best - pattern.levels.rbegin()) - 1);
  }
  ForEachRow(others, [&](std::uint64_t stored, std::uint64_t wanted) {
    rows.variable_offset = wanted;
    AppendCut(extents, rows, stored, pieces);
  });
}

}  // namespace cairn
