#include "daemon/core/loop.h"

#include <absl/cleanup/cleanup.h>
#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include "storage/base/caught.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

namespace asio = boost::asio;

using Job = std::function<void()>;

// A post wakes the thread once, and after its lock is free: the thread that wakes is mostly wanted on the same core,
// and would stop the one that posts only to wait for it.
class ThreadLoop : public Loop {
 public:
  ThreadLoop() : thread_([this] { RunJobs(); }) {}
  ~ThreadLoop() override {
    Stop();
    timers_.clear();
    while (true) {  // what a job holds may post when it goes
      const std::deque<Job> left = TakeAll();
      if (left.empty()) break;
    }
  }

  void Post(Job job) override {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    changed_.notify_one();
  }

  TimerId After(std::chrono::milliseconds delay, Job job) override {
    CAIRN_CHECK(InStrand());
    const Time due = Clock::now() + delay;
    timers_.emplace(++last_timer_, Timer{.due = due, .job = std::move(job)});
    next_timers_.emplace(due, last_timer_);
    return last_timer_;
  }

  void Cancel(TimerId id) override {
    CAIRN_CHECK(InStrand());
    const auto known = timers_.extract(id);
    if (known) next_timers_.erase({known.mapped().due, id});
  }

  void Run(Job job) override {
    CAIRN_CHECK(!InStrand());
    std::promise<void> ran;
    Post([&] {
      const auto tell = absl::MakeCleanup([&ran] { ran.set_value(); });
      job();
    });
    ran.get_future().wait();
  }
  bool InStrand() const override { return std::this_thread::get_id() == thread_.get_id(); }
  void Stop() override {
    CAIRN_CHECK(!InStrand());
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  struct Timer {
    Time due;
    Job job;
  };

  // Whatever throws fails its own step: what waits for it ends by its deadline, and the other runs go on.
  void RunJobs() {
    while (Job job = Next()) {
      const absl::Status status = Caught(job);
      if (!status.ok()) spdlog::error("a step of the core failed: {}", MessageOf(status));
    }
  }

  // Waits for one; null: stopped.
  Job Next() {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
      QueueDueTimers();
      if (!jobs_.empty()) {
        Job job = std::move(jobs_.front());
        jobs_.pop_front();
        return job;
      }
      next_timers_.empty() ? changed_.wait(lock) : void(changed_.wait_until(lock, next_timers_.begin()->first));
    }
    return nullptr;
  }

  // Behind what was posted before they were due. Under the lock.
  void QueueDueTimers() {
    if (next_timers_.empty()) return;
    const Time now = Clock::now();
    while (!next_timers_.empty() && next_timers_.begin()->first <= now) {
      jobs_.emplace_back([this, id = next_timers_.begin()->second] { RunTimer(id); });
      next_timers_.erase(next_timers_.begin());
    }
  }

  // Unless it was cancelled while it was in the queue.
  void RunTimer(TimerId id) {
    const auto timer = timers_.extract(id);
    if (timer) timer.mapped().job();
  }

  std::deque<Job> TakeAll() {
    const std::lock_guard lock(mutex_);
    return std::exchange(jobs_, {});
  }

  // Those of the standard library wait by the steady clock.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;  // these two under the lock
  bool stopped_ = false;
  // Of the thread:
  TimerId last_timer_ = 0;
  std::unordered_map<TimerId, Timer> timers_;       // that have neither run nor been cancelled
  std::set<std::pair<Time, TimerId>> next_timers_;  // of these, what is not in the queue yet
  std::thread thread_;
};

class ThreadPool : public BlockingPool {
 public:
  explicit ThreadPool(std::size_t threads) : pool_(threads) {}
  ~ThreadPool() override { pool_.join(); }
  void Post(std::function<void()> job) override {
    asio::post(pool_, [job = std::move(job)] {
      const absl::Status status = Caught(job);
      if (!status.ok()) spdlog::error("a job of the core failed: {}", MessageOf(status));
    });
  }

 private:
  asio::thread_pool pool_;
};

}  // namespace

std::unique_ptr<Loop> MakeThreadLoop() {
  return std::make_unique<ThreadLoop>();
}
std::unique_ptr<BlockingPool> MakeBlockingPool(std::size_t threads) {
  return std::make_unique<ThreadPool>(threads);
}

}  // namespace cairn
