// `cairn ls`: which datasets there are.
#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/datasets.h"
#include "client/cli/describe.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/text.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

struct Options {
  std::string run;  // empty: all runs of the daemon
};

std::string DescribeList(const admin::ListReply& reply) {
  std::map<std::pair<std::string, std::string>, std::vector<const admin::DatasetRow*>> runs;
  for (const admin::DatasetRow& row : reply.datasets()) runs[{row.prefix(), row.run()}].push_back(&row);
  std::string text;
  for (const auto& [run, rows] : runs) {
    if (!text.empty()) text += "\n";
    text += fmt::format("run {}  {}\n", run.second.empty() ? "of SCR" : run.second.substr(0, 8), Clean(run.first));
    std::vector<std::vector<std::string>> cells = {
        {"DATASET", "STEP", "LAUNCH", "RANKS", "KIND", "LEVEL", "STATE", "WHERE", "SIZE", "CREATED"}};
    for (const admin::DatasetRow* row : rows) {
      cells.push_back({std::to_string(row->dataset()), std::to_string(row->step()), std::to_string(row->launch()),
                       std::to_string(row->nranks()), KindText(*row), LevelText(row->level()), StateText(*row),
                       WhereText(*row), Bytes(row->bytes()), LocalTime(row->created_us())});
    }
    text += Table(cells, {true, true, true, true, false, false, false, false, true, false});
    for (const admin::DatasetRow* row : rows) {
      for (const admin::GrowingDirectory& growing : row->growing()) {
        text += fmt::format("dataset {} grows: {}\n", row->dataset(), DescribeGrowing(growing));
      }
      if (!row->error().empty()) text += fmt::format("dataset {}: {}\n", row->dataset(), Clean(row->error()));
    }
  }
  return text.empty() ? "no datasets\n" : text;
}

ExitCode RunList(const Context& context, const Options& options) {
  const auto answer = ListDatasets(context, options.run);
  if (!answer.ok()) return Complain(answer.status());
  if (context.json) {
    Json rows = Json::array();
    for (const admin::DatasetRow& row : answer->reply.datasets()) rows.push_back(ToJson(row));
    Print(Dump({{"from", answer->from_prefix ? "prefix" : "daemon"}, {"datasets", std::move(rows)}}));
  } else {
    Print(DescribeList(answer->reply));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddLsCommand(CLI::App& app, CommandLine& line) {
  const auto options = std::make_shared<Options>();
  CLI::App* const list = app.add_subcommand("ls", "The datasets of a run, or of all runs of the daemon");
  AddRun(*list, options->run, /*required=*/false);
  SetRun(*list, line, options, RunList);
}

}  // namespace cairn::cli
