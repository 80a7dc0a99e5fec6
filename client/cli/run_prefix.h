// Where a run's prefix is, for commands that work on the prefix itself.
#ifndef CAIRN_CLIENT_CLI_RUN_PREFIX_H_
#define CAIRN_CLIENT_CLI_RUN_PREFIX_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>

#include "client/cli/context.h"
#include "storage/io/disk.h"

namespace cairn::cli {

// RUN as given: a directory's absolute path without symbolic links, or the prefix of a run that the daemon knows by
// this name or identity.
//   kNotFound      no such directory, and no daemon that knows such a run
absl::StatusOr<std::string> FindPrefix(const Context& context, const std::string& run);

// Checks that a directory has .cairn or .scr in it. kNotFound: it has neither; so a command looks for nothing, and
// leaves nothing, in a directory whose name was mistyped.
absl::Status CheckIsPrefix(Disk& disk, const std::string& directory);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_RUN_PREFIX_H_
