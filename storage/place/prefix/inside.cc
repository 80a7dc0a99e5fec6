#include "storage/place/prefix/inside.h"

#include "storage/base/status.h"

namespace cairn {
namespace {

// Only links need it, which are few.
bool LeadsInside(Disk& disk, const std::string& prefix, const std::string& path) {
  const auto inside = disk.RealPath(prefix), target = disk.RealPath(path);
  return inside.ok() && target.ok() && (*target == *inside || target->starts_with(*inside + "/"));
}

}  // namespace

absl::Status Inside::CheckFolder(const std::string& name) {
  if (name.empty() || folders_.contains(name)) return absl::OkStatus();
  const std::size_t slash = name.rfind('/');
  CAIRN_RETURN_IF_ERROR(CheckFolder(slash == std::string::npos ? std::string() : name.substr(0, slash)));
  const std::string path = prefix_ + "/" + name;
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk_.Info(path));
  if (info.is_symlink() && !LeadsInside(disk_, prefix_, path)) {
    return FailedPrecondition("{}: a symbolic link that leads out of the prefix, or nowhere", path);
  }
  folders_.insert(name);
  return absl::OkStatus();
}

absl::StatusOr<FileInfo> Inside::Find(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  if (slash != std::string::npos) CAIRN_RETURN_IF_ERROR(CheckFolder(name.substr(0, slash)));
  const std::string path = prefix_ + "/" + name;
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk_.Info(path));
  if (!info.is_regular()) return FailedPrecondition("{}: is not a regular file", path);
  return info;
}

}  // namespace cairn
