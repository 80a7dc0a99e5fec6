#include "storage/base/ids.h"

#include <cstdint>

#include "storage/base/random.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::array<std::string_view, 6> kLevelNames = {"none", "frozen", "captured", "local", "redundant", "prefix"};
constexpr std::array<std::string_view, 7> kTierNames = {"none",    "image",  "cache",    "partner",
                                                        "rebuilt", "prefix", "redundant"};

}  // namespace

RunId RunId::Random() {
  RunId id;
  FillRandom(id.bytes);
  return id;
}

absl::StatusOr<RunId> RunId::Parse(std::string_view hex) {
  RunId id;
  if (hex.size() != 2 * id.bytes.size()) {
    return InvalidArgument("run identity: {} characters instead of {} hex digits", hex.size(), 2 * id.bytes.size());
  }
  for (std::size_t i = 0; i < hex.size(); ++i) {
    const std::size_t digit = kHexDigits.find(hex[i]);
    if (digit == std::string_view::npos) {
      return InvalidArgument("run identity: character {} is no lower-case hex digit", i);
    }
    id.bytes[i / 2] = (id.bytes[i / 2] << 4) | static_cast<std::byte>(digit);
  }
  return id;
}

std::string RunId::Hex() const {
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const std::byte b : bytes) {
    hex += kHexDigits[std::to_integer<std::size_t>(b >> 4)];
    hex += kHexDigits[std::to_integer<std::size_t>(b & std::byte{15})];
  }
  return hex;
}

std::string_view NameOf(Level level) {
  const auto index = static_cast<std::size_t>(level);
  return index < kLevelNames.size() ? kLevelNames[index] : "unknown";
}

absl::StatusOr<Level> ParseLevel(std::string_view name) {
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (name == kLevelNames[i]) return static_cast<Level>(i);
  }
  return InvalidArgument("\"{}\" is no level: none, frozen, captured, local, redundant or prefix", name);
}

bool IsNearer(Tier a, Tier b) {
  if (a == Tier::kPrefix || b == Tier::kPrefix) return a != b && b == Tier::kPrefix;
  return a < b;
}

std::string_view NameOf(Tier tier) {
  const auto index = static_cast<std::size_t>(tier);
  return index < kTierNames.size() ? kTierNames[index] : "unknown";
}

}  // namespace cairn
