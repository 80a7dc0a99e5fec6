// Memory that a ring has pinned ("registered buffers"): the kernel then looks for its pages once, and not for each
// transfer.
#ifndef CAIRN_STORAGE_IO_PINNED_MEMORY_H_
#define CAIRN_STORAGE_IO_PINNED_MEMORY_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <liburing.h>

#include <cerrno>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace cairn {

// Thread-safe. Lives as long as one of its handles.
class PinnedMemory : public std::enable_shared_from_this<PinnedMemory> {
 public:
  // `ring` is borrowed until Close.
  explicit PinnedMemory(io_uring& ring) : ring_(&ring) {}
  PinnedMemory(const PinnedMemory&) = delete;
  void Close();  // the ring ends, and with it all that it has pinned

  // Until the handle is let go of. Null: the kernel refuses, or has no place left; `*error` then says why (errno).
  std::shared_ptr<void> Pin(std::span<std::byte> memory, int* error);
  // Under which number the kernel knows the memory that these bytes lie in; none: they are not pinned, or not in one.
  std::optional<int> NumberOf(const std::byte* data, std::size_t bytes) const;

 private:
  struct Part {
    std::size_t bytes = 0;
    int number = 0;
  };
  using Parts = std::map<const std::byte*, Part>;  // by where they begin

  void MakeNumbers();
  int Take(std::span<std::byte> part);
  void LetGo(std::span<std::byte> memory);
  int Tell(int number, const void* base, std::size_t bytes);

  // Held while the kernel pins, which takes long. Transfers wait for the other one, which is held for moments only.
  absl::Mutex telling_;
  io_uring* ring_ ABSL_GUARDED_BY(telling_);        // null: it has ended
  bool refused_ ABSL_GUARDED_BY(telling_) = false;  // this user may pin no more
  bool asked_for_numbers_ ABSL_GUARDED_BY(telling_) = false;

  mutable absl::Mutex mutex_;
  Parts parts_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> free_ ABSL_GUARDED_BY(mutex_);  // numbers
  int why_no_number_ ABSL_GUARDED_BY(mutex_) = ENOBUFS;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_PINNED_MEMORY_H_
