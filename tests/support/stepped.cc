#include "tests/support/stepped.h"

#include <algorithm>

#include "storage/base/check.h"

namespace cairn {

bool Stepper::Step() {
  std::size_t all = 0;
  for (const Source* source : sources_) all += source->runnable();
  if (all == 0) return false;
  std::size_t chosen = Draw(all);
  for (Source* source : sources_) {
    const std::size_t runnable = source->runnable();
    if (chosen < runnable) {
      ++steps_;
      source->RunOne(chosen);
      return true;
    }
    chosen -= runnable;
  }
  return false;
}

void Stepper::Run(const std::function<bool()>& enough) {
  while (!enough() && Step()) {
  }
}

// --- The loop ---

SteppedLoop::~SteppedLoop() {
  Stop();
  stepper_.Remove(this);
}

void SteppedLoop::Post(std::function<void()> job) {
  if (!stopped_) jobs_.push_back(std::move(job));
}

Loop::TimerId SteppedLoop::After(std::chrono::milliseconds delay, std::function<void()> job) {
  if (!stopped_) timers_.emplace(std::pair(stepper_.now() + delay, ++last_timer_), std::move(job));
  return last_timer_;
}

void SteppedLoop::Cancel(TimerId id) {
  std::erase_if(timers_, [id](const auto& timer) { return timer.first.second == id; });
}

void SteppedLoop::Run(std::function<void()> job) {
  CAIRN_CHECK(!in_strand_);
  in_strand_ = true;
  job();
  in_strand_ = false;
}

void SteppedLoop::Stop() {
  stopped_ = true;
  while (!jobs_.empty() || !timers_.empty()) {
    std::exchange(jobs_, {}).clear();  // what goes with a job may post
    std::exchange(timers_, {}).clear();
  }
}

std::size_t SteppedLoop::runnable() const {
  if (paused_) return 0;
  return (jobs_.empty() ? 0 : 1) + (TimerDue() ? 1 : 0);
}

void SteppedLoop::RunOne(std::size_t which) {
  if (jobs_.empty() || which == 1) {
    auto timer = timers_.extract(timers_.begin());
    return Run(std::move(timer.mapped()));
  }
  std::function<void()> job = std::move(jobs_.front());
  jobs_.pop_front();
  Run(std::move(job));
}

// --- Pools ---

SteppedQueue::~SteppedQueue() {
  Drop();
  stepper_.Remove(this);
}

void SteppedQueue::Add(PoolJob job) {
  if (!dropped_) jobs_.push_back(std::move(job));
}

void SteppedQueue::Drop() {
  dropped_ = true;
  while (!jobs_.empty()) std::exchange(jobs_, {}).clear();
}

void SteppedQueue::RunOne(std::size_t which) {
  const auto at = jobs_.begin() + static_cast<std::ptrdiff_t>(which);
  PoolJob job = std::move(*at);
  jobs_.erase(at);
  job();
}

void SteppedWorkPool::Drop() {
  jobs_.Drop();
  waiting_.Drop();
}

}  // namespace cairn
