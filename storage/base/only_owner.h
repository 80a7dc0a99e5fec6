// For what is copied only when somebody else has it, too: may its owner change it in place?
#ifndef CAIRN_STORAGE_BASE_ONLY_OWNER_H_
#define CAIRN_STORAGE_BASE_ONLY_OWNER_H_

#include <atomic>
#include <memory>

namespace cairn {

// Nobody else has what `owner` has, and what others did with it before they let go of it has happened. REQUIRES: no
// other thread copies from `owner` meanwhile, and there are no weak pointers to it.
template <typename T>
bool IsOnlyOwner(const std::shared_ptr<T>& owner) {
  if (owner.use_count() != 1) return false;
  std::atomic_thread_fence(std::memory_order_acquire);  // use_count alone sees the number, and not what was before it
#if defined(__SANITIZE_THREAD__)
  [[maybe_unused]] const std::shared_ptr<T> seen = owner;  // ThreadSanitizer knows no fences, but what counting orders
#endif
  return true;
}

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_ONLY_OWNER_H_
