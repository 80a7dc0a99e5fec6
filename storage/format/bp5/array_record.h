// An array's record of one writer, checked: BP5 specification, sections 7 and 14. Inline, since it is done for each of
// hundreds of thousands of blocks.
#ifndef CAIRN_STORAGE_FORMAT_BP5_ARRAY_RECORD_H_
#define CAIRN_STORAGE_FORMAT_BP5_ARRAY_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "storage/format/bp5/types.h"

namespace cairn::bp5 {

inline std::uint64_t LoadU64(const std::byte* at) {
  std::uint64_t number;
  std::memcpy(&number, at, sizeof(number));
  return number;
}

// Where an array record has what some do not have.
inline constexpr std::uint32_t kArrayRecordBytes = 56;
// Places in an array record: section 7.
inline constexpr std::uint32_t kBlockCount = 8, kDimensionCount = 16, kShape = 24, kCount = 32, kOffset = 40,
                               kLocation = 48;

// Where a variable is in the records of one format.
struct ArrayPlace {
  std::uint32_t offset = 0, fixed_bytes = 0;  // of the record; of the fixed part
  std::uint32_t word = 0;                     // of the bit field
  std::uint64_t mask = 0;
  bool has_operator = false, has_min_max = false;
};

// What all records of a variable agree in.
struct ArrayTraits {
  std::uint64_t dimensions = 0, element_bytes = 0;
  Kind kind = Kind::kGlobalArray;
  bool ordered = false;      // with min and max
  std::string_view unknown;  // min and max of a block that has none
};

// Of the block to come. Null: it has none of this.
struct ArrayCursor {
  std::uint64_t left = 0;  // blocks
  const std::byte *shape = nullptr, *count = nullptr, *offset = nullptr, *location = nullptr, *bytes = nullptr,
                  *min_max = nullptr;

  // The same place in another record, which must be as this one.
  ArrayCursor MovedBy(std::ptrdiff_t distance) const {
    const auto moved = [distance](const std::byte* at) { return at == nullptr ? nullptr : at + distance; };
    return {left, moved(shape), moved(count), moved(offset), moved(location), moved(bytes), moved(min_max)};
  }

  // REQUIRES: blocks <= left.
  void Skip(const ArrayTraits& traits, std::uint64_t blocks) {
    const std::uint64_t numbers_bytes = 8 * traits.dimensions * blocks;  // no more than the record has
    left -= blocks;
    count += numbers_bytes;
    location += 8 * blocks;
    if (offset != nullptr) offset += numbers_bytes;
    if (bytes != nullptr) bytes += 8 * blocks;
    if (min_max != nullptr) min_max += 2 * traits.element_bytes * blocks;
  }
};

// The checks of section 14 for an array record at `base`, of which `length` bytes are there. REQUIRES: dimensions are
// those of the record. nullptr: all is well, and `cursor` is at its first block; else what is not.
[[gnu::always_inline]] inline const char* OpenArrayRecord(const std::byte* base, std::uint64_t length,
                                                          const ArrayPlace& place, const ArrayTraits& traits,
                                                          ArrayCursor& cursor) {
  const std::byte* const at = base + place.offset;
  const std::uint64_t dimensions = traits.dimensions, blocks = LoadU64(at + kBlockCount), numbers = dimensions * blocks;
  if (blocks > length / 8) return "BlockCount is more than the record can hold";
  if (LoadU64(at + kDimensionCount) != numbers) return "DBCount is not Dims * BlockCount";
  cursor.left = blocks;
  if (blocks == 0) return nullptr;

  // Arrays lie behind the fixed part. No overflow: each size is at most some 64 times the record's length.
  const std::uint64_t fixed_bytes = place.fixed_bytes, room = length - fixed_bytes;
  if (8 * numbers > room) return "Count leaves the record";
  std::uint64_t all = 0;  // pointers: their low bits
  bool outside = false;
  const auto pointer = [&](std::uint32_t field, std::uint64_t bytes) {
    const std::uint64_t pointer = LoadU64(at + field);
    all |= pointer;
    const bool leaves = bytes > room || pointer - fixed_bytes > room - bytes;
    outside |= leaves;
    return base + (leaves ? 0 : pointer);
  };
  cursor.count = pointer(kCount, 8 * numbers);
  cursor.location = pointer(kLocation, 8 * blocks);
  cursor.shape = traits.kind != Kind::kLocalArray ? pointer(kShape, 8 * dimensions) : nullptr;
  cursor.offset = traits.kind == Kind::kGlobalArray ? pointer(kOffset, 8 * numbers) : nullptr;
  cursor.bytes = place.has_operator ? pointer(kArrayRecordBytes, 8 * blocks) : nullptr;
  cursor.min_max = nullptr;
  const std::uint32_t field = kArrayRecordBytes + (place.has_operator ? 8 : 0);
  if (place.has_min_max && LoadU64(at + field) != 0) {
    std::uint64_t pairs_bytes = 0;
    if (__builtin_mul_overflow(2 * blocks, traits.element_bytes, &pairs_bytes) || pairs_bytes > room) {
      return "MinMax leaves the record";
    }
    cursor.min_max = pointer(field, pairs_bytes);
  }
  if (outside || all % 8 != 0) {
    return "Shape, Count, Offset, DataBlockLocation, DataBlockSize or MinMax is null, odd or leaves the record";
  }
  return nullptr;
}

struct BlockExtent {
  std::uint64_t bytes = 0;  // elements * element bytes; of an empty block anything
  bool empty = false;
};

// The geometry of the block to come: does it lie in `shape` (G), can its bytes be counted? nullptr: all is well.
[[gnu::always_inline]] inline const char* CheckBlock(const ArrayCursor& cursor, const std::byte* shape,
                                                     const ArrayTraits& traits, BlockExtent& extent) {
  const bool global = traits.kind == Kind::kGlobalArray;
  extent = {.bytes = traits.element_bytes, .empty = false};
  // An extent of 0 makes the product 0 whatever the others are.
  bool fits = true, inside = true;
  for (std::uint64_t d = 0; d < 8 * traits.dimensions; d += 8) {
    const std::uint64_t count = LoadU64(cursor.count + d);
    extent.empty |= count == 0;
    fits &= !__builtin_mul_overflow(extent.bytes, count, &extent.bytes);
    if (!global) continue;
    const std::uint64_t whole = LoadU64(shape + d), start = LoadU64(cursor.offset + d);
    inside &= start <= whole && count <= whole - start;
  }
  if (!inside) return "a block leaves the shape";
  if (!fits && !extent.empty) return "a block has more bytes than can be counted";
  return nullptr;
}

// Writers that have to store some pair say so that they know none. Its minimum is rare: most pairs differ in one byte.
inline bool IsUnknown(const std::byte* min_max, std::string_view unknown) {
  if (unknown.empty()) return false;
  const std::size_t last = unknown.size() / 2 - 1;
  return min_max[last] == static_cast<std::byte>(unknown[last]) &&
         std::memcmp(min_max, unknown.data(), unknown.size()) == 0;
}

// Min and max of the block to come; null: not known, or it is empty.
[[gnu::always_inline]] inline const std::byte* MinMaxAt(const ArrayCursor& cursor, const ArrayTraits& traits,
                                                        const BlockExtent& extent) {
  const bool shown =
      cursor.min_max != nullptr && !extent.empty && traits.ordered && !IsUnknown(cursor.min_max, traits.unknown);
  return shown ? cursor.min_max : nullptr;
}

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_ARRAY_RECORD_H_
