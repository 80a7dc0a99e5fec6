// Which file systems show one inode number for a directory on all nodes, by the kinds that statfs(2) tells. On others,
// and on those not listed, inodes say nothing: a copy of a directory is told from it by its path then. Pure.
#ifndef CAIRN_STORAGE_IO_FILE_SYSTEM_KIND_H_
#define CAIRN_STORAGE_IO_FILE_SYSTEM_KIND_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace cairn {

struct FileSystemKind {
  std::uint64_t type = 0;     // f_type
  std::string_view name;      // "ext4", "Lustre"
  bool inodes_count = false;  // the same number on all nodes, for as long as the directory lives
  std::string_view why = {};  // if they do not
};

std::span<const FileSystemKind> FileSystemKinds();
const FileSystemKind* FindFileSystemKind(std::uint64_t type);  // null: not known
bool InodesCount(std::uint64_t type);                          // false: not known

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_FILE_SYSTEM_KIND_H_
