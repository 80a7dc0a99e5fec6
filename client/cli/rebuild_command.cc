// `cairn rebuild`: what no node has any more of a dataset is made anew, now.
#include <memory>
#include <string>

#include "client/cli/actions.h"
#include "client/cli/commands.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/redundancy_text.h"
#include "client/cli/text.h"
#include "storage/base/ids.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

struct RebuildOptions {
  std::string run;
  DatasetId dataset = 0;
};

ExitCode RunRebuild(const Context& context, const RebuildOptions& options) {
  const auto reply = Ask<admin::RebuildReply>(context, [&](AdminClient& daemon) {
    admin::RebuildRequest request;
    request.set_run(ParseRun(options.run).text);
    request.set_dataset(options.dataset);
    return daemon.Rebuild(request);
  });
  if (!reply.ok()) return Complain(reply.status());
  if (context.json) {
    Print(Dump({{"dataset", options.dataset}, {"rebuilt", RebuiltJson(*reply)}}));
  } else {
    Print(DescribeRebuilt(options.dataset, *reply));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddRebuildCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<RebuildOptions>();
  const Command rebuild = app.AddCommand("rebuild", "Rebuild now those files of a dataset that no node has any more");
  AddRun(rebuild, options->run);
  AddDataset(rebuild, options->dataset);
  SetRun(rebuild, line, options, RunRebuild);
}

}  // namespace cairn::cli
