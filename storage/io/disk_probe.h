// Measures which shapes of transfers are fast on a disk: writes a scratch file and reads it again, by the disk's own
// asynchronous transfers, in several sizes and depths. Blocks for about a second; longer only if the disk does not
// answer.
#ifndef CAIRN_STORAGE_IO_DISK_PROBE_H_
#define CAIRN_STORAGE_IO_DISK_PROBE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "storage/base/transfer_shape.h"
#include "storage/io/disk.h"

namespace cairn {

// What is tried, the fewest bytes in flight first; that of a disk of which nothing is known is among them.
std::span<const TransferShape> ProbedShapes();

struct DiskProbeLimits {
  std::uint64_t file_bytes = 64 << 20;      // of the scratch file, at most; a 32nd of what is free, too
  std::uint64_t file_bytes_min = 16 << 20;  // with less nothing is measured
  std::chrono::milliseconds time{1500};     // no transfer begins later
  std::uint64_t speed_min = 200'000'000;    // bytes per second: a slower disk is busy with any shape
};

struct DiskSpeeds {
  // Of each of ProbedShapes(), the better of two measurements; both are empty if the disk is slow, or time was short.
  std::vector<ShapeSpeed> write = {}, read = {};
  double bytes_per_s = 0;  // of the first write of the file, one transfer of 1 MiB at a time and four at once
};

// Of those that measure one disk. Two that measure at once both find less, and much the same choice.
enum class ProbeTurn : std::uint8_t {
  kAwaited,      // only while no other measures
  kGoneWithout,  // in any case
};

// The scratch file is one of `path` (scratch.h). `stop` is asked before each transfer and each sync, on this thread;
// then only what is under way is waited for.
//   kFailedPrecondition  no direct I/O there: the page cache would be measured
//   kResourceExhausted   too little is free, or no memory for the buffer
//   kCancelled           `stop` said so: nothing is left, and nothing is under way
//   others               as the disk says
absl::StatusOr<DiskSpeeds> ProbeDisk(Disk& disk, const std::string& path, const DiskProbeLimits& limits,
                                     const std::function<bool()>& stop);

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_DISK_PROBE_H_
