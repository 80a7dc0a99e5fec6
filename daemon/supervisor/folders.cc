#include "daemon/supervisor/folders.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

absl::Status Failed(std::string_view what, int error) {
  const bool denied = error == EACCES || error == EPERM || error == ELOOP || error == ENOTDIR;
  return MakeError(denied ? absl::StatusCode::kPermissionDenied : absl::StatusCode::kUnavailable, "{}: {}", what,
                   error == ELOOP || error == ENOTDIR ? "a link, or no folder" : std::strerror(error));
}

absl::Status MakeParents(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == path.npos || slash == 0) return absl::OkStatus();
  const std::string parent = path.substr(0, slash);
  if (::mkdir(parent.c_str(), 0755) == 0 || errno == EEXIST) return absl::OkStatus();
  if (errno != ENOENT) return Failed(parent, errno);
  CAIRN_RETURN_IF_ERROR(MakeParents(parent));
  return ::mkdir(parent.c_str(), 0755) == 0 || errno == EEXIST ? absl::OkStatus() : Failed(parent, errno);
}

absl::Status CheckName(const std::string& name) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != name.npos || name.size() > NAME_MAX) {
    return InvalidArgument("\"{}\" is no name for a folder", name);
  }
  return absl::OkStatus();
}

// Gives what has just been made or found to its owner. Its name cannot be changed meanwhile but by us.
absl::Status Give(int fd, const std::string& name, const Owner& owner, mode_t mode) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return Failed(name, errno);
  if (info.st_uid != owner.user && info.st_uid != ::geteuid()) {
    return PermissionDenied("{}: belongs to user {}, not to {}", name, info.st_uid, owner.user);
  }
  // Mode first: once it is the owner's, the owner may do with it as with anything of theirs.
  if (info.st_uid != owner.user && (::fchmod(fd, mode) != 0 || ::fchown(fd, owner.user, owner.group) != 0)) {
    return Failed(name, errno);
  }
  if (info.st_uid == owner.user && (info.st_mode & 07777) != mode && ::fchmod(fd, mode) != 0) {
    return Failed(name, errno);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UniqueFd> OpenSharedFolder(const std::string& path, mode_t mode) {
  CAIRN_RETURN_IF_ERROR(MakeParents(path));
  const bool made = ::mkdir(path.c_str(), mode) == 0;
  if (!made && errno != EEXIST) return Failed(path, errno);
  UniqueFd fd(::open(path.c_str(), kFolder));
  struct stat info {};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) return Failed(path, errno);
  if (info.st_uid != ::geteuid()) return PermissionDenied("{}: belongs to user {}", path, info.st_uid);
  if (made && ::fchmod(fd.get(), mode) != 0) return Failed(path, errno);  // whatever the umask
  if (!made && (info.st_mode & 022) != 0) {
    return PermissionDenied("{}: others may change it (mode {:o})", path, info.st_mode & 07777);
  }
  if (!made && (info.st_mode & 0111) != 0111) {
    return PermissionDenied("{}: its users cannot pass it (mode {:o}): chmod a+x", path, info.st_mode & 07777);
  }
  return fd;
}

absl::Status MakeUserFolder(int parent, const std::string& name, const Owner& owner) {
  CAIRN_RETURN_IF_ERROR(CheckName(name));
  struct stat info {};
  // What an operator has put there is not given away; what a crash has left between mkdir and chown is empty.
  if (owner.user != ::geteuid() && ::fstatat(parent, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
      info.st_uid == ::geteuid() && S_ISDIR(info.st_mode) && ::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0) {
    return PermissionDenied("{}: belongs to user {} and is not empty", name, info.st_uid);
  }
  if (::mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST) return Failed(name, errno);
  const UniqueFd fd(::openat(parent, name.c_str(), kFolder));
  if (!fd.valid()) return Failed(name, errno);
  return Give(fd.get(), name, owner, 0700);
}

absl::Status MakeUserFile(int parent, const std::string& name, const Owner& owner) {
  CAIRN_RETURN_IF_ERROR(CheckName(name));
  const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const UniqueFd fd(::openat(parent, name.c_str(), flags, 0600));
  struct stat info {};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) return Failed(name, errno);
  if (!S_ISREG(info.st_mode)) return PermissionDenied("{}: not a regular file", name);
  if (info.st_nlink != 1) return PermissionDenied("{}: has other names", name);
  if (info.st_uid == ::geteuid() && owner.user != ::geteuid() && info.st_size != 0) {
    return PermissionDenied("{}: belongs to user {} and is not empty", name, info.st_uid);
  }
  return Give(fd.get(), name, owner, 0600);
}

}  // namespace cairn
