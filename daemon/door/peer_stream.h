// gRPC's Peer.Link, as both ends have it. gRPC stays behind this header.
#ifndef CAIRN_DAEMON_DOOR_PEER_STREAM_H_
#define CAIRN_DAEMON_DOOR_PEER_STREAM_H_

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/door/peer_link.h"
#include "daemon/door/peer_traffic.h"

namespace cairn {

// Over a connection that this daemon has made: `end` becomes one end of a link.
void BeginLink(PeerPipe pipe, const PeerDoor::Options& options, std::shared_ptr<LinkEnd> end);

// The server that others' links come to. It listens nowhere: connections are given to it.
class PeerServer {
 public:
  // Which connection is this? It is asked once for each link, on gRPC's threads; null: it is none. What is answered
  // becomes the link's end.
  using Claim = std::function<std::shared_ptr<LinkEnd>(std::string_view token)>;

  // kInternal: gRPC cannot.
  static absl::StatusOr<std::unique_ptr<PeerServer>> Start(const PeerDoor::Options& options, Claim claim);
  virtual void Take(UniqueFd fd) = 0;
  // REQUIRES: all connections are closed, or about to be. Claim is not called any more once this returns.
  virtual ~PeerServer() = default;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_PEER_STREAM_H_
