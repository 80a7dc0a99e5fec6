// What SCR's records have in common: fields that may be absent, ids as keys, paths that must be harmless.
#ifndef CAIRN_STORAGE_FORMAT_SCR_FIELDS_H_
#define CAIRN_STORAGE_FORMAT_SCR_FIELDS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "storage/base/ids.h"
#include "storage/base/status.h"
#include "storage/format/kvtree/tree.h"

namespace cairn::scr {

inline constexpr std::uint64_t kIntMax = 2147483647;  // SCR keeps ids, ranks and counts in an int

// Moves a value that is there into `target`; an absent one leaves `target` alone and is no error.
template <typename T, typename Target>
absl::Status Take(absl::StatusOr<T> value, Target& target) {
  if (value.ok()) {
    target = *std::move(value);
    return absl::OkStatus();
  }
  return absl::IsNotFound(value.status()) ? absl::OkStatus() : value.status();
}

// The same for an unsigned number of at most `max`: kDataLoss beyond it.
template <typename Target>
absl::Status TakeUpTo(std::uint64_t max, const kvtree::Tree& tree, std::string_view key, Target& target) {
  std::optional<std::uint64_t> value;
  CAIRN_RETURN_IF_ERROR(Take(tree.GetUnsigned(key), value));
  if (!value) return absl::OkStatus();
  if (*value > max) return DataLoss("{} is {}, more than {}", key, *value, max);
  target = static_cast<std::uint32_t>(*value);
  return absl::OkStatus();
}

// Sets the value, or removes the key if the value is empty.
void PutText(std::string_view key, std::string_view value, kvtree::Tree& tree);

// A dataset id or rank that is a key; `what` names it in the error.
absl::StatusOr<std::uint64_t> NumberKey(std::string_view key, std::string_view what, std::uint64_t min);

// Absolute, no component "..", shorter than PATH_MAX. That it lies in a store or the prefix is the caller's check.
bool IsHarmlessAbsolute(std::string_view path);
// Relative, not empty, no component "..", shorter than PATH_MAX.
bool IsHarmlessRelative(std::string_view path);

}  // namespace cairn::scr

#endif  // CAIRN_STORAGE_FORMAT_SCR_FIELDS_H_
