// Links between the daemons that serve ranks of a launch and the launch's home, as peer/link.h has them, but carried:
// they go by way of other daemons where the home has as many links as it takes, and they outlive a broken connection.
// What a link carries is a ToHome upwards, a FromHome downwards. README.md tells how.
//
// One for each run and daemon: it is the home's end, a follower's end, and what is between, for as many homes as there
// are. Strand only. No callback runs inside a call.
#ifndef CAIRN_DAEMON_RELAY_RELAY_H_
#define CAIRN_DAEMON_RELAY_RELAY_H_

#include <absl/status/status.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/loop.h"
#include "daemon/peers/link.h"
#include "daemon/peers/member.h"
#include "daemon/relay/hop.h"
#include "daemon/relay/settings.h"
#include "proto/peer.pb.h"
#include "storage/base/ids.h"

namespace cairn {

// What a daemon counts from its start on, also when it is a member of the run more than once.
struct RelayNumbers {
  std::uint64_t links = 0, ways = 0;
};

class Relay {
 public:
  struct Given {
    Loop& loop;
    PeerNet& net;  // borrowed; links that others dial are to begin with an Attach
    PeerIdentity self;
    RelaySettings settings;
    RelayNumbers& numbers;  // borrowed
  };
  explicit Relay(Given given);
  Relay(const Relay&) = delete;
  ~Relay();

  // This daemon is a home from now on: links come to `on_link`. Null: it is none any more, and they end.
  void Serve(PeerNet::OnLink on_link);
  // A link to the home of a launch, node `home`, that listens at `address`. `done` as in PeerNet::Dial; kUnavailable
  // also where no daemon that is attached had room. The link ends when the home has not been reached for
  // RelaySettings::patience, or has been started again. (As long as links are dialled the patience begins anew.)
  void Dial(const NodeId& home, const std::string& address, std::chrono::milliseconds deadline, PeerNet::Dialled done);
  // Connections with this node lead nowhere, though nobody has closed them.
  void IsMissing(const NodeId& node);

 private:
  class Tree;
  struct Origin;
  void OnLink(std::unique_ptr<PeerLink> link);
  void OnOther(const std::shared_ptr<Origin>& origin, const peer::Frame& frame);
  std::shared_ptr<Tree> MakeTree(const NodeId& home, PeerNet::OnLink on_link);

  const Given given_;
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  std::map<const Hop*, std::shared_ptr<Hop>> newcomers_;  // their first frame is on its way
  std::map<NodeId, std::shared_ptr<Tree>> trees_;         // by home; this daemon's own while it serves
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_RELAY_RELAY_H_
