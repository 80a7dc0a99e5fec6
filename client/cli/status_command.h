// `cairn status`: the daemon, its runs, and how their flushes come along.
#ifndef CAIRN_CLIENT_CLI_STATUS_COMMAND_H_
#define CAIRN_CLIENT_CLI_STATUS_COMMAND_H_

#include <cstdint>
#include <string>

#include "client/cli/context.h"

namespace cairn::cli {

struct StatusOptions {
  bool watch = false;  // again and again, until the daemon goes or the user has enough
  std::uint64_t interval_ms = 1000;
};

ExitCode RunStatus(const Context& context, const StatusOptions& options);

// With bars for a terminal, else in plain lines.
std::string DescribeStatus(const admin::StatusReply& status, bool terminal);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_STATUS_COMMAND_H_
