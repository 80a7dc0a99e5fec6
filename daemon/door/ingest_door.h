// The gRPC door: Ingest (proto/ingest.proto) for applications that share no memory with this daemon, and on the node's
// own socket Admin, too. One stream is one connection, with the same messages, Hello and limits as on the Unix socket.
//
// Over TCP always mutual TLS 1.3: both sides show a certificate of the same authority, that of the files which the
// settings name, or else one that this door has made for itself: then `announcement` is what a client needs to come in,
// and to know that it is here (proto/announcement.h). Without TLS only on a loopback address and only if the
// configuration asks for it by name. With keys of its own the door takes no connection beyond half of the descriptors
// that this process may have (tcp_acceptor.h); with the settings' files gRPC takes what comes. The node's socket lies
// in the runtime directory (0700).
//
// Flow: a stream is read no further while more than in_flight_bytes_max of its pieces wait in the core; a client that
// leaves too many replies unread is cut off, one that ends its half of the stream has left.
#ifndef CAIRN_DAEMON_DOOR_INGEST_DOOR_H_
#define CAIRN_DAEMON_DOOR_INGEST_DOOR_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "daemon/config/config.h"
#include "daemon/core/door.h"
#include "daemon/door/handshake.h"
#include "storage/base/unique_fd.h"

namespace cairn {

class AdminService;

// Threads are gRPC's own; on them Attach, Receive and Detach are called.
class IngestDoor {
 public:
  struct Options {
    std::string node_socket;  // path; empty: none
    Config::Ingest tcp;       // listen empty: none
    std::string host;         // this node's name: told to clients unless the settings say another
    // Go on without TCP if none of its ports can be had: tcp_status says why.
    bool without_tcp = false;
    DaemonIdentity identity;
    std::uint32_t hello_ms = 10'000;  // from the stream's begin to a valid Hello
    std::uint32_t drain_ms = 10'000;  // from Close until what is queued must have been taken
    std::size_t connections_max = 4096;
    std::size_t queue_frames_max = 1u << 18;  // a restore of many small variables is as many pieces at once
    std::uint64_t queue_bytes_max = 256u << 20;
    std::uint64_t in_flight_bytes_max = 64u << 20;
  };

  // `receiver` and `admin` (null: no Admin) are borrowed and outlive the door; connections may outlive the door.
  //   kInvalidArgument     an address that is none, TLS files that cannot be read, no TLS where it is required
  //   kPermissionDenied    the socket's directory is not ours or open to others
  //   kFailedPrecondition  a process listens there already
  //   kUnavailable         the address is taken or not this machine's; of a range: all of them are
  static absl::StatusOr<std::unique_ptr<IngestDoor>> Listen(Options options, Receiver& receiver, AdminService* admin);

  // New streams are refused with UNAVAILABLE; Admin and the streams that are there go on.
  virtual void StopAccepting() = 0;
  // Takes a connection to the node's socket that somebody else has accepted. Any thread; not once the door closes.
  //   kPermissionDenied  it is another user's (SO_PEERCRED)
  //   kUnavailable       it cannot be served
  virtual absl::Status Admit(UniqueFd connection) = 0;
  // The TCP port, also if the configuration said 0; 0 without TCP.
  virtual int tcp_port() const = 0;
  virtual const absl::Status& tcp_status() const = 0;
  // Empty: nothing is to be told.
  virtual const std::string& announcement() const = 0;
  // Ends all streams: what is queued still goes out, within at most 2 s. After this the receiver is not called any
  // more.
  virtual ~IngestDoor() = default;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_INGEST_DOOR_H_
