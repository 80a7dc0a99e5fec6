// One rank's restore: reads the MiB blocks that its pieces need from their sources into a restore image, checks each
// against the catalogue's CRC32C, and tells which pieces are ready. Elastic by construction: a piece may come from
// any rank's file.
//
// Sources are files (direct I/O, read ahead, as much at once as their disk says: Disk::shapes) or kept images (copied,
// then checked: the copy is what counts). A block of a file that another restore of the node reads at the same time, or
// still holds, is copied from there (shared_blocks.h). The plan goes source by source (in the order of their first
// pieces) and upwards in each, so that every block is read once and every file is opened once. If the image is smaller
// than all blocks it is a ring; slots are reused as the client says what it has copied. Threads and callbacks: as
// Capture.
#ifndef CAIRN_DAEMON_DATA_RESTORE_H_
#define CAIRN_DAEMON_DATA_RESTORE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/data/capture.h"
#include "daemon/data/image.h"
#include "daemon/data/shared_blocks.h"
#include "daemon/data/work_pool.h"
#include "storage/io/disk.h"

namespace cairn {

// A rank's checkpoint file in memory: its image and the metadata behind it.
struct KeptImage {
  std::shared_ptr<Image> image;
  std::uint64_t data_bytes = 0;
  std::vector<std::byte> metadata;  // file bytes from data_bytes on
};

struct RestoreSource {
  std::string path;  // of the file; or
  std::shared_ptr<const KeptImage> kept;
  Disk* disk = nullptr;                   // where the file is, borrowed; null: the one that Start is given
  std::shared_ptr<Disk> lives_with = {};  // the disk, if it lives only as long as it is read
  std::uint64_t file_bytes = 0;
  std::vector<std::uint32_t> crc32c;  // per MiB
};

// `rows` runs of `bytes` each, of which the first begins at the offsets, and each next one a stride behind.
struct RestorePiece {
  std::uint32_t variable = 0;
  std::uint64_t variable_offset = 0;
  std::size_t source = 0;
  std::uint64_t file_offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t rows = 1;
  std::uint64_t variable_stride = 0, file_stride = 0;  // with several rows: file_stride >= bytes
};

class Restore : public std::enable_shared_from_this<Restore> {
 public:
  // Bytes of image that hold all blocks of these pieces; with less (at least kRingBytesMin) it is a ring. Pieces that
  // do not lie in their source count for nothing.
  static std::uint64_t ImageBytes(const std::vector<RestoreSource>& sources, const std::vector<RestorePiece>& pieces);

  struct Callbacks {
    std::function<void(std::uint64_t pieces)> on_ready;  // the first so many pieces of plan() are verified in the image
    // Once: OK when all pieces are ready and copied; kDataLoss (with `source`: damaged, or not of its size), kNotFound,
    // kUnavailable or what else the disk says (of the source) when one could not be read; kInvalidArgument: pieces,
    // rows, source and image do not fit; kResourceExhausted: the image is smaller than the smallest ring; kCancelled
    // after Abort.
    std::function<void(absl::Status status, std::size_t source)> on_end;
  };

  // Pieces that cross blocks are cut; rows that lie in one block stay together. `image` may be null if there are no
  // bytes. `waiting`: as Capture::Start. `shared`: of all restores of the node, borrowed until this one ends; null:
  // each block is read from its source.
  static std::shared_ptr<Restore> Start(Disk& disk, WorkPool& pool, std::vector<RestoreSource> sources,
                                        std::vector<RestorePiece> pieces, std::shared_ptr<Image> image,
                                        Callbacks callbacks, Waiting waiting = nullptr, SharedBlocks* shared = nullptr);
  virtual ~Restore() = default;

  // In the order in which they become ready; after_released is unused.
  virtual const std::vector<PlanPiece>& plan() const = 0;
  virtual absl::Status Copied(std::uint64_t pieces) = 0;  // kInvalidArgument: more than are ready, fewer than before
  virtual void Abort() = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_RESTORE_H_
