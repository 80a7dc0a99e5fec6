#include "storage/format/scr/halt.h"

#include "storage/base/status.h"
#include "storage/format/scr/fields.h"

namespace cairn::scr {
namespace {

template <typename T>
void PutNumber(std::string_view key, const std::optional<T>& value, kvtree::Tree& tree) {
  PutText(key, value ? std::to_string(*value) : std::string(), tree);
}

// SCR counts on below zero in a run that only reports that it should stop.
absl::Status TakeCount(const kvtree::Tree& tree, std::string_view key, std::optional<std::uint64_t>& count) {
  if (!tree.Get(key).value_or("").starts_with('-')) return Take(tree.GetUnsigned(key), count);
  CAIRN_RETURN_IF_ERROR(tree.GetInt(key).status());
  count = 0;
  return absl::OkStatus();
}

// Whether `now` is at most `seconds` before `then`, or behind it.
bool IsWithin(std::uint64_t seconds, std::int64_t now, std::int64_t then) {
  // Modulo 2^64 the difference of any two is exact once their order is known.
  return now >= then || static_cast<std::uint64_t>(then) - static_cast<std::uint64_t>(now) <= seconds;
}

}  // namespace

void PutHalt(const Halt& halt, kvtree::Tree& tree) {
  PutText("ExitReason", halt.reason, tree);
  PutNumber("CheckpointsLeft", halt.checkpoints_left, tree);
  PutNumber("ExitBefore", halt.exit_before_s, tree);
  PutNumber("ExitAfter", halt.exit_after_s, tree);
  PutNumber("HaltSeconds", halt.halt_seconds, tree);
}

absl::StatusOr<Halt> GetHalt(const kvtree::Tree& tree) {
  Halt halt;
  CAIRN_RETURN_IF_ERROR(Take(tree.GetString("ExitReason"), halt.reason));
  CAIRN_RETURN_IF_ERROR(TakeCount(tree, "CheckpointsLeft", halt.checkpoints_left));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetInt("ExitBefore"), halt.exit_before_s));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetInt("ExitAfter"), halt.exit_after_s));
  CAIRN_RETURN_IF_ERROR(TakeCount(tree, "HaltSeconds", halt.halt_seconds));
  return halt;
}

std::optional<std::string> WhyHalt(const Halt& halt, std::int64_t now_s, std::optional<std::int64_t> end_s) {
  const std::uint64_t halt_seconds = halt.halt_seconds.value_or(0);
  // An end that is behind us is not this allocation's.
  if (halt_seconds > 0 && end_s && now_s <= *end_s && IsWithin(halt_seconds, now_s, *end_s)) return "TIME_LIMIT";
  if (!halt.reason.empty() && halt.reason != kFinalizeCalled) return halt.reason;
  if (halt.checkpoints_left == 0u) return "NO_CHECKPOINTS_LEFT";
  if (halt.exit_before_s && IsWithin(halt_seconds, now_s, *halt.exit_before_s)) return "EXIT_BEFORE_TIME";
  if (halt.exit_after_s && now_s >= *halt.exit_after_s) return "EXIT_AFTER_TIME";
  return std::nullopt;
}

}  // namespace cairn::scr
