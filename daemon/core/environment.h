// What the core is given and never makes itself: where its state is worked on, by whom, and what it knows of the world
// around it. It makes no thread, reads no clock and draws no number. threads.h puts the real ones together; a test
// gives a loop and pools that it steps, disks in memory, and clocks that it turns.
#ifndef CAIRN_DAEMON_CORE_ENVIRONMENT_H_
#define CAIRN_DAEMON_CORE_ENVIRONMENT_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "daemon/core/lanes.h"
#include "daemon/core/loop.h"
#include "daemon/data/deposits.h"
#include "daemon/data/work_pool.h"
#include "daemon/peers/access.h"
#include "storage/file/transfer/throttle.h"
#include "storage/io/disk.h"
#include "storage/io/disk_probe.h"
#include "storage/place/arbiter/arbiter_record.h"

namespace cairn {

using SteadyTime = std::chrono::steady_clock::time_point;

// The only source of time. The timers of the loop go by `steady`. Any thread.
struct Clocks {
  std::function<SteadyTime()> steady;
  std::function<std::chrono::system_clock::time_point()> wall;
};

// Whose daemon this is, and where.
struct Process {
  std::string user;
  std::string host;
  std::uint32_t pid = 0;
};

struct Pools {          // all borrowed
  WorkPool& work;       // hashing, captures and restores on this node
  BlockingPool& cache;  // work on the cache disk
  BlockingPool& images;  // memory that is touched ahead of need: nobody waits behind that
  // With a lane for each prefix, by its path: any of them may hang for hours.
  Lanes& prefix;   // short work
  Lanes& flush;    // copies that nobody waits for: they may give way to what clients wait for
  Lanes& growing;  // steps of growing outputs: one that hangs holds up no flush
  Lanes& far;      // captures and restores on the prefix, but for their hashing
};

struct Environment {
  Loop& loop;
  Pools pools;
  Disk& cache_disk;
  Disk& prefix_disk;
  Clocks clocks;
  std::function<std::uint64_t()> random;  // numbers that nobody can guess. Strand only
  Process process;
  const Arbiters& arbiters = PrefixArbiters();
  PeerAccess* peers = nullptr;  // null: no links to other nodes
  // Does the batch system say that the job (a number of Slurm's) is over? Blocks, for seconds at most. Any thread.
  // Null: there is nobody to ask.
  std::function<bool(const std::string& job)> job_is_over = nullptr;
  // Measures the disk of the cache, with a scratch file of that path, until `stop` says so (storage/io/disk_probe.h).
  // Blocks for about a second. kAborted: another process has the turn. Any thread. Null: it is not measured.
  std::function<absl::StatusOr<DiskSpeeds>(const std::string& path, ProbeTurn turn, const std::function<bool()>& stop)>
      probe_cache_disk = nullptr;
  // Who holds images for the daemon after this one, and what the one before has left; null: nobody.
  std::shared_ptr<Deposits> deposits = nullptr;
  // What all copies of this process have together that nobody waits for, while checkpoints are captured or restored.
  // Null: those of the core have one of their own.
  std::shared_ptr<BackgroundBudget> background = nullptr;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_ENVIRONMENT_H_
