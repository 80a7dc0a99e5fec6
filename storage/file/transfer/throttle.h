// How fast copies may go: each kind of them by a limit of its own, and all that nobody waits for by one more, while
// something more urgent goes on.
#ifndef CAIRN_STORAGE_FILE_TRANSFER_THROTTLE_H_
#define CAIRN_STORAGE_FILE_TRANSFER_THROTTLE_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace cairn {

class BackgroundBudget;

// A limit in bytes per second shared by all that use it; 0: none. Thread-safe.
class Throttle {
 public:
  // `background`: what goes through here counts there, too; null: it does not.
  explicit Throttle(std::uint64_t bytes_per_s, std::shared_ptr<BackgroundBudget> background = nullptr)
      : background_(std::move(background)), limit_(bytes_per_s) {}
  void SetLimit(std::uint64_t bytes_per_s);
  // Waits until `bytes` more may go; false: `stop` was set. `waited_for`: once it is set, the background's budget does
  // not count. Both are looked at at least every 50 ms.
  bool Take(std::uint64_t bytes, const std::atomic<bool>& stop, const std::atomic<bool>* waited_for = nullptr);

 private:
  friend class BackgroundBudget;
  // As Take, of this limit alone. True, too, once `skip` is set.
  bool TakeHere(std::uint64_t bytes, const std::atomic<bool>& stop, const std::atomic<bool>* skip);

  const std::shared_ptr<BackgroundBudget> background_;
  absl::Mutex mutex_;
  std::uint64_t limit_ ABSL_GUARDED_BY(mutex_);
  // Monotonic: when all bytes taken so far have gone at that rate.
  std::int64_t free_at_ns_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What all copies have together that nobody waits for. It is a limit only while something more urgent uses the same
// disks and the same memory. Thread-safe.
class BackgroundBudget {
 public:
  explicit BackgroundBudget(std::uint64_t bytes_per_s) : limit_(bytes_per_s) {}  // 0: no limit then either
  void SetLimit(std::uint64_t bytes_per_s);
  void UrgentBegan();
  void UrgentEnded();  // one of those that began

 private:
  friend class Throttle;
  void Apply() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { bucket_.SetLimit(urgent_ > 0 ? limit_ : 0); }

  absl::Mutex mutex_;
  std::uint64_t limit_ ABSL_GUARDED_BY(mutex_);
  std::uint32_t urgent_ ABSL_GUARDED_BY(mutex_) = 0;  // under way
  Throttle bucket_{0};
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_FILE_TRANSFER_THROTTLE_H_
