// Where the elements of blocks are that an operator has stored. For selection.cc.
#ifndef CAIRN_STORAGE_FORMAT_BP5_STORED_BLOCK_H_
#define CAIRN_STORAGE_FORMAT_BP5_STORED_BLOCK_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "storage/format/bp5/byte_source.h"
#include "storage/format/bp5/metadata.h"
#include "storage/format/bp5/operator.h"
#include "storage/format/bp5/types.h"

namespace cairn::bp5 {

// A block as its record describes it.
struct StoredBlock {
  DataPlace place;
  std::uint64_t stored_bytes = 0;
  std::uint64_t bytes = 0;  // of its elements
  Type type = Type::kInt8;
};

// Where the elements are in the block's subfile; nullopt: they are compressed. Errors of ReadOperatorHead, and of the
// source.
absl::StatusOr<std::optional<DataPlace>> RawPlaceOf(const StoredBlock& block, ByteSource& source);

// Gets the elements of compressed blocks back, those of one at a time: many selections want parts of one block.
class DecodedBlock final : public ByteSource {
 public:
  explicit DecodedBlock(ByteSource& source) : source_(source) {}

  // Then they can be read from place 0 on, until the next call.
  absl::Status Decode(const StoredBlock& block);

  absl::Status Read(std::uint32_t subfile, std::uint64_t offset, std::span<std::byte> target) override;
  std::span<const std::byte> InPlace(std::uint32_t subfile, std::uint64_t offset, std::uint64_t bytes) override;

 private:
  ByteSource& source_;
  std::optional<StoredBlock> block_;
  Memory elements_;
};

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_STORED_BLOCK_H_
