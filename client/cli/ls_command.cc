// `cairn ls`: which datasets there are.
#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/dataset_table.h"
#include "client/cli/datasets.h"
#include "client/cli/describe.h"
#include "client/cli/json.h"
#include "client/cli/look.h"
#include "client/cli/nodes_asked.h"
#include "client/cli/options.h"
#include "client/cli/text.h"
#include "storage/base/clock.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

struct LsOptions {
  std::string run;  // empty: all runs of the daemon
  bool this_node = false;
};

// One run's. `asked`: null if there are no other nodes, or they were not asked.
struct RunRows {
  std::vector<const admin::DatasetRow*> rows;
  const admin::RunNodesAsked* asked = nullptr;
};

std::string DescribeTable(const RunRows& run) {
  std::vector<std::vector<std::string>> cells = {
      {"DATASET", "STEP", "LAUNCH", "RANKS", "KIND", "LEVEL", "STATE", "WHERE", "SIZE", "CREATED"}};
  std::vector<bool> right = {true, true, true, true, false, false, false, false, true, false};
  for (const admin::DatasetRow* row : run.rows) {
    cells.push_back({std::to_string(row->dataset()), std::to_string(row->step()), std::to_string(row->launch()),
                     std::to_string(row->nranks()), KindText(*row), LevelText(row->level()), StateText(*row),
                     WhereText(*row), Bytes(row->bytes()), LocalTime(row->created_us())});
  }
  if (run.asked != nullptr) {
    cells[0].push_back("IN CACHE OF");
    right.push_back(false);
    for (std::size_t i = 0; i < run.rows.size(); ++i) cells[i + 1].push_back(NamesText(run.rows[i]->nodes()));
  }
  return Table(cells, right);
}

std::string DescribeRun(const Look& look, const RunRows& run) {
  std::string text = "no datasets\n";
  if (!run.rows.empty() && look.people) {
    text = DatasetTable(look, run.rows, {.now_us = NowMicros(), .nodes = run.asked != nullptr});
  } else if (!run.rows.empty()) {
    text = DescribeTable(run);
  }
  for (const admin::DatasetRow* row : run.rows) {
    for (const admin::GrowingDirectory& growing : row->growing()) {
      text += fmt::format("dataset {} grows: {}\n", row->dataset(), DescribeGrowing(growing));
    }
    if (row->error().empty()) continue;
    text += fmt::format("dataset {}: {}\n", row->dataset(), Painted(look, Paint::kBad, Clean(row->error())));
  }
  if (run.asked != nullptr) text += DescribeSilent(run.asked->nodes());
  return text;
}

std::string DescribeList(const Look& look, const admin::ListReply& reply) {
  std::map<std::pair<std::string, std::string>, RunRows> runs;
  for (const admin::DatasetRow& row : reply.datasets()) runs[{row.prefix(), row.run()}].rows.push_back(&row);
  for (const admin::RunNodesAsked& asked : reply.asked()) {
    const auto run = runs.find({asked.prefix(), asked.run()});
    if (run != runs.end()) run->second.asked = &asked;
    if (run == runs.end() && !DescribeSilent(asked.nodes()).empty()) runs[{asked.prefix(), asked.run()}].asked = &asked;
  }
  std::string text;
  for (const auto& [run, rows] : runs) {
    if (!text.empty()) text += "\n";
    text += RunHead(look, run.second, run.first) + DescribeRun(look, rows);
  }
  return text.empty() ? "no datasets\n" : text;
}

Json ListJson(const admin::ListReply& reply, bool from_prefix) {
  Json rows = Json::array();
  for (const admin::DatasetRow& row : reply.datasets()) rows.push_back(ToJson(row));
  Json json = {{"from", from_prefix ? "prefix" : "daemon"}, {"datasets", std::move(rows)}};
  for (const admin::RunNodesAsked& asked : reply.asked()) {
    json["asked"].push_back({{"run", asked.run()}, {"prefix", asked.prefix()}, {"nodes", AskedJson(asked.nodes())}});
  }
  return json;
}

ExitCode RunList(const Context& context, const LsOptions& options) {
  const auto answer = ListDatasets(context, options.run, options.this_node);
  if (!answer.ok()) return Complain(answer.status());
  Print(context.json ? Dump(ListJson(answer->reply, answer->from_prefix)) : DescribeList(context.look, answer->reply));
  return ExitCode::kOk;
}

}  // namespace

void AddLsCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<LsOptions>();
  const Command list = app.AddCommand("ls", "List the datasets of a run, or of all runs of the daemon, on all nodes");
  AddRun(list, options->run, /*required=*/false);
  AddThisNode(list, options->this_node);
  SetRun(list, line, options, RunList);
}

}  // namespace cairn::cli
