// What the `cairn` command tells scripts. The numbers are part of its interface and stand in --help.
#ifndef CAIRN_CLIENT_CLI_EXIT_CODE_H_
#define CAIRN_CLIENT_CLI_EXIT_CODE_H_

#include <absl/status/status.h>

// Not proto/local.pb.h: a compiler needs half a second for it.
namespace cairn::local {
class Status;
}

namespace cairn::cli {

enum class ExitCode : int {
  kOk = 0,
  kFailed = 1,      // anything that has no number of its own
  kUsage = 2,       // the command itself is wrong
  kNoDaemon = 3,    // no daemon answers, or it is going away
  kNotFound = 4,    // no such run, dataset or file
  kDamaged = 5,     // bytes are not what they should be
  kTimeout = 6,     // not done in time
  kIncomplete = 7,  // ranks of a dataset are missing
};

ExitCode CodeOf(const absl::Status& status);
ExitCode CodeOf(const local::Status& status);

// As an absl::Status with the nearest code; FAILED and SUPERSEDED are kAborted.
absl::Status ToStatus(const local::Status& status);

// The graver of two: damage before everything, any error before none.
ExitCode Worse(ExitCode a, ExitCode b);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_EXIT_CODE_H_
