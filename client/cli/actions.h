// What `wait`, `flush`, `pin` and `rm` have in common: the daemon is asked to do something, and may refuse.
#ifndef CAIRN_CLIENT_CLI_ACTIONS_H_
#define CAIRN_CLIENT_CLI_ACTIONS_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "client/cli/context.h"
#include "client/cli/json.h"
#include "proto/local.pb.h"
#include "storage/base/ids.h"
#include "storage/base/status.h"

namespace cairn::cli {

// A long wait asks the daemon in parts. So no call hangs on a daemon that has stopped, and the user hears what prevents
// the wait from ending.
class WaitInParts {
 public:
  WaitInParts(std::uint64_t part_ms, std::uint64_t timeout_ms)  // 0: without end
      : part_ms_(part_ms), timeout_ms_(timeout_ms), begin_(std::chrono::steady_clock::now()) {}
  // Of the next call; at least 1: 0 would mean the daemon's own default.
  std::uint32_t NextMs();
  bool last() const { return last_; }  // that was the last one

 private:
  const std::uint64_t part_ms_, timeout_ms_;
  const std::chrono::steady_clock::time_point begin_;
  bool last_ = false;
};

// The parts of a wait for the prefix: what prevents it changes often.
inline constexpr std::uint64_t kPrefixPartMs = 2'000;

// Waits until the dataset has the level, and says so. timeout_ms 0: until then, or until the dataset has failed or the
// daemon has gone. Meanwhile it says on standard error what keeps the dataset from `prefix`.
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

// Prints what was done: as `fields` behind the dataset's number, or as a sentence.
ExitCode Report(const Context& context, DatasetId dataset, const Json& fields, const std::string& sentence);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_ACTIONS_H_
