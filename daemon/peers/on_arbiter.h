// The run's arbiter as the strand uses it: its calls block, so they are made where its owner lets such calls wait.
#ifndef CAIRN_DAEMON_PEERS_ON_ARBITER_H_
#define CAIRN_DAEMON_PEERS_ON_ARBITER_H_

#include <absl/status/status.h>

#include <functional>

#include "storage/place/arbiter/arbiter.h"

namespace cairn {

// Runs `work` with the run's arbiter in a pool, then `done` with its answer on the strand, never inside the call.
// `done` runs once, however late; if the arbiter cannot be asked at all, `work` does not run:
//   kUnavailable  the prefix is not in reach
// At most one call of a membership is under way at a time.
using OnArbiter = std::function<void(std::function<absl::Status(Arbiter& arbiter)> work,
                                     std::function<void(const absl::Status& status)> done)>;

}  // namespace cairn

#endif  // CAIRN_DAEMON_PEERS_ON_ARBITER_H_
