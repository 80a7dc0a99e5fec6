// `cairn vars`: what a BP5 directory or a dataset holds, in the manner of ADIOS2's bpls.
#ifndef CAIRN_CLIENT_CLI_BP_VARS_COMMAND_H_
#define CAIRN_CLIENT_CLI_BP_VARS_COMMAND_H_

#include <string>
#include <vector>

#include "client/cli/context.h"

namespace cairn::cli {

struct VarsOptions {
  std::vector<std::string> arguments;  // DIR or RUN DATASET, then names
  std::vector<std::string> names;      // of variables, more of them
  bool blocks = false, attributes = false, raw = false;
  bool bounds = true;  // always; bpls wants to be asked
};

ExitCode RunVars(const Context& context, const VarsOptions& options);

// "cairn: …" to standard error. The exit code of a command on BP5 directories: kInvalidArgument means that the command
// is wrong.
ExitCode ComplainOfBp(const absl::Status& status);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_BP_VARS_COMMAND_H_
