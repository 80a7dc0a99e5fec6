// The daemon put together: disks, core, doors. What main.cc starts, reloads and stops.
#ifndef CAIRN_DAEMON_SERVER_H_
#define CAIRN_DAEMON_SERVER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "storage/base/lock_file.h"

namespace cairn {

// One daemon per runtime directory, and per cache and user: users may share the folder that holds their caches.
//   kFailedPrecondition  another daemon holds one of them: the message names it
//   others               as LockFile::Take
absl::StatusOr<std::vector<LockFile>> TakeLocks(const Config& config);

class Server {
 public:
  // Reads the cache, opens the doors; ready when it returns. REQUIRES: the locks of this configuration (TakeLocks).
  // Any error: a place cannot be used, an address is taken: the message says which and why.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const Config& config);

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
