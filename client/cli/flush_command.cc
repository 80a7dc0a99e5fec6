// `cairn flush`: a dataset goes to the prefix now.
#include <fmt/format.h>

#include <string>

#include "client/cli/actions.h"
#include "client/cli/commands.h"
#include "client/cli/options.h"
#include "storage/base/ids.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

struct FlushOptions {
  std::string run;
  DatasetId dataset = 0;  // 0: the newest restartable one
  bool wait = false;
  std::string timeout;
};

ExitCode RunFlush(const Context& context, const FlushOptions& options) {
  const std::string run = ParseRun(options.run).text;
  const auto reply = Ask<admin::FlushReply>(context, [&](AdminClient& daemon) {
    admin::FlushRequest request;
    request.set_run(run);
    request.set_dataset(options.dataset);
    return daemon.Flush(request);
  });
  if (!reply.ok()) return Complain(reply.status());
  const DatasetId dataset = reply->dataset();
  if (options.wait) return WaitAndTell(context, run, dataset, Level::kPrefix, Milliseconds(options.timeout));
  return Report(context, dataset, Json::object(), fmt::format("dataset {} will be flushed", dataset));
}

}  // namespace

void AddFlushCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<FlushOptions>();
  const Command flush = app.AddCommand("flush", "Bring a dataset to the prefix now (default: the newest checkpoint)");
  AddRun(flush, options->run);
  AddDataset(flush, options->dataset, /*required=*/false);
  flush.AddFlag("--wait", options->wait, "Wait until it is there, and say what prevents it");
  AddTimeout(flush, options->timeout);
  SetRun(flush, line, options, RunFlush);
}

}  // namespace cairn::cli
