#include "daemon/data/work_pool.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <sched.h>

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "storage/base/check.h"

namespace cairn {

struct WorkPool::Shared {
  enum class Kind { kOrdinary, kIdle, kWaiter };
  using Queue = std::deque<std::function<void()>>;

  absl::Mutex mutex;
  Queue jobs ABSL_GUARDED_BY(mutex);
  Queue waiting_jobs ABSL_GUARDED_BY(mutex);
  std::size_t holds ABSL_GUARDED_BY(mutex) = 0;
  std::size_t running ABSL_GUARDED_BY(mutex) = 0;  // jobs of any kind: they may still post
  std::size_t waiters_free ABSL_GUARDED_BY(mutex) = 0;
  bool ending ABSL_GUARDED_BY(mutex) = false;
  std::vector<std::thread> threads ABSL_GUARDED_BY(mutex);
  std::size_t waiters ABSL_GUARDED_BY(mutex) = 0;
  std::size_t per_kind = 0;

  Queue& QueueOf(Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return kind == Kind::kWaiter ? waiting_jobs : jobs; }

  bool MayTake(Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (QueueOf(kind).empty()) return false;
    if (kind == Kind::kWaiter) return true;
    return (holds > 0) == (kind == Kind::kIdle);
  }

  bool Drained() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return ending && running == 0 && jobs.empty() && waiting_jobs.empty();
  }

  void Run(Kind kind) {
    // A refusal leaves an ordinary thread, which is slower for the client but right.
    const sched_param no_priority{};
    if (kind == Kind::kIdle) sched_setscheduler(0, SCHED_IDLE, &no_priority);
    struct Ask {
      Shared* shared;
      Kind kind;
      static bool Ready(Ask* ask) ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return ask->shared->MayTake(ask->kind) || ask->shared->Drained();
      }
    } ask{this, kind};
    const absl::MutexLock lock(&mutex);
    while (true) {
      if (kind == Kind::kWaiter) ++waiters_free;
      mutex.Await(absl::Condition(&Ask::Ready, &ask));
      if (kind == Kind::kWaiter) --waiters_free;
      if (!MayTake(kind)) return;
      std::function<void()> job = std::move(QueueOf(kind).front());
      QueueOf(kind).pop_front();
      ++running;
      mutex.Unlock();
      job();
      job = nullptr;  // what it holds ends outside of the lock
      mutex.Lock();
      --running;
    }
  }

  void AddThread(Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    threads.emplace_back([this, kind] { Run(kind); });
  }
};

WorkPool::WorkPool(std::size_t threads) : shared_(std::make_shared<Shared>()) {
  shared_->per_kind = std::max<std::size_t>(threads, 1);
  const absl::MutexLock lock(&shared_->mutex);
  for (std::size_t i = 0; i < shared_->per_kind; ++i) {
    shared_->AddThread(Shared::Kind::kOrdinary);
    shared_->AddThread(Shared::Kind::kIdle);
  }
}

WorkPool::~WorkPool() {
  std::vector<std::thread> threads;
  {
    const absl::MutexLock lock(&shared_->mutex);
    CAIRN_CHECK(shared_->holds == 0);
    shared_->ending = true;
  }
  // A job that runs now may still need one more waiter: wait until nothing can be posted any more.
  {
    const absl::MutexLock lock(&shared_->mutex);
    shared_->mutex.Await(absl::Condition(
        +[](Shared* shared) ABSL_NO_THREAD_SAFETY_ANALYSIS { return shared->Drained(); }, shared_.get()));
    threads.swap(shared_->threads);
  }
  for (std::thread& thread : threads) thread.join();
}

void WorkPool::Post(std::function<void()> job) {
  const absl::MutexLock lock(&shared_->mutex);
  shared_->jobs.push_back(std::move(job));
}

void WorkPool::PostWaiting(std::function<void()> job) {
  const absl::MutexLock lock(&shared_->mutex);
  shared_->waiting_jobs.push_back(std::move(job));
  if (shared_->waiting_jobs.size() > shared_->waiters_free && shared_->waiters < kWaitersMax) {
    ++shared_->waiters;
    shared_->AddThread(Shared::Kind::kWaiter);
  }
}

std::size_t WorkPool::threads() const {
  return shared_->per_kind;
}

WorkPool::Hold WorkPool::HoldForClient() {
  return Hold(this);
}

WorkPool::Hold::Hold(WorkPool* pool) : pool_(pool) {
  const absl::MutexLock lock(&pool_->shared_->mutex);
  ++pool_->shared_->holds;
}

WorkPool::Hold::Hold(Hold&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)) {}

WorkPool::Hold::~Hold() {
  if (pool_ == nullptr) return;
  const absl::MutexLock lock(&pool_->shared_->mutex);
  --pool_->shared_->holds;
}

}  // namespace cairn
