// What `wait`, `flush`, `pin` and `rm` have in common: the daemon is asked to do something, and may refuse.
#ifndef CAIRN_CLIENT_CLI_ACTIONS_H_
#define CAIRN_CLIENT_CLI_ACTIONS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <string>

#include "client/cli/context.h"
#include "client/cli/json.h"
#include "proto/local.pb.h"
#include "storage/base/ids.h"
#include "storage/base/status.h"

namespace cairn::cli {

// Waits until the dataset has the level, and says so. timeout_ms 0: until that, or the dataset has failed, or the
// daemon has gone. What is in the way of `prefix` is told on standard error meanwhile.
ExitCode WaitAndTell(const Context& context, const std::string& run, DatasetId dataset, Level level,
                     std::uint64_t timeout_ms);

// One question; what the daemon refuses is an error.
template <typename Reply>
absl::StatusOr<Reply> Ask(const Context& context, const std::function<absl::StatusOr<Reply>(AdminClient&)>& question) {
  CAIRN_ASSIGN_OR_RETURN(const auto daemon, context.Daemon());
  CAIRN_ASSIGN_OR_RETURN(Reply reply, question(*daemon));
  if (reply.status().code() != local::OK) return ToStatus(reply.status());
  return reply;
}

// What was done: as `fields` behind the dataset's number, or as a sentence.
ExitCode Report(const Context& context, DatasetId dataset, const Json& fields, const std::string& sentence);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_ACTIONS_H_
