#include "daemon/door/socket_path.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace cairn {
namespace {

absl::Status CheckDirectory(const std::string& directory) {
  // Only the last part is made: the parents (/run/user/<uid>, /tmp) are the system's.
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return MakeError(absl::StatusCode::kPermissionDenied, "make {}: {}", directory, std::strerror(errno));
  }
  struct stat info {};
  if (lstat(directory.c_str(), &info) != 0) return Unavailable("{}: {}", directory, std::strerror(errno));
  if (!S_ISDIR(info.st_mode)) return PermissionDenied("{} is not a directory", directory);
  if (info.st_uid != geteuid()) return PermissionDenied("{} belongs to user {}", directory, info.st_uid);
  if ((info.st_mode & 077) != 0) {
    return PermissionDenied("{} is open to others (mode {:o}): chmod 700 it", directory, info.st_mode & 07777);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PeerCredentials> CredentialsOf(int fd) {
  ucred credentials{};
  socklen_t bytes = sizeof(credentials);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
    return Unavailable("SO_PEERCRED: {}", std::strerror(errno));
  }
  return PeerCredentials{.uid = credentials.uid, .pid = credentials.pid};
}

UniqueFd WatchPeer(int fd, pid_t pid) {
  constexpr int kPeerPidFd = 77;  // SO_PEERPIDFD of Linux 6.5: also if the number has another process by now
  int peer = -1;
  socklen_t bytes = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, kPeerPidFd, &peer, &bytes) == 0) return UniqueFd(peer);
  return UniqueFd(pid > 0 ? static_cast<int>(syscall(SYS_pidfd_open, pid, 0)) : -1);
}

std::string ProgramOf(pid_t pid) {
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", pid)), name);
  return name;
}

absl::Status PrepareSocketPath(const std::string& socket_path) {
  sockaddr_un address{};
  if (socket_path.empty() || socket_path.front() != '/') {
    return InvalidArgument("socket path '{}' is not absolute", socket_path);
  }
  if (socket_path.size() >= sizeof(address.sun_path)) {
    return InvalidArgument("socket path {} has {} bytes; at most {} fit into a socket's address", socket_path,
                           socket_path.size(), sizeof(address.sun_path) - 1);
  }
  CAIRN_RETURN_IF_ERROR(CheckDirectory(socket_path.substr(0, socket_path.rfind('/'))));
  struct stat info {};
  if (lstat(socket_path.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISSOCK(info.st_mode)) return FailedPrecondition("{} is there and is not a socket", socket_path);

  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_path.c_str(), socket_path.size() + 1);
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.valid()) return Unavailable("socket: {}", std::strerror(errno));
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 || errno == EAGAIN) {
    const absl::StatusOr<PeerCredentials> who = CredentialsOf(probe.get());
    const pid_t pid = who.ok() ? who->pid : 0;
    return FailedPrecondition("{}: process {} ({}) listens there already", socket_path, pid, ProgramOf(pid));
  }
  if (unlink(socket_path.c_str()) != 0 && errno != ENOENT) {
    return Unavailable("remove the old socket {}: {}", socket_path, std::strerror(errno));
  }
  return absl::OkStatus();
}

}  // namespace cairn
