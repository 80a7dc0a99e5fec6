// `cairn show`: one dataset, and what is in it.
#include <fmt/format.h>

#include <string>

#include "client/cli/commands.h"
#include "client/cli/datasets.h"
#include "client/cli/describe.h"
#include "client/cli/json.h"
#include "client/cli/nodes_asked.h"
#include "client/cli/options.h"
#include "client/cli/text.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

struct ShowOptions {
  std::string run;
  DatasetId dataset = 0;
  bool this_node = false;
};

// What was protected, and what of it had to be written.
std::string SizeOf(std::uint64_t bytes, std::uint64_t written) {
  if (written == 0) return Bytes(bytes);
  return fmt::format("{}, of which {} written ({})", Bytes(bytes), Bytes(written), Percent(written, bytes));
}

std::string DescribeFile(const admin::RankRow& rank, int index) {
  const auto by = index < rank.verified_by_size() ? rank.verified_by(index) : catalogue::NOT_NOTED;
  const std::string how = by == catalogue::NOT_NOTED ? "" : fmt::format("  (adopted, verified {})", VerifiedByText(by));
  return fmt::format("    {}{}\n", Clean(rank.files(index)), how);
}

std::string DescribeCaches(const admin::RankRow& rank) {
  return rank.nodes().empty() ? "" : fmt::format(", in the cache of {}", NamesText(rank.nodes()));
}

std::string DescribeShow(const admin::ShowReply& show) {
  const admin::DatasetRow& row = show.dataset();
  std::string text =
      fmt::format("dataset {} of run {}  {}\n", row.dataset(), row.run().substr(0, 8), Clean(row.prefix()));
  text += fmt::format("  {}, step {}, launch {}, {} ranks, {}\n", KindText(row), row.step(), row.launch(), row.nranks(),
                      SizeOf(row.bytes(), row.bytes_written()));
  text += fmt::format("  level {}, {}, in {}, created {}\n", LevelText(row.level()), StateText(row), WhereText(row),
                      LocalTime(row.created_us()));
  text += DescribeScheme(AskedShown(show));
  if (row.unverified_files() > 0) text += fmt::format("  {}\n", DescribeUnverified(row.unverified_files()));
  if (!row.error().empty()) text += fmt::format("  {}\n", Clean(row.error()));
  for (const admin::GrowingDirectory& growing : row.growing()) {
    text += fmt::format("  grows: {}\n", DescribeGrowing(growing));
  }
  for (const admin::RankRow& rank : show.ranks()) {
    text += fmt::format("  rank {}: {}, {}{}\n", rank.rank(), LevelText(rank.level()),
                        SizeOf(rank.bytes(), rank.bytes_written()), DescribeCaches(rank));
    for (int i = 0; i < rank.files_size(); ++i) text += DescribeFile(rank, i);
    for (const local::Variable& variable : rank.variables()) text += DescribeVariable(variable);
  }
  return text + DescribeSilent(show.nodes());
}

ExitCode RunShow(const Context& context, const ShowOptions& options) {
  const auto answer = ShowDataset(context, options.run, options.dataset, options.this_node);
  if (!answer.ok()) return Complain(answer.status());
  if (context.json) {
    Json json = {{"from", answer->from_prefix ? "prefix" : "daemon"}};
    json.update(ToJson(answer->reply));
    if (!answer->reply.nodes().empty()) json["asked"] = AskedJson(answer->reply.nodes());
    Print(Dump(json));
  } else {
    Print(DescribeShow(answer->reply));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddShowCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<ShowOptions>();
  const Command show = app.AddCommand("show", "Show one dataset: its ranks, files and variables");
  AddRun(show, options->run);
  AddDataset(show, options->dataset);
  AddThisNode(show, options->this_node);
  SetRun(show, line, options, RunShow);
}

}  // namespace cairn::cli
