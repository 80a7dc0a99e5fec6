#include "storage/job/drain/workers.h"

#include <algorithm>
#include <utility>

#include "storage/base/check.h"

namespace cairn::drain {
namespace {

constexpr std::size_t kAtOnce = 16;  // numbers that a thread takes, so that small files do not wait for the mutex

}  // namespace

Workers::Workers(std::size_t count, const std::function<void()>& on_thread) : count_(std::max<std::size_t>(count, 1)) {
  for (std::size_t worker = 0; worker < count_; ++worker) {
    threads_.emplace_back([this, worker, on_thread] {
      if (on_thread) on_thread();
      Work(worker);
    });
  }
}

Workers::~Workers() {
  {
    const absl::MutexLock lock(&mutex_);
    ending_ = true;
    changed_.SignalAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void Workers::Begin(std::size_t numbers, Call call) {
  const absl::MutexLock lock(&mutex_);
  CAIRN_CHECK(done_ == numbers_);
  call_ = std::move(call);
  next_ = done_ = 0;
  numbers_ = numbers;
  changed_.SignalAll();
}

void Workers::Wait() {
  const absl::MutexLock lock(&mutex_);
  while (done_ < numbers_) changed_.Wait(&mutex_);
  next_ = numbers_ = done_ = 0;
  call_ = nullptr;
}

void Workers::Work(std::size_t worker) {
  for (;;) {
    Call* call = nullptr;
    std::size_t begin = 0, end = 0;
    {
      const absl::MutexLock lock(&mutex_);
      while (!ending_ && next_ == numbers_) changed_.Wait(&mutex_);
      if (ending_) return;
      // Near the end fewer, so that no thread is left with the rest.
      const std::size_t share = (numbers_ - next_) / (2 * count_) + 1;
      begin = next_;
      end = next_ = begin + std::min(share, kAtOnce);
      call = &call_;  // stays as it is until all are done
    }
    for (std::size_t number = begin; number < end; ++number) (*call)(number, worker);
    const absl::MutexLock lock(&mutex_);
    done_ += end - begin;
    if (done_ == numbers_) changed_.SignalAll();
  }
}

}  // namespace cairn::drain
