#include "storage/file/transfer/throttle.h"

#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/clock.h"

namespace cairn {
namespace {

constexpr std::int64_t kLookNs = 50'000'000;  // how often `stop` is looked at, and how much idle time counts as saved

std::int64_t NowNs() {
  const auto now = SteadyNow().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// Bounded, so that a huge request at a tiny rate cannot overflow: 30 years.
std::int64_t Cost(std::uint64_t bytes, std::uint64_t bytes_per_s) {
  const double ns = static_cast<double>(bytes) * 1e9 / static_cast<double>(bytes_per_s);
  return static_cast<std::int64_t>(std::min(ns, 1e18));
}

}  // namespace

// What still has to go goes at the new rate.
void TokenBucket::GoAt(std::uint64_t bytes_per_s, std::int64_t now_ns) {
  const std::uint64_t before = std::exchange(rate_, bytes_per_s);
  if (before == 0 || before == rate_ || free_at_ns_ <= now_ns) return;
  const double scale = static_cast<double>(before) / static_cast<double>(rate_);
  const double left_ns = static_cast<double>(free_at_ns_ - now_ns) * scale;
  free_at_ns_ = now_ns + static_cast<std::int64_t>(std::min(left_ns, 1e18));
}

bool TokenBucket::Take(std::uint64_t bytes, const Limit& limit, const std::atomic<bool>& stop,
                       const std::atomic<bool>* skip) {
  for (;;) {
    if (stop) return false;
    const std::uint64_t rate = limit();
    if (rate == 0 || (skip != nullptr && *skip)) return true;
    std::int64_t wait_ns = 0;
    {
      const absl::MutexLock lock(&mutex_);
      const std::int64_t now = NowNs();
      GoAt(rate, now);
      if (free_at_ns_ <= now) {
        free_at_ns_ = std::max(free_at_ns_, now - kLookNs) + Cost(bytes, rate);
        return true;
      }
      wait_ns = std::min(free_at_ns_ - now, kLookNs);
    }
    SleepFor(std::chrono::nanoseconds(wait_ns));
  }
}

void BackgroundBudget::UrgentEnded() {
  CAIRN_CHECK(urgent_ > 0);
  --urgent_;
}

bool BackgroundBudget::Take(std::uint64_t bytes, const std::atomic<bool>& stop, const std::atomic<bool>* waited_for) {
  return bucket_.Take(
      bytes, [this] { return urgent_ > 0 ? limit_.load() : 0; }, stop, waited_for);
}

bool Throttle::Take(std::uint64_t bytes, const std::atomic<bool>& stop, const std::atomic<bool>* waited_for) {
  const bool taken = bucket_.Take(
      bytes, [this] { return limit_.load(); }, stop, nullptr);
  return taken && (background_ == nullptr || background_->Take(bytes, stop, waited_for));
}

bool Throttle::TakeToCompare(std::uint64_t bytes, const std::atomic<bool>& stop, const std::atomic<bool>* waited_for) {
  return background_ == nullptr || background_->Take(bytes, stop, waited_for);
}

}  // namespace cairn
