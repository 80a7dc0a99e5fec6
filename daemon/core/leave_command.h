// What `cairn leave` wants: this node is about to go, and what only its cache has of a run is to be elsewhere before.
// What would be missed is what may not leave the cache now (policy.h, EvictionOrder) and is not on the prefix: it is
// brought there; of what is redundant another daemon makes the parts that are here anew instead, if it can: the home of
// its launch, or if that is this one, a node that has parts of it, too. Strand only.
#ifndef CAIRN_DAEMON_CORE_LEAVE_COMMAND_H_
#define CAIRN_DAEMON_CORE_LEAVE_COMMAND_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <vector>

#include "daemon/core/context.h"
#include "daemon/core/run.h"
#include "proto/admin.pb.h"

namespace cairn::commands {

using OnlyHere = std::vector<admin::OnlyHere>;

struct LeaveHow {
  std::chrono::milliseconds patience{0};
  // The node stays; a job has ended on it. What would be missed goes to the prefix and to no other node, what is in the
  // folder that is redundant itself, too; ranks may be at work.
  bool to_prefix = false;
};

// Orders to the prefix what would be missed, and waits for it, no longer than `patience`. Answers once, with what would
// be missed then, oldest first; if nothing: with this node nothing is lost of the run. `run` and `context` live as long
// as the core.
//   kFailedPrecondition  ranks are at work here, or by way of this node: names them (not with to_prefix)
void Leave(Run& run, const Context& context, const LeaveHow& how, std::function<void(absl::StatusOr<OnlyHere>)> done);

}  // namespace cairn::commands

#endif  // CAIRN_DAEMON_CORE_LEAVE_COMMAND_H_
