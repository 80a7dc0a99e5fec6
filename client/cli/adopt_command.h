// `cairn adopt --fti`: from FTI into a run.
#ifndef CAIRN_CLIENT_CLI_ADOPT_COMMAND_H_
#define CAIRN_CLIENT_CLI_ADOPT_COMMAND_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/context.h"
#include "client/cli/exit_code.h"

namespace cairn::cli {

struct AdoptOptions {
  std::string run;                 // a directory, made if it is not there; or a run that the daemon knows
  std::vector<std::string> roots;  // FTI's directories, of all nodes
  std::string config, execution;
  std::optional<std::int32_t> checkpoint;
  std::optional<std::uint32_t> node_size, group_size, ranks;
  bool heads = false;
};

ExitCode RunAdopt(const Context& context, const AdoptOptions& options);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_ADOPT_COMMAND_H_
