// The Unix stream socket on which applications reach the daemon of their node and user: frames (proto/frame.h) in,
// frames and image descriptors out. It answers Hello itself; everything else goes to the core.
//
// Who may come in: processes of our own user (SO_PEERCRED); another user's gets PERMISSION_DENIED, saying whose daemon
// this is, and is hung up on. A connection that has not said a valid Hello in time, sends what is no frame, sends a
// message over kRequestBytesMax, or leaves too many replies unread is closed and logged; the others notice nothing.
#ifndef CAIRN_DAEMON_DOOR_LOCAL_DOOR_H_
#define CAIRN_DAEMON_DOOR_LOCAL_DOOR_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "daemon/core/door.h"
#include "daemon/door/handshake.h"
#include "daemon/door/socket_path.h"
#include "storage/base/unique_fd.h"

namespace cairn {

// Runs one thread of its own, on which Attach, Receive and Detach are called.
class LocalDoor {
 public:
  struct Options {
    std::string path;  // of the socket; its directory is made (0700) if need be; empty: none, connections are admitted
    DaemonIdentity identity;
    std::uint32_t hello_ms = 10'000;      // from accept to a valid Hello
    std::uint32_t drain_ms = 10'000;      // from Close until what is queued must have been taken
    std::size_t connections_max = 4096;   // one more is refused with RESOURCE_EXHAUSTED
    std::size_t queue_frames_max = 4096;  // replies that a client has not read
    std::uint64_t queue_bytes_max = 256u << 20;
    std::uint64_t in_flight_max = 1024;  // unanswered requests that the core has not handled yet
    // Who is at the other end? Default: SO_PEERCRED. A seam for tests.
    std::function<absl::StatusOr<PeerCredentials>(int fd)> credentials;
  };

  // Makes the socket (0600) and starts. `receiver` is borrowed and outlives the door; connections may outlive the door.
  //   kInvalidArgument     the path is relative or longer than a socket's may be
  //   kPermissionDenied    the directory is not ours or open to others
  //   kFailedPrecondition  a process listens there already: the message names it
  static absl::StatusOr<std::unique_ptr<LocalDoor>> Listen(Options options, Receiver& receiver);

  // Closes the socket and removes its name; connections stay. Nothing is admitted any more.
  virtual void StopAccepting() = 0;
  // Takes a connection that somebody else has accepted, as if it had come here: whose it is, is asked again. Any
  // thread.
  virtual void Admit(UniqueFd connection) = 0;
  // How many there are. Any thread.
  virtual std::size_t connections() const = 0;
  // Closes all connections and detaches them; after this the receiver is not called any more.
  virtual ~LocalDoor() = default;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_LOCAL_DOOR_H_
