#include "daemon/config/units.h"

#include <array>
#include <charconv>
#include <span>

#include "daemon/config/stripped.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::uint64_t kKi = 1024;
constexpr std::uint64_t kMax = std::uint64_t{1} << 63;

// Of two that format as short, the first is taken.
constexpr std::array<Unit, 10> kSizeUnits{{{"TiB", kKi* kKi* kKi* kKi},
                                           {"GiB", kKi* kKi* kKi},
                                           {"MiB", kKi* kKi},
                                           {"KiB", kKi},
                                           {"TB", 1'000'000'000'000},
                                           {"GB", 1'000'000'000},
                                           {"MB", 1'000'000},
                                           {"KB", 1000},
                                           {"kB", 1000},
                                           {"B", 1}}};
constexpr std::array<Unit, 5> kTimeUnits{
    {{"d", 86'400'000}, {"h", 3'600'000}, {"min", 60'000}, {"s", 1000}, {"ms", 1}}};

// The number in front, as digits without the point and the power of ten to divide by.
struct Decimal {
  std::uint64_t digits = 0;
  std::uint64_t divisor = 1;
  std::string_view rest;
};

absl::StatusOr<Decimal> ParseDecimal(std::string_view text) {
  const std::size_t whole = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string digits(text.substr(0, whole));
  Decimal decimal{.rest = text.substr(whole)};
  if (!digits.empty() && decimal.rest.starts_with('.')) {
    const std::string_view after = decimal.rest.substr(1);
    const std::size_t fraction = std::min(after.find_first_not_of("0123456789"), after.size());
    if (fraction == 0 || fraction > 9) return InvalidArgument("\"{}\": 1 to 9 digits may follow the point", text);
    digits += after.substr(0, fraction);
    decimal.rest = after.substr(fraction);
    for (std::size_t i = 0; i < fraction; ++i) decimal.divisor *= 10;
  }
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), decimal.digits);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) {
    return InvalidArgument("\"{}\" does not begin with a number in range", text);
  }
  decimal.rest = Stripped(decimal.rest);
  return decimal;
}

absl::StatusOr<std::uint64_t> Scale(std::string_view text, const Decimal& decimal, std::uint64_t factor) {
  const auto product = static_cast<unsigned __int128>(decimal.digits) * factor;
  if (product % decimal.divisor != 0) return InvalidArgument("\"{}\" is not a whole number of the smallest unit", text);
  if (product / decimal.divisor > kMax) return InvalidArgument("\"{}\" is too large", text);
  return static_cast<std::uint64_t>(product / decimal.divisor);
}

absl::StatusOr<std::uint64_t> FactorOf(std::string_view text, std::string_view unit, std::span<const Unit> units,
                                       std::string_view expected) {
  for (const Unit& known : units) {
    if (known.name == unit) return known.factor;
  }
  return InvalidArgument("\"{}\": unknown unit \"{}\", expected {}", text, unit, expected);
}

std::string Format(std::uint64_t value, std::span<const Unit> units) {
  if (value == 0) return "0";
  std::string shortest;
  for (const Unit& unit : units) {
    if (value % unit.factor != 0) continue;
    const std::string text = fmt::format("{}{}", value / unit.factor, unit.name);
    if (shortest.empty() || text.size() < shortest.size()) shortest = text;
  }
  return shortest;
}

}  // namespace

absl::StatusOr<std::uint64_t> ParseSize(std::string_view text) {
  CAIRN_ASSIGN_OR_RETURN(const Decimal decimal, ParseDecimal(Stripped(text)));
  const std::string_view unit = decimal.rest.empty() ? std::string_view("B") : decimal.rest;
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t factor,
                         FactorOf(text, unit, kSizeUnits, "B, kB, MB, GB, TB, KiB, MiB, GiB or TiB"));
  return Scale(text, decimal, factor);
}

absl::StatusOr<std::uint64_t> ParseRate(std::string_view text) {
  std::string_view size = Stripped(text);
  if (size.ends_with("/s")) size.remove_suffix(2);
  return ParseSize(size);
}

absl::StatusOr<std::uint64_t> ParseDuration(std::string_view text) {
  CAIRN_ASSIGN_OR_RETURN(const Decimal decimal, ParseDecimal(Stripped(text)));
  if (decimal.rest.empty() && decimal.digits == 0) return std::uint64_t{0};
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t factor, FactorOf(text, decimal.rest, kTimeUnits, "ms, s, min, h or d"));
  return Scale(text, decimal, factor);
}

std::string FormatSize(std::uint64_t bytes) {
  return Format(bytes, kSizeUnits);
}

std::string FormatRate(std::uint64_t bytes_per_s) {
  return bytes_per_s == 0 ? "0" : fmt::format("{}/s", FormatSize(bytes_per_s));
}

// Not the shortest: "10min" reads better than "600s".
std::string FormatDuration(std::uint64_t ms) {
  for (const Unit& unit : kTimeUnits) {
    if (ms != 0 && ms % unit.factor == 0) return fmt::format("{}{}", ms / unit.factor, unit.name);
  }
  return "0";
}

}  // namespace cairn
