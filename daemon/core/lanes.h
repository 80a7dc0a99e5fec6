// Threads for work on file systems that may hang: each file system has a lane of its own, here each prefix, by its
// path. One that hangs takes the threads of its lane and no others'; what else is posted there waits, and all other
// lanes go on.
#ifndef CAIRN_DAEMON_CORE_LANES_H_
#define CAIRN_DAEMON_CORE_LANES_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "daemon/core/loop.h"

namespace cairn {

// A job that has run for so long hangs with its file system, as far as anybody can tell.
inline constexpr std::chrono::seconds kHangsAfter{5};

// Any thread. The destructor runs what was posted: whoever may not wait for a file system that hangs asks AwaitIdle
// before, and lets these live on if there is one.
class Lanes {
 public:
  using Time = std::chrono::steady_clock::time_point;

  virtual ~Lanes() = default;
  // Jobs of one lane begin in the order in which they were posted.
  virtual void Post(const std::string& lane, std::function<void()> job) = 0;
  // Of each lane in which a job runs: when the oldest of these began.
  virtual std::map<std::string, Time> BusySince() const = 0;
  // Waits until each lane either has nothing to do or hangs: one of its jobs has run for `hangs_after`. Which ones
  // hang.
  virtual std::set<std::string> AwaitIdle(std::chrono::milliseconds hangs_after) const = 0;
};

// At most `per_lane` threads work in a lane, `all` in all; they are made when they are needed. `now`, on any thread,
// says when a job began. Each thread begins with `on_thread`; null: with nothing. REQUIRES: both numbers at least 1.
std::unique_ptr<Lanes> MakeLanes(std::size_t per_lane, std::size_t all,
                                 std::function<Lanes::Time()> now = std::chrono::steady_clock::now,
                                 std::function<void()> on_thread = nullptr);

// Runs `work` in the lane and hands its result to `then` on the strand, as RunBlocking of a pool.
template <typename Work, typename Then>
void RunBlocking(Lanes& lanes, const std::string& lane, Loop& loop, Work work, Then then) {
  lanes.Post(lane, ThenOnStrand(loop, std::move(work), std::move(then)));
}

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_LANES_H_
