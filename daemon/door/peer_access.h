// The peer door as the core is given it: opened when the core knows which node this is, and made a member of a run by
// the run's own authority.
#ifndef CAIRN_DAEMON_DOOR_PEER_ACCESS_H_
#define CAIRN_DAEMON_DOOR_PEER_ACCESS_H_

#include <memory>

#include "daemon/config/config.h"
#include "daemon/peers/access.h"

namespace cairn {

// Null if the settings name no interface: then this daemon has no links to other nodes. The door closes with it:
// REQUIRES: the core's strand has stopped by then.
std::unique_ptr<PeerAccess> MakePeerAccess(const Config::Peers& peers);

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_PEER_ACCESS_H_
