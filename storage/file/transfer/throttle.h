// How fast copies may go: each kind of them by a limit of its own, and all that nobody waits for by one more, while
// something more urgent goes on.
#ifndef CAIRN_STORAGE_FILE_TRANSFER_THROTTLE_H_
#define CAIRN_STORAGE_FILE_TRANSFER_THROTTLE_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace cairn {

// What both are made of: bytes that go at a limit which may change meanwhile. Thread-safe.
class TokenBucket {
 public:
  // In bytes per second; 0: none. Asked at least every 50 ms.
  using Limit = std::function<std::uint64_t()>;
  // Waits until `bytes` more may go; false: `stop` was set. True, too, once `skip` is set; null: it never is.
  bool Take(std::uint64_t bytes, const Limit& limit, const std::atomic<bool>& stop, const std::atomic<bool>* skip);

 private:
  void GoAt(std::uint64_t bytes_per_s, std::int64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  std::uint64_t rate_ ABSL_GUARDED_BY(mutex_) = 0;  // at which what was taken goes
  // Monotonic: when all of that has gone.
  std::int64_t free_at_ns_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What all copies have together that nobody waits for. It is a limit only while something more urgent uses the same
// disks and the same memory. Thread-safe. Only copies wait for a lock here: their threads may have so little of the
// processors that nobody else must.
class BackgroundBudget {
 public:
  explicit BackgroundBudget(std::uint64_t bytes_per_s) : limit_(bytes_per_s) {}  // 0: no limit then either
  void SetLimit(std::uint64_t bytes_per_s) { limit_ = bytes_per_s; }
  void UrgentBegan() { ++urgent_; }
  void UrgentEnded();  // one of those that began
  // As Throttle::Take.
  bool Take(std::uint64_t bytes, const std::atomic<bool>& stop, const std::atomic<bool>* waited_for);

 private:
  std::atomic<std::uint64_t> limit_;
  std::atomic<std::uint32_t> urgent_{0};  // under way
  TokenBucket bucket_;
};

// A limit in bytes per second shared by all that use it; 0: none. Thread-safe.
class Throttle {
 public:
  // `background`: what goes through here counts there, too; null: it does not.
  explicit Throttle(std::uint64_t bytes_per_s, std::shared_ptr<BackgroundBudget> background = nullptr)
      : background_(std::move(background)), limit_(bytes_per_s) {}
  void SetLimit(std::uint64_t bytes_per_s) { limit_ = bytes_per_s; }
  // Waits until `bytes` more may go; false: `stop` was set. `waited_for`: once it is set, the background's budget does
  // not count. Both are looked at at least every 50 ms.
  bool Take(std::uint64_t bytes, const std::atomic<bool>& stop, const std::atomic<bool>* waited_for = nullptr);
  // For bytes that are read to be compared, not copied: they use the disk, but only the background's limit counts.
  bool TakeToCompare(std::uint64_t bytes, const std::atomic<bool>& stop, const std::atomic<bool>* waited_for);

 private:
  const std::shared_ptr<BackgroundBudget> background_;
  std::atomic<std::uint64_t> limit_;
  TokenBucket bucket_;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_FILE_TRANSFER_THROTTLE_H_
