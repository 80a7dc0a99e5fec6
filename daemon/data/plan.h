// In which order and to which places a client copies its variables into an image.
//
// A window is an aligned MiB of the file (kCrcBlockBytes), so that each has one CRC32C in the catalogue. The plan goes
// round-robin over as many containers as there are MD5 lanes, a window at a time; pieces never cross a window or a
// container, and those of a container come in the order of their offsets.
//
// In a ring at most half as many containers are open at once as the ring has slots, at least one. A window takes a slot
// with its first piece and is complete with its last; slots are released in the order in which windows are complete,
// so that a count says which ones are free. A window without bytes takes no slot.
#ifndef CAIRN_DAEMON_DATA_PLAN_H_
#define CAIRN_DAEMON_DATA_PLAN_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/format/ftiff/layout.h"

namespace cairn {

inline constexpr std::uint64_t kWindowBytes = kCrcBlockBytes;
inline constexpr std::uint64_t kRingBytesMin = 2 * kWindowBytes;

struct PlanPiece {
  std::uint32_t variable = 0;  // index in the list of variables
  std::uint64_t variable_offset = 0;
  std::uint64_t file_offset = 0;
  std::uint64_t image_offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t after_released = 0;  // the place may be written once so many windows were released
  // Of restores: so many runs of `bytes`, which lie so far apart in the variable, and in file and image.
  std::uint64_t rows = 1;
  std::uint64_t variable_stride = 0, file_stride = 0;
  std::uint64_t all_bytes() const { return rows * bytes; }
  friend bool operator==(const PlanPiece&, const PlanPiece&) = default;
};

// The pieces of `layout` in copy order. `image_bytes` >= data_bytes (rounded up to windows): the whole file, each
// piece at its file offset; else a ring. `variables[i]` is the id of variable i. Pure.
//   kResourceExhausted  a ring of less than kRingBytesMin
//   kInvalidArgument    a container that overlaps another, lies beyond data_bytes or holds an unknown variable
absl::StatusOr<std::vector<PlanPiece>> MakePlan(const ftiff::FileLayout& layout,
                                                std::span<const ftiff::VariableSize> variables,
                                                std::uint64_t image_bytes);

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_PLAN_H_
