// All of the peer door that is sockets: who listens, who dials, who proves what, and bytes between TLS and gRPC. Asio
// stays behind this header.
#ifndef CAIRN_DAEMON_DOOR_PEER_TRAFFIC_H_
#define CAIRN_DAEMON_DOOR_PEER_TRAFFIC_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "daemon/door/peer_door.h"
#include "daemon/door/peer_line.h"
#include "daemon/peers/link.h"
#include "daemon/trust/authority.h"
#include "storage/base/unique_fd.h"

namespace cairn {

// One proven connection, as gRPC gets it.
struct PeerPipe {
  UniqueFd fd;  // bytes of the peer's, both ways; nonblocking
  PeerIdentity identity;
  std::string token;  // which connection it is; the other end knows it, too, and nobody else
  // Closes the connection after this time at the latest. Any thread, any time.
  std::function<void(std::chrono::milliseconds)> end_within;
  // Of one from outside: its peer has begun the link. Without this the connection ends after Options::handshake.
  std::function<void()> begun;
};

// Thread-safe; callbacks come on its own thread.
class PeerTraffic {
 public:
  using OnPipe = std::function<void(PeerPipe pipe)>;
  using OnGone = std::function<void(const std::string& token)>;
  using OnDialled = std::function<void(absl::StatusOr<PeerPipe> pipe)>;  // as PeerNet::Dialled

  // Errors as PeerDoor::Listen. Of connections from outside: `on_pipe` when they have proven whose they are, `on_gone`
  // later, when they have ended.
  static absl::StatusOr<std::unique_ptr<PeerTraffic>> Listen(const PeerDoor::Options& options, OnPipe on_pipe,
                                                             OnGone on_gone);
  virtual const std::string& address() const = 0;

  virtual void Join(std::shared_ptr<const Authority> authority) = 0;
  virtual void Leave(const RunId& run) = 0;
  // Connections from outside that ask for the run are let in, or not.
  virtual void Serve(const RunId& run, bool serve) = 0;
  virtual void Dial(const RunId& run, const std::string& address, std::chrono::milliseconds deadline,
                    OnDialled done) = 0;
  // peer_line.h.
  virtual void DialLine(const RunId& run, const std::string& address, std::chrono::milliseconds deadline,
                        PeerLines::Dialled done) = 0;
  virtual void TakeLines(PeerLines::HasRoom has_room, PeerLines::OnLine on_line) = 0;

  // No new connections, and those that are there are cut off. No callback runs once it returns.
  virtual void Stop() = 0;
  virtual ~PeerTraffic() = default;  // stops
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_PEER_TRAFFIC_H_
