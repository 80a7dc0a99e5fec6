#include "storage/transfer/block_stream.h"

#include <algorithm>
#include <utility>

#include "storage/base/check.h"

namespace cairn {
namespace {

std::uint64_t BlocksOf(std::uint64_t bytes) {
  return bytes / kCrcBlockBytes + (bytes % kCrcBlockBytes != 0);
}

std::size_t RoundUp(std::size_t bytes) {
  return (bytes + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
}

}  // namespace

BlockBuffers::BlockBuffers(std::uint64_t file_bytes)
    : count_(std::clamp<std::uint64_t>(BlocksOf(file_bytes), 1, kBlockBuffersMax)),
      base_(static_cast<std::byte*>(std::aligned_alloc(kDirectAlignment, count_ * kCrcBlockBytes)), &std::free) {
  CAIRN_CHECK(base_ != nullptr);
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

void BlockStream::ReadAhead(std::unique_lock<std::mutex>& lock) {
  for (std::size_t i = 0; i < slots_.size() && next_read_ < blocks_; ++i) {
    if (slots_[i].state != State::kFree) continue;
    const std::uint64_t block = next_read_++;
    slots_[i] = {.state = State::kReading, .block = block, .status = {}};
    const std::size_t bytes = BytesOf(block);
    const std::span<std::byte> target = buffers_.at(i).first(file_.direct() ? RoundUp(bytes) : bytes);
    lock.unlock();  // the answer may come before the call returns
    file_.ReadAsync(block * kCrcBlockBytes, target, [this, i](absl::Status status) {
      const std::lock_guard guard(mutex_);
      slots_[i].status = std::move(status);
      slots_[i].state = State::kRead;
      changed_.notify_all();  // with the lock held: after it the stream may be gone
    });
    lock.lock();
  }
}

absl::StatusOr<BlockStream::Block> BlockStream::Next() {
  CAIRN_CHECK(!done());
  std::unique_lock lock(mutex_);
  for (;;) {
    ReadAhead(lock);
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
      const std::span<std::byte> padded = buffers_.at(i).first(RoundUp(bytes));
      std::fill(padded.begin() + static_cast<std::ptrdiff_t>(bytes), padded.end(), std::byte{0});
      return Block{.index = slot.block, .slot = i, .bytes = padded.first(bytes), .padded = padded};
    }
    const bool any_free =
        std::any_of(slots_.begin(), slots_.end(), [](const Slot& s) { return s.state == State::kFree; });
    if (!any_free || next_read_ == blocks_) changed_.wait(lock);
  }
}

void BlockStream::GiveBack(std::size_t slot) {
  const std::lock_guard guard(mutex_);
  CAIRN_CHECK(slots_[slot].state == State::kTaken);
  slots_[slot].state = State::kFree;
  changed_.notify_all();
}

void BlockStream::Drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] {
    return std::none_of(slots_.begin(), slots_.end(),
                        [](const Slot& s) { return s.state == State::kReading || s.state == State::kTaken; });
  });
}

}  // namespace cairn
