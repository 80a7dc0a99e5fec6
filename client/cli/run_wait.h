// `cairn run wait`: until nobody works under a run any more. Needs no daemon.
#ifndef CAIRN_CLIENT_CLI_RUN_WAIT_H_
#define CAIRN_CLIENT_CLI_RUN_WAIT_H_

#include "client/cli/command.h"
#include "client/cli/commands.h"

namespace cairn::cli {

void AddRunWait(Command run, CommandLine& line);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_RUN_WAIT_H_
