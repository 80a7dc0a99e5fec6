// Memory for what is sent to peers: a number of buffers of one window each, for all connections together. Who comes
// when all are in use waits for its turn. Buffers are used again, so that in steady state no page is fresh.
// Thread-safe.
#ifndef CAIRN_DAEMON_BULK_WINDOWS_H_
#define CAIRN_DAEMON_BULK_WINDOWS_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace cairn {

class Windows : public std::enable_shared_from_this<Windows> {
 public:
  using Memory = std::unique_ptr<std::byte[]>;

  // A buffer of this thread's own, until it is destroyed.
  class Window {
   public:
    Window() = default;
    Window(std::shared_ptr<Windows> owner, Memory memory) : owner_(std::move(owner)), memory_(std::move(memory)) {}
    Window(Window&& other) noexcept = default;
    Window& operator=(Window&& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(memory_, other.memory_);
      return *this;
    }
    ~Window() {
      if (owner_ != nullptr) owner_->GiveBack(std::move(memory_));
    }
    std::span<std::byte> bytes() const;

   private:
    std::shared_ptr<Windows> owner_;
    Memory memory_;
  };
  // Runs at most once, on the thread that asked or on one that gave a window back; must not block. An empty window:
  // there was no memory for it.
  using Granted = std::function<void(Window window)>;

  // `kept_max`: so many that nobody uses keep their memory.
  Windows(std::size_t windows_max, std::size_t kept_max) : windows_max_(windows_max), kept_max_(kept_max) {}

  void Get(Granted granted);
  // Whoever waits is forgotten, and nobody is granted one any more.
  void Close();

 private:
  Window Make(Memory memory);
  void GiveBack(Memory memory);

  const std::size_t windows_max_, kept_max_;
  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::size_t in_use_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Memory> free_ ABSL_GUARDED_BY(mutex_);
  std::deque<Granted> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_BULK_WINDOWS_H_
