#include "client/cli/datasets_command.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "client/cli/describe.h"
#include "client/cli/json.h"
#include "client/cli/prefix_view.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"

namespace cairn::cli {
namespace {

template <typename Reply>
struct Answer {
  Reply reply;
  bool from_prefix = false;
};

// Asks the daemon; a prefix can also be read without one.
template <typename Reply>
absl::StatusOr<Answer<Reply>> AskOrRead(const Context& context, const RunArgument& run,
                                        const std::function<absl::StatusOr<Reply>(AdminClient&)>& ask,
                                        const std::function<absl::StatusOr<Reply>(Disk&)>& read) {
  const auto daemon = context.Daemon();
  if (daemon.ok()) {
    absl::StatusOr<Reply> reply = ask(**daemon);
    if (reply.ok()) return Answer<Reply>{.reply = *std::move(reply)};
    if (!run.is_directory || !absl::IsNotFound(reply.status())) return reply.status();
  } else if (!absl::IsUnavailable(daemon.status())) {
    return daemon.status();
  } else if (run.text.find('/') == std::string::npos) {
    return daemon.status();
  } else if (!run.is_directory) {
    return NotFound("{}: no such directory, and no daemon that may know it as a run", run.text);
  }
  const auto disk = MakePosixDisk();
  CAIRN_ASSIGN_OR_RETURN(Reply reply, read(*disk));
  return Answer<Reply>{.reply = std::move(reply), .from_prefix = true};
}

std::string KindOf(const admin::DatasetRow& row) {
  std::string kind = row.checkpoint() ? "checkpoint" : "";
  if (row.output()) kind += kind.empty() ? "output" : "+output";
  return row.files() ? kind + " (files)" : kind;
}

std::string WhereOf(const admin::DatasetRow& row) {
  if (row.in_cache()) return row.in_prefix() ? "cache, prefix" : "cache";
  return row.in_prefix() ? "prefix" : "-";
}

std::string StateOf(const admin::DatasetRow& row) {
  return Clean(row.state()) + (row.pinned() ? ", pinned" : "");
}

std::string LevelOf(local::Level level) {
  return std::string(NameOf(static_cast<Level>(level)));
}

// What was protected, and what of it had to be written.
std::string SizeOf(std::uint64_t bytes, std::uint64_t written) {
  if (written == 0) return Bytes(bytes);
  return fmt::format("{}, of which {} written ({})", Bytes(bytes), Bytes(written), Percent(written, bytes));
}

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
                       std::to_string(row->nranks()), KindOf(*row), LevelOf(row->level()), StateOf(*row), WhereOf(*row),
                       Bytes(row->bytes()), LocalTime(row->created_us())});
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

std::string DescribeShow(const admin::ShowReply& show) {
  const admin::DatasetRow& row = show.dataset();
  std::string text =
      fmt::format("dataset {} of run {}  {}\n", row.dataset(), row.run().substr(0, 8), Clean(row.prefix()));
  text += fmt::format("  {}, step {}, launch {}, {} ranks, {}\n", KindOf(row), row.step(), row.launch(), row.nranks(),
                      SizeOf(row.bytes(), row.bytes_written()));
  text += fmt::format("  level {}, {}, in {}, created {}\n", LevelOf(row.level()), StateOf(row), WhereOf(row),
                      LocalTime(row.created_us()));
  if (!row.error().empty()) text += fmt::format("  {}\n", Clean(row.error()));
  for (const admin::GrowingDirectory& growing : row.growing()) {
    text += fmt::format("  grows: {}\n", DescribeGrowing(growing));
  }
  for (const admin::RankRow& rank : show.ranks()) {
    text += fmt::format("  rank {}: {}, {}\n", rank.rank(), LevelOf(rank.level()),
                        SizeOf(rank.bytes(), rank.bytes_written()));
    for (const std::string& file : rank.files()) text += fmt::format("    {}\n", Clean(file));
    for (const local::Variable& variable : rank.variables()) text += DescribeVariable(variable);
  }
  return text;
}

}  // namespace

ExitCode RunList(const Context& context, const std::string& run) {
  const RunArgument argument = ParseRun(run);
  const auto answer = AskOrRead<admin::ListReply>(
      context, argument,
      [&](AdminClient& daemon) {
        admin::ListRequest request;
        request.set_run(argument.text);
        return daemon.List(request);
      },
      [&](Disk& disk) { return ListPrefix(disk, argument.text); });
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

ExitCode RunShow(const Context& context, const std::string& run, std::uint64_t dataset) {
  const RunArgument argument = ParseRun(run);
  const auto answer = AskOrRead<admin::ShowReply>(
      context, argument,
      [&](AdminClient& daemon) {
        admin::DatasetRequest request;
        request.set_run(argument.text);
        request.set_dataset(dataset);
        return daemon.Show(request);
      },
      [&](Disk& disk) { return ShowPrefix(disk, argument.text, dataset); });
  if (!answer.ok()) return Complain(answer.status());
  if (context.json) {
    Json json = {{"from", answer->from_prefix ? "prefix" : "daemon"}};
    json.update(ToJson(answer->reply));
    Print(Dump(json));
  } else {
    Print(DescribeShow(answer->reply));
  }
  return ExitCode::kOk;
}

}  // namespace cairn::cli
