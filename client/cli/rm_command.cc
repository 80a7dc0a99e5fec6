// `cairn rm`: a dataset goes.
#include <fmt/format.h>

#include <string>

#include "client/cli/actions.h"
#include "client/cli/commands.h"
#include "client/cli/options.h"
#include "storage/base/ids.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

struct Options {
  std::string run;
  DatasetId dataset = 0;
};

ExitCode RunRemove(const Context& context, const Options& options) {
  const auto reply = Ask<admin::RemoveReply>(context, [&](AdminClient& daemon) {
    admin::RemoveRequest request;
    request.set_run(ParseRun(options.run).text);
    request.set_dataset(options.dataset);
    return daemon.Remove(request);
  });
  if (!reply.ok()) return Complain(reply.status());
  return Report(context, options.dataset, {{"removed", true}}, fmt::format("dataset {} is removed", options.dataset));
}

}  // namespace

void AddRmCommand(CLI::App& app, CommandLine& line) {
  const auto options = std::make_shared<Options>();
  CLI::App* const remove = app.add_subcommand("rm", "Remove a dataset from cache and prefix");
  AddRun(*remove, options->run);
  AddDataset(*remove, options->dataset);
  SetRun(*remove, line, options, RunRemove);
}

}  // namespace cairn::cli
