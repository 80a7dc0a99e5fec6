#include "storage/place/own_folder.h"

#include <unistd.h>

#include "storage/base/status.h"

namespace cairn {

absl::Status CheckOwnFolder(Disk& disk, const std::string& folder) {
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(folder));
  if (!info.is_directory()) return PermissionDenied("{}: is no directory", folder);
  if (info.uid != ::geteuid()) {
    return PermissionDenied("{}: belongs to user {}, this process runs as {}", folder, info.uid, ::geteuid());
  }
  if ((info.mode & 022) != 0) {
    return PermissionDenied("{}: mode {:04o} lets others write to it", folder, info.mode & 07777);
  }
  return absl::OkStatus();
}

}  // namespace cairn
