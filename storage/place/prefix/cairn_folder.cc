#include "storage/place/prefix/cairn_folder.h"

#include <unistd.h>

#include <algorithm>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/io/create_once.h"
#include "storage/io/fresh_list.h"

namespace cairn::cairn_folder {

std::string Of(const std::string& prefix) {
  return prefix + "/.cairn";
}

absl::Status Make(Disk& disk, const std::string& prefix) {
  const std::string folder = Of(prefix);
  const absl::Status made = disk.MakeDirectory(folder, 0700);
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  if (made.ok()) CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(prefix));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(folder));
  return CheckClosed(prefix, info);
}

absl::Status CheckClosed(const std::string& prefix, const FileInfo& info) {
  const std::string folder = Of(prefix);
  if (!info.is_directory()) return PermissionDenied("{}: is no directory", folder);
  if (info.uid != ::geteuid()) {
    return PermissionDenied("{}: belongs to user {}, this process runs as {}", folder, info.uid, ::geteuid());
  }
  if ((info.mode & 077) != 0) {
    return PermissionDenied("{}: mode {:04o} lets others in, it must be 0700", folder, info.mode & 07777);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> Names(Disk& disk, const std::string& prefix, bool fresh) {
  auto names = fresh ? FreshList(disk, Of(prefix)) : disk.List(Of(prefix));
  if (absl::IsNotFound(names.status())) return std::vector<std::string>();
  return names;
}

std::vector<std::uint64_t> Numbers(const std::vector<std::string>& names, std::string_view stem,
                                   std::uint64_t number_max) {
  std::vector<std::uint64_t> numbers;
  for (const std::string& name : names) {
    const auto number = NumberAfter(name, stem);
    if (number && *number <= number_max) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// Whoever made the folder may have died before its name was durable.
absl::Status MakeRecord(Disk& disk, const std::string& prefix, const std::string& name, const kvtree::Tree& tree) {
  CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(prefix));
  return CreateFileOnce(disk, Of(prefix) + "/" + name, kvtree::Encode(tree), 0600);
}

absl::Status CheckVersion(const std::string& path, const kvtree::Tree& tree) {
  const auto version = tree.GetUnsigned("VERSION");
  if (!version.ok()) return NamingFile(path, version.status());
  if (*version != 1) return FailedPrecondition("{}: VERSION {}, this program knows 1", path, *version);
  return absl::OkStatus();
}

absl::Status NamingFile(const std::string& path, const absl::Status& status) {
  return DataLoss("{}: {}", path, MessageOf(status));
}

}  // namespace cairn::cairn_folder
