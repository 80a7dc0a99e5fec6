#include <charconv>

#include "storage/format/bp5/format.h"

namespace cairn::bp5 {
namespace {

constexpr std::uint64_t kFixedLengthMax = 1 << 20;  // section 14, "types"
constexpr int kLengthsMax = 8;

FieldType::Base BaseOf(std::string_view word) {
  using enum FieldType::Base;
  if (word == "integer") return kInteger;
  if (word == "unsigned integer") return kUnsigned;
  if (word == "float") return kFloat;
  if (word == "char") return kChar;
  if (word == "string") return kString;
  return kStructure;
}

// One length, without its brackets.
bool AddLength(std::string_view length, FieldType& type) {
  type.is_array = true;
  if (length.empty()) return false;
  if (length.front() < '0' || length.front() > '9') {
    if (!type.length_field.empty()) return false;
    type.length_field = length;
    return true;
  }
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), number);
  if (error != std::errc() || end != length.data() + length.size()) return false;
  if (number == 0 || number > kFixedLengthMax) return false;
  type.fixed_count *= number;
  return type.fixed_count <= kFixedLengthMax;
}

}  // namespace

std::optional<FieldType> ParseFieldType(std::string_view text) {
  FieldType type;
  if (text.starts_with("*(") && text.ends_with(')')) {
    type.is_pointer = true;
    text = text.substr(2, text.size() - 3);
  }
  // Lengths stand at the end; names of fields in them may hold brackets of their own.
  const std::size_t first = text.find('[');
  type.word = text.substr(0, first);
  if (type.word.empty() || type.word.find_first_of("*()]") != std::string_view::npos) return std::nullopt;
  type.base = BaseOf(type.word);
  text = first == std::string_view::npos ? std::string_view() : text.substr(first);
  for (int lengths = 0; !text.empty(); ++lengths) {
    if (lengths == kLengthsMax || text.front() != '[') return std::nullopt;
    const bool number = text.size() > 1 && text[1] >= '0' && text[1] <= '9';
    const std::size_t close = number ? text.find(']') : text.size() - 1;
    if (close == std::string_view::npos || close == 0 || text[close] != ']') return std::nullopt;
    if (!AddLength(text.substr(1, close - 1), type)) return std::nullopt;
    text.remove_prefix(close + 1);
  }
  return type;
}

std::optional<Type> NumberTypeOf(FieldType::Base base, std::uint32_t element_bytes) {
  using enum Type;
  const auto sized = [element_bytes](Type one, Type two, Type four, Type eight) -> std::optional<Type> {
    switch (element_bytes) {
      case 1:
        return one;
      case 2:
        return two;
      case 4:
        return four;
      case 8:
        return eight;
      default:
        return std::nullopt;
    }
  };
  switch (base) {
    case FieldType::Base::kInteger:
      return sized(kInt8, kInt16, kInt32, kInt64);
    case FieldType::Base::kUnsigned:
      return sized(kUint8, kUint16, kUint32, kUint64);
    case FieldType::Base::kFloat:
      if (element_bytes == 16) return kLongDouble;
      return element_bytes < 4 ? std::nullopt : sized(kFloat, kFloat, kFloat, kDouble);
    case FieldType::Base::kChar:
      return element_bytes == 1 ? std::optional(kChar) : std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace cairn::bp5
