#include "storage/format/ftiff/variables.h"

#include <algorithm>

#include "storage/base/status.h"
#include "storage/format/ftiff/id_hash.h"

namespace cairn::ftiff {

Variables::Variables(const FileLayout& layout) {
  IdMap<std::size_t> places;  // in sizes_
  for (const Container& container : layout.containers) {
    const auto [place, is_first] = places.emplace(container.id, sizes_.size());
    if (is_first) sizes_.push_back({.id = container.id});
    sizes_[place->second].bytes += container.chunk_bytes;
    if (container.chunk_bytes == 0) continue;
    chunks_[container.id].push_back({.variable_offset = container.variable_offset,
                                     .file_offset = container.file_offset,
                                     .bytes = container.chunk_bytes});
  }
  for (const VariableSize& variable : sizes_) chunks_.try_emplace(variable.id);  // those without bytes, too
}

std::vector<VariableSize> Variables::SizesInOrder(std::span<const std::int32_t> ids) const {
  IdMap<std::size_t> places;  // in sizes_, of those that are not in `ordered` yet
  for (std::size_t at = 0; at < sizes_.size(); ++at) places.emplace(sizes_[at].id, at);
  std::vector<VariableSize> ordered;
  ordered.reserve(sizes_.size());
  for (const std::int32_t id : ids) {
    const auto place = places.find(id);
    if (place == places.end()) continue;
    ordered.push_back(sizes_[place->second]);
    places.erase(place);
  }
  for (const VariableSize& size : sizes_) {
    if (places.contains(size.id)) ordered.push_back(size);
  }
  return ordered;
}

absl::Status Variables::Read(std::string_view name, std::int32_t id, std::uint64_t offset, std::span<std::byte> target,
                             const ReadAt& read) const {
  const auto found = chunks_.find(id);
  if (found == chunks_.end()) return NotFound("{}: no variable {}", name, id);
  const std::vector<Chunk>& chunks = found->second;
  const std::uint64_t bytes = chunks.empty() ? 0 : chunks.back().variable_offset + chunks.back().bytes;
  if (offset > bytes || target.size() > bytes - offset) {
    return InvalidArgument("{}: {} bytes at {} of variable {}, which has {}", name, target.size(), offset, id, bytes);
  }
  if (target.empty()) return absl::OkStatus();
  const auto after = std::upper_bound(chunks.begin(), chunks.end(), offset,
                                      [](std::uint64_t at, const Chunk& chunk) { return at < chunk.variable_offset; });
  for (auto chunk = after - 1; !target.empty(); ++chunk) {
    const std::uint64_t in_chunk = offset - chunk->variable_offset;
    const std::span<std::byte> part = target.first(std::min<std::uint64_t>(target.size(), chunk->bytes - in_chunk));
    CAIRN_RETURN_IF_ERROR(read(chunk->file_offset + in_chunk, part));
    offset += part.size();
    target = target.subspan(part.size());
  }
  return absl::OkStatus();
}

}  // namespace cairn::ftiff
