// A file's blocks of 1 MiB, in order, read ahead into a fixed number of buffers: in pieces of one block or of several,
// which are one transfer each.
#ifndef CAIRN_STORAGE_FILE_TRANSFER_BLOCK_STREAM_H_
#define CAIRN_STORAGE_FILE_TRANSFER_BLOCK_STREAM_H_

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/io/disk.h"

namespace cairn {

// How a file is read: so many blocks in one piece, and so many pieces at once.
struct PieceShape {
  std::size_t blocks = 1;
  std::size_t pieces = 16;
};
// For files that are read from one end to the other: few large transfers cost the processor less than many small ones.
inline constexpr PieceShape kWholeFile = {.blocks = 4, .pieces = 8};

// Buffers of a piece each, aligned for direct I/O; what is in them at first is unknown. Some memory stays with the
// process for the next: the kernel clears a new page at its first use, which costs a tenth of a flush.
// (MADV_FREE would lend it to the kernel meanwhile. Kernels before 5.18 may then lose what a direct read has brought.)
class BlockBuffers {
 public:
  // As many as files of up to `file_bytes` can use, at most `shape.pieces`, and no larger. REQUIRES: none of the shape
  // is 0.
  explicit BlockBuffers(std::uint64_t file_bytes, PieceShape shape = {});
  ~BlockBuffers();
  BlockBuffers(const BlockBuffers&) = delete;
  std::size_t count() const { return count_; }
  std::size_t blocks_each() const { return blocks_each_; }
  std::span<std::byte> at(std::size_t slot) const { return {base_ + slot * bytes_each(), bytes_each()}; }

 private:
  std::size_t bytes_each() const { return blocks_each_ * kCrcBlockBytes; }

  std::size_t blocks_each_;
  std::size_t count_;
  std::byte* base_;
};

// One thread calls Next; any may call GiveBack. Waits only for transfers that were begun and pieces not given back.
class BlockStream {
 public:
  struct Block {
    std::uint64_t index = 0;     // in the file
    std::span<std::byte> bytes;  // of the file
    std::uint64_t offset() const { return index * kCrcBlockBytes; }
  };
  struct Piece {
    std::uint64_t first = 0;  // block
    std::size_t slot = 0;
    std::span<std::byte> bytes;   // of the file
    std::span<std::byte> padded;  // the same, and zeros up to kDirectAlignment
    std::uint64_t offset() const { return first * kCrcBlockBytes; }
    std::size_t blocks() const { return (bytes.size() + kCrcBlockBytes - 1) / kCrcBlockBytes; }
    Block block(std::size_t i) const {  // REQUIRES: i < blocks()
      const std::size_t from = i * kCrcBlockBytes;
      return {.index = first + i,
              .bytes = bytes.subspan(from, std::min<std::size_t>(kCrcBlockBytes, bytes.size() - from))};
    }
  };

  // Blocks from `first_block` on of a file of `file_bytes`. `buffers` is this stream's alone while it lives.
  BlockStream(File& file, std::uint64_t file_bytes, std::uint64_t first_block, BlockBuffers& buffers);
  ~BlockStream() { Drain(); }
  BlockStream(const BlockStream&) = delete;

  bool done() const { return next_out_ >= blocks_; }
  // Begins to read into all buffers that are free, which Next does, too. Next's thread.
  void ReadAhead() ABSL_LOCKS_EXCLUDED(mutex_);
  // REQUIRES: !done(). Errors are the file's; no piece is taken then.
  absl::StatusOr<Piece> Next();
  void GiveBack(std::size_t slot);
  // Waits until no read is under way and every piece was given back.
  void Drain();

 private:
  enum class State { kFree, kReading, kRead, kTaken };
  struct Slot {
    State state = State::kFree;
    std::uint64_t first = 0;  // block
    absl::Status status;
  };

  std::size_t BytesFrom(std::uint64_t first) const;
  void StartRead(std::size_t slot, std::uint64_t first);

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
