#include "storage/file/transfer/block_stream.h"

#include <absl/synchronization/mutex.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <utility>

#include "storage/base/check.h"

namespace cairn {
namespace {

constexpr std::size_t kHugePage = 2 << 20;

std::atomic<std::byte*> spare_set = nullptr;  // memory of kBlockBuffersMax buffers that nobody uses

std::uint64_t BlocksOf(std::uint64_t bytes) {
  return bytes / kCrcBlockBytes + (bytes % kCrcBlockBytes != 0);
}

}  // namespace

BlockBuffers::BlockBuffers(std::uint64_t file_bytes)
    : count_(std::clamp<std::uint64_t>(BlocksOf(file_bytes), 1, kBlockBuffersMax)),
      base_(count_ == kBlockBuffersMax ? spare_set.exchange(nullptr) : nullptr) {
  if (base_ != nullptr) return;
  const std::size_t bytes = count_ * kCrcBlockBytes;
  base_ = static_cast<std::byte*>(std::aligned_alloc(bytes % kHugePage == 0 ? kHugePage : kDirectAlignment, bytes));
  CAIRN_CHECK(base_ != nullptr);
  // The kernel looks for the pages of a block at each transfer; of huge ones there are few. Refused: small ones do.
  madvise(base_, bytes, MADV_HUGEPAGE);
}

BlockBuffers::~BlockBuffers() {
  if (count_ == kBlockBuffersMax) base_ = spare_set.exchange(base_);
  std::free(base_);
}

BlockStream::BlockStream(File& file, std::uint64_t file_bytes, std::uint64_t first_block, BlockBuffers& buffers)
    : file_(file),
      file_bytes_(file_bytes),
      blocks_(BlocksOf(file_bytes)),
      buffers_(buffers),
      next_read_(first_block),
      next_out_(first_block),
      slots_(buffers.count()) {
  CAIRN_CHECK(first_block <= blocks_);
}

std::size_t BlockStream::BytesOf(std::uint64_t block) const {
  return static_cast<std::size_t>(std::min(kCrcBlockBytes, file_bytes_ - block * kCrcBlockBytes));
}

void BlockStream::ReadAhead() {
  for (std::size_t i = 0; i < buffers_.count() && next_read_ < blocks_; ++i) {
    const std::uint64_t block = next_read_;
    {
      const absl::MutexLock lock(&mutex_);
      if (slots_[i].state != State::kFree) continue;
      slots_[i] = {.state = State::kReading, .block = block, .status = {}};
    }
    ++next_read_;
    const std::size_t bytes = BytesOf(block);
    const std::span<std::byte> target = buffers_.at(i).first(file_.direct() ? DirectBytes(bytes) : bytes);
    // Without the lock: the answer may come before the call returns.
    file_.ReadAsync(block * kCrcBlockBytes, target, [this, i](absl::Status status) {
      const absl::MutexLock guard(&mutex_);
      slots_[i].status = std::move(status);
      slots_[i].state = State::kRead;
      changed_.SignalAll();  // with the lock held: after it the stream may be gone
    });
  }
}

absl::StatusOr<BlockStream::Block> BlockStream::Next() {
  CAIRN_CHECK(!done());
  for (;;) {
    ReadAhead();
    const absl::MutexLock lock(&mutex_);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      if (slot.state != State::kRead || slot.block != next_out_) continue;
      if (!slot.status.ok()) {
        slot.state = State::kFree;
        return slot.status;
      }
      slot.state = State::kTaken;
      ++next_out_;
      const std::size_t bytes = BytesOf(slot.block);
      const std::span<std::byte> padded = buffers_.at(i).first(DirectBytes(bytes));
      std::fill(padded.begin() + static_cast<std::ptrdiff_t>(bytes), padded.end(), std::byte{0});
      return Block{.index = slot.block, .slot = i, .bytes = padded.first(bytes), .padded = padded};
    }
    const bool any_free =
        std::any_of(slots_.begin(), slots_.end(), [](const Slot& s) { return s.state == State::kFree; });
    if (!any_free || next_read_ == blocks_) changed_.Wait(&mutex_);
  }
}

void BlockStream::GiveBack(std::size_t slot) {
  const absl::MutexLock guard(&mutex_);
  CAIRN_CHECK(slots_[slot].state == State::kTaken);
  slots_[slot].state = State::kFree;
  changed_.SignalAll();
}

void BlockStream::Drain() {
  const auto is_busy = [](const Slot& slot) { return slot.state == State::kReading || slot.state == State::kTaken; };
  const absl::MutexLock lock(&mutex_);
  while (std::any_of(slots_.begin(), slots_.end(), is_busy)) changed_.Wait(&mutex_);
}

}  // namespace cairn
