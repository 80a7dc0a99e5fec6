#include "storage/base/clock.h"

#include <thread>
#include <utility>

#include "storage/base/check.h"

namespace cairn {
namespace {

thread_local ScopedClock* simulated = nullptr;

}  // namespace

std::chrono::system_clock::time_point WallNow() {
  return simulated != nullptr ? simulated->source().wall() : std::chrono::system_clock::now();
}

std::int64_t NowMicros() {
  return std::chrono::duration_cast<std::chrono::microseconds>(WallNow().time_since_epoch()).count();
}

std::chrono::steady_clock::time_point SteadyNow() {
  return simulated != nullptr ? simulated->source().steady() : std::chrono::steady_clock::now();
}

void SleepFor(std::chrono::nanoseconds time) {
  if (simulated != nullptr) return simulated->source().sleep(time);
  std::this_thread::sleep_for(time);
}

ScopedClock::ScopedClock(Source source) : source_(std::move(source)), outer_(std::exchange(simulated, this)) {}

ScopedClock::~ScopedClock() {
  CAIRN_CHECK(simulated == this);
  simulated = outer_;
}

}  // namespace cairn
