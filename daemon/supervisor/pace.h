// When may a worker be started? Pure rules; the caller tells the time. One thread at a time.
#ifndef CAIRN_DAEMON_SUPERVISOR_PACE_H_
#define CAIRN_DAEMON_SUPERVISOR_PACE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace cairn {

using SteadyTime = std::chrono::steady_clock::time_point;

// Of one user: after a worker that ended without being asked to, the next one waits `least`, after each further one
// twice as long, `most` at the longest. One that has lived for `most` makes the pause the shortest again.
class BackOff {
 public:
  BackOff(std::chrono::milliseconds least, std::chrono::milliseconds most) : least_(least), most_(most) {}

  void Lost(SteadyTime started, SteadyTime now) {
    pause_ = now - started >= most_ || pause_ == pause_.zero() ? least_ : std::min(2 * pause_, most_);
    until_ = now + pause_;
  }
  SteadyTime until() const { return until_; }  // the next may start from then on
  // Nothing that counts is remembered any more.
  bool Forgotten(SteadyTime now) const { return pause_ == pause_.zero() || now - until_ >= most_; }

 private:
  std::chrono::milliseconds least_, most_, pause_{0};
  SteadyTime until_{};
};

// Of all users together: `burst` at once, and one more each `every`.
class StartRate {
 public:
  StartRate(std::uint32_t burst, std::chrono::milliseconds every) : burst_(burst), every_(every) {}

  // True: one may start, and counts.
  bool Take(SteadyTime now) {
    const SteadyTime earliest = now - every_ * burst_;
    if (spent_until_ < earliest) spent_until_ = earliest;
    if (spent_until_ + every_ > now) return false;
    spent_until_ += every_;
    return true;
  }

 private:
  std::uint32_t burst_;
  std::chrono::milliseconds every_;
  SteadyTime spent_until_{};
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_SUPERVISOR_PACE_H_
