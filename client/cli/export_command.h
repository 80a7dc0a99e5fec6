// `cairn export`: from a run into FTI.
#ifndef CAIRN_CLIENT_CLI_EXPORT_COMMAND_H_
#define CAIRN_CLIENT_CLI_EXPORT_COMMAND_H_

#include <string>

#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "storage/job/export/export.h"

namespace cairn::cli {

struct ExportOptions {
  std::string run;
  std::string folder;
  int level = 4;
  std::string layout = "F";
  ExportRequest request;  // folder, level and letter are made of those above
};

ExitCode RunExport(const Context& context, ExportOptions options);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_EXPORT_COMMAND_H_
