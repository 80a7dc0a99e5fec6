// `cairn nodes`: which daemons serve a run, on which nodes, and what each holds of it.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/text.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

struct Options {
  std::string run;  // empty: all runs of the daemon
};

std::string DescribeCoordinator(const admin::RunNodes& run) {
  if (run.epoch() == 0) return "  no coordinator is known yet\n";
  std::string text = fmt::format("  coordinated by {} ({}), epoch {}", Clean(run.coordinator_host()),
                                 Clean(run.coordinator_address()), run.epoch());
  if (!run.attached()) text += "; this node has no link to it just now, and looks for one";
  return text + "\n";
}

std::string RoleOf(const admin::RunNodes& run, const admin::NodeRow& node) {
  std::string role = node.missing() ? "missing" : "here";
  if (!node.missing() && !node.here()) role = "linked";
  return node.node() == run.coordinator() ? role + ", coordinates" : role;
}

std::string DescribeNodes(const admin::NodesReply& reply) {
  std::string text;
  for (const admin::RunNodes& run : reply.runs()) {
    if (!text.empty()) text += "\n";
    text += fmt::format("run {}  {}\n", run.run().substr(0, 8), Clean(run.prefix()));
    if (!run.alone().empty()) {
      text += fmt::format("  this node has no links to others: {}\n", Clean(run.alone()));
      continue;
    }
    text += DescribeCoordinator(run);
    std::vector<std::vector<std::string>> cells = {
        {"HOST", "NODE", "ADDRESS", "STATE", "SINCE", "RANKS", "DATASETS", "NEWEST", "IN CACHE"}};
    for (const admin::NodeRow& node : run.nodes()) {
      cells.push_back({Clean(node.host()), Clean(node.node().substr(0, 8)), Clean(node.address()), RoleOf(run, node),
                       LocalTime(node.since_us()), std::to_string(node.sessions()), std::to_string(node.datasets()),
                       node.newest_dataset() == 0 ? "-" : std::to_string(node.newest_dataset()), Bytes(node.bytes())});
    }
    text += Table(cells, {false, false, false, false, false, true, true, true, true});
  }
  return text.empty() ? "no runs\n" : text;
}

ExitCode RunNodes(const Context& context, const Options& options) {
  const auto daemon = context.Daemon();
  if (!daemon.ok()) return Complain(daemon.status());
  admin::NodesRequest request;
  request.set_run(ParseRun(options.run).text);
  const absl::StatusOr<admin::NodesReply> reply = (*daemon)->Nodes(request);
  if (!reply.ok()) return Complain(reply.status());
  Print(context.json ? Dump(ToJson(*reply)) : DescribeNodes(*reply));
  return ExitCode::kOk;
}

}  // namespace

void AddNodesCommand(CLI::App& app, CommandLine& line) {
  const auto options = std::make_shared<Options>();
  CLI::App* const nodes = app.add_subcommand(
      "nodes", "The nodes whose daemons serve a run, or all runs of this daemon, and what they hold");
  AddRun(*nodes, options->run, /*required=*/false);
  SetRun(*nodes, line, options, RunNodes);
}

}  // namespace cairn::cli
