// A way to post to a strand or thread that may end first: jobs that come later are dropped. Thread-safe.
#ifndef CAIRN_DAEMON_DOOR_OUTLET_H_
#define CAIRN_DAEMON_DOOR_OUTLET_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <functional>
#include <utility>

namespace cairn {

class Outlet {
 public:
  using Job = std::function<void()>;
  explicit Outlet(std::function<void(Job)> post) : post_(std::move(post)) {}

  // False: it is closed, and the job will never run.
  bool Post(Job job) {
    const absl::MutexLock lock(&mutex_);
    if (post_ == nullptr) return false;
    post_(std::move(job));
    return true;
  }
  // What was posted to is not used any more once this returns.
  void Close() {
    const absl::MutexLock lock(&mutex_);
    post_ = nullptr;
  }

 private:
  absl::Mutex mutex_;
  std::function<void(Job)> post_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_OUTLET_H_
