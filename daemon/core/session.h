// One rank's connection, from open to close, as all components see it. Admission makes, changes and ends sessions; what
// a component keeps of one it keeps itself, by its id. Strand only.
#ifndef CAIRN_DAEMON_CORE_SESSION_H_
#define CAIRN_DAEMON_CORE_SESSION_H_

#include <cstdint>
#include <memory>

#include "daemon/core/door.h"
#include "daemon/core/image_store.h"
#include "daemon/core/loop.h"
#include "storage/base/ids.h"

namespace cairn {

class Run;

using SessionId = std::uint64_t;

struct Session {
  SessionId id = 0;  // never given twice by a daemon
  Run* run = nullptr;
  LaunchId launch = 0;
  Rank rank = 0;
  bool observer = false;  // of no launch: only reads
  bool followed = false;  // its launch has its home on another node
  Connection::Peer peer;
  std::shared_ptr<Connection> connection;  // null: broken, may be resumed
  Loop::TimerId resume_timer = 0;
  bool used = false;   // a request came after Open: the client has had the token
  bool ended = false;  // nothing of it counts any more
  std::shared_ptr<ImageOwner> images;
};
using SessionPtr = std::shared_ptr<const Session>;

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_SESSION_H_
