// One rank's checkpoint file on its way from image to disk: takes what the client has filled by its plan (plan.h),
// hashes and writes windows, writes metadata and trailer last. Layout F of FTI-FF: offset in the image = offset in the
// file.
//
// While the client copies into an image of the whole file, the file is neither hashed nor written: that begins with
// the Commit, or with Go if it waits for that. In a ring windows are hashed and written as they are complete.
//
// With a base that is compared (a differential checkpoint) a window is written once it is hashed: of its blocks those
// whose digest differs from the base's, and all that the base does not have. Metadata and trailer are always written
// anew. The result is an ordinary file, equal byte by byte to one written in full. A base that is not compared is
// written over in full: a disk takes that faster than a new file.
//
// The image is the client's: it may change it at any time. Hashes, checksums and disk may then differ, which spoils
// its own dataset only and is found when that is verified. Bytes of a container that are not in use, and whatever an
// earlier use left in the image there, are written as zeros.
//
// Threads: calls come from one strand. Callbacks come from pool or I/O threads, never from inside a call, may come
// under the object's lock and must only post. No callback comes after on_end; after Abort only on_end comes. The object
// lives as long as work is pending. Who drops it before on_end aborts it first: else the work file stays.
#ifndef CAIRN_DAEMON_DATA_CAPTURE_H_
#define CAIRN_DAEMON_DATA_CAPTURE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/data/block_digests.h"
#include "daemon/data/image.h"
#include "daemon/data/plan.h"
#include "daemon/data/work_pool.h"
#include "storage/base/checksum.h"
#include "storage/format/ftiff/layout.h"
#include "storage/format/ftiff/letter.h"
#include "storage/format/placement/bounds.h"
#include "storage/io/disk.h"

namespace cairn {

// Captures that are hashed together, so that small ones fill the lanes of MD5 among them. Thread-safe.
class HashCompany;
std::shared_ptr<HashCompany> MakeHashCompany(WorkPool& pool);  // `pool` is borrowed and outlives what it hashes

// What is known of the file once it is written and synced under its work name.
struct CaptureResult {
  std::uint64_t file_bytes = 0;
  std::uint64_t bytes_written = 0;    // of these; less where the base had the rest
  std::vector<std::uint32_t> crc32c;  // per MiB of the file
  std::uint32_t crc32 = 0;            // of the whole file (zlib), from the CRCs of its parts
  std::vector<std::byte> metadata;    // layout F: what lies behind the image's bytes in the file
  ftiff::FileLayout layout;           // as planned, F's offsets
  std::vector<Md5Digest> chunk_hashes;
  std::vector<view::Bounds> bounds;             // of each container's elements; none unless asked for
  std::shared_ptr<const BlockDigests> digests;  // of the file's data; null unless asked for
  bool new_file = true;                         // false: the base has become the file
  absl::Status base_status;  // why the base could not be used; kDataLoss, too, if only parts of it could
};

// A file of an earlier dataset of the same rank to start from; in layout F if it is compared.
struct CaptureBase {
  std::string path;
  bool clone = false;    // its extents are shared and it stays; false: it is spare, and becomes the new file
  bool compared = true;  // only blocks that differ are written; false: all are
  std::uint64_t file_bytes = 0;
  std::uint64_t data_bytes = 0;
  std::vector<std::uint32_t> crc32c;  // per MiB, from its catalogue
  // Null: made from the file if it is compared, each MiB first checked against crc32c.
  std::shared_ptr<const BlockDigests> digests;
};

class Capture : public std::enable_shared_from_this<Capture> {
 public:
  struct Spec {
    ftiff::FileLayout layout;  // F's offsets
    // kF: written window by window as below. kA: written to the same work name from the finished F file; then bytes,
    // CRCs and metadata of the result are that file's (metadata: empty), no base is used and no digests are made.
    ftiff::Letter letter = ftiff::Letter::kF;
    std::vector<std::int32_t> registered = {};  // kA: as ftiff::FileToWrite's
    // One per container; looked at for those without content (FTI-FF specification, 3.4). One that it does not have is
    // that of no bytes.
    std::vector<Md5Digest> last_hashes = {};
    std::optional<CaptureBase> base = {};  // whatever is wrong with it: the file is written in full
    bool want_digests = false;
    // What to look for in each container while it is hashed (storage/format/placement/placement.h), or none at all.
    std::vector<view::BoundsScan> scans = {};
    std::vector<PlanPiece> plan;
    std::shared_ptr<Image> image;  // null if the layout has no bytes
    std::int32_t checkpoint_id = 0;
    std::uint64_t timestamp_ns = 0;
    std::string work_path;
    bool waits = false;  // for Go; not in a ring, whose client would wait, too
  };
  struct Callbacks {
    // Slots of the ring that are free again, counted from the begin. Never without a ring.
    std::function<void(std::uint64_t windows)> on_released;
    // Once: the file is written and synced under its work name, or failed, or was aborted (kCancelled; the work file
    // is removed). After this the image is the caller's again: what it becomes no longer matters.
    std::function<void(absl::StatusOr<CaptureResult>)> on_end;
  };

  // `disk` and `pool` are borrowed and outlive the object. `waiting`: what waits for the disk goes there; null: to the
  // pool's own threads for that. `company`: of that pool; those that share it are hashed together; null: alone.
  static std::shared_ptr<Capture> Start(Disk& disk, WorkPool& pool, Spec spec, Callbacks callbacks,
                                        Waiting waiting = nullptr, std::shared_ptr<HashCompany> company = nullptr);
  virtual ~Capture() = default;

  virtual const std::vector<PlanPiece>& plan() const = 0;
  // The first `pieces` pieces are in the image. kInvalidArgument: fewer than before, more than there are, or (ring) a
  // slot that was not yet released; the client is wrong and its dataset fails. After a failure that on_end tells:
  // counted only.
  virtual absl::Status Filled(std::uint64_t pieces) = 0;
  // For doors without shared memory: the bytes of the next piece, checked against `crc32c`, then as Filled.
  //   kInvalidArgument  not the next piece, not its size, or as Filled
  //   kDataLoss         the CRC differs; the piece was not taken and may come again
  virtual absl::Status Put(std::uint64_t index, std::span<const std::byte> bytes, std::uint32_t crc32c) = 0;
  virtual std::uint64_t pieces_filled() const = 0;
  // OK: the bytes are `captured`; on_end follows. kFailedPrecondition: not all pieces are filled, or it was called
  // before; other errors: the capture has failed already, as on_end tells.
  virtual absl::Status Commit() = 0;
  // What it was to wait for is over. Nothing if it waits for nothing.
  virtual void Go() = 0;
  virtual void Abort() = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_CAPTURE_H_
