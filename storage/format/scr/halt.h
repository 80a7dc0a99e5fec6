// When a run is to stop: halt.scr. SCR specification, sections 7.3 and 12.7.
#ifndef CAIRN_STORAGE_FORMAT_SCR_HALT_H_
#define CAIRN_STORAGE_FORMAT_SCR_HALT_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "storage/format/kvtree/tree.h"

namespace cairn::scr {

// Written by every clean end of a run; no reason to stop the next one.
inline constexpr std::string_view kFinalizeCalled = "SCR_FINALIZE_CALLED";

struct Halt {
  std::string reason = {};  // ExitReason; empty: absent
  std::optional<std::uint64_t> checkpoints_left = {};
  std::optional<std::int64_t> exit_before_s = {}, exit_after_s = {};  // since the epoch
  std::optional<std::uint64_t> halt_seconds = {};                     // stop when so many of the allocation remain

  friend bool operator==(const Halt&, const Halt&) = default;
};

// Writes every field, removing keys of absent ones; other keys stay.
void PutHalt(const Halt& halt, kvtree::Tree& tree);

// Counts below zero, as SCR leaves them, are 0. kDataLoss naming the field: no number, or out of range.
absl::StatusOr<Halt> GetHalt(const kvtree::Tree& tree);

// Why the run is to stop now, in SCR's words (TIME_LIMIT, NO_CHECKPOINTS_LEFT, EXIT_BEFORE_TIME, EXIT_AFTER_TIME, or
// the reason given); none: it goes on. The first of these that holds, in this order but for the reason given, which
// comes after TIME_LIMIT. `end_s`: when the allocation ends, if known; one that has passed says nothing.
std::optional<std::string> WhyHalt(const Halt& halt, std::int64_t now_s, std::optional<std::int64_t> end_s);

}  // namespace cairn::scr

#endif  // CAIRN_STORAGE_FORMAT_SCR_HALT_H_
