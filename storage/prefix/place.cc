#include "storage/prefix/place.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "storage/base/status.h"

namespace cairn {
namespace {

// Below the prefix; empty: the prefix itself.
absl::StatusOr<std::string> FollowLink(Disk& disk, const std::string& prefix, const std::string& link) {
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(link.c_str(), nullptr), &std::free);
  if (!resolved) return FailedPrecondition("{}: a symbolic link that leads nowhere", link);
  const std::string target = resolved.get();
  const auto info = disk.Info(target);
  if (!info.ok()) return info.status();
  if (!info->is_directory()) return FailedPrecondition("{}: links to {}, which is no directory", link, target);
  if (target == prefix) return std::string();
  if (!target.starts_with(prefix + "/")) {
    return FailedPrecondition("{}: links to {}, which is outside the prefix {}", link, target, prefix);
  }
  std::string name = target.substr(prefix.size() + 1);
  const std::string first = name.substr(0, name.find('/'));
  if (first == ".scr" || first == ".cairn") {
    return FailedPrecondition("{}: links to {}, which belongs to the records", link, target);
  }
  return name;
}

}  // namespace

absl::StatusOr<std::string> RealDirectory(Disk& disk, const std::string& prefix, const std::string& name) {
  std::string real;
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    real += (real.empty() ? "" : "/") + name.substr(at, end - at);
    at = end + 1;
    const std::string path = prefix + "/" + real;
    const auto info = disk.Info(path);
    if (absl::IsNotFound(info.status())) return at < name.size() ? real + "/" + name.substr(at) : real;
    if (!info.ok()) return info.status();
    if (info->is_symlink()) {
      CAIRN_ASSIGN_OR_RETURN(real, FollowLink(disk, prefix, path));
    } else if (!info->is_directory()) {
      return FailedPrecondition("{}: in the way: no directory", path);
    }
  }
  return real;
}

absl::Status CheckPlace(Disk& disk, const std::string& prefix, const std::string& name) {
  const std::size_t slash = name.rfind('/');
  CAIRN_RETURN_IF_ERROR(RealDirectory(disk, prefix, slash == std::string::npos ? "" : name.substr(0, slash)).status());
  const auto info = disk.Info(prefix + "/" + name);
  if (absl::IsNotFound(info.status())) return absl::OkStatus();
  if (!info.ok()) return info.status();
  if (info->is_directory()) return FailedPrecondition("{}/{}: in the way: a directory", prefix, name);
  return absl::OkStatus();
}

}  // namespace cairn
