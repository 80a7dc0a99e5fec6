// The time as storage reads it: for records, and for waits that end.
#ifndef CAIRN_STORAGE_BASE_CLOCK_H_
#define CAIRN_STORAGE_BASE_CLOCK_H_

#include <chrono>
#include <cstdint>
#include <functional>

namespace cairn {

std::chrono::system_clock::time_point WallNow();
std::int64_t NowMicros();  // WallNow since the epoch, as records have it
std::chrono::steady_clock::time_point SteadyNow();
void SleepFor(std::chrono::nanoseconds time);

// While one lives, the functions above tell and pass this time on this thread. For simulations, which run all there is
// on one thread and must come to the same again; never in a program. The innermost one counts.
class ScopedClock {
 public:
  struct Source {
    std::function<std::chrono::system_clock::time_point()> wall;
    std::function<std::chrono::steady_clock::time_point()> steady;
    std::function<void(std::chrono::nanoseconds)> sleep;  // turns both
  };
  explicit ScopedClock(Source source);
  ~ScopedClock();
  ScopedClock(const ScopedClock&) = delete;
  ScopedClock& operator=(const ScopedClock&) = delete;
  const Source& source() const { return source_; }

 private:
  const Source source_;
  ScopedClock* const outer_;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_CLOCK_H_
