#include "storage/base/md5_stream.h"

#include <algorithm>
#include <cstring>

namespace cairn {

Md5Lane Md5Stream::Take(std::span<const std::byte> bytes) {
  if (carried_ > 0) {
    bytes = Carry(bytes);
    if (carried_ < kMd5BlockBytes) return {&state_, nullptr, 0};
    const Md5Lane block = {&state_, carry_.data(), kMd5BlockBytes};
    Md5Advance({&block, 1});
    carried_ = 0;
  }
  const std::size_t whole = bytes.size() / kMd5BlockBytes * kMd5BlockBytes;
  Carry(bytes.subspan(whole));
  return {&state_, bytes.data(), whole};
}

std::span<const std::byte> Md5Stream::Carry(std::span<const std::byte> bytes) {
  const std::size_t count = std::min(bytes.size(), kMd5BlockBytes - carried_);
  if (count > 0) std::memcpy(carry_.data() + carried_, bytes.data(), count);
  carried_ += count;
  return bytes.subspan(count);
}

}  // namespace cairn
