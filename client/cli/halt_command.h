// `cairn halt`: tells a run when to stop, by the halt file in its prefix, which SCR's programs read, too. Needs no
// daemon, except to find the prefix of a run that is given by name or identity.
#ifndef CAIRN_CLIENT_CLI_HALT_COMMAND_H_
#define CAIRN_CLIENT_CLI_HALT_COMMAND_H_

#include <cstdint>
#include <optional>
#include <string>

#include "client/cli/context.h"

namespace cairn::cli {

// What "now" writes, unless another reason is given.
inline constexpr const char* kHaltedByUser = "JOB_HALTED";

struct HaltOptions {
  std::string run;
  // To be written; absent: stays as it is.
  std::optional<std::string> reason;
  std::optional<std::uint64_t> checkpoints, seconds;
  std::optional<std::int64_t> before_s, after_s;  // since the epoch
  bool unset_reason = false, unset_checkpoints = false, unset_seconds = false;
  bool unset_before = false, unset_after = false;
  bool remove = false;  // the whole file, whatever else is asked for

  bool changes() const {
    return reason || checkpoints || seconds || before_s || after_s || unset_reason || unset_checkpoints ||
           unset_seconds || unset_before || unset_after || remove;
  }
};

// Changes what is to be changed, and shows what holds then.
ExitCode RunHalt(const Context& context, const HaltOptions& options);

// kInvalidArgument: empty, longer than SCR reads, with control characters, or one that stops nothing.
absl::Status CheckHaltReason(const std::string& reason);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_HALT_COMMAND_H_
