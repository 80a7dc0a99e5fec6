#include "storage/base/clock.h"

#include <thread>
#include <utility>

#include "storage/base/check.h"

namespace cairn {
namespace {

thread_local ScopedClock* simulated_clock = nullptr;

}  // namespace

std::chrono::system_clock::time_point WallNow() {
  return simulated_clock != nullptr ? simulated_clock->source().wall() : std::chrono::system_clock::now();
}

std::int64_t NowMicros() {
  return std::chrono::duration_cast<std::chrono::microseconds>(WallNow().time_since_epoch()).count();
}

std::chrono::steady_clock::time_point SteadyNow() {
  return simulated_clock != nullptr ? simulated_clock->source().steady() : std::chrono::steady_clock::now();
}

void SleepFor(std::chrono::nanoseconds time) {
  if (simulated_clock != nullptr) return simulated_clock->source().sleep(time);
  std::this_thread::sleep_for(time);
}

ScopedClock::ScopedClock(Source source) : source_(std::move(source)), outer_(std::exchange(simulated_clock, this)) {}

ScopedClock::~ScopedClock() {
  CAIRN_CHECK(simulated_clock == this);
  simulated_clock = outer_;
}

}  // namespace cairn
