// `cairn scavenge`: from a node's cache to the prefix, without a daemon.
#ifndef CAIRN_CLIENT_CLI_SCAVENGE_COMMAND_H_
#define CAIRN_CLIENT_CLI_SCAVENGE_COMMAND_H_

#include <cstdint>
#include <optional>
#include <string>

#include "client/cli/context.h"
#include "client/cli/exit_code.h"

namespace cairn::cli {

struct ScavengeOptions {
  std::string run;    // a directory, an identity or the beginning of one, a name; empty: all runs of the cache
  std::string cache;  // empty: where the daemon's settings say
  std::optional<std::uint64_t> dataset;
  bool all = false;
};

// kIncomplete: a dataset's ranks are missing; kDamaged: also since a file is damaged.
ExitCode RunScavenge(const Context& context, const ScavengeOptions& options);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_SCAVENGE_COMMAND_H_
