#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <chrono>

#include "storage/base/check.h"
#include "storage/base/clock.h"
#include "storage/file/transfer/transfer.h"

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

std::uint64_t Throttle::Rate() const {
  if (urgent_ == 0 || when_urgent_ == 0) return limit_;
  return limit_ == 0 ? when_urgent_ : std::min(limit_, when_urgent_);
}

// What still has to go goes at the new rate.
void Throttle::RateChanged(std::uint64_t before) {
  const std::int64_t now = NowNs();
  const std::uint64_t rate = Rate();
  if (before == 0 || rate == 0 || rate == before || free_at_ns_ <= now) return;
  const double scale = static_cast<double>(before) / static_cast<double>(rate);
  free_at_ns_ = now + static_cast<std::int64_t>(std::min(static_cast<double>(free_at_ns_ - now) * scale, 1e18));
}

void Throttle::SetLimit(std::uint64_t bytes_per_s, std::uint64_t when_urgent) {
  const absl::MutexLock lock(&mutex_);
  const std::uint64_t before = Rate();
  limit_ = bytes_per_s;
  when_urgent_ = when_urgent;
  RateChanged(before);
}

void Throttle::UrgentBegan() {
  const absl::MutexLock lock(&mutex_);
  const std::uint64_t before = Rate();
  ++urgent_;
  RateChanged(before);
}

void Throttle::UrgentEnded() {
  const absl::MutexLock lock(&mutex_);
  const std::uint64_t before = Rate();
  CAIRN_CHECK(urgent_ > 0);
  --urgent_;
  RateChanged(before);
}

bool Throttle::Take(std::uint64_t bytes, const std::atomic<bool>& stop) {
  for (;;) {
    std::int64_t wait_ns = 0;
    {
      const absl::MutexLock lock(&mutex_);
      if (stop) return false;
      const std::uint64_t rate = Rate();
      if (rate == 0) return true;
      const std::int64_t now = NowNs();
      if (free_at_ns_ <= now) {
        free_at_ns_ = std::max(free_at_ns_, now - kLookNs) + Cost(bytes, rate);
        return true;
      }
      wait_ns = std::min(free_at_ns_ - now, kLookNs);
    }
    SleepFor(std::chrono::nanoseconds(wait_ns));
  }
}

bool TakeBandwidth(Throttle& throttle, std::uint64_t bytes, TransferProgress& progress) {
  ++progress.throttled;
  const bool taken = throttle.Take(bytes, progress.stop);
  --progress.throttled;
  return taken;
}

}  // namespace cairn
