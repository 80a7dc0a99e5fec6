#include "storage/base/number_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

namespace cairn {
namespace {

// Digits without a sign, a space or a zero before them.
std::optional<std::uint64_t> ParseNumber(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || text != std::to_string(number)) return std::nullopt;
  return number;
}

}  // namespace

bool NumberRanges::Contains(std::uint64_t number) const {
  const auto after = ranges_.upper_bound(number);
  return after != ranges_.begin() && std::prev(after)->second >= number;
}

void NumberRanges::AddRange(std::uint64_t first, std::uint64_t last) {
  auto at = ranges_.upper_bound(first);
  if (at != ranges_.begin() && std::prev(at)->second + 1 >= first) --at;
  while (at != ranges_.end() && at->first <= last + 1) {  // those that it touches become one with it
    first = std::min(first, at->first);
    last = std::max(last, at->second);
    at = ranges_.erase(at);
  }
  ranges_[first] = last;
}

void NumberRanges::Remove(std::uint64_t number) {
  const auto after = ranges_.upper_bound(number);
  if (after == ranges_.begin()) return;
  const auto at = std::prev(after);
  const auto [first, last] = *at;
  if (last < number) return;
  ranges_.erase(at);
  if (first < number) ranges_[first] = number - 1;
  if (number < last) ranges_[number + 1] = last;
}

std::uint64_t NumberRanges::size() const {
  std::uint64_t size = 0;
  for (const auto& [first, last] : ranges_) size += last - first + 1;
  return size;
}

std::vector<std::uint64_t> NumberRanges::Numbers() const {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(size());
  for (const auto& [first, last] : ranges_) {
    for (std::uint64_t number = first; number <= last; ++number) numbers.push_back(number);
  }
  return numbers;
}

std::string TextOf(const NumberRanges& numbers) {
  std::string text;
  for (const auto& [first, last] : numbers.ranges()) {
    if (!text.empty()) text += ',';
    text += first == last ? std::to_string(first) : fmt::format("{}-{}", first, last);
  }
  return text;
}

std::optional<NumberRanges> ParseNumberRanges(std::string_view text, std::uint64_t below) {
  NumberRanges numbers;
  std::optional<std::uint64_t> before;  // the last number so far
  for (bool more = true; more;) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view range = text.substr(0, comma);
    more = comma < text.size();
    text.remove_prefix(comma + (more ? 1 : 0));
    const std::size_t dash = range.find('-');
    const auto first = ParseNumber(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : ParseNumber(range.substr(dash + 1));
    if (!first || !last || *last >= below || *last < *first) return std::nullopt;
    if (dash != std::string_view::npos && *last == *first) return std::nullopt;
    if (before && *first <= *before + 1) return std::nullopt;
    numbers.AddRange(*first, *last);
    before = last;
  }
  return numbers;
}

}  // namespace cairn
