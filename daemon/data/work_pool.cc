#include "daemon/data/work_pool.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>
#include <sched.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <deque>
#include <list>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "storage/base/caught.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

struct Shared {
  enum Kind { kOrdinary, kIdle, kWaiter, kKinds };
  struct Job {
    std::function<void()> run, rescue;
  };
  using Queue = std::deque<Job>;

  const std::size_t per_kind;

  absl::Mutex mutex;
  std::array<absl::CondVar, kKinds> work;  // for the threads of each kind
  absl::CondVar drained;
  absl::CondVar no_holds;
  Queue jobs ABSL_GUARDED_BY(mutex);
  Queue waiting_jobs ABSL_GUARDED_BY(mutex);
  std::list<std::function<void()>> rescues ABSL_GUARDED_BY(mutex);  // of the jobs on idle threads
  std::size_t holds ABSL_GUARDED_BY(mutex) = 0;
  std::size_t running ABSL_GUARDED_BY(mutex) = 0;  // jobs of any kind: they may still post
  std::size_t waiters ABSL_GUARDED_BY(mutex) = 0;
  std::size_t waiters_free ABSL_GUARDED_BY(mutex) = 0;
  bool ended ABSL_GUARDED_BY(mutex) = false;
  std::vector<std::thread> threads ABSL_GUARDED_BY(mutex);

  explicit Shared(std::size_t threads_of_each_kind) : per_kind(threads_of_each_kind) {}

  Queue& QueueOf(Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return kind == kWaiter ? waiting_jobs : jobs; }

  bool MayTake(Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (QueueOf(kind).empty()) return false;
    return kind == kWaiter || (holds > 0) == (kind == kIdle);
  }

  bool Drained() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return running == 0 && jobs.empty() && waiting_jobs.empty();
  }

  void AddThread(Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    threads.emplace_back([this, kind] { Run(kind); });
  }

  // No further thread to be had: those that there are do it. Without any the job keeps a core from hashing.
  void AddWaiter() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    try {
      AddThread(kWaiter);
      ++waiters;
    } catch (const std::system_error& e) {
      spdlog::warn("no further thread: {}", e.what());
      if (waiters > 0) return;
      for (; !waiting_jobs.empty(); waiting_jobs.pop_front()) AddJob(std::move(waiting_jobs.front()));
    }
  }

  void AddJob(Job job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    jobs.push_back(std::move(job));
    work[holds > 0 ? kIdle : kOrdinary].Signal();
  }

  void BeginHold() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (++holds == 1) work[kIdle].SignalAll();
  }

  void EndHold() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (--holds > 0) return;
    no_holds.SignalAll();
    for (std::function<void()>& rescue : rescues) {
      if (rescue == nullptr) continue;
      jobs.push_front({std::move(rescue), nullptr});
      rescue = nullptr;
    }
    work[kOrdinary].SignalAll();
  }

  // Takes a job and runs it, for which the lock is let go.
  void RunOne(Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    Job job = std::move(QueueOf(kind).front());
    QueueOf(kind).pop_front();
    ++running;
    const auto rescue = kind == kIdle ? rescues.insert(rescues.end(), std::move(job.rescue)) : rescues.end();
    mutex.Unlock();
    const absl::Status ran = Caught(job.run);
    if (!ran.ok()) spdlog::error("a job of a pool failed: {}", MessageOf(ran));
    job = {};  // what it holds ends outside of the lock
    mutex.Lock();
    if (rescue != rescues.end()) {
      job.rescue = std::move(*rescue);
      rescues.erase(rescue);
      mutex.Unlock();
      job = {};
      mutex.Lock();
    }
    --running;
    if (Drained()) drained.SignalAll();
  }

  void Run(Kind kind) ABSL_LOCKS_EXCLUDED(mutex) {
    // A refusal leaves an ordinary thread, which is slower for the client but right.
    const sched_param no_priority{};
    if (kind == kIdle) sched_setscheduler(0, SCHED_IDLE, &no_priority);
    const absl::MutexLock lock(&mutex);
    while (true) {
      waiters_free += kind == kWaiter ? 1 : 0;
      while (!ended && !MayTake(kind)) work[kind].Wait(&mutex);
      waiters_free -= kind == kWaiter ? 1 : 0;
      if (!MayTake(kind)) return;
      RunOne(kind);
    }
  }
};

class ThreadWorkPool final : public WorkPool {
 public:
  explicit ThreadWorkPool(std::size_t threads) : shared_(std::max<std::size_t>(threads, 1)) {
    const absl::MutexLock lock(&shared_.mutex);
    for (std::size_t i = 0; i < shared_.per_kind; ++i) {
      shared_.AddThread(Shared::kOrdinary);
      shared_.AddThread(Shared::kIdle);
    }
  }

  ~ThreadWorkPool() override {
    std::vector<std::thread> threads;
    {
      const absl::MutexLock lock(&shared_.mutex);
      CAIRN_CHECK(shared_.holds == 0);
      while (!shared_.Drained()) shared_.drained.Wait(&shared_.mutex);
      shared_.ended = true;
      threads.swap(shared_.threads);
      for (absl::CondVar& work : shared_.work) work.SignalAll();
    }
    for (std::thread& thread : threads) thread.join();
  }

  void Post(std::function<void()> job, std::function<void()> rescue) override {
    const absl::MutexLock lock(&shared_.mutex);
    shared_.AddJob({std::move(job), std::move(rescue)});
  }

  void PostWaiting(std::function<void()> job) override {
    const absl::MutexLock lock(&shared_.mutex);
    shared_.waiting_jobs.push_back({std::move(job), nullptr});
    if (shared_.waiting_jobs.size() > shared_.waiters_free && shared_.waiters < kWaitersMax) shared_.AddWaiter();
    shared_.work[Shared::kWaiter].Signal();
  }

  std::size_t threads() const override { return shared_.per_kind; }

  void GiveWayToClients(const std::atomic<bool>& hurry, std::chrono::milliseconds& patience) override {
    constexpr std::chrono::milliseconds kRound(10);
    const absl::MutexLock lock(&shared_.mutex);
    for (; shared_.holds > 0 && !hurry && patience.count() > 0; patience -= kRound) {
      shared_.no_holds.WaitWithTimeout(&shared_.mutex, absl::FromChrono(kRound));
    }
  }

 private:
  void BeginHold() override {
    const absl::MutexLock lock(&shared_.mutex);
    shared_.BeginHold();
  }
  void EndHold() override {
    const absl::MutexLock lock(&shared_.mutex);
    shared_.EndHold();
  }

  Shared shared_;
};

}  // namespace

std::unique_ptr<WorkPool> MakeWorkPool(std::size_t threads) {
  return std::make_unique<ThreadWorkPool>(threads);
}

}  // namespace cairn
