#include "storage/io/pinned_memory.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace cairn {
namespace {

constexpr int kNumbers = 16384;  // the kernel's maximum
// The kernel takes the ring's lock while it pins one, so that transfers wait: no more than some ms.
constexpr std::size_t kPartBytes = 64 << 20;

std::span<std::byte> PartAt(std::span<std::byte> memory, std::size_t at) {
  return memory.subspan(at, std::min(kPartBytes, memory.size() - at));
}

}  // namespace

// The kernel's table of numbers takes 128 KiB, and most rings pin nothing.
void PinnedMemory::MakeNumbers() {
  const absl::MutexLock telling(&telling_);
  if (asked_for_numbers_ || ring_ == nullptr) return;
  asked_for_numbers_ = true;
  const int result = io_uring_register_buffers_sparse(ring_, kNumbers);
  const absl::MutexLock lock(&mutex_);
  if (result != 0) {  // before Linux 5.19
    why_no_number_ = -result;
    return;
  }
  for (int number = kNumbers; number-- > 0;) free_.push_back(number);
}

void PinnedMemory::Close() {
  const absl::MutexLock lock(&telling_);
  ring_ = nullptr;
}

std::shared_ptr<void> PinnedMemory::Pin(std::span<std::byte> memory, int* error) {
  MakeNumbers();
  for (std::size_t at = 0; at < memory.size(); at += kPartBytes) {
    *error = Take(PartAt(memory, at));
    if (*error == 0) continue;
    LetGo(memory.first(at));
    return nullptr;
  }
  return {memory.data(), [self = shared_from_this(), memory](void*) { self->LetGo(memory); }};
}

int PinnedMemory::Take(std::span<std::byte> part) {
  int number = 0;
  {
    const absl::MutexLock lock(&mutex_);
    if (parts_.contains(part.data())) return EEXIST;
    if (free_.empty()) return why_no_number_;
    number = free_.back();
    free_.pop_back();
  }
  const int error = Tell(number, part.data(), part.size());
  const absl::MutexLock lock(&mutex_);
  if (error == 0) {
    parts_[part.data()] = {.bytes = part.size(), .number = number};
  } else {
    free_.push_back(number);
  }
  return error;
}

// A transfer that is still under way keeps its pages until it ends.
void PinnedMemory::LetGo(std::span<std::byte> memory) {
  for (std::size_t at = 0; at < memory.size(); at += kPartBytes) {
    int number = 0;
    {
      const absl::MutexLock lock(&mutex_);
      number = parts_.extract(PartAt(memory, at).data()).mapped().number;
    }
    // A number that the kernel will not let go of is not used again.
    if (Tell(number, nullptr, 0) != 0) continue;
    const absl::MutexLock lock(&mutex_);
    free_.push_back(number);
  }
}

int PinnedMemory::Tell(int number, const void* base, std::size_t bytes) {
  const absl::MutexLock lock(&telling_);
  if (ring_ == nullptr) return ENXIO;
  if (refused_ && base != nullptr) return ENOMEM;
  const iovec memory{.iov_base = const_cast<void*>(base), .iov_len = bytes};
  const __u64 no_tag = 0;
  const int result = io_uring_register_buffers_update_tag(ring_, static_cast<unsigned>(number), &memory, &no_tag, 1);
  if (result == 1) return 0;
  // Its limit of locked memory: each further image would be pinned up to that, and let go of again, for nothing.
  if (base != nullptr && (result == -ENOMEM || result == -EPERM)) refused_ = true;
  return result < 0 ? -result : EIO;
}

std::optional<int> PinnedMemory::NumberOf(const std::byte* data, std::size_t bytes) const {
  const absl::MutexLock lock(&mutex_);
  auto part = parts_.upper_bound(data);
  if (part == parts_.begin()) return std::nullopt;
  --part;
  const auto at = static_cast<std::size_t>(data - part->first);
  if (at >= part->second.bytes || bytes > part->second.bytes - at) return std::nullopt;
  return part->second.number;
}

}  // namespace cairn
