// `cairn redundancy`: what protects a dataset over nodes, and what may still be lost.
#include <string>

#include "client/cli/commands.h"
#include "client/cli/datasets.h"
#include "client/cli/json.h"
#include "client/cli/nodes_asked.h"
#include "client/cli/options.h"
#include "client/cli/redundancy_text.h"
#include "client/cli/text.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

struct RedundancyOptions {
  std::string run;
  DatasetId dataset = 0;
};

ExitCode RunRedundancy(const Context& context, const RedundancyOptions& options) {
  const auto answer = ShowDataset(context, options.run, options.dataset, /*this_node=*/false);
  if (!answer.ok()) return Complain(answer.status());
  if (context.json) {
    Json json = RedundancyJson(answer->reply);
    if (!answer->reply.nodes().empty()) json["asked"] = AskedJson(answer->reply.nodes());
    Print(Dump(json));
  } else {
    Print(DescribeRedundancy(answer->reply));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddRedundancyCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<RedundancyOptions>();
  const Command redundancy =
      app.AddCommand("redundancy", "Show how nodes protect a dataset, and how many may still be lost");
  AddRun(redundancy, options->run);
  AddDataset(redundancy, options->dataset);
  SetRun(redundancy, line, options, RunRedundancy);
}

}  // namespace cairn::cli
