#include "storage/format/bp5/types.h"

#include <cstring>
#include <limits>
#include <type_traits>

namespace cairn::bp5 {
namespace {

template <typename Number>
std::string_view NoMinMax() {
  static const std::string& text = *new std::string([] {
    std::string bytes(2 * sizeof(Number), '\0');
    const Number min = std::numeric_limits<Number>::max(), max = std::numeric_limits<Number>::lowest();
    const std::size_t used = std::is_same_v<Number, long double> ? 10 : sizeof(Number);  // the rest of it is padding
    std::memcpy(bytes.data(), &min, used);
    std::memcpy(bytes.data() + sizeof(Number), &max, used);
    return bytes;
  }());
  return text;
}

}  // namespace

std::uint32_t ElementBytes(Type type) {
  switch (type) {
    case Type::kInt8:
    case Type::kUint8:
    case Type::kChar:
      return 1;
    case Type::kInt16:
    case Type::kUint16:
      return 2;
    case Type::kInt32:
    case Type::kUint32:
    case Type::kFloat:
      return 4;
    case Type::kInt64:
    case Type::kUint64:
    case Type::kDouble:
    case Type::kComplexFloat:
      return 8;
    case Type::kLongDouble:
    case Type::kComplexDouble:
      return 16;
    case Type::kString:
    case Type::kStruct:
      return 0;
  }
  return 0;
}

std::string_view NameOf(Type type) {
  switch (type) {
    case Type::kInt8:
      return "int8_t";
    case Type::kInt16:
      return "int16_t";
    case Type::kInt32:
      return "int32_t";
    case Type::kInt64:
      return "int64_t";
    case Type::kUint8:
      return "uint8_t";
    case Type::kUint16:
      return "uint16_t";
    case Type::kUint32:
      return "uint32_t";
    case Type::kUint64:
      return "uint64_t";
    case Type::kFloat:
      return "float";
    case Type::kDouble:
      return "double";
    case Type::kLongDouble:
      return "long double";
    case Type::kComplexFloat:
      return "float complex";
    case Type::kComplexDouble:
      return "double complex";
    case Type::kString:
      return "string";
    case Type::kChar:
      return "char";
    case Type::kStruct:
      return "struct";
  }
  return "unknown";
}

bool IsOrdered(Type type) {
  switch (type) {
    case Type::kComplexFloat:
    case Type::kComplexDouble:
    case Type::kString:
    case Type::kChar:
    case Type::kStruct:
      return false;
    default:
      return true;
  }
}

std::string_view NoMinMaxOf(Type type) {
  switch (type) {
    case Type::kInt8:
      return NoMinMax<std::int8_t>();
    case Type::kInt16:
      return NoMinMax<std::int16_t>();
    case Type::kInt32:
      return NoMinMax<std::int32_t>();
    case Type::kInt64:
      return NoMinMax<std::int64_t>();
    case Type::kUint8:
      return NoMinMax<std::uint8_t>();
    case Type::kUint16:
      return NoMinMax<std::uint16_t>();
    case Type::kUint32:
      return NoMinMax<std::uint32_t>();
    case Type::kUint64:
      return NoMinMax<std::uint64_t>();
    case Type::kFloat:
      return NoMinMax<float>();
    case Type::kDouble:
      return NoMinMax<double>();
    case Type::kLongDouble:
      return NoMinMax<long double>();
    default:
      return {};
  }
}

std::string FormatId::Hex() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) text.append({kDigits[byte >> 4], kDigits[byte & 15]});
  return text;
}

}  // namespace cairn::bp5
