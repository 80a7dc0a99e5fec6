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

// Orders to the prefix what would be missed, and waits for it, at most so long. Answers once, with what would be missed
// then, oldest first; if nothing: with this node nothing is lost of the run. `run` and `context` live as long as the
// core.
//   kFailedPrecondition  ranks are at work here, or by way of this node: names them
void Leave(Run& run, const Context& context, std::chrono::milliseconds patience,
           std::function<void(absl::StatusOr<OnlyHere>)> done);

}  // namespace cairn::commands

#endif  // CAIRN_DAEMON_CORE_LEAVE_COMMAND_H_
