#include "storage/format/bp5/format.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/format/bp5/format_block.h"

namespace cairn::bp5 {
namespace {

constexpr std::size_t kSubStructuresMax = 99;
constexpr std::uint8_t kPointerBytes = 8;
constexpr std::uint16_t kFloatLittleEndian = 2;
constexpr int kDepthMax = 8;  // of structures in structures

using Bytes = std::span<const std::byte>;

template <typename T>
T Load(Bytes bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

// A length in halves, each big-endian.
std::uint32_t LoadLength(Bytes bytes, std::size_t low, std::size_t high) {
  const auto at = [&](std::size_t i) { return static_cast<std::uint32_t>(bytes[i]); };
  return at(high) << 24 | at(high + 1) << 16 | at(low) << 8 | at(low + 1);
}

std::optional<std::string_view> TextAt(Bytes bytes, std::uint32_t offset) {
  if (offset >= bytes.size()) return std::nullopt;
  const auto* const text = reinterpret_cast<const char*>(bytes.data()) + offset;
  const void* const end = std::memchr(text, 0, bytes.size() - offset);
  if (end == nullptr) return std::nullopt;
  return std::string_view(text, static_cast<std::size_t>(static_cast<const char*>(end) - text));
}

// What is known of a structure while the others are not.
struct Links {
  std::vector<std::uint16_t> uses;  // structures in it, by place
  bool has_pointers = false;        // of its own
  int depth = 0;                    // with those in it; 0: not yet known, kVisiting: being looked at
};
constexpr int kVisiting = -1;

class Decoder {
 public:
  Decoder(std::string_view where, Bytes block) : where_(where), block_(block) {}
  absl::StatusOr<Format> Decode();

 private:
  absl::Status DecodeHeader();
  absl::Status DecodeStructure(std::size_t begin);
  absl::Status DecodeFields(Bytes bytes, Structure& structure);
  absl::Status CheckFields(std::size_t index);
  absl::Status CheckField(Structure& structure, std::size_t index, std::uint64_t free_from, Links& links);
  absl::StatusOr<std::uint32_t> ElementBytesOf(const Structure& structure, const Field& field, const FieldType& type,
                                               Links& links) const;
  absl::Status CheckLengthField(const Structure& structure, std::size_t index, std::string_view name);
  absl::Status CheckDepth(std::size_t index);

  template <typename... Args>
  absl::Status Bad(fmt::format_string<Args...> format, Args&&... args) const {
    return DataLoss("{}: {}", where_, fmt::format(format, std::forward<Args>(args)...));
  }
  absl::Status BadField(const Structure& structure, std::size_t index, std::string_view what) const {
    const Field& field = structure.fields[index];
    return Bad("structure {}: field {} {}, type {}, offset {}: {}", Quoted(structure.name), index, Quoted(field.name),
               Quoted(field.type), field.offset, what);
  }

  const std::string_view where_;
  Bytes block_;
  Format format_;
  std::vector<Links> links_;
  // Of the structure looked at: its fields by name, made when first needed.
  absl::flat_hash_map<std::string_view, std::size_t> by_name_;
};

absl::StatusOr<Format> Decoder::Decode() {
  CAIRN_RETURN_IF_ERROR(DecodeHeader());
  const std::size_t count = std::size_t{1} + static_cast<std::uint8_t>(block_[4]);
  if (count > kSubStructuresMax + 1) return Bad("{} sub-structures, at offset 4", count - 1);
  std::size_t at = kBlockHeaderBytes;
  for (std::size_t i = 0; i < count; ++i) {
    CAIRN_RETURN_IF_ERROR(DecodeStructure(at));
    at += LoadLength(block_, at, at + 24);
  }
  if (at != block_.size()) return Bad("structures end at {}, the block at {}", at, block_.size());
  links_.resize(count);
  for (std::size_t i = 0; i < count; ++i) CAIRN_RETURN_IF_ERROR(CheckFields(i));
  for (std::size_t i = 0; i < count; ++i) CAIRN_RETURN_IF_ERROR(CheckDepth(i));
  format_.id = IdOf(block_);
  return std::move(format_);
}

absl::Status Decoder::DecodeHeader() {
  if (block_.size() < kBlockHeaderBytes + kStructureHeaderBytes) return Bad("{} bytes are no block", block_.size());
  const std::uint32_t length = LoadLength(block_, 0, 6);
  if (length < kBlockHeaderBytes + kStructureHeaderBytes || length > block_.size()) {
    return Bad("length {} at offset 0, but {} bytes are there", length, block_.size());
  }
  block_ = block_.first(length);
  if (const auto order = static_cast<std::uint8_t>(block_[2]); order != 0) {
    return FailedPrecondition("{}: byte order {} at offset 2", where_, order);
  }
  format_.version = static_cast<std::uint8_t>(block_[3]);
  if (format_.version != 1 && format_.version != 2) {
    return FailedPrecondition("{}: representation version {} at offset 3", where_, format_.version);
  }
  return absl::OkStatus();
}

// Appends the structure that begins there, as far as it can be read without the others.
absl::Status Decoder::DecodeStructure(std::size_t begin) {
  const std::size_t left = block_.size() - begin;
  if (left < kStructureHeaderBytes) return Bad("structure at {} of {} bytes", begin, block_.size());
  const std::uint32_t length = LoadLength(block_, begin, begin + 24);
  if (length < kStructureHeaderBytes || length > left) return Bad("structure at {} has length {}", begin, length);
  const Bytes bytes = block_.subspan(begin, length);
  if (static_cast<std::uint8_t>(bytes[2]) != format_.version || bytes[3] != std::byte{0}) {
    return FailedPrecondition("{}: structure at {}: version {}, byte order {}", where_, begin,
                              static_cast<std::uint8_t>(bytes[2]), static_cast<std::uint8_t>(bytes[3]));
  }
  if (static_cast<std::uint8_t>(bytes[16]) != kPointerBytes ||
      static_cast<std::uint8_t>(bytes[17]) != kStructureHeaderBytes) {
    return Bad("structure at {}: pointer size {}, header size {}", begin, static_cast<std::uint8_t>(bytes[16]),
               static_cast<std::uint8_t>(bytes[17]));
  }
  if (const auto floats = Load<std::uint16_t>(bytes, 18); floats != kFloatLittleEndian) {
    return FailedPrecondition("{}: structure at {}: float representation {}", where_, begin, floats);
  }
  Structure structure;
  const std::optional<std::string_view> name = TextAt(bytes, Load<std::uint32_t>(bytes, 4));
  if (!name.has_value()) return Bad("structure at {}: name at {}", begin, Load<std::uint32_t>(bytes, 4));
  structure.name = *name;
  const auto fixed_bytes = Load<std::int32_t>(bytes, 12);
  if (fixed_bytes <= 0) return Bad("structure at {}: fixed part of {} bytes", begin, fixed_bytes);
  structure.fixed_bytes = static_cast<std::uint32_t>(fixed_bytes);
  structure.alignment = static_cast<std::uint8_t>(bytes[23]);
  CAIRN_RETURN_IF_ERROR(DecodeFields(bytes, structure));
  format_.structures.push_back(std::move(structure));
  return absl::OkStatus();
}

absl::Status Decoder::DecodeFields(Bytes bytes, Structure& structure) {
  const auto count = Load<std::uint32_t>(bytes, 8);
  if (count > (bytes.size() - kStructureHeaderBytes) / kFieldBytes) {
    return Bad("structure {}: {} fields in {} bytes", Quoted(structure.name), count, bytes.size());
  }
  structure.fields.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Bytes entry = bytes.subspan(kStructureHeaderBytes + i * kFieldBytes, kFieldBytes);
    const std::optional<std::string_view> name = TextAt(bytes, Load<std::uint32_t>(entry, 0));
    const std::optional<std::string_view> type = TextAt(bytes, Load<std::uint32_t>(entry, 4));
    const auto element_bytes = Load<std::int32_t>(entry, 8), offset = Load<std::int32_t>(entry, 12);
    if (!name.has_value() || !type.has_value() || element_bytes <= 0 || offset < 0) {
      return Bad("structure {}: field {}: name at {}, type at {}, element size {}, offset {}", Quoted(structure.name),
                 i, Load<std::uint32_t>(entry, 0), Load<std::uint32_t>(entry, 4), element_bytes, offset);
    }
    structure.fields.push_back(
        {*name, *type, static_cast<std::uint32_t>(element_bytes), static_cast<std::uint32_t>(offset), 0});
  }
  return absl::OkStatus();
}

absl::Status Decoder::CheckFields(std::size_t index) {
  Structure& structure = format_.structures[index];
  by_name_.clear();
  std::uint64_t free_from = 0;
  for (std::size_t i = 0; i < structure.fields.size(); ++i) {
    CAIRN_RETURN_IF_ERROR(CheckField(structure, i, free_from, links_[index]));
    const Field& field = structure.fields[i];
    free_from = std::uint64_t{field.offset} + field.bytes;
  }
  return absl::OkStatus();
}

absl::Status Decoder::CheckField(Structure& structure, std::size_t index, std::uint64_t free_from, Links& links) {
  Field& field = structure.fields[index];
  const std::optional<FieldType> type = ParseFieldType(field.type);
  if (!type.has_value()) return BadField(structure, index, "no such type");
  const absl::StatusOr<std::uint32_t> element_bytes = ElementBytesOf(structure, field, *type, links);
  if (!element_bytes.ok()) return BadField(structure, index, MessageOf(element_bytes.status()));
  if (!type->length_field.empty()) CAIRN_RETURN_IF_ERROR(CheckLengthField(structure, index, type->length_field));
  links.has_pointers |= type->Elsewhere() || type->base == FieldType::Base::kString;
  const std::uint64_t bytes = type->Elsewhere() ? kPointerBytes : *element_bytes * type->fixed_count;
  if (field.offset < free_from) return BadField(structure, index, "overlaps the one before");
  if (field.offset > structure.fixed_bytes || bytes > structure.fixed_bytes - field.offset) {
    return BadField(structure, index,
                    fmt::format("its {} bytes leave the fixed part of {}", bytes, structure.fixed_bytes));
  }
  field.bytes = static_cast<std::uint32_t>(bytes);
  return absl::OkStatus();
}

absl::StatusOr<std::uint32_t> Decoder::ElementBytesOf(const Structure& structure, const Field& field,
                                                      const FieldType& type, Links& links) const {
  const std::uint32_t bytes = field.element_bytes;
  if (type.base == FieldType::Base::kString) return kPointerBytes;
  if (type.base != FieldType::Base::kStructure) {
    const bool is_float = type.base == FieldType::Base::kFloat;
    const bool known = bytes == 4 || bytes == 8 || (is_float ? bytes == 16 : bytes == 1 || bytes == 2);
    if (!known) return DataLoss("element size {}", bytes);
    return bytes;
  }
  const Structure* const used = format_.Find(type.word);
  if (used == nullptr) return DataLoss("no such structure");
  if (used == &structure) return DataLoss("contains itself");
  if (bytes < used->fixed_bytes) return DataLoss("element size {}, but the structure has {}", bytes, used->fixed_bytes);
  const auto place = static_cast<std::uint16_t>(used - format_.structures.data());
  if (links.uses.empty() || links.uses.back() != place) links.uses.push_back(place);
  return bytes;
}

absl::Status Decoder::CheckLengthField(const Structure& structure, std::size_t index, std::string_view name) {
  const std::vector<Field>& fields = structure.fields;
  std::size_t found = index - 1;  // it mostly is the field before
  if (index == 0 || fields[found].name != name) {
    if (by_name_.empty()) {
      for (std::size_t i = 0; i < fields.size(); ++i) by_name_.try_emplace(fields[i].name, i);
    }
    const auto it = by_name_.find(name);
    if (it == by_name_.end()) return BadField(structure, index, "its length is no field");
    found = it->second;
  }
  const std::string_view type = fields[found].type;
  if ((type != "integer" && type != "unsigned integer") || fields[found].element_bytes != 8) {
    return BadField(structure, index, "its length is no integer of 8 bytes");
  }
  return absl::OkStatus();
}

// Depth and variable parts of a structure, from those of the structures in it.
absl::Status Decoder::CheckDepth(std::size_t index) {
  Links& links = links_[index];
  if (links.depth > 0) return absl::OkStatus();
  Structure& structure = format_.structures[index];
  if (links.depth == kVisiting) return Bad("structure {} contains itself", Quoted(structure.name));
  links.depth = kVisiting;
  structure.has_variable_parts = links.has_pointers;
  int depth = 1;
  for (const std::uint16_t used : links.uses) {
    CAIRN_RETURN_IF_ERROR(CheckDepth(used));
    depth = std::max(depth, links_[used].depth + 1);
    structure.has_variable_parts |= format_.structures[used].has_variable_parts;
  }
  if (depth > kDepthMax) return Bad("structure {}: {} structures in each other", Quoted(structure.name), depth);
  links.depth = depth;
  return absl::OkStatus();
}

}  // namespace

const Structure* Format::Find(std::string_view name) const {
  const auto it = std::ranges::find(structures, name, &Structure::name);
  return it == structures.end() ? nullptr : &*it;
}

absl::StatusOr<Format> DecodeFormat(std::string_view where, std::span<const std::byte> block) {
  return Decoder(where, block).Decode();
}

}  // namespace cairn::bp5
