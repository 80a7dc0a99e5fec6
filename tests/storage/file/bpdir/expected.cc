#include "tests/storage/file/bpdir/expected.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace cairn::testing {
namespace {

using nlohmann::json;

template <typename T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

double RealOf(const json& value) {
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  return value.get<double>();
}

template <typename T>
bool IsReal(const json& value, const std::byte* at) {
  const T wanted = static_cast<T>(RealOf(value)), found = Load<T>(at);
  return wanted == found || (std::isnan(wanted) && std::isnan(found));
}

template <typename T>
bool IsInteger(const json& value, const std::byte* at) {
  return value.get<T>() == Load<T>(at);
}

template <typename T>
bool IsComplex(const json& value, const std::byte* at) {
  return IsReal<T>(value.at(0), at) && IsReal<T>(value.at(1), at + sizeof(T));
}

bool IsElement(const json& value, bp5::Type type, const std::byte* at) {
  switch (type) {
    case bp5::Type::kInt8:
    case bp5::Type::kChar:
      return IsInteger<std::int8_t>(value, at);
    case bp5::Type::kInt16:
      return IsInteger<std::int16_t>(value, at);
    case bp5::Type::kInt32:
      return IsInteger<std::int32_t>(value, at);
    case bp5::Type::kInt64:
      return IsInteger<std::int64_t>(value, at);
    case bp5::Type::kUint8:
      return IsInteger<std::uint8_t>(value, at);
    case bp5::Type::kUint16:
      return IsInteger<std::uint16_t>(value, at);
    case bp5::Type::kUint32:
      return IsInteger<std::uint32_t>(value, at);
    case bp5::Type::kUint64:
      return IsInteger<std::uint64_t>(value, at);
    case bp5::Type::kFloat:
      return IsReal<float>(value, at);
    case bp5::Type::kDouble:
      return IsReal<double>(value, at);
    case bp5::Type::kLongDouble: {
      const double wanted = RealOf(value), found = static_cast<double>(Load<long double>(at));
      return wanted == found || (std::isnan(wanted) && std::isnan(found));
    }
    case bp5::Type::kComplexFloat:
      return IsComplex<float>(value, at);
    case bp5::Type::kComplexDouble:
      return IsComplex<double>(value, at);
    case bp5::Type::kString:
    case bp5::Type::kStruct:
      return false;
  }
  return false;
}

}  // namespace

std::string Differences(const json& values, bp5::Type type, std::span<const std::byte> elements) {
  const std::size_t bytes = bp5::ElementBytes(type);
  if (bytes == 0 || elements.size() != values.size() * bytes) {
    return fmt::format("{} bytes for {} elements of {}", elements.size(), values.size(), bytes);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!IsElement(values[i], type, elements.data() + i * bytes)) {
      return fmt::format("element {} is not {}", i, values[i].dump());
    }
  }
  return "";
}

Extents ExtentsOf(const json& numbers) {
  Extents extents;
  for (const json& number : numbers) extents.push_back(number.get<std::uint64_t>());
  return extents;
}

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

}  // namespace cairn::testing
