// The text that says what a field of a record is. Source: BP5 specification, section 5, "Field types".
#ifndef CAIRN_CLIENT_CLI_BP_FIELD_TYPE_H_
#define CAIRN_CLIENT_CLI_BP_FIELD_TYPE_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "storage/format/bp5/types.h"

namespace cairn::cli {

struct FieldType {
  std::string_view base;         // "integer", "string", or a sub-structure's name
  std::uint64_t fixed = 1;       // elements in place, or of each item behind the pointer: the [5] and [16]
  bool is_array = false;         // has a fixed count
  std::string_view count_field;  // the field that says how many items: [n]; empty: none
  bool pointer = false;          // the bytes are elsewhere in the record: 8 bytes here say where
};

// nullopt: none of the shapes that there are.
std::optional<FieldType> ParseFieldType(std::string_view text);

// The type of a number of this base and size; nullopt: it is no number.
std::optional<bp5::Type> NumberType(std::string_view base, std::uint32_t bytes);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_BP_FIELD_TYPE_H_
