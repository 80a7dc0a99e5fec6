// Waits until nobody works under a run's newest launch any more, as a daemon does before it makes a newer one: for
// commands that make a launch of their own. Calls block, and sleep (storage/base/clock.h).
#ifndef CAIRN_STORAGE_JOB_LAUNCH_LAUNCH_WAIT_H_
#define CAIRN_STORAGE_JOB_LAUNCH_LAUNCH_WAIT_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "storage/base/ids.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

struct LaunchWait {
  std::chrono::milliseconds at_most = std::chrono::minutes(3);  // 0: one look, no wait
  // Of a launch without lease, and of the lease of a launch of one's own: the daemon's default (lease.term).
  std::chrono::milliseconds own_term = std::chrono::minutes(2);
  // Nobody works under a launch of such a key that has no daemon: the caller holds the lock under which these are made.
  // Empty: there is none.
  std::string own_key_stem = {};
  // Also one that certainly lives is waited for, and none that lives or still brings data to the prefix is left behind.
  bool until_drained = false;
  // Launches of which the key says that they are another Slurm job's (storage/base/launch_key.h) are not waited for;
  // empty: whosever it is.
  std::string of_job = {};
};

// A launch that release 0.1.0 made has no lease: if this host made it, it counts as over, else after a term.
// `note` hears, once for each, what is waited for, and what is left behind: a daemon that still brings a dataset to the
// prefix is waited for, but not for ever. Answers the newest launch, 0 if there is none: what is to be made comes after
// it (Prefix::MakeLaunch). No answer: its record is damaged, so nobody works under it.
//   kFailedPrecondition  BUSY: somebody works there, or, when the time is up, it cannot be told that nobody does
//   kDeadlineExceeded    until_drained: the time is up, and it is not over, or that cannot be told
absl::StatusOr<std::optional<LaunchId>> WaitUntilOver(Prefix& prefix, const LaunchWait& wait,
                                                      const std::function<void(const std::string&)>& note);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_LAUNCH_LAUNCH_WAIT_H_
