// A file's blocks of 1 MiB, in order, read ahead into a fixed number of buffers.
#ifndef CAIRN_STORAGE_FILE_TRANSFER_BLOCK_STREAM_H_
#define CAIRN_STORAGE_FILE_TRANSFER_BLOCK_STREAM_H_

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/io/disk.h"

namespace cairn {

inline constexpr std::size_t kBlockBuffersMax = 16;

// Buffers of a block each, aligned for direct I/O; what is in them at first is unknown. The memory of one full set
// stays with the process for the next: the kernel clears a new page at its first use, which costs a tenth of a flush.
// (MADV_FREE would lend it to the kernel meanwhile. Kernels before 5.18 may then lose what a direct read has brought.)
class BlockBuffers {
 public:
  // As many as files of up to `file_bytes` can use, at most kBlockBuffersMax.
  explicit BlockBuffers(std::uint64_t file_bytes);
  ~BlockBuffers();
  BlockBuffers(const BlockBuffers&) = delete;
  std::size_t count() const { return count_; }
  std::span<std::byte> at(std::size_t slot) const { return {base_ + slot * kCrcBlockBytes, kCrcBlockBytes}; }

 private:
  std::size_t count_;
  std::byte* base_;
};

// One thread calls Next; any may call GiveBack. Waits only for transfers that were begun and blocks not given back.
class BlockStream {
 public:
  struct Block {
    std::uint64_t index = 0;
    std::size_t slot = 0;
    std::span<std::byte> bytes;   // of the file
    std::span<std::byte> padded;  // the same, and zeros up to kDirectAlignment
    std::uint64_t offset() const { return index * kCrcBlockBytes; }
  };

  // Blocks from `first_block` on of a file of `file_bytes`. `buffers` is this stream's alone while it lives.
  BlockStream(File& file, std::uint64_t file_bytes, std::uint64_t first_block, BlockBuffers& buffers);
  ~BlockStream() { Drain(); }
  BlockStream(const BlockStream&) = delete;

  bool done() const { return next_out_ == blocks_; }
  // Begins to read into all buffers that are free, which Next does, too. Next's thread.
  void ReadAhead() ABSL_LOCKS_EXCLUDED(mutex_);
  // REQUIRES: !done(). Errors are the file's; no block is taken then.
  absl::StatusOr<Block> Next();
  void GiveBack(std::size_t slot);
  // Waits until no read is under way and every block was given back.
  void Drain();

 private:
  enum class State { kFree, kReading, kRead, kTaken };
  struct Slot {
    State state = State::kFree;
    std::uint64_t block = 0;
    absl::Status status;
  };

  std::size_t BytesOf(std::uint64_t block) const;

  File& file_;
  const std::uint64_t file_bytes_;
  const std::uint64_t blocks_;
  BlockBuffers& buffers_;
  std::uint64_t next_read_;  // block; Next's thread only
  std::uint64_t next_out_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);  // as many as there are buffers
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_FILE_TRANSFER_BLOCK_STREAM_H_
