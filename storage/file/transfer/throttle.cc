#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <chrono>

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

void Throttle::SetLimit(std::uint64_t bytes_per_s) {
  const absl::MutexLock lock(&mutex_);
  // What still has to go goes at the new rate.
  const std::int64_t now = NowNs();
  if (bytes_per_s_ != 0 && bytes_per_s != 0 && free_at_ns_ > now) {
    const double scale = static_cast<double>(bytes_per_s_) / static_cast<double>(bytes_per_s);
    free_at_ns_ = now + static_cast<std::int64_t>(std::min(static_cast<double>(free_at_ns_ - now) * scale, 1e18));
  }
  bytes_per_s_ = bytes_per_s;
}

bool Throttle::Take(std::uint64_t bytes, const std::atomic<bool>& stop) {
  for (;;) {
    std::int64_t wait_ns = 0;
    {
      const absl::MutexLock lock(&mutex_);
      if (stop) return false;
      if (bytes_per_s_ == 0) return true;
      const std::int64_t now = NowNs();
      if (free_at_ns_ <= now) {
        free_at_ns_ = std::max(free_at_ns_, now - kLookNs) + Cost(bytes, bytes_per_s_);
        return true;
      }
      wait_ns = std::min(free_at_ns_ - now, kLookNs);
    }
    SleepFor(std::chrono::nanoseconds(wait_ns));
  }
}

bool TakeBandwidth(Throttle& throttle, std::uint64_t bytes, TransferProgress& progress) {
  progress.throttled = true;
  const bool taken = throttle.Take(bytes, progress.stop);
  progress.throttled = false;
  return taken;
}

}  // namespace cairn
