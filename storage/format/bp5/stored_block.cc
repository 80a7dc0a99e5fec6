#include "storage/format/bp5/stored_block.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "storage/base/status.h"

namespace cairn::bp5 {

absl::StatusOr<std::optional<DataPlace>> RawPlaceOf(const StoredBlock& block, ByteSource& source) {
  std::array<std::byte, kOperatorHeadBytes> bytes;
  const auto head = std::span(bytes).first(std::min<std::uint64_t>(bytes.size(), block.stored_bytes));
  CAIRN_RETURN_IF_ERROR(source.Read(block.place.subfile, block.place.offset, head));
  CAIRN_ASSIGN_OR_RETURN(const OperatorHead found, ReadOperatorHead(head, block.stored_bytes, block.bytes));
  if (!found.raw) return std::nullopt;
  return DataPlace{block.place.subfile, block.place.offset + *found.raw};  // within the stored bytes
}

absl::Status DecodedBlock::Decode(const StoredBlock& block) {
  const auto same = [&](const StoredBlock& other) {
    return other.place.subfile == block.place.subfile && other.place.offset == block.place.offset &&
           other.stored_bytes == block.stored_bytes && other.bytes == block.bytes && other.type == block.type;
  };
  if (block_ && same(*block_)) return absl::OkStatus();
  block_.reset();
  elements_.reset();
  std::span<const std::byte> stored = source_.InPlace(block.place.subfile, block.place.offset, block.stored_bytes);
  Memory copy;
  if (stored.empty()) {
    CAIRN_ASSIGN_OR_RETURN(copy, MakeMemory(block.stored_bytes));
    const std::span<std::byte> target(copy.get(), block.stored_bytes);
    CAIRN_RETURN_IF_ERROR(source_.Read(block.place.subfile, block.place.offset, target));
    stored = target;
  }
  CAIRN_ASSIGN_OR_RETURN(elements_, UndoOperator(stored, block.type, block.bytes));
  block_ = block;
  return absl::OkStatus();
}

absl::Status DecodedBlock::Read(std::uint32_t subfile, std::uint64_t offset, std::span<std::byte> target) {
  const std::span<const std::byte> found = InPlace(subfile, offset, target.size());
  if (found.size() != target.size()) return DataLoss("no {} elements' bytes at {}", target.size(), offset);
  std::copy(found.begin(), found.end(), target.begin());
  return absl::OkStatus();
}

std::span<const std::byte> DecodedBlock::InPlace(std::uint32_t, std::uint64_t offset, std::uint64_t bytes) {
  if (!block_ || offset > block_->bytes || bytes > block_->bytes - offset) return {};
  return {elements_.get() + offset, bytes};
}

}  // namespace cairn::bp5
