// Which device a folder is on, as far as the kernel tells: whatever was measured of it counts for that one only.
#ifndef CAIRN_STORAGE_IO_DEVICE_IDENTITY_H_
#define CAIRN_STORAGE_IO_DEVICE_IDENTITY_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

#include "storage/io/disk.h"

namespace cairn {

struct DeviceIdentity {
  static constexpr std::size_t kTextBytesMax = 128;  // of each text; printable ASCII

  std::uint64_t device = 0;       // st_dev
  std::uint64_t file_system = 0;  // statfs(2)'s f_type
  std::uint64_t bytes = 0;        // of the block device; 0: there is none, as behind a network
  std::string model = {};         // of it; empty: it tells none, as virtual ones do
  std::string kernel = {};        // its release
  bool operator==(const DeviceIdentity&) const = default;
};

// Blocks on disk. Errors as the disk says of `folder`; what only sysfs tells may be missing.
absl::StatusOr<DeviceIdentity> IdentifyDevice(Disk& disk, const std::string& folder);

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_DEVICE_IDENTITY_H_
