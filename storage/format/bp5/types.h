// What BP5 metadata knows of a variable: its kind and its type. Source: BP5 specification, section 7.
#ifndef CAIRN_STORAGE_FORMAT_BP5_TYPES_H_
#define CAIRN_STORAGE_FORMAT_BP5_TYPES_H_

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::bp5 {

enum class Type : std::uint8_t {
  kInt8 = 1,
  kInt16 = 2,
  kInt32 = 3,
  kInt64 = 4,
  kUint8 = 5,
  kUint16 = 6,
  kUint32 = 7,
  kUint64 = 8,
  kFloat = 9,
  kDouble = 10,
  kLongDouble = 11,  // x87, 10 of 16 bytes
  kComplexFloat = 12,
  kComplexDouble = 13,
  kString = 14,  // scalars only
  kChar = 15,
  kStruct = 16,  // elements of a size and a format of their own
};

// Bytes of an element; 0: strings and structs.
std::uint32_t ElementBytes(Type type);
// As ADIOS2's tools show it: "double", "int32_t", "float complex", "string", "struct".
std::string_view NameOf(Type type);
// Has an order, so that min and max make sense: numbers but complex ones.
bool IsOrdered(Type type);
// Min and max of a block that is empty, or of which they are not known: the largest, then the lowest value of the type,
// so that who takes them for values finds that they change no minimum or maximum. Empty: types without an order.
std::string_view NoMinMaxOf(Type type);

enum class Kind : char {
  kGlobalValue = 'g',
  kLocalValue = 'l',
  kGlobalArray = 'G',
  kLocalArray = 'L',
  kJoinedArray = 'J',
};
constexpr bool IsArray(Kind kind) {
  return kind == Kind::kGlobalArray || kind == Kind::kLocalArray || kind == Kind::kJoinedArray;
}

inline constexpr std::uint64_t kJoinedMark = ~std::uint64_t{0} - 1;  // in the shape of a joined array
inline constexpr std::uint64_t kNotStored = ~std::uint64_t{0};       // as location of a block

// The key of a format block: opaque to a reader.
struct FormatId {
  std::array<std::uint8_t, 12> bytes{};
  friend auto operator<=>(const FormatId&, const FormatId&) = default;
  std::string Hex() const;
};

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_TYPES_H_
