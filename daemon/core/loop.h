// The core's strand and its pools: one thread that owns all control state, and threads for work that blocks.
#ifndef CAIRN_DAEMON_CORE_LOOP_H_
#define CAIRN_DAEMON_CORE_LOOP_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "storage/base/caught.h"

namespace cairn {

// The strand. Post from any thread; everything posted runs on one thread, in order, never inside the call. It tells no
// time: its timers go by the steady clock that is in use (environment.h).
class Loop {
 public:
  virtual ~Loop() = default;
  virtual void Post(std::function<void()> job) = 0;
  // Runs `job` on the strand once, `delay` from now, unless cancelled before. Strand only.
  using TimerId = std::uint64_t;
  virtual TimerId After(std::chrono::milliseconds delay, std::function<void()> job) = 0;
  virtual void Cancel(TimerId id) = 0;  // unknown or run already: nothing happens
  // Runs `job` on the strand and returns when it has run. REQUIRES: not on the strand, not stopped.
  virtual void Run(std::function<void()> job) = 0;
  virtual bool InStrand() const = 0;
  // Ends the strand after what it is running now: what has not run, or is posted later, never will. Not on the strand.
  virtual void Stop() = 0;
};

// The real one, on a thread of its own; the destructor stops it and drops what has not run.
std::unique_ptr<Loop> MakeThreadLoop();

// A bounded number of threads for blocking work. The destructor runs what was posted, then ends them.
class BlockingPool {
 public:
  virtual ~BlockingPool() = default;
  virtual void Post(std::function<void()> job) = 0;
};
std::unique_ptr<BlockingPool> MakeBlockingPool(std::size_t threads);

// Runs `work` on the pool and hands its result to `then` on the strand. What throws there is a result that has failed
// (storage/base/caught.h).
template <typename Work, typename Then>
auto ThenOnStrand(Loop& loop, Work work, Then then) {
  return [&loop, work = std::move(work), then = std::move(then)]() mutable {
    // A function object must be copyable: results such as unique_ptr travel in a shared one.
    auto result = std::make_shared<decltype(work())>(Caught(work));
    loop.Post([result, then = std::move(then)]() mutable { then(std::move(*result)); });
  };
}
template <typename Work, typename Then>
void RunBlocking(BlockingPool& pool, Loop& loop, Work work, Then then) {
  pool.Post(ThenOnStrand(loop, std::move(work), std::move(then)));
}

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_LOOP_H_
