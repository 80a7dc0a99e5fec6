#include "storage/place/prefix/place.h"

#include "storage/base/path.h"
#include "storage/place/names.h"

#include <algorithm>
#include <string_view>

#include "storage/base/status.h"

namespace cairn {
namespace {

// Below the prefix; empty: the prefix itself.
absl::StatusOr<std::string> FollowLink(Disk& disk, const std::string& prefix, const std::string& link) {
  const auto resolved = disk.RealPath(link);
  if (!resolved.ok()) return FailedPrecondition("{}: a symbolic link that leads nowhere", link);
  const std::string& target = *resolved;
  const auto info = disk.Info(target);
  if (!info.ok()) return info.status();
  if (!info->is_directory()) return FailedPrecondition("{}: links to {}, which is no directory", link, target);
  if (target == prefix) return std::string();
  if (!target.starts_with(prefix + "/")) {
    return FailedPrecondition("{}: links to {}, which is outside the prefix {}", link, target, prefix);
  }
  return target.substr(prefix.size() + 1);
}

// `real`: where `name` really is.
absl::Status CheckFree(const std::string& prefix, const std::string& name, const std::string& real) {
  if (!IsCairnsPlace(real)) return absl::OkStatus();
  return FailedPrecondition("{}/{}: leads to {}/{}, which belongs to the records", prefix, name, prefix, real);
}

// Link by link, wherever that leads below the prefix.
absl::StatusOr<std::string> Resolve(Disk& disk, const std::string& prefix, const std::string& name) {
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

}  // namespace

absl::StatusOr<std::string> RealDirectory(Disk& disk, const std::string& prefix, const std::string& name) {
  CAIRN_ASSIGN_OR_RETURN(std::string real, Resolve(disk, prefix, name));
  CAIRN_RETURN_IF_ERROR(CheckFree(prefix, name, real));
  return real;
}

absl::StatusOr<std::string> RealPlace(Disk& disk, const std::string& prefix, const std::string& name) {
  const std::size_t slash = name.rfind('/');
  CAIRN_ASSIGN_OR_RETURN(std::string real,
                         Resolve(disk, prefix, slash == std::string::npos ? "" : name.substr(0, slash)));
  real += (real.empty() ? "" : "/") + name.substr(slash == std::string::npos ? 0 : slash + 1);
  CAIRN_RETURN_IF_ERROR(CheckFree(prefix, name, real));
  const auto info = disk.Info(prefix + "/" + real);
  if (absl::IsNotFound(info.status())) return real;
  if (!info.ok()) return info.status();
  if (info->is_directory()) return FailedPrecondition("{}/{}: in the way: a directory", prefix, name);
  return real;
}

absl::Status CheckPlace(Disk& disk, const std::string& prefix, const std::string& name) {
  return RealPlace(disk, prefix, name).status();
}

std::string RealNames::Of(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  if (slash == std::string::npos) return name;
  const std::string directory = name.substr(0, slash);
  auto known = directories_.find(directory);
  if (known == directories_.end()) {
    auto real = RealDirectory(disk_, prefix_, directory);
    std::string there = real.ok() ? *std::move(real) : directory;
    if (!there.empty()) there += '/';
    known = directories_.emplace(directory, std::move(there)).first;
  }
  return known->second + name.substr(slash + 1);
}

}  // namespace cairn
