#include "client/cli/run_prefix.h"

#include "storage/base/path.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

// Of a run that has no datasets yet, which only the daemon's status tells.
absl::StatusOr<std::string> PrefixByStatus(AdminClient& daemon, const std::string& run) {
  CAIRN_ASSIGN_OR_RETURN(const admin::StatusReply status, daemon.StatusOfThisNode());
  for (const admin::RunStatus& known : status.runs()) {
    if (BaseOf(known.prefix()) == run || BaseOf(known.cache_folder()) == "scr." + run ||
        (run.size() >= 4 && known.run().starts_with(run))) {
      return known.prefix();
    }
  }
  return NotFound("run {} has no datasets", run);
}

}  // namespace

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
  request.set_this_node_only(true);
  const auto reply = (*daemon)->List(request);
  if (absl::IsNotFound(reply.status())) return Annotate(reply.status(), run + ": no such directory");
  if (!reply.ok()) return reply.status();
  if (reply->datasets().empty()) return PrefixByStatus(**daemon, run);
  return reply->datasets(0).prefix();
}

absl::Status CheckIsPrefix(Disk& disk, const std::string& directory) {
  for (const char* const folder : {"/.scr", "/.cairn"}) {
    if (const auto info = disk.Info(directory + folder); !absl::IsNotFound(info.status())) return info.status();
  }
  return NotFound("{}: not a run's directory: it has neither .scr nor .cairn", directory);
}

}  // namespace cairn::cli
