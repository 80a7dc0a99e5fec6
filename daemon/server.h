// The daemon put together: disks, core, doors. What main.cc starts, reloads and stops.
#ifndef CAIRN_DAEMON_SERVER_H_
#define CAIRN_DAEMON_SERVER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/data/deposits.h"
#include "daemon/drain/watch_folders.h"
#include "proto/admin.pb.h"
#include "proto/supervisor.h"
#include "storage/base/lock_file.h"
#include "storage/base/unique_fd.h"

namespace cairn {

// One daemon per runtime directory, and per cache and user: users may share the folder that holds their caches.
//   kFailedPrecondition  another daemon holds one of them: the message names it
//   others               as LockFile::Take
absl::StatusOr<std::vector<LockFile>> TakeLocks(const Config& config);

class Server {
 public:
  enum class Clients : std::uint8_t { kListenedFor, kAdmitted };

  // Reads the cache, opens the doors; ready when it returns. REQUIRES: the locks of this configuration (TakeLocks).
  // kAdmitted: applications are not listened for at cairnd.sock, a supervisor hands their connections over.
  // `deposits`: who holds images for the daemon after this one; what the one before has left is taken up here. Null:
  // nobody. `drains`: a status tells of these, too; borrowed, they outlive the server.
  // Any error: a place cannot be used, an address is taken: the message says which and why.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const Config& config, Clients clients,
                                                       std::shared_ptr<Deposits> deposits, const WatchFolders& drains);

  // With kAdmitted: takes a connection that a supervisor has accepted. One of another user is refused. Not after Stop.
  virtual void Admit(Door door, UniqueFd connection) = 0;
  // How this node's daemon is doing; `done` runs once, on a thread of the core's. Not after Stop.
  virtual void Status(std::function<void(const admin::StatusReply&)> done) = 0;
  // Applications that are connected at the Unix socket.
  virtual std::size_t connections() const = 0;

  // Lets nobody new in, brings captured datasets to `local`; blocks at most quiesce_ms and a little. False:
  // some did not get there in time.
  virtual bool Quiesce() = 0;
  // Takes over what can change while running (core.h). Any thread.
  virtual void Reload(const Config& config) = 0;
  virtual const std::string& socket_path() const = 0;
  // Hangs up on all clients, then ends the core. kUnavailable: as ThreadedCore::Stop.
  virtual absl::Status Stop() = 0;
  // Stop, and waits however long it takes.
  virtual ~Server() = default;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_SERVER_H_
