#include "daemon/policy/rhythm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cairn {
namespace {

using Seconds = std::chrono::duration<double>;

// A hundred years: no interval is longer, and any double below it is a time.
constexpr Seconds kLongest{100.0 * 365 * 86400};

CheckpointCosts::Duration Rounded(Seconds time) {
  return std::chrono::duration_cast<CheckpointCosts::Duration>(std::clamp(time, Seconds{0}, kLongest));
}

std::string SecondsText(CheckpointCosts::Duration time) {
  return fmt::format("{:.3g} s", Seconds(time).count());
}

// Of the launch's time once there is one more.
double SharePercent(const CheckpointCosts& costs, CheckpointCosts::Time now) {
  const double cost = Seconds(costs.total() + costs.mean()).count();
  const double elapsed = Seconds(now - costs.opened() + costs.mean()).count();
  return elapsed > 0 ? 100 * cost / elapsed : 100;
}

}  // namespace

void CheckpointCosts::Begun(DatasetId id, Time now) {
  if (id <= last_begun_) return;
  last_begun_ = id;
  last_begin_ = now;
}

void CheckpointCosts::HeldUp(DatasetId id, Duration time) {
  if (last_.size() == kLast && id < last_.begin()->first) return;
  const auto [at, first] = last_.try_emplace(id, Duration{0});
  if (first) ++measured_;
  if (time > at->second) {
    total_ += time - at->second;
    at->second = time;
  }
  if (last_.size() > kLast) last_.erase(last_.begin());
}

CheckpointCosts::Duration CheckpointCosts::mean() const {
  if (last_.empty()) return Duration{0};
  Duration sum{0};
  for (const auto& [id, cost] : last_) sum += cost;
  return sum / static_cast<std::int64_t>(last_.size());
}

CheckpointCosts::Duration BestInterval(CheckpointCosts::Duration cost, CheckpointCosts::Duration mtbf) {
  const double c = Seconds(cost).count(), m = Seconds(mtbf).count();
  if (c >= 2 * m) return Rounded(Seconds(m + c));
  const double half = c / (2 * m);
  return Rounded(Seconds(std::sqrt(2 * c * m) * (1 + std::sqrt(half) / 3 + half / 9)));
}

std::optional<CheckpointCosts::Duration> IntervalOf(const Rhythm& rhythm, const CheckpointCosts& costs,
                                                    std::uint32_t nodes) {
  std::optional<CheckpointCosts::Duration> interval;
  if (rhythm.interval.count() > 0) interval = Rounded(rhythm.interval);
  if (rhythm.mtbf.count() > 0 && costs.measured() > 0) {
    const auto best = BestInterval(costs.mean(), Rounded(Seconds(rhythm.mtbf) / std::max(nodes, 1u)));
    interval = std::min(interval.value_or(best), best);
  }
  return interval;
}

std::optional<std::string> WhyDue(const Rhythm& rhythm, const CheckpointCosts& costs, std::uint64_t number,
                                  CheckpointCosts::Time now, std::uint32_t nodes) {
  if (rhythm.every > 0 && number % rhythm.every == 0) return fmt::format("due at every call {}", rhythm.every);
  const bool by_cost = rhythm.overhead_percent > 0 || rhythm.mtbf.count() > 0;
  if (by_cost && costs.measured() == 0) return "due, to learn what a checkpoint costs";
  const CheckpointCosts::Duration since = now - costs.last_begin();
  if (const auto interval = IntervalOf(rhythm, costs, nodes); interval && since >= *interval) {
    return fmt::format("due after {}: {} since the last one began", SecondsText(*interval), SecondsText(since));
  }
  if (rhythm.overhead_percent > 0 && SharePercent(costs, now) < rhythm.overhead_percent) {
    return fmt::format("due while checkpoints cost less than {:.3g} % of the time", rhythm.overhead_percent);
  }
  return std::nullopt;
}

}  // namespace cairn
