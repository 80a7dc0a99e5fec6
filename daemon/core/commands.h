// What the `cairn` command wants done with datasets of a run: flushed, pinned, removed. A dataset of a launch whose
// home is on another node is decided there: the command goes to it, and its answer comes back. Of a launch that is
// over, with parts here and the rest elsewhere, all nodes are asked: one that knows all of it flushes it, each that has
// parts pins or removes its own. Strand only.
//
// Each answers once, within 10 s if another node is asked. Without an answer of that node (kUnavailable,
// kDeadlineExceeded) it may have been done, or not.
#ifndef CAIRN_DAEMON_CORE_COMMANDS_H_
#define CAIRN_DAEMON_CORE_COMMANDS_H_

#include <absl/status/statusor.h>

#include <functional>

#include "daemon/core/run.h"
#include "proto/admin.pb.h"
#include "proto/local.pb.h"
#include "proto/peer.pb.h"

namespace cairn {

local::Status StatusMessage(const absl::Status& status);

namespace commands {

// The run that a request names is `run`. References last until the call returns; `run` as long as the core.
void Flush(Run& run, const admin::FlushRequest& request, std::function<void(admin::FlushReply)> done);
void Pin(Run& run, const admin::PinRequest& request, std::function<void(admin::PinReply)> done);
void Remove(Run& run, const admin::RemoveRequest& request, std::function<void(admin::RemoveReply)> done);

// Of another node's daemon: one of the above. It is not sent on.
bool IsOne(const peer::Question& question);
void Answer(Run& run, const peer::Question& question, std::function<void(absl::StatusOr<peer::Answer>)> done);

}  // namespace commands
}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_COMMANDS_H_
