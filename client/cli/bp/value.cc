#include "client/cli/bp/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <type_traits>

namespace cairn::cli {
namespace {

using bp5::Type;

template <typename T>
T Load(const std::byte* at) {
  T value{};
  // Of a long double ten bytes count, the other six are whatever the writer left there.
  std::memcpy(&value, at, std::is_same_v<T, long double> ? 10 : sizeof(T));
  return value;
}

std::string_view NonFinite(long double value) {
  if (std::isnan(value)) return "nan";
  return value < 0 ? "-inf" : "inf";
}

struct Short {
  template <typename T>
  static void Append(std::string& out, T value) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%Lg", static_cast<long double>(value));
    out += text.data();
  }
};

struct Exact {
  template <typename T>
  static void Append(std::string& out, T value) {
    std::array<char, 64> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    out.append(text.data(), end);
  }
};

template <typename Digits, typename T>
void AppendReal(std::string& out, const std::byte* at, std::string_view quote) {
  const T value = Load<T>(at);
  if (std::isfinite(value)) {
    Digits::template Append<T>(out, value);
  } else {
    fmt::format_to(std::back_inserter(out), "{0}{1}{0}", quote, NonFinite(value));
  }
}

template <typename T>
void AppendInteger(std::string& out, const std::byte* at) {
  fmt::format_to(std::back_inserter(out), "{}", Load<T>(at));
}

// All but complex ones. `quote`: around what is no number in JSON.
template <typename Digits>
void AppendNumber(std::string& out, Type type, const std::byte* at, std::string_view quote) {
  switch (type) {
    case Type::kInt8:
    case Type::kChar:
      return AppendInteger<std::int8_t>(out, at);
    case Type::kInt16:
      return AppendInteger<std::int16_t>(out, at);
    case Type::kInt32:
      return AppendInteger<std::int32_t>(out, at);
    case Type::kInt64:
      return AppendInteger<std::int64_t>(out, at);
    case Type::kUint8:
      return AppendInteger<std::uint8_t>(out, at);
    case Type::kUint16:
      return AppendInteger<std::uint16_t>(out, at);
    case Type::kUint32:
      return AppendInteger<std::uint32_t>(out, at);
    case Type::kUint64:
      return AppendInteger<std::uint64_t>(out, at);
    case Type::kFloat:
      return AppendReal<Digits, float>(out, at, quote);
    case Type::kDouble:
      return AppendReal<Digits, double>(out, at, quote);
    case Type::kLongDouble:
      return AppendReal<Digits, long double>(out, at, quote);
    default:
      out += "?";
  }
}

// Of a complex number, its parts.
Type PartOf(Type type) {
  return type == Type::kComplexFloat ? Type::kFloat : Type::kDouble;
}
bool IsComplex(Type type) {
  return type == Type::kComplexFloat || type == Type::kComplexDouble;
}

template <typename Digits>
void AppendText(std::string& out, Type type, const std::byte* at) {
  if (!IsComplex(type)) return AppendNumber<Digits>(out, type, at, "");
  const Type part = PartOf(type);
  out += "(";
  AppendNumber<Digits>(out, part, at, "");
  out += ",";
  AppendNumber<Digits>(out, part, at + bp5::ElementBytes(part), "");
  out += "i)";
}

}  // namespace

void AppendShort(std::string& out, Type type, const std::byte* at) {
  AppendText<Short>(out, type, at);
}

void AppendExact(std::string& out, Type type, const std::byte* at) {
  AppendText<Exact>(out, type, at);
}

void AppendJson(std::string& out, Type type, const std::byte* at) {
  if (!IsComplex(type)) return AppendNumber<Exact>(out, type, at, "\"");
  const Type part = PartOf(type);
  out += "[";
  AppendNumber<Exact>(out, part, at, "\"");
  out += ", ";
  AppendNumber<Exact>(out, part, at + bp5::ElementBytes(part), "\"");
  out += "]";
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string JsonString(std::string_view text) {
  const bool plain =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
  if (plain) return fmt::format("\"{}\"", text);
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string HexOf(std::span<const std::byte> bytes) {
  std::string out;
  out.reserve(2 * bytes.size());
  for (const std::byte b : bytes) fmt::format_to(std::back_inserter(out), "{:02x}", std::to_integer<unsigned>(b));
  return out;
}

std::string Braces(std::span<const std::uint64_t> numbers) {
  return fmt::format("{{{}}}", fmt::join(numbers, ", "));
}

std::size_t DigitsOf(std::uint64_t number) {
  return std::to_string(number).size();
}

}  // namespace cairn::cli
