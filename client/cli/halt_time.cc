#include "client/cli/halt_time.h"

#include <array>
#include <charconv>
#include <ctime>
#include <limits>
#include <optional>

#include "daemon/config/units.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

constexpr std::uint64_t kSecondsMax = std::numeric_limits<std::int32_t>::max();
constexpr std::uint64_t kLaterMsMax = 100ull * 366 * 86'400'000;  // a hundred years

// Exactly `digits` of them, taken from the front of `text`.
std::optional<int> TakeNumber(std::string_view& text, std::size_t digits) {
  int value = 0;
  if (text.size() < digits) return std::nullopt;
  for (const char digit : text.substr(0, digits)) {
    if (digit < '0' || digit > '9') return std::nullopt;
    value = 10 * value + (digit - '0');
  }
  text.remove_prefix(digits);
  return value;
}

bool TakeOneOf(std::string_view& text, std::string_view characters) {
  if (text.empty() || characters.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<std::tm> ParseCalendar(std::string_view text) {
  std::tm parts{};
  const auto take = [&text](int& part, std::size_t digits) {
    const auto number = TakeNumber(text, digits);
    part = number.value_or(0);
    return number.has_value();
  };
  if (!take(parts.tm_year, 4) || !TakeOneOf(text, "-") || !take(parts.tm_mon, 2) || !TakeOneOf(text, "-") ||
      !take(parts.tm_mday, 2) || !TakeOneOf(text, "T ") || !take(parts.tm_hour, 2) || !TakeOneOf(text, ":") ||
      !take(parts.tm_min, 2)) {
    return std::nullopt;
  }
  if (!text.empty() && (!TakeOneOf(text, ":") || !take(parts.tm_sec, 2))) return std::nullopt;
  if (!text.empty()) return std::nullopt;
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  parts.tm_isdst = -1;
  return parts;
}

bool SameTime(const std::tm& a, const std::tm& b) {
  return a.tm_year == b.tm_year && a.tm_mon == b.tm_mon && a.tm_mday == b.tm_mday && a.tm_hour == b.tm_hour &&
         a.tm_min == b.tm_min && a.tm_sec == b.tm_sec;
}

}  // namespace

absl::StatusOr<std::int64_t> ParseHaltTime(std::string_view text, std::int64_t now_s) {
  if (text.starts_with('+')) {
    const auto later = ParseDuration(text.substr(1));
    if (!later.ok()) return InvalidArgument("{}: {}; durations are like +30min, +2h", text, MessageOf(later.status()));
    if (*later > kLaterMsMax) return InvalidArgument("{} is more than a hundred years away", text);
    return now_s + static_cast<std::int64_t>(*later / 1000);
  }
  const std::optional<std::tm> parts = ParseCalendar(text);
  if (!parts.has_value()) {
    return InvalidArgument("'{}' is no time: YYYY-MM-DDTHH:MM:SS in local time, or from now on, like +2h", text);
  }
  std::tm normal = *parts;
  const std::time_t seconds = std::mktime(&normal);
  // A time that does not exist comes back as another one.
  if (seconds < 0 || !SameTime(normal, *parts))
    return InvalidArgument("{}: no such time exists in this time zone", text);
  return seconds;
}

absl::StatusOr<std::uint64_t> ParseHaltSeconds(std::string_view text) {
  std::uint64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size()) {
    const auto duration = ParseDuration(text);
    if (!duration.ok()) return InvalidArgument("'{}' is neither seconds nor a duration like 15min", text);
    seconds = *duration / 1000;
  }
  if (seconds < 1 || seconds > kSecondsMax) {
    return InvalidArgument("{}: between 1 and {} seconds are possible", text, kSecondsMax);
  }
  return seconds;
}

std::string FormatHaltTime(std::int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  std::array<char, 64> text{};
  if (localtime_r(&time, &parts) == nullptr ||
      std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts) == 0) {
    return std::to_string(seconds);
  }
  return text.data();
}

}  // namespace cairn::cli
