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

std::vector<Cut> CutPieces(std::span<const RestoreSource> sources, std::span<const RestorePiece> pieces) {
  constexpr std::size_t kNoTurn = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> turns(sources.size(), kNoTurn);
  std::size_t next_turn = 0;
  std::vector<Cut> cuts;
  for (const RestorePiece& piece : pieces) {
    if (!CheckPiece(sources, piece).ok()) continue;
    if (turns[piece.source] == kNoTurn) turns[piece.source] = next_turn++;
    for (std::uint64_t done = 0; done < piece.bytes;) {
      const std::uint64_t at = piece.file_offset + done;
      const std::uint64_t bytes = std::min(piece.bytes - done, kWindowBytes - at % kWindowBytes);
      cuts.push_back({piece.source, turns[piece.source],
                      PlanPiece{.variable = piece.variable,
                                .variable_offset = piece.variable_offset + done,
                                .file_offset = at,
                                .bytes = bytes}});
      done += bytes;
    }
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
  const std::uint64_t file_bytes = sources[piece.source].file_bytes;
  if (piece.file_offset > file_bytes || piece.bytes > file_bytes - piece.file_offset) {
    return InvalidArgument("restore from {}: {} bytes at offset {} lie beyond the file's {}",
                           sources[piece.source].path, piece.bytes, piece.file_offset, file_bytes);
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
