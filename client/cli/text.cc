#include "client/cli/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "storage/base/size_text.h"

namespace cairn::cli {
namespace {

constexpr std::string_view kPlain = "\x1b[0m";  // ends colours (ECMA-48's SGR)

// Bytes at `at` that belong together: a colour, which takes no column, or a character with its UTF-8 continuations.
struct Unit {
  std::size_t bytes;
  bool colour;
};
Unit UnitAt(std::string_view text, std::size_t at) {
  if (text.substr(at, 2) == "\x1b[") {
    const std::size_t end = text.find('m', at);
    return {(end == std::string_view::npos ? text.size() : end + 1) - at, true};
  }
  std::size_t bytes = 1;
  while (at + bytes < text.size() && (static_cast<unsigned char>(text[at + bytes]) & 0xc0) == 0x80) ++bytes;
  return {bytes, false};
}

}  // namespace

std::size_t ColumnsOf(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Unit unit = UnitAt(text, at);
    columns += unit.colour ? 0 : 1;
    at += unit.bytes;
  }
  return columns;
}

std::string Bytes(std::uint64_t bytes) {
  return SizeText(bytes);
}

std::string Count(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string Duration(std::uint64_t ms) {
  if (ms < 1000) return fmt::format("{} ms", ms);
  const std::uint64_t s = ms / 1000;
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} m {} s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{} h {} m", s / 3600, s / 60 % 60);
  return fmt::format("{} d {} h", s / 86400, s / 3600 % 24);
}

std::string LocalTime(std::int64_t us_since_epoch) {
  const std::time_t seconds = us_since_epoch / 1'000'000;
  std::tm parts{};
  std::array<char, 32> text{};
  if (us_since_epoch == 0 || localtime_r(&seconds, &parts) == nullptr) return "-";
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return text.data();
}

std::string Ago(std::int64_t us_since_epoch, std::int64_t now_us) {
  if (us_since_epoch == 0 || us_since_epoch > now_us) return LocalTime(us_since_epoch);
  const std::int64_t s = (now_us - us_since_epoch) / 1'000'000;
  if (s < 2) return "just now";
  if (s < 60) return fmt::format("{} s ago", s);
  if (s < 3600) return fmt::format("{} min ago", s / 60);
  if (s < 86400) return fmt::format("{} h ago", s / 3600);
  if (s <= 30 * 86400) return fmt::format("{} d ago", s / 86400);
  return LocalTime(us_since_epoch).substr(0, 10);
}

std::string Percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.0f} %", 100.0 * static_cast<double>(std::min(part, whole)) / static_cast<double>(whole));
}

std::string Clean(std::string_view text) {
  std::string result(text);
  std::replace_if(
      result.begin(), result.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return result;
}

std::string Bar(std::uint64_t part, std::uint64_t whole, std::size_t width) {
  const double share = whole == 0 ? 0 : static_cast<double>(std::min(part, whole)) / static_cast<double>(whole);
  const auto full = static_cast<std::size_t>(share * static_cast<double>(width));
  return "[" + std::string(full, '#') + std::string(width - full, '.') + "]";
}

std::string FirstColumns(std::string_view text, std::size_t columns) {
  bool coloured = false;
  for (std::size_t at = 0; at < text.size();) {
    const Unit unit = UnitAt(text, at);
    if (unit.colour) {
      coloured = text.substr(at, unit.bytes) != kPlain;
    } else if (columns-- == 0) {
      return std::string(text.substr(0, at)) + std::string(coloured ? kPlain : std::string_view());
    }
    at += unit.bytes;
  }
  return std::string(text);
}

std::string Table(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right) {
  std::vector<std::size_t> widths(right.size(), 0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], ColumnsOf(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    const std::size_t begin = text.size();
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::size_t spaces = widths[i] - ColumnsOf(row[i]);
      text.append(i == 0 ? 0 : 2, ' ');
      if (right[i]) text.append(spaces, ' ');
      text.append(row[i]);
      if (!right[i]) text.append(spaces, ' ');
    }
    while (text.size() > begin && text.back() == ' ') text.pop_back();
    text.push_back('\n');
  }
  return text;
}

}  // namespace cairn::cli
