// Identity: run, launch, dataset; and the level of durability. design.md, "Identity" and "The ladder".
#ifndef CAIRN_STORAGE_BASE_IDS_H_
#define CAIRN_STORAGE_BASE_IDS_H_

#include <absl/status/statusor.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cairn {

using DatasetId = std::uint64_t;  // 1, 2, …; never reused in a run
using LaunchId = std::uint64_t;   // 1, 2, …
using Rank = std::uint32_t;

// A random 128-bit number, kept in <prefix>/.cairn/run.
struct RunId {
  std::array<std::byte, 16> bytes{};
  friend auto operator<=>(const RunId&, const RunId&) = default;

  static RunId Random();
  static absl::StatusOr<RunId> Parse(std::string_view hex);  // exactly 32 lower-case hex digits
  std::string Hex() const;
  std::string ShortHex() const { return Hex().substr(0, 8); }
};

enum class Level : std::uint8_t { kNone = 0, kFrozen = 1, kCaptured = 2, kLocal = 3, kRedundant = 4, kPrefix = 5 };
std::string_view NameOf(Level level);                    // "none", "frozen", …
absl::StatusOr<Level> ParseLevel(std::string_view name);

enum class Tier : std::uint8_t {
  kNone = 0,
  kImage = 1,
  kCache = 2,
  kPartner = 3,
  kRebuilt = 4,
  kPrefix = 5,
  kRedundant = 6,  // the folder that is redundant itself
};
// By how far away it is, which is not the order of their numbers: the prefix is the last one.
bool IsNearer(Tier a, Tier b);
std::string_view NameOf(Tier tier);

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_IDS_H_
