// A loop and pools on one thread. Nothing runs until somebody steps; then one job runs at a time, and which of those
// that could be next is drawn from a seed: the same seed, the same order. The clock stands still until it is turned.
//
// What it can do that threads do, too: jobs of a pool overtake each other, as many as the pool has threads; results
// come late; timers are late. What it cannot: run two jobs at once. All of it can be dropped in mid-air, as if the
// process had been killed.
#ifndef CAIRN_TESTS_SUPPORT_STEPPED_H_
#define CAIRN_TESTS_SUPPORT_STEPPED_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/lanes.h"
#include "daemon/core/loop.h"
#include "daemon/data/work_pool.h"

namespace cairn {

// Chooses who runs next, and has the clock.
class Stepper {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Something that has jobs.
  class Source {
   public:
    virtual ~Source() = default;
    virtual std::size_t runnable() const = 0;
    virtual void RunOne(std::size_t which) = 0;  // REQUIRES: which < runnable()
  };

  explicit Stepper(std::uint64_t seed) : random_(seed) {}
  Stepper(const Stepper&) = delete;

  void Add(Source* source) { sources_.push_back(source); }  // borrowed
  void Remove(Source* source) { std::erase(sources_, source); }

  // Runs one job. False: there is none.
  bool Step();
  // Until there is none, or `enough`.
  void Run(const std::function<bool()>& enough = [] { return false; });

  Time now() const { return now_; }
  void Turn(std::chrono::nanoseconds by) { now_ += by; }
  std::uint64_t Draw(std::uint64_t below) { return random_() % below; }  // REQUIRES: below > 0
  std::uint64_t steps() const { return steps_; }

 private:
  std::mt19937_64 random_;
  std::vector<Source*> sources_;
  Time now_{std::chrono::hours(1)};
  std::uint64_t steps_ = 0;
};

class SteppedLoop final : public Loop, private Stepper::Source {
 public:
  explicit SteppedLoop(Stepper& stepper) : stepper_(stepper) { stepper_.Add(this); }
  ~SteppedLoop() override;

  void Post(std::function<void()> job) override;
  TimerId After(std::chrono::milliseconds delay, std::function<void()> job) override;
  void Cancel(TimerId id) override;
  void Run(std::function<void()> job) override;
  bool InStrand() const override { return in_strand_; }
  void Stop() override;  // lets go of what has not run, and from now on of what is posted

  // Nothing runs while it is paused, as if the process stood still.
  void Pause(bool paused) { paused_ = paused; }

  bool has_timer() const { return !timers_.empty(); }
  Stepper::Time next_timer() const { return timers_.begin()->first.first; }  // REQUIRES: has_timer()

 private:
  std::size_t runnable() const override;
  void RunOne(std::size_t which) override;
  bool TimerDue() const { return has_timer() && next_timer() <= stepper_.now(); }

  Stepper& stepper_;
  std::deque<std::function<void()>> jobs_;
  std::map<std::pair<Stepper::Time, TimerId>, std::function<void()>> timers_;
  TimerId last_timer_ = 0;
  bool in_strand_ = false;
  bool stopped_ = false;
  bool paused_ = false;
};

// Jobs in the order in which they were posted, of which the first `threads` may be run.
class SteppedQueue final : public Stepper::Source {
 public:
  SteppedQueue(Stepper& stepper, std::size_t threads) : stepper_(stepper), threads_(threads) { stepper_.Add(this); }
  ~SteppedQueue() override;

  void Add(PoolJob job);
  void Drop();  // lets go of what has not run, and from now on of what is added
  std::size_t threads() const { return threads_; }

 private:
  std::size_t runnable() const override { return std::min(threads_, jobs_.size()); }
  void RunOne(std::size_t which) override;

  Stepper& stepper_;
  const std::size_t threads_;
  std::deque<PoolJob> jobs_;
  bool dropped_ = false;
};

class SteppedBlockingPool final : public BlockingPool {
 public:
  SteppedBlockingPool(Stepper& stepper, std::size_t threads) : queue_(stepper, threads) {}
  void Post(std::function<void()> job) override { queue_.Add(std::move(job)); }
  void Drop() { queue_.Drop(); }

 private:
  SteppedQueue queue_;
};

// All lanes are one queue here: nothing hangs but the one of which a test says so.
class SteppedLanes final : public Lanes {
 public:
  SteppedLanes(Stepper& stepper, std::size_t threads) : queue_(stepper, threads) {}
  void Post(const std::string& lane, std::function<void()> job) override {
    if (hangs_.contains(lane)) return held_.push_back(std::move(job));
    queue_.Add(std::move(job));
  }
  // What is posted to it from now on waits. Empty: none hangs any more, and what has waited goes on.
  void Hang(const std::string& lane) {
    hangs_.clear();
    if (!lane.empty()) HangToo(lane);
    for (std::function<void()>& job : std::exchange(held_, {})) queue_.Add(std::move(job));
  }
  void HangToo(const std::string& lane) { hangs_.insert(lane); }  // besides those that hang
  std::map<std::string, Time> BusySince() const override { return {}; }
  std::set<std::string> AwaitIdle(std::chrono::milliseconds) const override { return {}; }
  void Drop() {
    std::exchange(held_, {}).clear();
    queue_.Drop();
  }

 private:
  SteppedQueue queue_;
  std::set<std::string> hangs_;
  std::vector<std::function<void()>> held_;
};

class SteppedWorkPool final : public WorkPool {
 public:
  SteppedWorkPool(Stepper& stepper, std::size_t threads) : jobs_(stepper, threads), waiting_(stepper, kWaitersMax) {}
  void Post(PoolJob job) override { jobs_.Add(std::move(job)); }
  void PostWaiting(PoolJob job) override { waiting_.Add(std::move(job)); }
  std::size_t threads() const override { return jobs_.threads(); }
  // Nobody else would go on.
  void GiveWayToClients(const std::atomic<bool>& /*hurry*/, std::chrono::milliseconds& /*patience*/) override {}
  void Drop();
  std::size_t holds() const { return holds_; }

 private:
  std::uint64_t BeginHold() override { return ++holds_; }
  void EndHold(std::uint64_t /*number*/) override { --holds_; }

  SteppedQueue jobs_, waiting_;
  std::size_t holds_ = 0;
};

// What a core runs on, for one of its lives.
struct SteppedParts {
  SteppedParts(Stepper& stepper, std::size_t flushes)
      : loop(stepper),
        work(stepper, 2),
        cache(stepper, 4),
        images(stepper, 2),
        prefix(stepper, 4),
        flush(stepper, flushes),
        growing(stepper, 2),
        far(stepper, 4) {}

  void Drop() {
    loop.Stop();
    work.Drop();
    cache.Drop();
    images.Drop();
    prefix.Drop();
    flush.Drop();
    growing.Drop();
    far.Drop();
  }

  SteppedLoop loop;
  SteppedWorkPool work;
  SteppedBlockingPool cache, images;
  SteppedLanes prefix, flush, growing, far;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_SUPPORT_STEPPED_H_
