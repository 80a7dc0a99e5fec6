#include "daemon/data/straight.h"

#include <algorithm>
#include <map>
#include <utility>

#include "daemon/data/restore_plan.h"
#include "storage/base/checksum.h"

namespace cairn {
namespace {

// [begin, end) of the piece as a piece of its own.
RestorePiece PartOf(const RestorePiece& piece, std::uint64_t begin, std::uint64_t end) {
  RestorePiece part = piece;
  part.variable_offset += begin;
  part.file_offset += begin;
  part.bytes = end - begin;
  return part;
}

// It lies in a source that has a checksum for each of its blocks.
bool IsSound(std::span<const RestoreSource> sources, const RestorePiece& piece) {
  return CheckPiece(sources, piece).ok() && CheckSource(sources[piece.source]).ok();
}

bool GoesOn(const RestorePiece& last, const RestorePiece& piece) {
  return last.rows == 1 && piece.rows == 1 && last.variable == piece.variable && last.source == piece.source &&
         last.file_offset + last.bytes == piece.file_offset &&
         last.variable_offset + last.bytes == piece.variable_offset;
}

// Containers of a variable lie one behind the other in the file, as in the variable: of these one piece.
std::vector<RestorePiece> Joined(std::span<const RestoreSource> sources, const std::vector<RestorePiece>& pieces) {
  std::vector<RestorePiece> joined;
  bool last_is_sound = false;
  for (const RestorePiece& piece : pieces) {
    const bool sound = IsSound(sources, piece);  // so that no sum overflows
    if (sound && last_is_sound && GoesOn(joined.back(), piece)) {
      joined.back().bytes += piece.bytes;
    } else {
      joined.push_back(piece);
    }
    last_is_sound = sound;
  }
  return joined;
}

}  // namespace

StraightPlan PlanStraight(std::span<const RestoreSource> sources, const std::vector<RestorePiece>& pieces,
                          std::span<const std::uint64_t> alignments,
                          std::span<const std::optional<std::uint64_t>> memory) {
  StraightPlan plan;
  std::map<std::size_t, std::vector<StraightRun>> runs;
  for (const RestorePiece& piece : Joined(sources, pieces)) {
    const bool fits = piece.source < alignments.size() && alignments[piece.source] != 0 && piece.rows == 1 &&
                      piece.variable < memory.size() && memory[piece.variable] && IsSound(sources, piece);
    // Of the piece: where its first whole block begins, and where its last one ends.
    const std::uint64_t begin = (kCrcBlockBytes - piece.file_offset % kCrcBlockBytes) % kCrcBlockBytes;
    if (!fits || piece.bytes < begin + kCrcBlockBytes ||
        (*memory[piece.variable] + piece.variable_offset + begin) % alignments[piece.source] != 0) {
      plan.rest.push_back(piece);
      continue;
    }
    const std::uint64_t blocks = (piece.bytes - begin) / kCrcBlockBytes, end = begin + blocks * kCrcBlockBytes;
    runs[piece.source].push_back({.variable = piece.variable,
                                  .variable_offset = piece.variable_offset + begin,
                                  .file_offset = piece.file_offset + begin,
                                  .blocks = blocks});
    if (begin > 0) plan.rest.push_back(PartOf(piece, 0, begin));
    if (end < piece.bytes) plan.rest.push_back(PartOf(piece, end, piece.bytes));
  }
  for (auto& [source, of_source] : runs) plan.sources.push_back({.source = source, .runs = std::move(of_source)});
  return plan;
}

}  // namespace cairn
