// A listing that comes from the server. A client of NFS keeps listings, and names that it found absent, for up to 60 s;
// a change of its own in a directory makes it ask anew. So a look that a decision rests on makes and removes a work
// file in the directory first, and asks for no single name. Calls block on disk. Stateless, hence thread-safe.
#ifndef CAIRN_STORAGE_IO_FRESH_LIST_H_
#define CAIRN_STORAGE_IO_FRESH_LIST_H_

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "storage/io/disk.h"

namespace cairn {

// The names in the directory, sorted, as they were at some instant after the call began; without the work file.
// Three operations besides the listing: create, close, remove. Errors are the disk's; kPermissionDenied and
// kUnavailable (read-only) for who may not write there.
absl::StatusOr<std::vector<std::string>> FreshList(Disk& disk, const std::string& directory);

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_FRESH_LIST_H_
