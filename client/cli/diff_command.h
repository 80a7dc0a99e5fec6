// `cairn diff`: how two checkpoint files differ. Needs no daemon.
#ifndef CAIRN_CLIENT_CLI_DIFF_COMMAND_H_
#define CAIRN_CLIENT_CLI_DIFF_COMMAND_H_

#include <string>

#include "client/cli/context.h"

namespace cairn::cli {

// Exit codes of its own, in the manner of diff(1): 0 the variables are the same, 1 they differ, 2 the files cannot be
// compared; 4 and 5 as ever. Damage does not keep from comparing what can be read.
ExitCode RunDiff(const Context& context, const std::string& first, const std::string& second);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_DIFF_COMMAND_H_
