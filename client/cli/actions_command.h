// `cairn wait`, `flush`, `pin` and `rm`: what the daemon is asked to do. All need a daemon.
#ifndef CAIRN_CLIENT_CLI_ACTIONS_COMMAND_H_
#define CAIRN_CLIENT_CLI_ACTIONS_COMMAND_H_

#include <cstdint>
#include <string>

#include "client/cli/context.h"
#include "storage/base/ids.h"

namespace cairn::cli {

// timeout_ms 0: until the level is reached, the dataset has failed or the daemon has gone.
ExitCode RunWait(const Context& context, const std::string& run, DatasetId dataset, Level level,
                 std::uint64_t timeout_ms);

struct FlushOptions {
  DatasetId dataset = 0;  // 0: the newest restartable one
  bool wait = false;
  std::uint64_t timeout_ms = 0;
};
ExitCode RunFlush(const Context& context, const std::string& run, const FlushOptions& options);

ExitCode RunPin(const Context& context, const std::string& run, DatasetId dataset, bool pinned);
ExitCode RunRemove(const Context& context, const std::string& run, DatasetId dataset);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_ACTIONS_COMMAND_H_
