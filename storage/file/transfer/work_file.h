// The name under which a file arrives: the same each time for the same bytes, so that an interrupted copy is found and
// continued, and another for other bytes or another owner, so that two datasets with a file of one name do not write
// into each other's.
#ifndef CAIRN_STORAGE_FILE_TRANSFER_WORK_FILE_H_
#define CAIRN_STORAGE_FILE_TRANSFER_WORK_FILE_H_

#include <cstdint>
#include <string>

#include "proto/catalogue.pb.h"

namespace cairn {

// In the directory of `path`; IsWorkName holds for it. `owner`: CopyJob::owner.
std::string TransferWorkName(const std::string& path, const catalogue::FileEntry& entry, std::uint64_t owner = 0);

}  // namespace cairn

#endif  // CAIRN_STORAGE_FILE_TRANSFER_WORK_FILE_H_
