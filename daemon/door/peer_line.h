// Connections between daemons for other things than links: TLS 1.3, both ends proven to be members of one run, taken
// out of the peer door once that is done. Whoever takes one goes on with it on a thread of its own.
#ifndef CAIRN_DAEMON_DOOR_PEER_LINE_H_
#define CAIRN_DAEMON_DOOR_PEER_LINE_H_

#include <absl/status/statusor.h>
#include <openssl/ssl.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "daemon/peers/link.h"
#include "daemon/trust/openssl.h"
#include "daemon/trust/tls_handshake.h"
#include "storage/base/unique_fd.h"

namespace cairn {

// Destroyed: closed. Bytes that have come already are inside `ssl`.
struct PeerLine {
  UniqueFd fd;                              // TCP, nonblocking
  std::unique_ptr<TlsHandshake> handshake;  // outlives `ssl`, which points to it
  std::unique_ptr<SSL, FreedBy<&SSL_free>> ssl;
  PeerIdentity peer;
  std::string address;  // of the other end, for the log
};

// Thread-safe. Callbacks come on the door's thread and must not block.
class PeerLines {
 public:
  using Dialled = std::function<void(absl::StatusOr<PeerLine> line)>;
  using HasRoom = std::function<bool(const PeerIdentity& peer)>;
  using OnLine = std::function<void(PeerLine line)>;

  virtual ~PeerLines() = default;
  // As PeerNet::Dial, errors too; `done` does not run any more once the door is gone.
  virtual void DialLine(const RunId& run, const std::string& address, std::chrono::milliseconds deadline,
                        Dialled done) = 0;
  // Lines that members of the runs that the door serves dial go to `on_line` from now on, if there is room for one more
  // of that peer: else, and with null, they are refused. What was set before may still run until the door's thread has
  // heard of it.
  virtual void TakeLines(HasRoom has_room, OnLine on_line) = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_PEER_LINE_H_
