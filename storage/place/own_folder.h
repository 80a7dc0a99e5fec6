// A folder from which records are read back as the truth. Blocks on disk. Stateless.
#ifndef CAIRN_STORAGE_PLACE_OWN_FOLDER_H_
#define CAIRN_STORAGE_PLACE_OWN_FOLDER_H_

#include <absl/status/status.h>

#include <string>

#include "storage/io/disk.h"

namespace cairn {

// Is it the user's own, and closed to writes of others?
//   kPermissionDenied  it is not, or is no directory, or a link to one
//   others             the disk's
absl::Status CheckOwnFolder(Disk& disk, const std::string& folder);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_OWN_FOLDER_H_
