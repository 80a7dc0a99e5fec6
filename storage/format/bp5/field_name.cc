#include "storage/format/bp5/field_name.h"

#include <charconv>

namespace cairn::bp5 {
namespace {

constexpr std::size_t kIdDigits = 24;

std::optional<Kind> KindOf(char letter) {
  switch (letter) {
    case 'g':
      return Kind::kGlobalValue;
    case 'l':
      return Kind::kLocalValue;
    case 'G':
      return Kind::kGlobalArray;
    case 'L':
      return Kind::kLocalArray;
    case 'J':
      return Kind::kJoinedArray;
    default:
      return std::nullopt;
  }
}

// Takes a decimal number from the front: digits only.
bool TakeNumber(std::string_view& text, std::uint32_t& number) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return error == std::errc();
}

bool TakeLetter(std::string_view& text, char letter) {
  if (!text.starts_with(letter)) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<std::uint8_t> HexDigit(char digit) {
  if (digit >= '0' && digit <= '9') return static_cast<std::uint8_t>(digit - '0');
  if (digit >= 'a' && digit <= 'f') return static_cast<std::uint8_t>(digit - 'a' + 10);
  if (digit >= 'A' && digit <= 'F') return static_cast<std::uint8_t>(digit - 'A' + 10);
  return std::nullopt;
}

// <24 hex digits>_
bool TakeFormatId(std::string_view& text, FormatId& id) {
  if (text.size() < kIdDigits + 1 || text[kIdDigits] != '_') return false;
  for (std::size_t i = 0; i < id.bytes.size(); ++i) {
    const auto high = HexDigit(text[2 * i]), low = HexDigit(text[2 * i + 1]);
    if (!high.has_value() || !low.has_value()) return false;
    id.bytes[i] = static_cast<std::uint8_t>(*high << 4 | *low);
  }
  text.remove_prefix(kIdDigits + 1);
  return true;
}

// -<n>-<n characters>-
bool TakeExpression(std::string_view& text, std::string_view& expression) {
  std::uint32_t length = 0;
  if (!TakeLetter(text, '-') || !TakeNumber(text, length) || !TakeLetter(text, '-')) return false;
  if (length >= text.size() || text[length] != '-') return false;
  expression = text.substr(0, length);
  text.remove_prefix(length + 1);
  return true;
}

// <esize>_<type>
bool TakeType(std::string_view& text, FieldName& parsed) {
  std::uint32_t type = 0;
  if (!TakeNumber(text, parsed.element_bytes) || !TakeLetter(text, '_') || !TakeNumber(text, type)) return false;
  const std::optional<Type> known = ArrayTypeOf(type, parsed.element_bytes);
  if (known.has_value()) parsed.type = *known;
  return known.has_value();
}

// +MM or +<len>O<len characters>, as often as they come.
bool TakeDecorations(std::string_view& text, FieldName& parsed) {
  while (TakeLetter(text, '+')) {
    if (text.starts_with("MM")) {
      parsed.has_min_max = true;
      text.remove_prefix(2);
      continue;
    }
    std::uint32_t length = 0;
    if (!TakeNumber(text, length) || !TakeLetter(text, 'O') || length > text.size()) return false;
    parsed.has_operator = true;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace

std::optional<Type> ArrayTypeOf(std::uint32_t type, std::uint32_t element_bytes) {
  if (type < static_cast<std::uint32_t>(Type::kInt8) || type > static_cast<std::uint32_t>(Type::kStruct)) {
    return std::nullopt;
  }
  const auto known = static_cast<Type>(type);
  if (known == Type::kString || element_bytes == 0) return std::nullopt;
  if (known != Type::kStruct && ElementBytes(known) != element_bytes) return std::nullopt;
  return known;
}

std::optional<FieldName> ParseFieldName(std::string_view field) {
  if (field.size() < 4 || !field.starts_with("BP")) return std::nullopt;
  const std::optional<Kind> kind = KindOf(field[2]);
  if (!kind.has_value()) return std::nullopt;
  FieldName parsed;
  parsed.kind = *kind;
  std::string_view rest = field.substr(3);
  if (!IsArray(*kind)) {
    if (!TakeLetter(rest, '_')) return std::nullopt;
    parsed.name = rest;
    return parsed;
  }
  const bool derived = rest.front() == '-';
  if (derived ? !TakeExpression(rest, parsed.expression) : !TakeLetter(rest, '_')) return std::nullopt;
  if (!TakeType(rest, parsed) || !TakeLetter(rest, '_')) return std::nullopt;
  if (parsed.type == Type::kStruct && !TakeFormatId(rest, parsed.element_format)) return std::nullopt;
  parsed.name = rest;
  return parsed;
}

std::optional<Kind> ArrayKindOf(std::string_view field) {
  if (field.size() < 4 || !field.starts_with("BP") || field[3] != '_') return std::nullopt;
  const std::optional<Kind> kind = KindOf(field[2]);
  return kind.has_value() && IsArray(*kind) ? kind : std::nullopt;
}

std::optional<FieldName> ParseFirstLayoutCount(std::string_view field) {
  constexpr std::string_view kEnd = "_Count";
  const std::optional<Kind> kind = ArrayKindOf(field);
  if (!kind.has_value() || !field.ends_with(kEnd)) return std::nullopt;
  FieldName parsed;
  parsed.kind = *kind;
  std::string_view rest = field.substr(4);
  if (!TakeType(rest, parsed) || parsed.type == Type::kStruct) return std::nullopt;
  if (!TakeDecorations(rest, parsed) || !TakeLetter(rest, '_') || rest.size() < kEnd.size()) return std::nullopt;
  parsed.name = rest.substr(0, rest.size() - kEnd.size());
  return parsed;
}

}  // namespace cairn::bp5
