// What a capture knows of its file: the chunks and windows, where each lies in the image and how far it has come.
// Made from layout and plan, which are our own; no I/O, no locks: the owner guards it.
#ifndef CAIRN_DAEMON_DATA_WINDOW_TABLE_H_
#define CAIRN_DAEMON_DATA_WINDOW_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/data/lane_hash.h"
#include "daemon/data/plan.h"
#include "storage/format/ftiff/layout.h"
#include "storage/format/placement/bounds.h"

namespace cairn {

class WindowTable {
 public:
  // The used bytes of a container; only those that have some.
  struct Chunk {
    std::size_t container = 0;  // index in layout.containers
    std::uint64_t file_offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t filled = 0;  // so many are in the image,
    std::uint64_t hashed = 0;  // and so many are in `hash`
    ChunkHash hash;
    view::BoundsScan scan = {};  // of the hashed bytes
  };
  struct Window {
    std::uint64_t image_offset = 0;
    std::uint64_t bytes = 0;      // of the file's data; less than kWindowBytes in the last one only
    std::uint64_t content = 0;    // bytes of chunks; the rest are gaps
    std::uint64_t unfilled = 0;   // bytes of content that are not in the image,
    std::uint64_t unhashed = 0;   // and that are not in `crc`
    std::uint32_t runs_left = 0;  // writes of its bytes, under way or to come,
    bool written = false;         // until all are done
    BlockCrc crc;                 // right once all is hashed; gaps count as zeros
  };

  // REQUIRES: `plan` is MakePlan's for `layout`; `image_bytes` at least what it was made for.
  WindowTable(const ftiff::FileLayout& layout, const std::vector<PlanPiece>& plan, std::uint64_t image_bytes);

  bool ring() const { return ring_; }
  std::vector<Chunk>& chunks() { return chunks_; }
  std::vector<Window>& windows() { return windows_; }
  const std::vector<Window>& windows() const { return windows_; }
  std::size_t ChunkOfPiece(std::size_t piece) const { return chunk_of_piece_[piece]; }
  std::size_t WindowAt(std::uint64_t file_offset) const { return file_offset / kWindowBytes; }
  std::uint64_t WindowBegin(std::size_t window) const { return window * kWindowBytes; }
  std::uint64_t ImageOffset(std::uint64_t file_offset) const {
    return windows_[WindowAt(file_offset)].image_offset + file_offset % kWindowBytes;
  }

  // Makes the bytes of `window` in `image` that belong to no chunk zero. Reads nothing that changes: needs no lock.
  void ZeroGaps(std::size_t window, std::span<std::byte> image) const;

 private:
  struct Gap {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  void AddChunks(const ftiff::FileLayout& layout);
  void AddPieces(const std::vector<PlanPiece>& plan);

  bool ring_ = false;
  std::vector<Chunk> chunks_;  // by file offset
  std::vector<Window> windows_;
  std::vector<Gap> gaps_;  // by file offset
  std::vector<std::uint32_t> chunk_of_piece_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_WINDOW_TABLE_H_
