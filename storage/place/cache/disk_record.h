// What was measured of the disk that a cache is on, so that it is measured once: <cache>/<user>/disk.cairn.
#ifndef CAIRN_STORAGE_PLACE_CACHE_DISK_RECORD_H_
#define CAIRN_STORAGE_PLACE_CACHE_DISK_RECORD_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "storage/base/transfer_shape.h"
#include "storage/io/device_identity.h"
#include "storage/io/disk.h"

namespace cairn {

struct DiskRecord {
  // Older ones do not count. Without a comparison the disk may only have been busy then: it is looked at again soon.
  static constexpr std::int64_t kDayUs = std::int64_t{24} * 3600 * 1'000'000;
  static constexpr std::int64_t kDays = 30, kDaysUncompared = 1;

  DeviceIdentity device;
  std::int64_t measured_us = 0;  // since the epoch
  bool compared = false;         // false: the disk is slow, or was busy: its shapes were not compared
  TransferShapes shapes = {};    // chosen; without a comparison those of a disk of which nothing is known
  std::uint64_t write_speed = 0, read_speed = 0;  // of these, in bytes per second; without: of one write, and 0
  bool operator==(const DiskRecord&) const = default;
};

std::string DiskRecordPath(const std::string& cache, std::string_view user);

// Blocks on disk.
//   kNotFound            there is none
//   kDataLoss            damaged, or no such record: names file and field
//   kFailedPrecondition  of a newer version
absl::StatusOr<DiskRecord> ReadDiskRecord(Disk& disk, const std::string& path);
// REQUIRES: what ReadDiskRecord would believe.
absl::Status WriteDiskRecord(Disk& disk, const std::string& path, const DiskRecord& record);

// Does it count for this device now? If not, the message says what has changed.
absl::Status CheckCounts(const DiskRecord& record, const DeviceIdentity& device, std::int64_t now_us);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_CACHE_DISK_RECORD_H_
