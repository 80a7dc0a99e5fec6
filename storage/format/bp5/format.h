// Format blocks: how records are laid out. Decoding and checks: BP5 specification, sections 5 and 14. Pure.
#ifndef CAIRN_STORAGE_FORMAT_BP5_FORMAT_H_
#define CAIRN_STORAGE_FORMAT_BP5_FORMAT_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/format/bp5/types.h"

namespace cairn::bp5 {

struct Field {
  std::string_view name, type;  // in the block
  std::uint32_t element_bytes = 0;
  std::uint32_t offset = 0;  // in the record
  std::uint32_t bytes = 0;   // in the record: of what is stored in place, or of the pointer to it
};

// What a field's type says: "unsigned integer", "float[16][n]", "*(integer[3])", "MetaArray".
struct FieldType {
  enum class Base : std::uint8_t { kInteger, kUnsigned, kFloat, kChar, kString, kStructure };
  Base base = Base::kInteger;
  std::string_view word;          // the base as it stands there: of structures their name
  bool is_array = false;          // with any length
  std::uint64_t fixed_count = 1;  // the product of all lengths that are numbers
  std::string_view length_field;  // the one length that a field gives; empty: none
  bool is_pointer = false;        // written *(…)
  bool Elsewhere() const { return is_pointer || !length_field.empty(); }  // the record holds a pointer
};
// nullopt: not a type. That structures and length fields exist is not checked here.
std::optional<FieldType> ParseFieldType(std::string_view text);
// The type of a number of this base and size; nullopt: it is no number, or none of this size.
std::optional<Type> NumberTypeOf(FieldType::Base base, std::uint32_t element_bytes);

struct Structure {
  std::string_view name;
  std::uint32_t fixed_bytes = 0;
  std::uint32_t alignment = 8;
  std::vector<Field> fields;  // by offset
  bool has_variable_parts = false;
};

struct Format {
  FormatId id;
  std::uint8_t version = 2;           // of the representation: 1 or 2
  std::vector<Structure> structures;  // the top structure first; looked up by name
  const Structure& top() const { return structures.front(); }
  const Structure* Find(std::string_view name) const;
};

// The identifier of a block (its own length, no padding): section 4.
FormatId IdOf(std::span<const std::byte> block);

// One format block; what it returns points into `block`. `where` goes into errors ("mmd.0: format at byte 28"), which
// name field and offset: kDataLoss; kFailedPrecondition: another byte order, version or float representation.
absl::StatusOr<Format> DecodeFormat(std::string_view where, std::span<const std::byte> block);

// Writes a block of version 2. Names must stay within what section 5 can hold: kInvalidArgument.
struct NewField {
  std::string name, type;
  std::uint32_t element_bytes = 0, offset = 0;
};
struct NewStructure {
  std::string name;
  std::uint32_t fixed_bytes = 0;
  std::uint32_t alignment = 8;
  std::vector<NewField> fields;
};
struct FormatBlock {
  FormatId id;
  std::string bytes;
};
absl::StatusOr<FormatBlock> EncodeFormat(const NewStructure& top, std::vector<NewStructure> used);

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_FORMAT_H_
