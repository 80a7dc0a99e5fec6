// Links to other nodes as the core is given them: networks for links and for files, and how this daemon becomes one
// that may use them for a run.
#ifndef CAIRN_DAEMON_PEERS_ACCESS_H_
#define CAIRN_DAEMON_PEERS_ACCESS_H_

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <string>

#include "daemon/bulk/net.h"
#include "daemon/core/loop.h"
#include "daemon/peers/link.h"
#include "storage/base/ids.h"
#include "storage/io/disk.h"

namespace cairn {

class PeerAccess {
 public:
  virtual ~PeerAccess() = default;
  // Listens, as `node` in this life; once, before anything else. Callbacks come on `loop`, until Close. Blocks;
  // not on the strand. Errors: an interface that is none, ports that are taken; the message says which.
  virtual absl::Status Open(Loop& loop, const std::string& node, std::uint64_t incarnation) = 0;
  // REQUIRES: open. Strand only.
  virtual PeerNet& net() = 0;
  // REQUIRES: open, not closed.
  virtual BulkNet& bulk() = 0;

  // Reads what proves that a daemon is a member of the run at `prefix`; makes it there if it is the first time. Blocks
  // on disk; any thread. What it answers makes this daemon one, when it is called on the strand.
  //   kDataLoss, kPermissionDenied, kFailedPrecondition  daemon/trust/authority.h, OpenAuthority
  virtual absl::StatusOr<std::function<void()>> Enter(Disk& disk, const std::string& prefix, const RunId& run) = 0;
  // It is none any more: no new links. Strand only.
  virtual void Leave(const RunId& run) = 0;
  // No callback from now on, and nothing else of this is called. What reads another node's files hears kUnavailable.
  // When the strand has stopped, before the loop goes.
  virtual void Close() = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_PEERS_ACCESS_H_
