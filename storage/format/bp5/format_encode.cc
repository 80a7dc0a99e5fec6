#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "storage/format/bp5/format.h"
#include "storage/format/bp5/format_block.h"
#include "storage/format/bp5/nul.h"

namespace cairn::bp5 {
namespace {

constexpr std::size_t kOptionBytes = 12;
constexpr std::size_t kUsedMax = 99;  // what readers accept
constexpr std::uint64_t kNumberMax = std::numeric_limits<std::int32_t>::max();

void PutLittle(std::string& bytes, std::size_t at, std::uint64_t number, std::size_t size) {
  std::memcpy(bytes.data() + at, &number, size);
}

// Lengths are stored in two halves, each big-endian, whatever the rest is.
void PutLength(std::string& bytes, std::size_t low_at, std::size_t high_at, std::uint64_t length) {
  bytes[low_at] = static_cast<char>(length >> 8);
  bytes[low_at + 1] = static_cast<char>(length);
  bytes[high_at] = static_cast<char>(length >> 24);
  bytes[high_at + 1] = static_cast<char>(length >> 16);
}

std::uint64_t TextBytes(const NewStructure& structure) {
  std::uint64_t bytes = structure.name.size() + 1;
  for (const NewField& field : structure.fields) bytes += field.name.size() + field.type.size() + 2;
  return bytes;
}

absl::Status Check(const NewStructure& structure) {
  if (structure.name.empty() || HasNul(structure.name)) {
    return InvalidArgument("structure \"{}\": no name, or a NUL in it", structure.name);
  }
  if (structure.fixed_bytes == 0 || structure.fixed_bytes > kNumberMax) {
    return InvalidArgument("structure {}: {} bytes of fixed part", structure.name, structure.fixed_bytes);
  }
  std::uint64_t from = 0;
  for (const NewField& field : structure.fields) {
    if (field.name.empty() || field.type.empty() || HasNul(field.name) || HasNul(field.type)) {
      return InvalidArgument("structure {}: field \"{}\" of type \"{}\": an empty text, or a NUL in it", structure.name,
                             field.name, field.type);
    }
    if (field.offset < from || field.offset >= structure.fixed_bytes || field.element_bytes == 0 ||
        field.element_bytes > kNumberMax) {
      return InvalidArgument("structure {}: field {} of {} bytes at {}: out of order, or outside of {} bytes",
                             structure.name, field.name, field.element_bytes, field.offset, structure.fixed_bytes);
    }
    from = std::uint64_t{field.offset} + 1;
  }
  return absl::OkStatus();
}

std::uint64_t OptionsOffset(const NewStructure& structure) {
  return (kStructureHeaderBytes + kFieldBytes * structure.fields.size() + TextBytes(structure) + 3) & ~std::uint64_t{3};
}

// BP5 specification, section 5: header, fields, texts, an empty list of options.
void AppendStructure(const NewStructure& structure, std::string& block) {
  const std::uint64_t options = OptionsOffset(structure);
  std::string bytes(options + kOptionBytes, '\0');
  std::size_t text = kStructureHeaderBytes + kFieldBytes * structure.fields.size();
  const auto put_text = [&](const std::string& from) {
    std::memcpy(bytes.data() + text, from.data(), from.size());
    return std::exchange(text, text + from.size() + 1);
  };
  PutLength(bytes, 0, 24, bytes.size());
  bytes[2] = 2;  // version of the representation; byte 3: little-endian
  PutLittle(bytes, 4, put_text(structure.name), 4);
  PutLittle(bytes, 8, structure.fields.size(), 4);
  PutLittle(bytes, 12, structure.fixed_bytes, 4);
  bytes[16] = 8;  // of a pointer
  bytes[17] = kStructureHeaderBytes;
  bytes[18] = 2;  // floating point: IEEE 754, little-endian
  PutLittle(bytes, 20, options & 0xffff, 2);
  bytes[23] = static_cast<char>(structure.alignment);
  PutLittle(bytes, 26, options >> 16, 2);
  std::size_t at = kStructureHeaderBytes;
  for (const NewField& field : structure.fields) {
    PutLittle(bytes, at, put_text(field.name), 4);
    PutLittle(bytes, at + 4, put_text(field.type), 4);
    PutLittle(bytes, at + 8, field.element_bytes, 4);
    PutLittle(bytes, at + 12, field.offset, 4);
    at += kFieldBytes;
  }
  block += bytes;
}

}  // namespace

absl::StatusOr<FormatBlock> EncodeFormat(const NewStructure& top, std::vector<NewStructure> used) {
  if (used.size() > kUsedMax) {
    return InvalidArgument("structure {}: {} sub-structures, at most {}", top.name, used.size(), kUsedMax);
  }
  CAIRN_RETURN_IF_ERROR(Check(top));
  std::uint64_t length = kBlockHeaderBytes + OptionsOffset(top) + kOptionBytes;
  for (const NewStructure& structure : used) {
    CAIRN_RETURN_IF_ERROR(Check(structure));
    length += OptionsOffset(structure) + kOptionBytes;
  }
  // The identifier holds a quarter of it in 24 bits; no other number in the block then overflows.
  if (length / 4 >= (1u << 24)) return InvalidArgument("structure {}: {} bytes of format", top.name, length);
  std::ranges::sort(used, std::ranges::greater{}, &NewStructure::name);

  FormatBlock block;
  block.bytes.reserve(length);
  block.bytes.assign(kBlockHeaderBytes, '\0');
  PutLength(block.bytes, 0, 6, length);
  block.bytes[3] = 2;
  block.bytes[4] = static_cast<char>(used.size());
  AppendStructure(top, block.bytes);
  for (const NewStructure& structure : used) AppendStructure(structure, block.bytes);
  block.id = IdOf(std::as_bytes(std::span(block.bytes)));
  return block;
}

}  // namespace cairn::bp5
