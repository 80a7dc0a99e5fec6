// `cairn rm`: a dataset goes, or what lies aside in the cache.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "client/cli/actions.h"
#include "client/cli/commands.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/text.h"
#include "storage/base/ids.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

struct RmOptions {
  std::string run;
  DatasetId dataset = 0;
  std::string set_aside;
};

ExitCode RunRemoveSetAside(const Context& context, const RmOptions& options) {
  const auto reply = Ask<admin::RemoveReply>(context, [&](AdminClient& daemon) {
    admin::RemoveRequest request;
    request.set_run(ParseRun(options.run).text);
    request.set_set_aside(options.set_aside == "all" ? admin::RemoveRequest::ALL : admin::RemoveRequest::DAMAGED);
    return daemon.Remove(request);
  });
  if (!reply.ok()) return Complain(reply.status());
  if (context.json) {
    Print(Dump({{"removed", reply->set_aside()}, {"bytes", reply->set_aside_bytes()}, {"in_use", reply->in_use()}}));
    return ExitCode::kOk;
  }
  std::string text = "nothing that was set aside can be removed";
  if (reply->set_aside() != 0) {
    text = fmt::format("removed from the cache: {}, {}", Count(reply->set_aside(), "item"),
                       Bytes(reply->set_aside_bytes()));
  }
  if (reply->in_use() != 0) text += fmt::format("; in use, so still there: {}", reply->in_use());
  Print(text + "\n");
  return ExitCode::kOk;
}

ExitCode RunRemove(const Context& context, const RmOptions& options) {
  if (options.set_aside.empty() == (options.dataset == 0)) {
    fmt::print(stderr, "cairn rm: give a DATASET or --set-aside damaged|all, not both\n");
    return ExitCode::kUsage;
  }
  if (!options.set_aside.empty()) return RunRemoveSetAside(context, options);
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

void AddRmCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<RmOptions>();
  const Command remove =
      app.AddCommand("rm", "Remove a dataset from cache and prefix, or what was set aside in the cache");
  AddRun(remove, options->run);
  AddDataset(remove, options->dataset, /*required=*/false);
  remove
      .AddOption("--set-aside", options->set_aside,
                 "Instead of a dataset. damaged: remove copies in this node's cache that were found damaged (the "
                 "daemon removes them after cache.keep_damaged); all: remove whole datasets, too, that were set "
                 "aside because another dataset has their number now (taken.*). There may be no other copy of these")
      .OneOf({"damaged", "all"});
  remove.Footer(
      "Examples:\n  cairn rm heat 17\n  cairn rm heat --set-aside damaged\n\n`cairn status` says what was set aside.");
  SetRun(remove, line, options, RunRemove);
}

}  // namespace cairn::cli
