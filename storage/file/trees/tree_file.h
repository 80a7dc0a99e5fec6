// Records that are kvtree files: read whole, replaced atomically, set aside when damaged. Calls block on disk.
#ifndef CAIRN_STORAGE_FILE_TREES_TREE_FILE_H_
#define CAIRN_STORAGE_FILE_TREES_TREE_FILE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "storage/format/kvtree/tree.h"
#include "storage/io/disk.h"

namespace cairn {

// kNotFound: no such file, or one of zero bytes (SCR specification, 1.5). kDataLoss: damaged, or too large to be one.
// `text`, if given, receives its bytes.
absl::StatusOr<kvtree::Tree> ReadTree(Disk& disk, const std::string& path, std::string* text = nullptr);

// The same, of a record that only CreateFileOnce makes (storage/io/create_once.h): what a power failure leaves of one
// that was not durable is kNotFound, too.
absl::StatusOr<kvtree::Tree> ReadTreeOnce(Disk& disk, const std::string& path);

// Atomically and durably. kInvalidArgument: no file of this tree could be read again.
absl::Status ReplaceTree(Disk& disk, const std::string& path, const kvtree::Tree& tree, std::uint32_t mode = 0600);

// Renames a file or folder to the first free `<stem>.<n>`, n = 1, 2, …, durably; answers the new path.
absl::StatusOr<std::string> MoveAside(Disk& disk, const std::string& path, const std::string& stem);

}  // namespace cairn

#endif  // CAIRN_STORAGE_FILE_TREES_TREE_FILE_H_
