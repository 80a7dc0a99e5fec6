// One rank's checkpoint file on its way from image to disk: hands the client its plan, hashes and writes windows as
// they fill, writes metadata and trailer last. formats/ftiff layout F: offset in the image = offset in the file.
//
// A window is an aligned MiB of the file (kCrcBlockBytes), so that each has one CRC32C in the catalogue. The plan goes
// round-robin over as many containers as there are MD5 lanes; pieces never cross a window or a container.
// If the image is smaller than the file it is a ring of window slots: the plan then names for each piece the slot and
// how many windows must have been released before (at most half as many containers are open at once as the ring has
// slots, at least one).
//
// Threads: calls come from one strand. Callbacks come from pool threads, never from inside a call, and must only post.
// No callback comes after OnEnd; after Abort only OnEnd comes. The object lives as long as work is pending.
#ifndef CAIRN_DAEMON_DATA_CAPTURE_H_
#define CAIRN_DAEMON_DATA_CAPTURE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/data/image.h"
#include "daemon/data/work_pool.h"
#include "storage/base/checksum.h"
#include "storage/base/disk.h"
#include "storage/ftiff/layout.h"

namespace cairn {

inline constexpr std::uint64_t kWindowBytes = kCrcBlockBytes;
inline constexpr std::uint64_t kRingBytesMin = 2 * kWindowBytes;

struct PlanPiece {
  std::uint32_t variable = 0;        // index in the list of variables
  std::uint64_t variable_offset = 0;
  std::uint64_t file_offset = 0;
  std::uint64_t image_offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t after_released = 0;
};

// The pieces of `layout` in copy order. `image_bytes` >= data_bytes (rounded up to windows): the whole file; else a
// ring, >= kRingBytesMin (kResourceExhausted). `variables[i]` is the id of variable i. Pure.
absl::StatusOr<std::vector<PlanPiece>> MakePlan(const ftiff::FileLayout& layout,
                                                std::span<const ftiff::VariableSize> variables,
                                                std::uint64_t image_bytes);

// What is known of the file once it is written and synced under its work name.
struct CaptureResult {
  std::uint64_t file_bytes = 0;
  std::vector<std::uint32_t> crc32c;     // per MiB of the file
  std::uint32_t crc32 = 0;               // of the whole file (zlib), from the CRCs of its parts
  std::vector<std::byte> metadata;       // what lies behind the image's bytes in the file
};

class Capture : public std::enable_shared_from_this<Capture> {
 public:
  struct Spec {
    ftiff::FileLayout layout;
    std::vector<PlanPiece> plan;
    std::shared_ptr<Image> image;        // null if the layout has no bytes
    std::int32_t checkpoint_id = 0;
    std::uint64_t timestamp_ns = 0;
    std::string work_path;
  };
  struct Callbacks {
    // Slots of the ring that are free again, counted from the begin. Never without a ring.
    std::function<void(std::uint64_t windows)> on_released;
    // Once: the file is written and synced under its work name, or failed, or was aborted (kCancelled; the work file
    // is removed). After this the image is read no more.
    std::function<void(absl::StatusOr<CaptureResult>)> on_end;
  };

  // `disk` and `pool` are borrowed and outlive the object.
  static std::shared_ptr<Capture> Start(Disk& disk, WorkPool& pool, Spec spec, Callbacks callbacks);
  virtual ~Capture() = default;

  virtual const std::vector<PlanPiece>& plan() const = 0;
  // The first `pieces` pieces are in the image. kInvalidArgument: fewer than before, more than there are, or (ring) a
  // slot that was not yet released; the client is wrong and its dataset fails.
  virtual absl::Status Filled(std::uint64_t pieces) = 0;
  // For doors without shared memory: the bytes of the next piece, checked against `crc32c`, then as Filled.
  virtual absl::Status Put(std::uint64_t index, std::span<const std::byte> bytes, std::uint32_t crc32c) = 0;
  virtual std::uint64_t pieces_filled() const = 0;
  // All pieces must be filled: kFailedPrecondition. OK: the bytes are `captured`; on_end follows.
  virtual absl::Status Commit() = 0;
  virtual void Abort() = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_CAPTURE_H_
