// The core with what it needs of the system: threads for loop and pools, the system's clocks and random numbers, this
// process. Makes them and takes them down in the right order.
#ifndef CAIRN_DAEMON_CORE_THREADS_H_
#define CAIRN_DAEMON_CORE_THREADS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>

#include "daemon/config/config.h"
#include "daemon/core/core.h"
#include "daemon/core/environment.h"
#include "storage/io/disk.h"

namespace cairn {

// Calls come from any thread but the core's own.
class ThreadedCore {
 public:
  // `threads` and `image.bytes_max` that are 0 are taken from the machine. The disks are borrowed. A clock that is not
  // given is the system's; timers always go by that one. `arbiters` and `peers` (null: no links to other nodes) are
  // borrowed. `deposits`, `background`: as Environment's. Errors: as Core::Start.
  static absl::StatusOr<std::unique_ptr<ThreadedCore>> Start(Config config, Disk& cache_disk, Disk& prefix_disk,
                                                             Clocks clocks = {},
                                                             const Arbiters& arbiters = PrefixArbiters(),
                                                             PeerAccess* peers = nullptr,
                                                             std::shared_ptr<Deposits> deposits = nullptr,
                                                             std::shared_ptr<BackgroundBudget> background = nullptr);
  // Stop, and waits however long it takes.
  virtual ~ThreadedCore() = default;

  virtual Core& core() = 0;
  // Core::Quiesce; blocks, at most quiesce_ms and a little.
  virtual bool Quiesce() = 0;
  // Ends transfers and flushes at the next block and waits for them. Nobody calls the core any more.
  //   kUnavailable  some hang with file systems, which the message names, and are not waited for any longer: the
  //                 process may end without destroying this
  virtual absl::Status Stop() = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_THREADS_H_
