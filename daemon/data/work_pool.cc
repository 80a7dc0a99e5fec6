#include "daemon/data/work_pool.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>
#include <sched.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "storage/base/caught.h"
#include "storage/base/check.h"
#include "storage/base/fifo.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

using Clock = std::chrono::steady_clock;

// A cpuset has fewer than the machine. More than cpu_set_t can say (1024): all of the machine.
std::size_t CoresOfThisProcess() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return static_cast<std::size_t>(CPU_COUNT(&cores));
  return std::thread::hardware_concurrency();
}

struct Shared {
  enum Kind { kWorker, kWaiter, kKinds };
  struct Job {
    PoolJob run;
    Clock::time_point posted = Clock::now();
  };
  using Queue = Fifo<Job>;

  const std::size_t workers;
  const std::size_t cores;

  absl::Mutex mutex;
  std::array<absl::CondVar, kKinds> work;  // for the threads of each kind
  absl::CondVar drained;
  absl::CondVar no_holds;
  Queue jobs ABSL_GUARDED_BY(mutex);
  Queue waiting_jobs ABSL_GUARDED_BY(mutex);
  std::map<std::uint64_t, Clock::time_point> holds ABSL_GUARDED_BY(mutex);  // by number: when each began
  std::uint64_t last_hold ABSL_GUARDED_BY(mutex) = 0;
  std::size_t working ABSL_GUARDED_BY(mutex) = 0;  // jobs that run on workers
  std::size_t running ABSL_GUARDED_BY(mutex) = 0;  // jobs of any kind: they may still post
  std::size_t waiters ABSL_GUARDED_BY(mutex) = 0;
  std::size_t waiters_free ABSL_GUARDED_BY(mutex) = 0;
  bool ended ABSL_GUARDED_BY(mutex) = false;
  std::vector<std::thread> threads ABSL_GUARDED_BY(mutex);

  Shared(std::size_t workers_at_all, std::size_t cores_at_all) : workers(workers_at_all), cores(cores_at_all) {}

  Queue& QueueOf(Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return kind == kWaiter ? waiting_jobs : jobs; }

  // Until when no worker may begin the next job; none: it may, or there is none.
  std::optional<Clock::time_point> HeldBackUntil() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (jobs.empty() || working + holds.size() < cores) return std::nullopt;
    const Clock::time_point now = Clock::now();
    const Clock::time_point at_most = jobs.front().posted + WorkPool::kHoldsBackFor;
    std::size_t taken = working;
    for (auto hold = holds.rbegin(); hold != holds.rend(); ++hold) {  // the youngest first
      const Clock::time_point until = std::min(hold->second + WorkPool::kHoldsBackFor, at_most);
      if (until <= now) return std::nullopt;
      if (++taken >= cores) return until;
    }
    return std::nullopt;
  }

  bool MayTake(Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return !QueueOf(kind).empty() && (kind == kWaiter || !HeldBackUntil());
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
    work[kWorker].Signal();
  }

  std::uint64_t BeginHold() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    holds.emplace(++last_hold, Clock::now());
    return last_hold;
  }

  void EndHold(std::uint64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    holds.erase(number);
    if (holds.empty()) no_holds.SignalAll();
    if (!jobs.empty()) work[kWorker].SignalAll();
  }

  // Until there may be something to do.
  void Await(Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (kind == kWaiter || jobs.empty()) return work[kind].Wait(&mutex);
    const auto until = HeldBackUntil();
    if (until) work[kind].WaitWithTimeout(&mutex, absl::FromChrono(*until - Clock::now()));  // else it may begin by now
  }

  // Takes a job and runs it, for which the lock is let go.
  void RunOne(Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const std::size_t works = kind == kWorker ? 1 : 0;
    Job job = std::move(QueueOf(kind).front());
    QueueOf(kind).pop_front();
    ++running;
    working += works;
    mutex.Unlock();
    const absl::Status ran = Caught(job.run);
    if (!ran.ok()) spdlog::error("a job of a pool failed: {}", MessageOf(ran));
    job.run = nullptr;  // what it holds ends outside of the lock
    mutex.Lock();
    working -= works;
    --running;
    if (Drained()) drained.SignalAll();
  }

  void Run(Kind kind) ABSL_LOCKS_EXCLUDED(mutex) {
    const absl::MutexLock lock(&mutex);
    while (true) {
      waiters_free += kind == kWaiter ? 1 : 0;
      while (!ended && !MayTake(kind)) Await(kind);
      waiters_free -= kind == kWaiter ? 1 : 0;
      if (!MayTake(kind)) return;
      RunOne(kind);
    }
  }
};

class ThreadWorkPool final : public WorkPool {
 public:
  ThreadWorkPool(std::size_t threads, std::size_t cores)
      : shared_(std::max<std::size_t>(threads, 1), std::max<std::size_t>(cores, 1)) {
    const absl::MutexLock lock(&shared_.mutex);
    for (std::size_t i = 0; i < shared_.workers; ++i) shared_.AddThread(Shared::kWorker);
  }

  ~ThreadWorkPool() override {
    std::vector<std::thread> threads;
    {
      const absl::MutexLock lock(&shared_.mutex);
      CAIRN_CHECK(shared_.holds.empty());
      while (!shared_.Drained()) shared_.drained.Wait(&shared_.mutex);
      shared_.ended = true;
      threads.swap(shared_.threads);
      for (absl::CondVar& work : shared_.work) work.SignalAll();
    }
    for (std::thread& thread : threads) thread.join();
  }

  void Post(PoolJob job) override {
    const absl::MutexLock lock(&shared_.mutex);
    shared_.AddJob({.run = std::move(job)});
  }

  void PostWaiting(PoolJob job) override {
    const absl::MutexLock lock(&shared_.mutex);
    shared_.waiting_jobs.push_back({.run = std::move(job)});
    if (shared_.waiting_jobs.size() > shared_.waiters_free && shared_.waiters < kWaitersMax) shared_.AddWaiter();
    shared_.work[Shared::kWaiter].Signal();
  }

  std::size_t threads() const override { return shared_.workers; }

  void GiveWayToClients(const std::atomic<bool>& hurry, std::chrono::milliseconds& patience) override {
    constexpr std::chrono::milliseconds kRound(10);
    const absl::MutexLock lock(&shared_.mutex);
    for (; !shared_.holds.empty() && !hurry && patience.count() > 0; patience -= kRound) {
      shared_.no_holds.WaitWithTimeout(&shared_.mutex, absl::FromChrono(kRound));
    }
  }

 private:
  std::uint64_t BeginHold() override {
    const absl::MutexLock lock(&shared_.mutex);
    return shared_.BeginHold();
  }
  void EndHold(std::uint64_t number) override {
    const absl::MutexLock lock(&shared_.mutex);
    shared_.EndHold(number);
  }

  Shared shared_;
};

}  // namespace

std::unique_ptr<WorkPool> MakeWorkPool(std::size_t threads, std::size_t cores) {
  return std::make_unique<ThreadWorkPool>(threads, cores > 0 ? cores : CoresOfThisProcess());
}

}  // namespace cairn
