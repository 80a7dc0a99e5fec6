// The end of a checkpoint file: metadata and trailer, with the last data bytes before them that fill no block of direct
// I/O; and the checksums of the whole file, which are known only then.
#ifndef CAIRN_DAEMON_DATA_TAIL_H_
#define CAIRN_DAEMON_DATA_TAIL_H_

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/data/capture.h"
#include "daemon/data/lane_hash.h"
#include "storage/io/disk.h"

namespace cairn {

// The result for a file of `data_bytes` bytes of data with checksums `windows`, each of a window, and `metadata`. Pure.
CaptureResult SumUp(std::uint64_t data_bytes, std::span<const BlockCrc> windows, std::vector<std::byte> metadata);

// Writes `data_rest`, the data from the last multiple of kDirectAlignment on, and `metadata` behind it; then gives the
// file its exact length. Blocks on disk.
absl::Status WriteTail(File& file, std::uint64_t data_bytes, std::span<const std::byte> data_rest,
                       std::span<const std::byte> metadata);

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_TAIL_H_
