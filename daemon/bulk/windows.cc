#include "daemon/bulk/windows.h"

#include <new>

#include "daemon/bulk/frame.h"

namespace cairn {

std::span<std::byte> Windows::Window::bytes() const {
  return memory_ == nullptr ? std::span<std::byte>() : std::span(memory_.get(), kWindowBytesMax);
}

Windows::Window Windows::Make(Memory memory) {
  if (memory == nullptr) memory.reset(new (std::nothrow) std::byte[kWindowBytesMax]);
  return {shared_from_this(), std::move(memory)};
}

void Windows::Get(Granted granted) {
  Memory memory;
  {
    const absl::MutexLock lock(&mutex_);
    if (closed_) return;
    if (in_use_ == windows_max_) {
      waiting_.push_back(std::move(granted));
      return;
    }
    ++in_use_;
    if (!free_.empty()) {
      memory = std::move(free_.back());
      free_.pop_back();
    }
  }
  granted(Make(std::move(memory)));
}

void Windows::GiveBack(Memory memory) {
  Granted next;
  {
    const absl::MutexLock lock(&mutex_);
    if (waiting_.empty()) {
      --in_use_;
      if (memory != nullptr && free_.size() < kept_max_) free_.push_back(std::move(memory));
      return;
    }
    next = std::move(waiting_.front());
    waiting_.pop_front();
  }
  next(Make(std::move(memory)));
}

void Windows::Close() {
  std::deque<Granted> forgotten;
  const absl::MutexLock lock(&mutex_);
  closed_ = true;
  forgotten.swap(waiting_);
}

}  // namespace cairn
