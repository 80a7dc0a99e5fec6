// `cairn dump`: the values of one variable, as text, JSON or a file for numpy.
#ifndef CAIRN_CLIENT_CLI_BP_DUMP_COMMAND_H_
#define CAIRN_CLIENT_CLI_BP_DUMP_COMMAND_H_

#include <string>
#include <vector>

#include "client/cli/bp/dump_plan.h"
#include "client/cli/context.h"

namespace cairn::cli {

struct DumpOptions {
  std::vector<std::string> arguments;  // DIR VAR or RUN DATASET VAR
  std::string variable;                // instead of VAR
  DumpSelection selection;
  std::string start, count;  // "0,10": into `selection`
  std::string npy;           // the file to make; "-": standard output; empty: none
  bool force = false;
};

ExitCode RunDump(const Context& context, const DumpOptions& options);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_BP_DUMP_COMMAND_H_
