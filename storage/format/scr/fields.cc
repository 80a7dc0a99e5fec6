#include "storage/format/scr/fields.h"

#include <climits>

#include <charconv>
#include <system_error>

#include "storage/base/quoted.h"

namespace cairn::scr {
namespace {

bool HasParentComponent(std::string_view path) {
  while (true) {
    const std::size_t slash = path.find('/');
    if (path.substr(0, slash) == "..") return true;
    if (slash == std::string_view::npos) return false;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace

void PutText(std::string_view key, std::string_view value, kvtree::Tree& tree) {
  if (value.empty()) {
    tree.Erase(key);
  } else {
    tree.Set(key, value);
  }
}

absl::StatusOr<std::uint64_t> NumberKey(std::string_view key, std::string_view what, std::uint64_t min) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), value);
  // A leading zero would make two keys of one number.
  const bool leading_zero = key.size() > 1 && key.front() == '0';
  if (error != std::errc() || end != key.data() + key.size() || leading_zero || value < min || value > kIntMax) {
    return DataLoss("{} {} is no number from {} to {}", what, Quoted(key), min, kIntMax);
  }
  return value;
}

bool IsHarmlessAbsolute(std::string_view path) {
  return path.starts_with('/') && path.size() < PATH_MAX && !HasParentComponent(path);
}

bool IsHarmlessRelative(std::string_view path) {
  return !path.empty() && !path.starts_with('/') && path.size() < PATH_MAX && !HasParentComponent(path);
}

}  // namespace cairn::scr
