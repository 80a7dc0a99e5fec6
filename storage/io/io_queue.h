// The bounded queue of both engines.
#ifndef CAIRN_STORAGE_IO_IO_QUEUE_H_
#define CAIRN_STORAGE_IO_IO_QUEUE_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "storage/io/io_engine.h"
#include "storage/io/io_job.h"

namespace cairn {

// The jobs that wait. `own_thread` is set on the threads of the engine.
class IoQueue {
 public:
  explicit IoQueue(std::size_t jobs_max) : jobs_max_(jobs_max) {}

  // Blocks while full, unless on a thread of the engine.
  void Push(std::unique_ptr<IoJob> job, bool own_thread) {
    const absl::MutexLock lock(&mutex_);
    while (!own_thread && jobs_.size() >= jobs_max_) room_.Wait(&mutex_);
    jobs_.push_back(std::move(job));
    work_.Signal();
  }

  // The next job; null if there is none, and with `wait` only after Close.
  std::unique_ptr<IoJob> Pop(bool wait) {
    const absl::MutexLock lock(&mutex_);
    while (wait && !closed_ && jobs_.empty()) work_.Wait(&mutex_);
    if (jobs_.empty()) return nullptr;
    std::unique_ptr<IoJob> job = std::move(jobs_.front());
    jobs_.pop_front();
    if (jobs_.size() < jobs_max_) room_.Signal();
    return job;
  }

  void Close() {
    const absl::MutexLock lock(&mutex_);
    closed_ = true;
    work_.SignalAll();
  }

  bool closed_and_empty() {
    const absl::MutexLock lock(&mutex_);
    return closed_ && jobs_.empty();
  }

 private:
  const std::size_t jobs_max_;
  absl::Mutex mutex_;
  absl::CondVar room_;
  absl::CondVar work_;
  std::deque<std::unique_ptr<IoJob>> jobs_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// Of an engine's thread, and of the ring that it submits to: by the engine's options, whoever has made it. A kernel
// that refuses leaves it as it is.
inline void UsePriorityOf(const IoEngineOptions& options) {
  (options.idle ? IoPriority::Idle() : IoPriority()).Use().IgnoreError();  // then they are as urgent as others
}

std::unique_ptr<IoEngine> MakeIoThreads(const IoEngineOptions& options);

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_IO_QUEUE_H_
