// The bounded queue of both engines.
#ifndef CAIRN_STORAGE_IO_IO_QUEUE_H_
#define CAIRN_STORAGE_IO_IO_QUEUE_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
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
    std::unique_lock lock(mutex_);
    if (!own_thread) room_.wait(lock, [this] { return jobs_.size() < jobs_max_; });
    jobs_.push_back(std::move(job));
    work_.notify_one();
  }

  // The next job; null if there is none, and with `wait` only after Close.
  std::unique_ptr<IoJob> Pop(bool wait) {
    std::unique_lock lock(mutex_);
    if (wait) work_.wait(lock, [this] { return closed_ || !jobs_.empty(); });
    if (jobs_.empty()) return nullptr;
    std::unique_ptr<IoJob> job = std::move(jobs_.front());
    jobs_.pop_front();
    if (jobs_.size() < jobs_max_) room_.notify_one();
    return job;
  }

  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    work_.notify_all();
  }

  bool closed_and_empty() {
    const std::lock_guard lock(mutex_);
    return closed_ && jobs_.empty();
  }

 private:
  const std::size_t jobs_max_;
  std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable work_;
  std::deque<std::unique_ptr<IoJob>> jobs_;
  bool closed_ = false;
};

std::unique_ptr<IoEngine> MakeIoThreads(const IoEngineOptions& options);

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_IO_QUEUE_H_
