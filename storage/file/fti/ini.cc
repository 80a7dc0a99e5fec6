#include "storage/file/fti/ini.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn::fti {
namespace {

constexpr std::size_t kPassedOverMax = 16;

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// What is in quotes is taken as it is; else the value ends at a comment.
std::string_view ValueOf(std::string_view text) {
  text = Trim(text);
  if (!text.empty() && (text.front() == '"' || text.front() == '\'')) {
    const std::size_t end = text.find(text.front(), 1);
    if (end != std::string_view::npos) return text.substr(1, end - 1);
  }
  return Trim(text.substr(0, text.find_first_of(";#")));
}

}  // namespace

absl::StatusOr<Ini> Ini::Parse(std::string_view name, std::string_view text) {
  if (text.size() > kBytesMax)
    return InvalidArgument("{}: {} bytes, at most {} are read", name, text.size(), kBytesMax);
  Ini ini;
  ini.name_ = name;
  std::size_t number = 0, entries = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = Trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.size() > kLineBytesMax) {
      return InvalidArgument("{}: line {} has {} bytes, at most {} are read", name, number, line.size(), kLineBytesMax);
    }
    if (line.find('\0') != std::string_view::npos) return InvalidArgument("{}: line {} is no text", name, number);
    if (line.empty() || line[0] == ';' || line[0] == '#') continue;
    const std::size_t bracket = line.find(']'), equals = line.find('=');
    if (++entries > kEntriesMax) return InvalidArgument("{}: more than {} sections and keys", name, kEntriesMax);
    if (line[0] == '[' && bracket != std::string_view::npos) {
      ini.sections_.push_back({.name = Lower(Trim(line.substr(1, bracket - 1))), .entries = {}});
    } else if (line[0] != '[' && equals != std::string_view::npos && equals > 0) {
      if (ini.sections_.empty()) ini.sections_.emplace_back();
      ini.sections_.back().entries.push_back({.key = Lower(Trim(line.substr(0, equals))),
                                              .value = std::string(ValueOf(line.substr(equals + 1))),
                                              .line = number});
    } else if (ini.passed_over_.size() < kPassedOverMax) {
      ini.passed_over_.push_back(number);
    }
  }
  return ini;
}

const Ini::Entry* Ini::Find(std::string_view section, std::string_view key) const {
  const Entry* found = nullptr;
  for (const Section& candidate : sections_) {
    if (candidate.name != section) continue;
    for (const Entry& entry : candidate.entries) {
      if (entry.key == key) found = &entry;
    }
  }
  return found;
}

absl::StatusOr<std::optional<std::int64_t>> Ini::FindNumber(std::string_view section, std::string_view key,
                                                            std::int64_t min, std::int64_t max) const {
  const Entry* const entry = Find(section, key);
  if (entry == nullptr || entry->value.empty()) return std::nullopt;
  std::int64_t number = 0;
  const char* const end = entry->value.data() + entry->value.size();
  const auto [stop, error] = std::from_chars(entry->value.data(), end, number);
  if (error != std::errc() || stop != end || number < min || number > max) {
    return InvalidArgument("{}: line {}: {} of [{}] is \"{}\", not a number from {} to {}", name_, entry->line, key,
                           section, entry->value, min, max);
  }
  return number;
}

bool IsPlainValue(std::string_view value) {
  if (Trim(value).size() != value.size()) return false;
  return std::none_of(value.begin(), value.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == ';' || c == '#' || c == '"' || c == '\'';
  });
}

std::string PrintIni(const std::vector<IniSection>& sections) {
  std::string text;
  for (const auto& [section, entries] : sections) {
    fmt::format_to(std::back_inserter(text), "\n[{}]\n", section);
    for (const auto& [key, value] : entries) {
      CAIRN_CHECK(IsPlainValue(value));
      fmt::format_to(std::back_inserter(text), "{:<30} = {}\n", key, value);
    }
    text += "\n";
  }
  return text;
}

}  // namespace cairn::fti
