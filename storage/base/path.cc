#include "storage/base/path.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "storage/base/random.h"

namespace cairn {
namespace {

constexpr std::size_t kNameBytesMax = 255;  // NAME_MAX of the file systems that we know

}  // namespace

std::string WorkName(const std::string& path) {
  std::array<std::byte, 8> random;
  FillRandom(random);
  std::uint64_t number = 0;
  for (const std::byte b : random) number = number << 8 | std::to_integer<std::uint64_t>(b);
  const std::string suffix = fmt::format("{}{:016x}", kWorkSuffix, number);
  // A name of the application's may be as long as the file system allows; the end of it gives way.
  const std::string name = BaseOf(path);
  const std::size_t cut = name.size() + suffix.size() > kNameBytesMax ? name.size() + suffix.size() - kNameBytesMax : 0;
  return path.substr(0, path.size() - std::min(cut, name.size())) + suffix;
}

bool IsWorkName(std::string_view name) {
  const std::size_t at = name.rfind(kWorkSuffix);
  if (at == std::string_view::npos) return false;
  const std::string_view number = name.substr(at + kWorkSuffix.size());
  return !number.empty() && number.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string ParentOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string BaseOf(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::optional<std::uint64_t> NumberAfter(std::string_view name, std::string_view stem) {
  if (!name.starts_with(stem)) return std::nullopt;
  name.remove_prefix(stem.size());
  if (name.empty() || name.size() > 18 || (name.front() == '0' && name.size() > 1)) return std::nullopt;
  std::uint64_t number = 0;  // 18 digits are below 2^63
  for (const char c : name) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return number;
}

}  // namespace cairn
