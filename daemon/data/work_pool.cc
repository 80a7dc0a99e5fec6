#include "daemon/data/work_pool.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "storage/base/check.h"

namespace cairn {
namespace {

struct Shared {
  enum Kind { kOrdinary, kIdle, kWaiter, kKinds };
  struct Job {
    std::function<void()> run, rescue;
  };
  using Queue = std::deque<Job>;

  const std::size_t per_kind;

  std::mutex mutex;                                  // guards all that follows
  std::array<std::condition_variable, kKinds> work;  // for the threads of each kind
  std::condition_variable drained;
  Queue jobs;
  Queue waiting_jobs;
  std::list<std::function<void()>> rescues;  // of the jobs on idle threads
  std::size_t holds = 0;
  std::size_t running = 0;  // jobs of any kind: they may still post
  std::size_t waiters = 0;
  std::size_t waiters_free = 0;
  bool ended = false;
  std::vector<std::thread> threads;

  explicit Shared(std::size_t threads_of_each_kind) : per_kind(threads_of_each_kind) {}

  // Everything from here on: with the lock held.

  Queue& QueueOf(Kind kind) { return kind == kWaiter ? waiting_jobs : jobs; }

  bool MayTake(Kind kind) {
    if (QueueOf(kind).empty()) return false;
    return kind == kWaiter || (holds > 0) == (kind == kIdle);
  }

  bool Drained() const { return running == 0 && jobs.empty() && waiting_jobs.empty(); }

  void AddThread(Kind kind) {
    threads.emplace_back([this, kind] { Run(kind); });
  }

  void AddJob(Job job) {
    jobs.push_back(std::move(job));
    work[holds > 0 ? kIdle : kOrdinary].notify_one();
  }

  void BeginHold() {
    if (++holds == 1) work[kIdle].notify_all();
  }

  void EndHold() {
    if (--holds > 0) return;
    for (std::function<void()>& rescue : rescues) {
      if (rescue == nullptr) continue;
      jobs.push_front({std::move(rescue), nullptr});
      rescue = nullptr;
    }
    work[kOrdinary].notify_all();
  }

  // Takes a job and runs it, for which the lock is let go.
  void RunOne(Kind kind, std::unique_lock<std::mutex>& lock) {
    Job job = std::move(QueueOf(kind).front());
    QueueOf(kind).pop_front();
    ++running;
    const auto rescue = kind == kIdle ? rescues.insert(rescues.end(), std::move(job.rescue)) : rescues.end();
    lock.unlock();
    job.run();
    job = {};  // what it holds ends outside of the lock
    lock.lock();
    if (rescue != rescues.end()) {
      job.rescue = std::move(*rescue);
      rescues.erase(rescue);
      lock.unlock();
      job = {};
      lock.lock();
    }
    --running;
    if (Drained()) drained.notify_all();
  }

  // Takes the lock itself.
  void Run(Kind kind) {
    // A refusal leaves an ordinary thread, which is slower for the client but right.
    const sched_param no_priority{};
    if (kind == kIdle) sched_setscheduler(0, SCHED_IDLE, &no_priority);
    std::unique_lock lock(mutex);
    while (true) {
      waiters_free += kind == kWaiter ? 1 : 0;
      work[kind].wait(lock, [this, kind] { return ended || MayTake(kind); });
      waiters_free -= kind == kWaiter ? 1 : 0;
      if (!MayTake(kind)) return;
      RunOne(kind, lock);
    }
  }
};

class ThreadWorkPool final : public WorkPool {
 public:
  explicit ThreadWorkPool(std::size_t threads) : shared_(std::max<std::size_t>(threads, 1)) {
    const std::lock_guard lock(shared_.mutex);
    for (std::size_t i = 0; i < shared_.per_kind; ++i) {
      shared_.AddThread(Shared::kOrdinary);
      shared_.AddThread(Shared::kIdle);
    }
  }

  ~ThreadWorkPool() override {
    std::vector<std::thread> threads;
    {
      std::unique_lock lock(shared_.mutex);
      CAIRN_CHECK(shared_.holds == 0);
      shared_.drained.wait(lock, [this] { return shared_.Drained(); });
      shared_.ended = true;
      threads.swap(shared_.threads);
      for (std::condition_variable& work : shared_.work) work.notify_all();
    }
    for (std::thread& thread : threads) thread.join();
  }

  void Post(std::function<void()> job, std::function<void()> rescue) override {
    const std::lock_guard lock(shared_.mutex);
    shared_.AddJob({std::move(job), std::move(rescue)});
  }

  void PostWaiting(std::function<void()> job) override {
    const std::lock_guard lock(shared_.mutex);
    shared_.waiting_jobs.push_back({std::move(job), nullptr});
    if (shared_.waiting_jobs.size() > shared_.waiters_free && shared_.waiters < kWaitersMax) {
      ++shared_.waiters;
      shared_.AddThread(Shared::kWaiter);
    }
    shared_.work[Shared::kWaiter].notify_one();
  }

  std::size_t threads() const override { return shared_.per_kind; }

 private:
  void BeginHold() override {
    const std::lock_guard lock(shared_.mutex);
    shared_.BeginHold();
  }
  void EndHold() override {
    const std::lock_guard lock(shared_.mutex);
    shared_.EndHold();
  }

  Shared shared_;
};

}  // namespace

std::unique_ptr<WorkPool> MakeWorkPool(std::size_t threads) {
  return std::make_unique<ThreadWorkPool>(threads);
}

}  // namespace cairn
