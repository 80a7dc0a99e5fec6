// The threads of one drain. Its own: a drain that hangs with a file system holds up nobody else.
#ifndef CAIRN_STORAGE_JOB_DRAIN_WORKERS_H_
#define CAIRN_STORAGE_JOB_DRAIN_WORKERS_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace cairn::drain {

class Workers {
 public:
  // Called for each number once; `worker` says which thread, from 0 on. Must not throw.
  using Call = std::function<void(std::size_t number, std::size_t worker)>;

  // `on_thread`: called at the beginning of each, if given.
  Workers(std::size_t count, const std::function<void()>& on_thread);
  ~Workers();  // REQUIRES: nothing is under way
  Workers(const Workers&) = delete;

  std::size_t count() const { return count_; }
  // One at a time: Begin, then Wait. In between the caller does something else. Numbers are taken in order.
  void Begin(std::size_t numbers, Call call);
  void Wait();
  void Run(std::size_t numbers, Call call) {
    Begin(numbers, std::move(call));
    Wait();
  }

 private:
  void Work(std::size_t worker);

  const std::size_t count_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  Call call_ ABSL_GUARDED_BY(mutex_);
  std::size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t numbers_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace cairn::drain

#endif  // CAIRN_STORAGE_JOB_DRAIN_WORKERS_H_
