#include "storage/place/prefix/inside.h"

#include <cstdlib>
#include <memory>
#include <utility>

#include "storage/base/status.h"

namespace cairn {
namespace {

std::string RealPath(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  return real ? real.get() : std::string();
}

// Only links need it, which are few. A disk that is not the machine's has no such paths: then it leads nowhere.
bool LeadsInside(const std::string& prefix, const std::string& path) {
  const std::string inside = RealPath(prefix), target = RealPath(path);
  return !inside.empty() && (target == inside || target.starts_with(inside + "/"));
}

}  // namespace

absl::Status Inside::CheckFolder(const std::string& name) {
  if (name.empty() || folders_.contains(name)) return absl::OkStatus();
  const std::size_t slash = name.rfind('/');
  CAIRN_RETURN_IF_ERROR(CheckFolder(slash == std::string::npos ? std::string() : name.substr(0, slash)));
  const std::string path = prefix_ + "/" + name;
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk_.Info(path));
  if (info.is_symlink() && !LeadsInside(prefix_, path)) {
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
