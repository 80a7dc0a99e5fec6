// The files that a rank has lost with its node, as a Disk that can only be read: each byte is made of what the other
// members of its redundancy set have, when it is read. So what copies files from any disk, compares them with their
// catalogue and goes on where it was cut off brings them back, too.
#ifndef CAIRN_STORAGE_JOB_PROTECT_REBUILT_DISK_H_
#define CAIRN_STORAGE_JOB_PROTECT_REBUILT_DISK_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/file/transfer/transfer.h"
#include "storage/io/disk.h"
#include "storage/job/protect/protect.h"

namespace cairn {

// A redundancy file as WriteRedundancy has made it.
struct KeptFile {
  Disk* disk = nullptr;
  std::string path;  // on that disk
  catalogue::FileEntry sums;
  std::uint64_t header_bytes = 0;  // the payload begins behind them
};

// A member of the set. Lost files have no disk and no sums; of the member that is rebuilt `paths` are the names under
// which they are to be found on the disk that is made.
struct RebuildSource {
  ProtectSource files;
  std::optional<KeptFile> kept;  // nullopt: lost, too
};

// All disks, and `throttle` and `progress`, are borrowed and outlive the Disk; `throttle` is of what is read from the
// others. Nothing is read before the first use. What a disk's caller then hears besides storage/io/disk.h's:
//   kDataLoss     a member's file is not what it should be: names it. (It is for the caller to leave that one out.)
//   kUnavailable  a file is not what it was, or cannot be reached
// It has no lists. Thread-safe; one read at a time gets on.
//   kInvalidArgument  the set's numbers contradict each other
//   kDataLoss         more is lost than the scheme bears: names the members
absl::StatusOr<std::unique_ptr<Disk>> MakeRebuiltDisk(std::vector<RebuildSource> set, std::uint32_t member,
                                                      Throttle& throttle, TransferProgress& progress);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_PROTECT_REBUILT_DISK_H_
