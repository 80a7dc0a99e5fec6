#include "storage/io/pinned_memory.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace cairn {
namespace {

constexpr int kNumbers = 1024;
constexpr std::size_t kPartBytes = std::size_t{1} << 30;  // the kernel pins no more under one number

std::span<std::byte> PartAt(std::span<std::byte> memory, std::size_t at) {
  return memory.subspan(at, std::min(kPartBytes, memory.size() - at));
}

}  // namespace

PinnedMemory::PinnedMemory(io_uring& ring) : ring_(&ring) {
  if (io_uring_register_buffers_sparse(&ring, kNumbers) != 0) return;  // before Linux 5.19
  const absl::MutexLock lock(&mutex_);
  for (int number = kNumbers; number-- > 0;) free_.push_back(number);
}

void PinnedMemory::Close() {
  const absl::MutexLock lock(&mutex_);
  ring_ = nullptr;
}

std::shared_ptr<void> PinnedMemory::Pin(std::span<std::byte> memory, int* error) {
  for (std::size_t at = 0; at < memory.size(); at += kPartBytes) {
    *error = Take(PartAt(memory, at));
    if (*error == 0) continue;
    LetGo(memory.first(at));
    return nullptr;
  }
  return {memory.data(), [self = shared_from_this(), memory](void*) { self->LetGo(memory); }};
}

int PinnedMemory::Take(std::span<std::byte> part) {
  const absl::MutexLock lock(&mutex_);
  if (parts_.contains(part.data())) return EEXIST;
  if (free_.empty()) return ENOBUFS;
  const int number = free_.back();
  if (const int error = Tell(number, part.data(), part.size()); error != 0) return error;
  free_.pop_back();
  parts_[part.data()] = {.bytes = part.size(), .number = number};
  return 0;
}

// A transfer that is still under way keeps its pages until it ends.
void PinnedMemory::LetGo(std::span<std::byte> memory) {
  const absl::MutexLock lock(&mutex_);
  for (std::size_t at = 0; at < memory.size(); at += kPartBytes) {
    const auto part = parts_.extract(PartAt(memory, at).data());
    // A number that the kernel will not let go of is not used again.
    if (Tell(part.mapped().number, nullptr, 0) == 0) free_.push_back(part.mapped().number);
  }
}

int PinnedMemory::Tell(int number, const void* base, std::size_t bytes) {
  if (ring_ == nullptr) return ENXIO;
  const iovec memory{.iov_base = const_cast<void*>(base), .iov_len = bytes};
  const __u64 no_tag = 0;
  const int result = io_uring_register_buffers_update_tag(ring_, static_cast<unsigned>(number), &memory, &no_tag, 1);
  if (result == 1) return 0;
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
