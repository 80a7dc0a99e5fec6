#include "storage/file/transfer/block_stream.h"

#include <absl/base/thread_annotations.h>
#include <absl/cleanup/cleanup.h>
#include <absl/synchronization/mutex.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "storage/base/check.h"

namespace cairn {
namespace {

constexpr std::size_t kHugePage = 2 << 20;
constexpr std::size_t kSparesMax = 16, kSpareBytesMax = 32 << 20;  // sets of buffers that nobody uses, and theirs

std::uint64_t BlocksOf(std::uint64_t bytes) {
  return bytes / kCrcBlockBytes + (bytes % kCrcBlockBytes != 0);
}

// Memory of buffers that nobody uses. Thread-safe.
class SpareMemory {
 public:
  SpareMemory() { all_.reserve(kSparesMax); }

  // Null: none of that size.
  std::byte* Take(std::size_t bytes) {
    const absl::MutexLock lock(&mutex_);
    const auto at = std::ranges::find(all_, bytes, &Spare::bytes);
    if (at == all_.end()) return nullptr;
    std::byte* const base = at->base;
    kept_ -= bytes;
    all_.erase(at);
    return base;
  }
  void Keep(std::byte* base, std::size_t bytes) {
    if (bytes > kSpareBytesMax) return std::free(base);
    const absl::MutexLock lock(&mutex_);
    while (kept_ > kSpareBytesMax - bytes || all_.size() == kSparesMax) {  // of sizes that were last wanted longer ago
      std::free(all_.front().base);
      kept_ -= all_.front().bytes;
      all_.erase(all_.begin());
    }
    kept_ += bytes;
    all_.push_back({.base = base, .bytes = bytes});
  }

 private:
  struct Spare {
    std::byte* base = nullptr;
    std::size_t bytes = 0;
  };
  absl::Mutex mutex_;
  std::vector<Spare> all_ ABSL_GUARDED_BY(mutex_);
  std::size_t kept_ ABSL_GUARDED_BY(mutex_) = 0;
};

SpareMemory& Spares() {
  static SpareMemory* const spares = new SpareMemory;  // never destroyed: threads may end after main
  return *spares;
}

}  // namespace

BlockBuffers::BlockBuffers(std::uint64_t file_bytes, PieceShape shape)
    : blocks_each_(std::clamp<std::uint64_t>(BlocksOf(file_bytes), 1, shape.blocks)),
      count_(std::clamp<std::uint64_t>((BlocksOf(file_bytes) + blocks_each_ - 1) / blocks_each_, 1, shape.pieces)) {
  const std::size_t bytes = count_ * bytes_each();
  base_ = Spares().Take(bytes);
  if (base_ != nullptr) return;
  base_ = static_cast<std::byte*>(std::aligned_alloc(bytes % kHugePage == 0 ? kHugePage : kDirectAlignment, bytes));
  if (base_ == nullptr) throw std::bad_alloc();
  // The kernel looks for the pages of a piece at each transfer; of huge ones there are few. Refused: small ones do.
  madvise(base_, bytes, MADV_HUGEPAGE);
}

BlockBuffers::~BlockBuffers() {
  Spares().Keep(base_, count_ * bytes_each());
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

std::size_t BlockStream::BytesFrom(std::uint64_t first) const {
  const std::uint64_t piece = buffers_.blocks_each() * kCrcBlockBytes;
  return static_cast<std::size_t>(std::min(piece, file_bytes_ - first * kCrcBlockBytes));
}

void BlockStream::ReadAhead() {
  for (std::size_t i = 0; i < buffers_.count() && next_read_ < blocks_; ++i) {
    {
      const absl::MutexLock lock(&mutex_);
      if (slots_[i].state != State::kFree) continue;
      slots_[i] = {.state = State::kReading, .first = next_read_, .status = {}};
    }
    StartRead(i, next_read_);
    next_read_ += buffers_.blocks_each();
  }
}

// Without the lock: the answer may come before ReadAsync returns.
void BlockStream::StartRead(std::size_t slot, std::uint64_t first) {
  const std::size_t bytes = BytesFrom(first);
  const std::span<std::byte> target = buffers_.at(slot).first(file_.direct() ? DirectBytes(bytes) : bytes);
  // What throws has begun nothing: Drain is not to wait for it.
  absl::Cleanup not_begun = [this, slot] {
    const absl::MutexLock lock(&mutex_);
    slots_[slot].state = State::kFree;
  };
  file_.ReadAsync(first * kCrcBlockBytes, target, [this, slot](absl::Status status) {
    const absl::MutexLock guard(&mutex_);
    slots_[slot].status = std::move(status);
    slots_[slot].state = State::kRead;
    changed_.SignalAll();  // with the lock held: after it the stream may be gone
  });
  std::move(not_begun).Cancel();
}

absl::StatusOr<BlockStream::Piece> BlockStream::Next() {
  CAIRN_CHECK(!done());
  for (;;) {
    ReadAhead();
    const absl::MutexLock lock(&mutex_);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      if (slot.state != State::kRead || slot.first != next_out_) continue;
      if (!slot.status.ok()) {
        slot.state = State::kFree;
        return slot.status;
      }
      slot.state = State::kTaken;
      next_out_ += buffers_.blocks_each();
      const std::size_t bytes = BytesFrom(slot.first);
      const std::span<std::byte> padded = buffers_.at(i).first(DirectBytes(bytes));
      std::fill(padded.begin() + static_cast<std::ptrdiff_t>(bytes), padded.end(), std::byte{0});
      return Piece{.first = slot.first, .slot = i, .bytes = padded.first(bytes), .padded = padded};
    }
    const bool any_free =
        std::any_of(slots_.begin(), slots_.end(), [](const Slot& s) { return s.state == State::kFree; });
    if (!any_free || next_read_ >= blocks_) changed_.Wait(&mutex_);
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
