#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "daemon/core/steering.h"

namespace cairn {
namespace {

std::chrono::milliseconds Ms(std::uint64_t ms) {
  constexpr std::uint64_t kMax = 100ull * 365 * 86400 * 1000;
  return std::chrono::milliseconds(std::min(ms, kMax));
}

std::uint64_t Us(CheckpointCosts::Duration time) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(time).count());
}

std::uint64_t WholeMs(CheckpointCosts::Duration time) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

std::optional<std::int64_t> EndOf(const Steering& steering) {
  return steering.end_time_s > 0 ? std::optional(steering.end_time_s) : std::nullopt;
}

}  // namespace

Rhythm RhythmOf(const Config::Checkpoint& configured, const local::Rhythm& wanted) {
  Rhythm rhythm;
  rhythm.every = wanted.has_every() ? wanted.every() : configured.every;
  rhythm.interval = Ms(wanted.has_interval() ? wanted.interval_ms() : configured.interval_ms);
  rhythm.overhead_percent = wanted.has_overhead() ? wanted.overhead_percent() : configured.overhead_percent;
  if (!(rhythm.overhead_percent >= 0 && rhythm.overhead_percent <= 100)) rhythm.overhead_percent = 0;
  rhythm.mtbf = Ms(wanted.has_mtbf() ? wanted.mtbf_ms() : configured.mtbf_ms);
  return rhythm;
}

std::string DescribeReason(const std::string& reason) {
  if (reason == "TIME_LIMIT") return "TIME_LIMIT: the end of the allocation is near";
  if (reason == "NO_CHECKPOINTS_LEFT") return "NO_CHECKPOINTS_LEFT: as many checkpoints as were asked for are whole";
  if (reason == "EXIT_BEFORE_TIME") return "EXIT_BEFORE_TIME: the time before which it is to stop is near";
  if (reason == "EXIT_AFTER_TIME") return "EXIT_AFTER_TIME: the time after which it is to stop has come";
  return reason;
}

admin::HaltStatus DescribeHalt(const Steering& steering, std::int64_t now_s) {
  const scr::Halt& halt = steering.halt.known;
  admin::HaltStatus status;
  if (const auto why = scr::WhyHalt(halt, now_s, EndOf(steering))) status.set_why(DescribeReason(*why));
  status.set_reason(halt.reason);
  status.set_counts_checkpoints(halt.checkpoints_left.has_value());
  status.set_checkpoints_left(halt.checkpoints_left.value_or(0));
  status.set_exit_before_s(halt.exit_before_s.value_or(0));
  status.set_exit_after_s(halt.exit_after_s.value_or(0));
  status.set_halt_seconds(halt.halt_seconds.value_or(0));
  status.set_end_time_s(steering.end_time_s);
  status.set_error(steering.halt.error);
  return status;
}

admin::RhythmStatus DescribeRhythm(const Steering& steering, const Rhythm& rhythm, CheckpointCosts::Time now) {
  const CheckpointCosts& costs = steering.costs;
  const auto nodes = static_cast<std::uint32_t>(steering.hosts.size());
  admin::RhythmStatus status;
  status.set_checkpoints(costs.measured());
  status.set_cost_us(Us(costs.mean()));
  status.set_cost_total_us(Us(costs.total()));
  status.set_elapsed_ms(WholeMs(now - costs.opened()));
  if (const auto interval = IntervalOf(rhythm, costs, nodes)) status.set_interval_ms(WholeMs(*interval));
  status.set_nodes(nodes);
  return status;
}

}  // namespace cairn
