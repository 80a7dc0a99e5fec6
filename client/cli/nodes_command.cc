// `cairn nodes`: which daemons serve a run, on which nodes, and what each holds of it. Inside a Slurm job also on which
// of the job's nodes there is none.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/json.h"
#include "client/cli/node_list.h"
#include "client/cli/options.h"
#include "client/cli/text.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

struct NodesOptions {
  std::string run;  // empty: all runs of the daemon
};

std::string DescribeCoordinator(const admin::RunNodes& run) {
  if (run.epoch() == 0) return "  no coordinator is known yet\n";
  std::string text = fmt::format("  coordinated by {} ({}), epoch {}", Clean(run.coordinator_host()),
                                 Clean(run.coordinator_address()), run.epoch());
  if (!run.attached()) text += "; this node has no link to it now, and looks for one";
  return text + "\n";
}

std::string RoleOf(const admin::RunNodes& run, const admin::NodeRow& node) {
  std::string role = node.missing() ? "missing" : "here";
  if (!node.missing() && !node.here()) role = "linked";
  return node.node() == run.coordinator() ? role + ", coordinates" : role;
}

std::string_view ShortName(std::string_view host) {
  return host.substr(0, host.find('.'));
}

// Those of the job's hosts on which no daemon serves the run.
std::vector<std::string> Without(const std::vector<std::string>& hosts, const admin::RunNodes& run) {
  std::vector<std::string> without;
  if (!run.alone().empty()) return without;
  for (const std::string& host : hosts) {
    const bool has = std::ranges::any_of(
        run.nodes(), [&](const admin::NodeRow& node) { return ShortName(node.host()) == ShortName(host); });
    if (!has) without.push_back(host);
  }
  return without;
}

std::string DescribeWithout(const std::vector<std::string>& hosts) {
  constexpr std::size_t kToldMax = 8;
  if (hosts.empty()) return "";
  std::string text = "  nodes of this Slurm job that have no daemon yet: ";
  for (std::size_t i = 0; i < std::min(kToldMax, hosts.size()); ++i) text += (i == 0 ? "" : ", ") + Clean(hosts[i]);
  if (hosts.size() > kToldMax) text += fmt::format(" and {} more", hosts.size() - kToldMax);
  return text + "\n";
}

// Of the job that this command runs in; empty: in none.
std::vector<std::string> HostsOfJob() {
  const char* const list = std::getenv("SLURM_JOB_NODELIST");
  if (list == nullptr || *list == '\0') return {};
  auto hosts = ExpandNodeList(list);
  if (hosts.ok()) return *std::move(hosts);
  fmt::print(stderr, "cairn: SLURM_JOB_NODELIST: {}\n", Clean(MessageOf(hosts.status())));
  return {};
}

std::string DescribeNodes(const admin::NodesReply& reply, const std::vector<std::string>& hosts) {
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
    text += DescribeWithout(Without(hosts, run));
  }
  return text.empty() ? "no runs\n" : text;
}

ExitCode RunNodes(const Context& context, const NodesOptions& options) {
  const auto daemon = context.Daemon();
  if (!daemon.ok()) return Complain(daemon.status());
  admin::NodesRequest request;
  request.set_run(ParseRun(options.run).text);
  const absl::StatusOr<admin::NodesReply> reply = (*daemon)->Nodes(request);
  if (!reply.ok()) return Complain(reply.status());
  const std::vector<std::string> hosts = HostsOfJob();
  if (!context.json) {
    Print(DescribeNodes(*reply, hosts));
    return ExitCode::kOk;
  }
  auto json = ToJson(*reply);
  for (int i = 0; i < reply->runs_size() && !hosts.empty(); ++i) {
    json["runs"][static_cast<std::size_t>(i)]["job_nodes_without"] = Without(hosts, reply->runs(i));
  }
  Print(Dump(json));
  return ExitCode::kOk;
}

}  // namespace

void AddNodesCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<NodesOptions>();
  const Command nodes =
      app.AddCommand("nodes", "The nodes whose daemons serve a run, or all runs of this daemon, and what they hold");
  AddRun(nodes, options->run, /*required=*/false);
  SetRun(nodes, line, options, RunNodes);
}

}  // namespace cairn::cli
