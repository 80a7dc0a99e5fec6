#include "daemon/data/restore_plan.h"

#include <algorithm>
#include <limits>

#include "storage/base/status.h"

namespace cairn {
namespace {

// A part of a piece in one block.
struct Cut {
  std::size_t source = 0;
  std::size_t turn = 0;  // of the source: sources come in the order of their first pieces
  PlanPiece piece;

  std::uint64_t block() const { return piece.file_offset / kWindowBytes; }
  bool SameBlock(const Cut& other) const { return source == other.source && block() == other.block(); }
};

// Rows that lie wholly in one block stay together; of others each block has its part.
void CutPiece(const RestorePiece& piece, std::size_t turn, std::vector<Cut>& cuts) {
  std::uint64_t row = 0, done = 0;  // bytes of that row
  while (row < piece.rows && piece.bytes > 0) {
    const std::uint64_t at = piece.file_offset + row * piece.file_stride + done;
    const std::uint64_t room = kWindowBytes - at % kWindowBytes;
    Cut& cut = cuts.emplace_back(Cut{piece.source,
                                     turn,
                                     {.variable = piece.variable,
                                      .variable_offset = piece.variable_offset + row * piece.variable_stride + done,
                                      .file_offset = at,
                                      .bytes = std::min(piece.bytes - done, room)}});
    if (cut.piece.bytes < piece.bytes) {
      done += cut.piece.bytes;
      if (done == piece.bytes) {
        ++row;
        done = 0;
      }
      continue;
    }
    if (piece.rows > 1) cut.piece.rows = std::min(piece.rows - row, 1 + (room - piece.bytes) / piece.file_stride);
    if (cut.piece.rows > 1) {
      cut.piece.variable_stride = piece.variable_stride;
      cut.piece.file_stride = piece.file_stride;
    }
    row += cut.piece.rows;
  }
}

std::vector<Cut> CutPieces(std::span<const RestoreSource> sources, std::span<const RestorePiece> pieces) {
  constexpr std::size_t kNoTurn = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> turns(sources.size(), kNoTurn);
  std::size_t next_turn = 0;
  std::vector<Cut> cuts;
  for (const RestorePiece& piece : pieces) {
    if (!CheckPiece(sources, piece).ok()) continue;
    if (turns[piece.source] == kNoTurn) turns[piece.source] = next_turn++;
    CutPiece(piece, turns[piece.source], cuts);
  }
  std::stable_sort(cuts.begin(), cuts.end(), [](const Cut& a, const Cut& b) {
    return a.turn != b.turn ? a.turn < b.turn : a.block() < b.block();
  });
  return cuts;
}

}  // namespace

absl::Status CheckSource(const RestoreSource& source) {
  const std::uint64_t blocks = source.file_bytes / kCrcBlockBytes + (source.file_bytes % kCrcBlockBytes != 0 ? 1 : 0);
  if (source.crc32c.size() != blocks) {
    return InvalidArgument("restore from {}: {} checksums for {} bytes, expected {}", source.path, source.crc32c.size(),
                           source.file_bytes, blocks);
  }
  if (source.kept == nullptr) return absl::OkStatus();
  const KeptImage& kept = *source.kept;
  const std::uint64_t image_bytes = kept.image == nullptr ? 0 : kept.image->bytes().size();
  if (kept.data_bytes > image_bytes || kept.data_bytes > source.file_bytes ||
      kept.metadata.size() != source.file_bytes - kept.data_bytes) {
    return InvalidArgument("restore from a kept image of {} bytes: {} bytes of data and {} of metadata, expected {}",
                           image_bytes, kept.data_bytes, kept.metadata.size(), source.file_bytes);
  }
  return absl::OkStatus();
}

absl::Status CheckPiece(std::span<const RestoreSource> sources, const RestorePiece& piece) {
  if (piece.source >= sources.size()) {
    return InvalidArgument("restore: a piece of source {}, there are {}", piece.source, sources.size());
  }
  const RestoreSource& source = sources[piece.source];
  if (piece.rows == 0 || (piece.rows > 1 && piece.file_stride < piece.bytes)) {
    return InvalidArgument("restore from {}: {} rows of {} bytes, {} apart", source.path, piece.rows, piece.bytes,
                           piece.file_stride);
  }
  std::uint64_t extent = 0;  // from the first row to the end of the last
  if (__builtin_mul_overflow(piece.rows - 1, piece.file_stride, &extent) ||
      __builtin_add_overflow(extent, piece.bytes, &extent) || piece.file_offset > source.file_bytes ||
      extent > source.file_bytes - piece.file_offset) {
    return InvalidArgument("restore from {}: {} rows of {} bytes, {} apart, at offset {} lie beyond the file's {}",
                           source.path, piece.rows, piece.bytes, piece.file_stride, piece.file_offset,
                           source.file_bytes);
  }
  return absl::OkStatus();
}

RestorePlan PlanRestore(std::span<const RestoreSource> sources, std::span<const RestorePiece> pieces,
                        std::uint64_t slots) {
  RestorePlan plan;
  const std::vector<Cut> cuts = CutPieces(sources, pieces);
  plan.pieces.reserve(cuts.size());
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const Cut& cut = cuts[i];
    if (i == 0 || !cut.SameBlock(cuts[i - 1])) {
      const std::uint64_t begin = cut.block() * kWindowBytes;
      plan.blocks.push_back({.source = cut.source,
                             .index = cut.block(),
                             .bytes = std::min(kWindowBytes, sources[cut.source].file_bytes - begin),
                             .slot = slots == 0 ? 0 : plan.blocks.size() % slots});
    }
    plan.pieces.push_back(cut.piece);
    plan.pieces.back().image_offset = plan.blocks.back().slot * kWindowBytes + cut.piece.file_offset % kWindowBytes;
    plan.blocks.back().pieces_end = plan.pieces.size();
  }
  return plan;
}

}  // namespace cairn
