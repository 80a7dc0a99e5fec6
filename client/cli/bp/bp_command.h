// `cairn bp`: all checkpoints of a run as one BP5 directory.
#ifndef CAIRN_CLIENT_CLI_BP_BP_COMMAND_H_
#define CAIRN_CLIENT_CLI_BP_BP_COMMAND_H_

#include <string>
#include <vector>

#include "client/cli/context.h"
#include "storage/base/ids.h"

namespace cairn::cli {

struct CombineOptions {
  std::string run;
  std::string output;
  std::vector<DatasetId> datasets;  // none: all
};

ExitCode RunBp(const Context& context, const CombineOptions& options);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_BP_BP_COMMAND_H_
