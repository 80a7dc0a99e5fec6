// The names of fields in metadata records, which say kind, type and name of a variable: BP5 specification, section 7.
// What they answer points into the field's name.
#ifndef CAIRN_STORAGE_FORMAT_BP5_FIELD_NAME_H_
#define CAIRN_STORAGE_FORMAT_BP5_FIELD_NAME_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "storage/format/bp5/types.h"

namespace cairn::bp5 {

struct FieldName {
  Kind kind = Kind::kGlobalValue;
  std::string_view name;            // of the variable
  Type type = Type::kInt8;          // arrays; of scalars the field's type says it
  std::uint32_t element_bytes = 0;  // arrays
  std::string_view expression;      // derived variables
  FormatId element_format;          // structs
  bool has_operator = false;        // in the first array layout; in the current one the field's type says it
  bool has_min_max = false;         // likewise
};

// BP<kind>_<name>, and the three forms of arrays. nullopt: none of them, or size and type contradict each other.
std::optional<FieldName> ParseFieldName(std::string_view field);
// Kind of the array to which the field of the first array layout belongs, whatever it is in it.
std::optional<Kind> ArrayKindOf(std::string_view field);
// BP<kind>_<esize>_<type>[+…]_<name>_Count, which says all of an array of the first layout.
std::optional<FieldName> ParseFirstLayoutCount(std::string_view field);

// Size and type as decimal numbers say them: known, and fitting each other.
std::optional<Type> ArrayTypeOf(std::uint32_t type, std::uint32_t element_bytes);

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_FIELD_NAME_H_
