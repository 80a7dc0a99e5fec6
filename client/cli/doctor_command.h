// `cairn doctor`: which of the mechanisms that Cairn uses work on this machine, and what happens where one does not.
#ifndef CAIRN_CLIENT_CLI_DOCTOR_COMMAND_H_
#define CAIRN_CLIENT_CLI_DOCTOR_COMMAND_H_

#include <string>

#include "client/cli/context.h"

namespace cairn::cli {

struct DoctorOptions {
  std::string cache;   // empty: the daemon's, else $CAIRN_CACHE, else /var/tmp/cairn-<uid>/cache
  std::string prefix;  // empty: $CAIRN_PREFIX, else none is tried
};

// kFailed: something is missing that Cairn cannot do without. That no daemon runs is told, but is no failure.
ExitCode RunDoctor(const Context& context, const DoctorOptions& options);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_DOCTOR_COMMAND_H_
