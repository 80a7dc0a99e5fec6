#include "client/cli/node_list.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "storage/base/quoted.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

constexpr std::size_t kDigitsMax = 12;

absl::Status NoList(std::string_view what) {
  return InvalidArgument("{} is not a list of hosts as Slurm writes it", Quoted(what));
}

absl::Status TooMany() {
  return InvalidArgument("more than {} hosts", kHostsMax);
}

std::optional<std::uint64_t> NumberIn(std::string_view digits) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool all = error == std::errc() && end == digits.data() + digits.size() && digits.size() <= kDigitsMax;
  return all ? std::optional(number) : std::nullopt;
}

// "001-128,200": what stands between brackets. Numbers keep the width of the first of their range.
absl::StatusOr<std::vector<std::string>> ExpandRanges(std::string_view ranges) {
  std::vector<std::string> numbers;
  for (;;) {
    const std::string_view range = ranges.substr(0, ranges.find(','));
    const std::size_t dash = range.find('-');
    const std::string_view first = range.substr(0, dash);
    const auto from = NumberIn(first), to = dash == range.npos ? from : NumberIn(range.substr(dash + 1));
    if (!from || !to || *to < *from) return NoList(range);
    if (*to - *from >= kHostsMax - numbers.size()) return TooMany();
    for (std::uint64_t number = *from; number <= *to; ++number) {
      numbers.push_back(fmt::format("{:0{}}", number, first.size()));
    }
    if (range.size() == ranges.size()) return numbers;
    ranges.remove_prefix(range.size() + 1);
  }
}

// One entry: a name with any number of brackets.
absl::StatusOr<std::vector<std::string>> ExpandEntry(std::string_view entry) {
  std::vector<std::string> hosts = {""};
  while (!entry.empty()) {
    const std::size_t open = entry.find_first_of("[]");
    for (std::string& host : hosts) host += entry.substr(0, open);
    if (open == entry.npos) break;
    const std::size_t close = entry.find(']', open);
    if (entry[open] == ']' || close == entry.npos) return NoList(entry);
    CAIRN_ASSIGN_OR_RETURN(const auto numbers, ExpandRanges(entry.substr(open + 1, close - open - 1)));
    if (numbers.size() > kHostsMax / hosts.size()) return TooMany();
    std::vector<std::string> all;
    for (const std::string& host : hosts) {
      for (const std::string& number : numbers) all.push_back(host + number);
    }
    hosts = std::move(all);
    entry.remove_prefix(close + 1);
  }
  return hosts;
}

// Up to the next comma outside of brackets.
std::string_view EntryOf(std::string_view list) {
  bool inside = false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[') inside = true;
    if (list[i] == ']') inside = false;
    if (list[i] == ',' && !inside) return list.substr(0, i);
  }
  return list;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandNodeList(std::string_view list) {
  std::vector<std::string> hosts;
  for (;;) {
    const std::string_view entry = EntryOf(list);
    if (entry.empty()) return NoList(list);
    CAIRN_ASSIGN_OR_RETURN(auto more, ExpandEntry(entry));
    if (more.size() > kHostsMax - hosts.size()) return TooMany();
    for (std::string& host : more) hosts.push_back(std::move(host));
    if (entry.size() == list.size()) return hosts;
    list.remove_prefix(entry.size() + 1);
  }
}

}  // namespace cairn::cli
