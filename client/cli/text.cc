#include "client/cli/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "storage/base/size_text.h"

namespace cairn::cli {
namespace {

// Characters, not bytes: a UTF-8 continuation takes no column.
std::size_t ColumnsOf(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

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
