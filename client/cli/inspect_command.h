// `cairn inspect`: what a file says of itself. Needs no daemon.
#ifndef CAIRN_CLIENT_CLI_INSPECT_COMMAND_H_
#define CAIRN_CLIENT_CLI_INSPECT_COMMAND_H_

#include <string>

#include "client/cli/context.h"

namespace cairn::cli {

ExitCode RunInspect(const Context& context, const std::string& path);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_INSPECT_COMMAND_H_
