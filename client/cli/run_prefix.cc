#include "client/cli/run_prefix.h"

#include "storage/base/status.h"

namespace cairn::cli {

absl::StatusOr<std::string> FindPrefix(const Context& context, const std::string& run) {
  RunArgument argument = ParseRun(run);
  if (argument.is_directory) return std::move(argument.text);
  if (run.find('/') != std::string::npos) return NotFound("{}: no such directory", run);
  const auto daemon = context.Daemon();
  if (absl::IsUnavailable(daemon.status())) {
    return NotFound("{}: no such directory, and no daemon that may know it as a run", run);
  }
  if (!daemon.ok()) return daemon.status();
  admin::ListRequest request;
  request.set_run(run);
  CAIRN_ASSIGN_OR_RETURN(const admin::ListReply reply, (*daemon)->List(request));
  if (reply.datasets().empty()) return NotFound("run {} has no datasets", run);
  return reply.datasets(0).prefix();
}

}  // namespace cairn::cli
