#include <fmt/format.h>

#include <algorithm>

#include "daemon/core/steering_state.h"

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

// The bytes of the UTF-8 character that `text` begins with; 0: it begins with none, or a control character.
std::size_t CharacterBytes(std::string_view text) {
  const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const std::size_t bytes = first >= 0xc2 && first < 0xe0   ? 2
                            : first >= 0xe0 && first < 0xf0 ? 3
                            : first < 0xf5                  ? 4
                                                            : 0;
  if (first < 0xc2 || bytes == 0 || bytes > text.size()) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and what lies beyond Unicode.
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f)) return 0;
  if ((first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f)) return 0;
  return bytes;
}

std::optional<std::int64_t> EndOf(const SteeringState& steering) {
  return steering.end_time_s > 0 ? std::optional(steering.end_time_s) : std::nullopt;
}

}  // namespace

std::string Readable(std::string_view text) {
  constexpr std::size_t kBytesMax = 400;
  std::string readable;
  while (!text.empty() && readable.size() < kBytesMax) {
    const std::size_t bytes = CharacterBytes(text);
    readable += bytes > 0 ? text.substr(0, bytes) : "?";
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return readable;
}

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
  return Readable(reason);
}

admin::HaltStatus DescribeHalt(const SteeringState& steering, std::int64_t now_s) {
  const scr::Halt& halt = steering.halt.known;
  admin::HaltStatus status;
  if (const auto why = scr::WhyHalt(halt, now_s, EndOf(steering))) status.set_why(DescribeReason(*why));
  status.set_reason(Readable(halt.reason));
  status.set_counts_checkpoints(halt.checkpoints_left.has_value());
  status.set_checkpoints_left(halt.checkpoints_left.value_or(0));
  status.set_exit_before_s(halt.exit_before_s.value_or(0));
  status.set_exit_after_s(halt.exit_after_s.value_or(0));
  status.set_halt_seconds(halt.halt_seconds.value_or(0));
  status.set_end_time_s(steering.end_time_s);
  status.set_error(steering.halt.error);
  return status;
}

admin::RhythmStatus DescribeRhythm(const SteeringState& steering, const Rhythm& rhythm, CheckpointCosts::Time now) {
  const CheckpointCosts& costs = steering.costs;
  const auto nodes = static_cast<std::uint32_t>(steering.hosts.size());
  admin::RhythmStatus status;
  status.set_checkpoints(costs.measured());
  status.set_cost_us(Us(costs.mean()));
  status.set_cost_total_us(Us(costs.total()));
  status.set_elapsed_ms(WholeMs(now - costs.opened()));
  if (const auto interval = IntervalOf(rhythm, costs, nodes)) status.set_interval_ms(WholeMs(*interval));
  status.set_nodes(nodes);
  status.set_put_off(steering.put_off);
  return status;
}

}  // namespace cairn
