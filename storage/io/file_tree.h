// All files below a directory that someone else has filled; folders that have nothing in them any more. Blocks on disk.
#ifndef CAIRN_STORAGE_IO_FILE_TREE_H_
#define CAIRN_STORAGE_IO_FILE_TREE_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "storage/io/disk.h"

namespace cairn {

struct FileTreeBounds {
  std::size_t entries_max = 64 << 10;  // files and directories together
  std::size_t depth_max = 16;          // directories below the root
};

// Every regular file by its path relative to `root`. Empty directories leave nothing.
//   kNotFound            no such directory
//   kFailedPrecondition  a symbolic link, or something else that is neither file nor directory; too deep
//   kResourceExhausted   more entries than are allowed
absl::StatusOr<std::map<std::string, FileInfo>> ListFilesBelow(Disk& disk, const std::string& root,
                                                               const FileTreeBounds& bounds = {});

// The bytes of all files at `root` and below, as far as they can be seen: of what goes meanwhile, or cannot be read,
// nothing. Follows no links.
std::uint64_t BytesBelow(Disk& disk, const std::string& root);

// The directories that hold a file of this name: "" for the root itself, else relative to it. One that does is not
// looked into. What cannot be listed, links, and what lies beyond the bounds are passed over.
std::vector<std::string> FindDirectoriesWith(Disk& disk, const std::string& root, const std::string& name,
                                             const FileTreeBounds& bounds = {});

// Removes those of `folders`, below `root`, that are empty, then their parents below `root` that have become so. Links
// are left alone. What cannot be removed stays: an empty folder is in nobody's way.
void RemoveEmptyFolders(Disk& disk, const std::string& root, const std::set<std::string>& folders);

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_FILE_TREE_H_
