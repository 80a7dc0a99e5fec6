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
void Throttle::SetLimit(std::uint64_t bytes_per_s) {
  const absl::MutexLock lock(&mutex_);
  const std::uint64_t before = std::exchange(limit_, bytes_per_s);
  const std::int64_t now = NowNs();
  if (before == 0 || limit_ == 0 || limit_ == before || free_at_ns_ <= now) return;
  const double scale = static_cast<double>(before) / static_cast<double>(limit_);
  free_at_ns_ = now + static_cast<std::int64_t>(std::min(static_cast<double>(free_at_ns_ - now) * scale, 1e18));
}

bool Throttle::Take(std::uint64_t bytes, const std::atomic<bool>& stop, const std::atomic<bool>* waited_for) {
  if (!TakeHere(bytes, stop, nullptr)) return false;
  return background_ == nullptr || background_->bucket_.TakeHere(bytes, stop, waited_for);
}

bool Throttle::TakeHere(std::uint64_t bytes, const std::atomic<bool>& stop, const std::atomic<bool>* skip) {
  for (;;) {
    std::int64_t wait_ns = 0;
    {
      const absl::MutexLock lock(&mutex_);
      if (stop) return false;
      if (limit_ == 0 || (skip != nullptr && *skip)) return true;
      const std::int64_t now = NowNs();
      if (free_at_ns_ <= now) {
        free_at_ns_ = std::max(free_at_ns_, now - kLookNs) + Cost(bytes, limit_);
        return true;
      }
      wait_ns = std::min(free_at_ns_ - now, kLookNs);
    }
    SleepFor(std::chrono::nanoseconds(wait_ns));
  }
}

void BackgroundBudget::SetLimit(std::uint64_t bytes_per_s) {
  const absl::MutexLock lock(&mutex_);
  limit_ = bytes_per_s;
  Apply();
}

void BackgroundBudget::UrgentBegan() {
  const absl::MutexLock lock(&mutex_);
  ++urgent_;
  Apply();
}

void BackgroundBudget::UrgentEnded() {
  const absl::MutexLock lock(&mutex_);
  CAIRN_CHECK(urgent_ > 0);
  --urgent_;
  Apply();
}

}  // namespace cairn
