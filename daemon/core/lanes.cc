#include "daemon/core/lanes.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <deque>
#include <list>
#include <system_error>
#include <thread>
#include <vector>

#include "storage/base/caught.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

class ThreadLanes final : public Lanes {
 public:
  ThreadLanes(std::size_t per_lane, std::size_t all, std::function<Time()> now, std::function<void()> on_thread)
      : per_lane_(per_lane), all_(all), now_(std::move(now)), on_thread_(std::move(on_thread)) {}

  ~ThreadLanes() override {
    std::vector<std::thread> threads;
    {
      const absl::MutexLock lock(&mutex_);
      ended_ = true;
      changed_.SignalAll();
      threads.swap(threads_);
    }
    for (std::thread& thread : threads) thread.join();
  }

  void Post(const std::string& lane, std::function<void()> job) override {
    const absl::MutexLock lock(&mutex_);
    lanes_[lane].jobs.push_back(std::move(job));
    // Those that were woken and have not yet taken a job count as idle.
    if (MayBegin() > idle_ && threads_.size() < all_) {
      AddThread();
    } else {
      changed_.Signal();
    }
  }

  std::map<std::string, Time> BusySince() const override {
    const absl::MutexLock lock(&mutex_);
    std::map<std::string, Time> since;
    for (const auto& [name, lane] : lanes_) {
      if (!lane.begun.empty()) since[name] = lane.begun.front();
    }
    return since;
  }

  std::set<std::string> AwaitIdle(std::chrono::milliseconds hangs_after) const override {
    constexpr auto kLookAgain = absl::Milliseconds(50);
    const absl::MutexLock lock(&mutex_);
    for (;;) {
      std::set<std::string> hung;
      std::size_t running = 0;
      bool going_on = false, waiting = false;
      for (const auto& [name, lane] : lanes_) {
        running += lane.begun.size();
        if (lane.begun.empty()) {
          waiting = true;
        } else if (now_() < lane.begun.front() + hangs_after) {
          going_on = true;
        } else {
          hung.insert(name);
        }
      }
      const bool may_begin = waiting && running < threads_.size();
      if (!going_on && !may_begin) return hung;
      job_ended_.WaitWithTimeout(&mutex_, kLookAgain);
    }
  }

 private:
  // None to be had: the job waits for one of those that there are, or for the next Post.
  void AddThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    try {
      threads_.emplace_back([this] { Work(); });
    } catch (const std::system_error& e) {
      spdlog::error("no further thread for what waits for a file system: {}", e.what());
    }
  }

  struct Lane {
    std::deque<std::function<void()>> jobs;
    std::list<Time> begun;  // of those that run, the oldest first
  };
  using LaneMap = std::map<std::string, Lane>;

  // How many jobs could begin now if there were threads for them.
  std::size_t MayBegin() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::size_t count = 0;
    for (const auto& [name, lane] : lanes_) count += std::min(lane.jobs.size(), per_lane_ - lane.begun.size());
    return count;
  }

  // The next lane in turn that may go on: none has to wait until another one has nothing to do any more.
  LaneMap::iterator Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto may = [this](const auto& item) {
      return !item.second.jobs.empty() && item.second.begun.size() < per_lane_;
    };
    const auto after = lanes_.upper_bound(last_);
    const auto found = std::find_if(after, lanes_.end(), may);
    return found != lanes_.end() ? found : std::find_if(lanes_.begin(), lanes_.end(), may);
  }

  void Work() {
    if (on_thread_) on_thread_();
    const absl::MutexLock lock(&mutex_);
    for (;;) {
      auto lane = Next();
      while (lane == lanes_.end() && !ended_) {
        ++idle_;
        changed_.Wait(&mutex_);
        --idle_;
        lane = Next();
      }
      if (lane == lanes_.end()) return;
      last_ = lane->first;
      RunOne(lane);
    }
  }

  // The lock is let go of meanwhile.
  void RunOne(LaneMap::iterator lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::function<void()> job = std::move(lane->second.jobs.front());
    lane->second.jobs.pop_front();
    const auto begun = lane->second.begun.insert(lane->second.begun.end(), now_());
    mutex_.Unlock();
    const absl::Status status = Caught(job);
    if (!status.ok()) spdlog::error("{}: a job failed: {}", lane->first, MessageOf(status));
    job = nullptr;  // what it holds ends outside of the lock
    mutex_.Lock();
    lane->second.begun.erase(begun);
    job_ended_.SignalAll();
    if (lane->second.begun.empty() && lane->second.jobs.empty()) {
      lanes_.erase(lane);
    } else {
      changed_.Signal();  // its next job may begin, on an idle thread, if this one takes another lane's
    }
  }

  const std::size_t per_lane_, all_;
  const std::function<Time()> now_;
  const std::function<void()> on_thread_;
  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  mutable absl::CondVar job_ended_;        // for AwaitIdle
  LaneMap lanes_ ABSL_GUARDED_BY(mutex_);  // those that have jobs
  std::string last_ ABSL_GUARDED_BY(mutex_);
  std::size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Lanes> MakeLanes(std::size_t per_lane, std::size_t all, std::function<Lanes::Time()> now,
                                 std::function<void()> on_thread) {
  return std::make_unique<ThreadLanes>(per_lane, all, std::move(now), std::move(on_thread));
}

}  // namespace cairn
