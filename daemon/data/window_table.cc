#include "daemon/data/window_table.h"

#include <algorithm>
#include <cstring>

#include "storage/base/check.h"

namespace cairn {

WindowTable::WindowTable(const ftiff::FileLayout& layout, const std::vector<PlanPiece>& plan,
                         std::uint64_t image_bytes) {
  const std::uint64_t count = (layout.data_bytes + kWindowBytes - 1) / kWindowBytes;
  ring_ = image_bytes / kWindowBytes < count || std::any_of(plan.begin(), plan.end(), [](const PlanPiece& piece) {
            return piece.image_offset != piece.file_offset;
          });
  windows_.resize(count);
  const BlockCrc zero_window = ZeroCrc(kWindowBytes);
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    Window& window = windows_[i];
    window.bytes = std::min(kWindowBytes, layout.data_bytes - WindowBegin(i));
    window.image_offset = ring_ ? 0 : WindowBegin(i);
    window.crc = window.bytes == kWindowBytes ? zero_window : ZeroCrc(window.bytes);
  }
  AddChunks(layout);
  AddPieces(plan);
  for (const Window& window : windows_) {
    CAIRN_CHECK(window.content == 0 || window.image_offset <= image_bytes - window.bytes);
  }
}

void WindowTable::AddChunks(const ftiff::FileLayout& layout) {
  chunks_.reserve(layout.containers.size());
  for (std::size_t i = 0; i < layout.containers.size(); ++i) {
    const ftiff::Container& container = layout.containers[i];
    if (!container.has_content || container.chunk_bytes == 0) continue;
    chunks_.push_back(
        {.container = i, .file_offset = container.file_offset, .bytes = container.chunk_bytes, .hash = {}});
  }
  std::sort(chunks_.begin(), chunks_.end(),
            [](const Chunk& a, const Chunk& b) { return a.file_offset < b.file_offset; });
  std::uint64_t end = 0;
  for (const Chunk& chunk : chunks_) {
    CAIRN_CHECK(chunk.file_offset >= end);
    if (chunk.file_offset > end) gaps_.push_back({end, chunk.file_offset});
    end = chunk.file_offset + chunk.bytes;
  }
  CAIRN_CHECK(end <= layout.data_bytes);
  if (end < layout.data_bytes) gaps_.push_back({end, layout.data_bytes});
}

void WindowTable::AddPieces(const std::vector<PlanPiece>& plan) {
  chunk_of_piece_.reserve(plan.size());
  std::uint64_t planned = 0;
  for (const PlanPiece& piece : plan) {
    const auto behind = std::upper_bound(chunks_.begin(), chunks_.end(), piece.file_offset,
                                         [](std::uint64_t at, const Chunk& chunk) { return at < chunk.file_offset; });
    CAIRN_CHECK(behind != chunks_.begin());
    chunk_of_piece_.push_back(static_cast<std::uint32_t>(behind - chunks_.begin() - 1));
    Window& window = windows_[WindowAt(piece.file_offset)];
    window.image_offset = piece.image_offset - piece.file_offset % kWindowBytes;
    window.content += piece.bytes;
    planned += piece.bytes;
  }
  std::uint64_t content = 0;
  for (const Chunk& chunk : chunks_) content += chunk.bytes;
  CAIRN_CHECK(planned == content);
  for (Window& window : windows_) window.unfilled = window.unhashed = window.content;
}

void WindowTable::ZeroGaps(std::size_t window, std::span<std::byte> image) const {
  const std::uint64_t begin = WindowBegin(window);
  const std::uint64_t end = begin + windows_[window].bytes;
  auto gap =
      std::upper_bound(gaps_.begin(), gaps_.end(), begin, [](std::uint64_t at, const Gap& g) { return at < g.end; });
  for (; gap != gaps_.end() && gap->begin < end; ++gap) {
    const std::uint64_t from = std::max(begin, gap->begin);
    const std::uint64_t to = std::min(end, gap->end);
    std::memset(image.data() + windows_[window].image_offset + (from - begin), 0, to - from);
  }
}

}  // namespace cairn
