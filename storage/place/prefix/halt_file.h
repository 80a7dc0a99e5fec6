// <prefix>/.scr/halt.scr, which people and SCR's tools write to while a run reads it. Changed in place under the lock
// that they take, since they hold it on the inode. Calls block on disk. Stateless, hence thread-safe.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_HALT_FILE_H_
#define CAIRN_STORAGE_PLACE_PREFIX_HALT_FILE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <string>

#include "storage/format/scr/halt.h"
#include "storage/io/disk.h"

namespace cairn {

// No file, or an empty one: no conditions. kDataLoss: damaged; the message names section or field, and offset.
absl::StatusOr<scr::Halt> ReadHalt(Disk& disk, const std::string& prefix);

// Reads, lets `change` change, writes back what differs, synced; makes the file if need be. Unknown keys stay. A
// damaged file is written anew, as if it had been empty.
//   kNotFound     no such prefix
//   kUnavailable  another process holds the lock and did not let it go within `patience`
absl::Status ChangeHalt(Disk& disk, const std::string& prefix, const std::function<void(scr::Halt&)>& change,
                        std::chrono::milliseconds patience);

// Under the lock, too. Not there: OK. kUnavailable as above.
absl::Status RemoveHalt(Disk& disk, const std::string& prefix, std::chrono::milliseconds patience);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_HALT_FILE_H_
