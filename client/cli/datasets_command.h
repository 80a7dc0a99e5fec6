// `cairn ls` and `cairn show`: which datasets there are, and what is in one. From the daemon; where there is none, or
// it does not know the run, from the prefix itself.
#ifndef CAIRN_CLIENT_CLI_DATASETS_COMMAND_H_
#define CAIRN_CLIENT_CLI_DATASETS_COMMAND_H_

#include <cstdint>
#include <string>

#include "client/cli/context.h"

namespace cairn::cli {

// `run` empty: all runs of the daemon.
ExitCode RunList(const Context& context, const std::string& run);
ExitCode RunShow(const Context& context, const std::string& run, std::uint64_t dataset);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_DATASETS_COMMAND_H_
