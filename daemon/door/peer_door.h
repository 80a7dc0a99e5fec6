// The peer door: real links between the daemons of a run on different nodes (daemon/peers/link.h). One TCP port for all
// runs. Inside it mutual TLS 1.3: both ends prove to be members of the run that the dialling one names
// (daemon/trust/README.md has what that means); inside TLS gRPC's Peer.Link, whose bytes this process carries between
// TLS and gRPC through a pair of sockets. A connection whose name inside TLS is another leaves the door once both ends
// are proven (peer_line.h).
//
// Bounds: handshakes that are under way have a number and a deadline, strangers have nothing else; links that others
// have dialled have a number; a link has frames, a queue and a peer that answers pings.
#ifndef CAIRN_DAEMON_DOOR_PEER_DOOR_H_
#define CAIRN_DAEMON_DOOR_PEER_DOOR_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "daemon/config/config.h"
#include "daemon/core/loop.h"
#include "daemon/door/peer_line.h"
#include "daemon/peers/link.h"
#include "daemon/trust/authority.h"

namespace cairn {

class PeerDoor : public PeerNet {
 public:
  struct Options {
    Config::Peers peers;            // interface: not empty
    std::string node;               // who we are: 32 hex digits (storage/place/cache/node_identity.h)
    std::uint64_t incarnation = 0;  // and in which life
    std::string munge_socket;       // of munged; empty: where its library looks for it

    std::function<std::chrono::system_clock::time_point()> wall;  // called on the door's thread; null: WallNow
    Validity validity;                                            // of our certificates

    std::chrono::milliseconds handshake{10'000};  // from a connection's begin until its link is there
    std::chrono::milliseconds drain{2'000};       // of a link that is closed here: so long for what was sent before
    std::size_t handshakes_max = 256;             // of connections that came in; beyond, the oldest of the address that
                                                  // has the most goes
    std::size_t dials_max = 256;                  // beyond: kUnavailable
    std::size_t links_max = 4096;                 // that came in
    std::size_t frame_bytes_max = 4u << 20;       // to send a larger one costs the link (kResourceExhausted)
    std::uint64_t queue_bytes_max = 32u << 20;    // what a link has not sent yet
    std::chrono::milliseconds ping_every{10'000};   // an idle link's peer is asked for a sign of life so often,
    std::chrono::milliseconds ping_answer{10'000};  // and has so long for it: else the link is gone (kUnavailable)
  };

  // Listens. `loop` is borrowed: where the calls of PeerNet are made, and where its callbacks run.
  //   kInvalidArgument     an interface or address that is none, peers.tls_* that cannot be read or do not fit
  //   kUnavailable         the interface has no address, all ports are taken; MUNGE is required, and its library
  //                      not there
  //   kPermissionDenied    these ports are not for this user
  static absl::StatusOr<std::unique_ptr<PeerDoor>> Listen(Options options, Loop& loop);

  // Strand only. From now on this daemon takes part in the authority's run: Dial and Serve know it. Again: with another
  // authority for new handshakes. Dial without it is kUnavailable.
  virtual void Join(std::shared_ptr<const Authority> authority) = 0;
  // No new links; those that are there go on.
  virtual void Leave(const RunId& run) = 0;

  // Connections for other things than links, of the runs that are joined and served here. Any thread; it ends with the
  // door.
  virtual PeerLines& lines() = 0;

  // Strand only, or when the strand has stopped. Closes all links at once; no callback runs any more, also none of a
  // Dial. Links may outlive it, and do nothing.
  ~PeerDoor() override = default;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_PEER_DOOR_H_
