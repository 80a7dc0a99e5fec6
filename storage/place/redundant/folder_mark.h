// By what a user's folder in the folder that is redundant itself is known again: folder.cairn (kvtree), made once, with
// a random number. Where it is missing, or another one, the file system that a run has used is not mounted. Calls block
// on disk. Stateless.
#ifndef CAIRN_STORAGE_PLACE_REDUNDANT_FOLDER_MARK_H_
#define CAIRN_STORAGE_PLACE_REDUNDANT_FOLDER_MARK_H_

#include <absl/status/statusor.h>

#include <string>

#include "storage/io/disk.h"

namespace cairn {

// 32 hex digits.
//   kNotFound            there is none, or no such folder
//   kDataLoss            damaged: names the field
//   kFailedPrecondition  of a newer program
absl::StatusOr<std::string> ReadFolderMark(Disk& disk, const std::string& folder);
// The one that is there, else a new one, durable. Others as ReadFolderMark.
absl::StatusOr<std::string> EnsureFolderMark(Disk& disk, const std::string& folder);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_REDUNDANT_FOLDER_MARK_H_
