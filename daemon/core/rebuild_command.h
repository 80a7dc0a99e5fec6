// What `cairn rebuild` wants: parts of a dataset that no node has any more are made anew now, not when a launch begins
// that wants them. Strand only.
#ifndef CAIRN_DAEMON_CORE_REBUILD_COMMAND_H_
#define CAIRN_DAEMON_CORE_REBUILD_COMMAND_H_

#include <absl/status/statusor.h>

#include <functional>

#include "daemon/core/run.h"
#include "proto/admin.pb.h"
#include "proto/peer.pb.h"

namespace cairn::commands {

// `run` is the one that the request names; it lives as long as the core. Answers once, when it is done or is known not
// to work: it may take as long as the bytes need.
//   kNotFound            no node knows the dataset
//   kFailedPrecondition  it is for another daemon to do (names it); or there is nothing to be done for it: it is on the
//                        prefix, or not of several nodes
//   kDataLoss            more is lost than redundancy sets bear: names the ranks, and why not
void Rebuild(Run& run, const admin::RebuildRequest& request, std::function<void(admin::RebuildReply)> done);

// Of a node that is about to go: its parts of a dataset that is redundant, and is not on the prefix, are made anew here
// as if they were lost with it. Answers as Rebuild; OK, too, if the dataset needs nothing of that node.
//   kFailedPrecondition  this daemon does not decide about the dataset, or it is not redundant
void Remake(Run& run, const peer::Remake& request, std::function<void(absl::StatusOr<peer::Answer>)> done);

}  // namespace cairn::commands

#endif  // CAIRN_DAEMON_CORE_REBUILD_COMMAND_H_
