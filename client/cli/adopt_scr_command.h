// `cairn adopt --scr`: from SCR's cache into a run.
#ifndef CAIRN_CLIENT_CLI_ADOPT_SCR_COMMAND_H_
#define CAIRN_CLIENT_CLI_ADOPT_SCR_COMMAND_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/context.h"
#include "client/cli/exit_code.h"

namespace cairn::cli {

struct AdoptScrOptions {
  std::string run;                 // a directory, made if it is not there; or a run that the daemon knows
  std::vector<std::string> roots;  // SCR's stores and control directories, of all nodes
  std::string job;
  std::optional<std::uint64_t> dataset;
  bool all = false;
  std::string prefix_was;
};

ExitCode RunAdoptScr(const Context& context, const AdoptScrOptions& options);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_ADOPT_SCR_COMMAND_H_
