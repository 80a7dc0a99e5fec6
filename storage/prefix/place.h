// Where in the prefix the application's files may go: symbolic links on the way must not lead out of it.
#ifndef CAIRN_STORAGE_PREFIX_PLACE_H_
#define CAIRN_STORAGE_PREFIX_PLACE_H_

#include <absl/status/statusor.h>

#include <string>

#include "storage/base/disk.h"

namespace cairn {

// Looks at what is there of directory `name` (normalized, below `prefix`, whose own links are resolved; empty: the
// prefix itself). Answers which directory it really is, below the prefix, too. Blocks on disk.
//   kFailedPrecondition  a link that leads out of the prefix, to its records or nowhere, or something else in the way
absl::StatusOr<std::string> RealDirectory(Disk& disk, const std::string& prefix, const std::string& name);

// The same for the directory of file `name`, and `name` itself is no directory.
absl::Status CheckPlace(Disk& disk, const std::string& prefix, const std::string& name);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PREFIX_PLACE_H_
