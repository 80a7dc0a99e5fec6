// `cairn adopt --bp`: a BP5 directory into a run.
#ifndef CAIRN_CLIENT_CLI_ADOPT_BP_COMMAND_H_
#define CAIRN_CLIENT_CLI_ADOPT_BP_COMMAND_H_

#include <cstdint>
#include <optional>
#include <string>

#include "client/cli/context.h"
#include "client/cli/exit_code.h"

namespace cairn::cli {

struct AdoptBpOptions {
  std::string run;        // a directory, made if it is not there; or a run that the daemon knows
  std::string directory;  // to be adopted
  std::optional<std::uint64_t> step;
};

ExitCode RunAdoptBp(const Context& context, const AdoptBpOptions& options);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_ADOPT_BP_COMMAND_H_
