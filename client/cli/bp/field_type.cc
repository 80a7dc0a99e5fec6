#include "client/cli/bp/field_type.h"

#include <charconv>
#include <system_error>

namespace cairn::cli {
namespace {

constexpr std::uint64_t kFixedMax = 1u << 20;

std::optional<std::uint64_t> NumberOf(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::optional<FieldType> ParseFieldType(std::string_view text) {
  FieldType type;
  if (text.starts_with("*(") && text.ends_with(')')) {
    type.pointer = true;
    text = text.substr(2, text.size() - 3);
  }
  const std::size_t bracket = text.find('[');
  type.base = text.substr(0, bracket);
  if (type.base == "string") type.pointer = true;
  while (bracket != std::string_view::npos) {
    const std::size_t begin = text.find('[');
    if (begin == std::string_view::npos) break;
    const std::size_t end = text.find(']', begin);
    if (end == std::string_view::npos || !type.count_field.empty()) return std::nullopt;
    const std::string_view inside = text.substr(begin + 1, end - begin - 1);
    if (const auto number = NumberOf(inside)) {
      if (*number == 0 || *number > kFixedMax || type.fixed * *number > kFixedMax) return std::nullopt;
      type.fixed *= *number;
      type.is_array = true;
    } else if (inside.empty()) {
      return std::nullopt;
    } else {
      type.count_field = inside;
      type.pointer = true;
    }
    text = text.substr(end + 1);
  }
  return type;
}

std::optional<bp5::Type> NumberType(std::string_view base, std::uint32_t bytes) {
  using bp5::Type;
  const bool is_signed = base == "integer";
  if (is_signed || base == "unsigned integer") {
    switch (bytes) {
      case 1:
        return is_signed ? Type::kInt8 : Type::kUint8;
      case 2:
        return is_signed ? Type::kInt16 : Type::kUint16;
      case 4:
        return is_signed ? Type::kInt32 : Type::kUint32;
      case 8:
        return is_signed ? Type::kInt64 : Type::kUint64;
      default:
        return std::nullopt;
    }
  }
  if (base == "char" && bytes == 1) return Type::kChar;
  if (base != "float") return std::nullopt;
  if (bytes == 4) return Type::kFloat;
  if (bytes == 8) return Type::kDouble;
  return bytes == 16 ? std::optional(Type::kLongDouble) : std::nullopt;
}

}  // namespace cairn::cli
