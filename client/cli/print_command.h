// `cairn print`: any kvtree file, as SCR's own printer shows it. Needs no daemon.
#ifndef CAIRN_CLIENT_CLI_PRINT_COMMAND_H_
#define CAIRN_CLIENT_CLI_PRINT_COMMAND_H_

#include <string>

#include "client/cli/context.h"

namespace cairn::cli {

// In the order of the file, or `sorted` by key. What is behind the tree is told on standard error.
ExitCode RunPrint(const Context& context, const std::string& path, bool sorted);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_PRINT_COMMAND_H_
