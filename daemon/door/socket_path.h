// Places for Unix sockets: the runtime directory, and names in it that a dead daemon may have left behind.
#ifndef CAIRN_DAEMON_DOOR_SOCKET_PATH_H_
#define CAIRN_DAEMON_DOOR_SOCKET_PATH_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <string>

#include "storage/base/unique_fd.h"

namespace cairn {

struct PeerCredentials {
  uid_t uid = 0;
  pid_t pid = 0;
};

// Who is at the other end of a connected Unix socket (SO_PEERCRED).
absl::StatusOr<PeerCredentials> CredentialsOf(int fd);

// Readable once the process at the other end, which has connected, is gone: others may hold the socket on, such as its
// children. Not valid: the kernel cannot say (none such before Linux 5.3, or a process of another PID namespace).
UniqueFd WatchPeer(int fd, pid_t pid);

// The name of a process, from /proc; empty if there is none.
std::string ProgramOf(pid_t pid);

// Makes the directory of `socket_path` (0700) if need be, and removes a socket that nobody listens on any more.
//   kInvalidArgument     the path is relative or longer than a socket's may be
//   kPermissionDenied    the directory is another user's, or others may enter it
//   kFailedPrecondition  a process listens there (the message names it), or something else than a socket is there
absl::Status PrepareSocketPath(const std::string& socket_path);

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_SOCKET_PATH_H_
