// `cairn index`: what a prefix's index lists, and changes of it. Works on the files themselves: needs no daemon, except
// to find the prefix of a run that is given by name or identity.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/run_prefix.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"
#include "storage/job/index_change/index_change.h"
#include "storage/place/prefix/index_tools.h"

namespace cairn::cli {
namespace {

using Rows = std::vector<IndexRow>;

constexpr const char* kIndexFooter =
    "`cairn index RUN` lists, too. NAME is a dataset's name in the index, or its number.\n"
    "\n"
    "The index (.scr/index.scr) says which datasets a restart may use. It is SCR's file: SCR sees what you change\n"
    "here, and Cairn sees what scr_index changes. A launch reads it when it begins: change it between launches, or\n"
    "ask the daemon (`cairn rm`). Lists show what the index says. `cairn verify RUN` tests whether a VALID dataset\n"
    "can be read.\n"
    "\n"
    "Examples:\n"
    "  cairn index /scratch/me/heat                      checkpoints, newest first\n"
    "  cairn index list /scratch/me/heat --all           outputs, too, and all that is known of each\n"
    "  cairn index current /scratch/me/heat ckpt.17      the next restart begins at this dataset\n"
    "  cairn index drop /scratch/me/heat 18              no restart sees it any more; its files stay\n"
    "  cairn index add /scratch/me/heat ckpt.18          and back again\n"
    "  cairn index build /scratch/me/heat 19             after a scavenge: enter it if all ranks' files are there\n"
    "\n"
    "Exit codes: 0 done; 1 refused or failed; 2 the command is wrong; 4 no such run or dataset; 5 the index or the\n"
    "dataset is damaged, or has lost files; 7 build: ranks are missing.";

struct IndexOptions {
  std::string run;            // of the list without its name
  std::string run_of_action;  // behind the name
  std::string name;           // in the index, or a number
  DatasetId dataset = 0;
  bool all = false;  // what are no checkpoints, too, and all that the index says of each. JSON has that always
};
using SharedOptions = std::shared_ptr<IndexOptions>;

constexpr const char* NameOf(IndexChange change) {
  switch (change) {
    case IndexChange::kCurrent:
      return "current";
    case IndexChange::kDrop:
      return "drop";
    case IndexChange::kDropAfter:
      return "drop-after";
    case IndexChange::kRemove:
      return "remove";
    case IndexChange::kAdd:
      return "add";
  }
  return "";
}

const scr::Descriptor& DescriptorOf(const IndexRow& row) {
  return row.entry.descriptor;
}

std::string Called(const IndexRow& row) {
  return fmt::format("dataset {} ({})", DescriptorOf(row).id, Clean(DescriptorOf(row).name));
}

// One without a byte counts as missing (SCR specification, 1.5), and nobody writes it on purpose.
void NoteIfEmpty(Disk& disk, const std::string& prefix) {
  const std::string path = prefix + "/.scr/index.scr";
  const auto info = disk.Info(path);
  if (!info.ok() || info->bytes != 0) return;
  Note(
      fmt::format("{} is empty, and counts as missing: `cairn index add RUN NAME` enters datasets anew from their "
                  "own records",
                  Clean(path)));
}

// Rows of a run that has no index yet: none. Of a directory that is no run's: an error, since its name was mistyped.
absl::StatusOr<Rows> List(Disk& disk, const std::string& prefix) {
  CAIRN_ASSIGN_OR_RETURN(Rows rows, ListIndex(disk, prefix));
  if (rows.empty()) CAIRN_RETURN_IF_ERROR(CheckIsPrefix(disk, prefix));
  return rows;
}

// --- list ---

std::string KindOf(const IndexRow& row) {
  std::string kind = DescriptorOf(row).checkpoint ? "checkpoint" : "";
  if (DescriptorOf(row).output) kind += kind.empty() ? "output" : "+output";
  return kind.empty() ? "-" : kind;
}

std::string StateOf(const IndexRow& row) {
  if (!row.entry.failed.empty()) return "failed " + Clean(row.entry.failed);
  return row.entry.complete ? "complete" : "not complete";
}

std::string OrDash(const std::string& text) {
  return text.empty() ? "-" : Clean(text);
}

using Cells = std::vector<std::string>;

// Taken over, not copied, as from a list in braces: there may be many.
template <typename... Texts>
Cells CellsOf(Texts&&... texts) {
  Cells cells;
  cells.reserve(sizeof...(texts));
  (cells.emplace_back(std::forward<Texts>(texts)), ...);
  return cells;
}

// As `scr_index` lists: its columns, and checkpoints only.
std::string DescribeCheckpoints(const Rows& rows) {
  std::vector<Cells> table;
  table.reserve(rows.size() + 1);
  table.push_back(CellsOf("DSET", "VALID", "FLUSHED", "CUR", "NAME"));
  for (const IndexRow& row : rows) {
    if (!DescriptorOf(row).checkpoint) continue;
    table.push_back(CellsOf(std::to_string(DescriptorOf(row).id), row.valid() ? "YES" : "NO", OrDash(row.entry.flushed),
                            row.current ? "*" : "", Clean(DescriptorOf(row).name)));
  }
  return Table(table, {true, false, false, false, false});
}

std::string DescribeAll(const Rows& rows) {
  std::vector<Cells> table;
  table.reserve(rows.size() + 1);
  table.push_back(
      CellsOf("DSET", "VALID", "FLUSHED", "CUR", "KIND", "STATE", "FETCHED", "BY", "FILES", "SIZE", "NAME"));
  for (const IndexRow& row : rows) {
    const scr::Descriptor& descriptor = DescriptorOf(row);
    table.push_back(CellsOf(std::to_string(descriptor.id), row.valid() ? "YES" : "NO", OrDash(row.entry.flushed),
                            row.current ? "*" : "", KindOf(row), StateOf(row),
                            row.entry.fetched.empty() ? "-" : Clean(row.entry.fetched.back()),
                            row.by_cairn ? "Cairn" : "SCR", std::to_string(descriptor.files), Bytes(descriptor.bytes),
                            Clean(descriptor.name)));
  }
  return Table(table, {true, false, false, false, false, false, false, false, true, true, false});
}

Json RowJson(const IndexRow& row) {
  const scr::Descriptor& descriptor = DescriptorOf(row);
  Json json = {{"dataset", descriptor.id},     {"name", descriptor.name},
               {"valid", row.valid()},         {"complete", row.entry.complete},
               {"current", row.current},       {"checkpoint", descriptor.checkpoint},
               {"output", descriptor.output},  {"by_cairn", row.by_cairn},
               {"flushed", row.entry.flushed}, {"failed", row.entry.failed},
               {"fetched", row.entry.fetched}, {"files", descriptor.files},
               {"bytes", descriptor.bytes},    {"created_us", descriptor.created_us}};
  if (descriptor.launch.has_value()) json["launch"] = *descriptor.launch;
  if (descriptor.step.has_value()) json["step"] = *descriptor.step;
  if (descriptor.ranks.has_value()) json["nranks"] = *descriptor.ranks;
  return json;
}

Json ListJson(const std::string& prefix, const Rows& rows) {
  Json datasets = Json::array();
  for (const IndexRow& row : rows) datasets.push_back(RowJson(row));
  const IndexRow* const current = CurrentOf(rows);
  return {{"prefix", prefix},
          {"current", current == nullptr ? Json(nullptr) : Json(DescriptorOf(*current).id)},
          {"datasets", std::move(datasets)}};
}

// --- changes ---

std::string Sentence(IndexChange change, const IndexRow& row) {
  const scr::Descriptor& descriptor = DescriptorOf(row);
  switch (change) {
    case IndexChange::kCurrent:
      return Called(row) + " is current: a restart begins there, or before it";
    case IndexChange::kDrop:
    case IndexChange::kDropAfter:
      return Called(row) + " dropped from the index; its files stay";
    case IndexChange::kRemove:
      return fmt::format("{} removed: its entry, its records and its {} ({})", Called(row),
                         Count(descriptor.files, "file"), Bytes(descriptor.bytes));
    case IndexChange::kAdd:
      return fmt::format("{} added: {}, {}", Called(row), Count(descriptor.files, "file"), Bytes(descriptor.bytes));
  }
  return "";
}

std::string Describe(IndexChange change, const IndexChanged& changed, const std::string& name) {
  std::string text;
  for (const IndexRow& row : changed.rows) text += Sentence(change, row) + "\n";
  if (changed.rows.empty()) {
    text += change == IndexChange::kDropAfter ? fmt::format("nothing is newer than {}\n", Clean(name)) : "done\n";
  }
  if (change == IndexChange::kCurrent || changed.current_before == changed.current_after) return text;
  if (changed.current_after == 0) return text + "no dataset is current now\n";
  return text + fmt::format("current is now dataset {} ({})\n", changed.current_after, Clean(changed.current_name));
}

Json ChangedJson(const std::string& prefix, IndexChange change, const IndexChanged& changed) {
  Json datasets = Json::array();
  for (const IndexRow& row : changed.rows) datasets.push_back(RowJson(row));
  return {{"prefix", prefix},
          {"change", NameOf(change)},
          {"datasets", std::move(datasets)},
          {"current", changed.current_after == 0 ? Json(nullptr) : Json(changed.current_after)}};
}

// --- build ---

constexpr std::size_t kShownMax = 20;  // of ranges and reasons: a run may have a million ranks

// "0, 3-5, 9" of sorted ranks.
std::string RankRanges(const std::vector<Rank>& ranks) {
  std::string text;
  std::size_t ranges = 0;
  for (std::size_t i = 0; i < ranks.size(); ++ranges) {
    if (ranges == kShownMax) return text + ", ...";
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += ranges == 0 ? "" : ", ";
    text += end - i == 1 ? std::to_string(ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[end - 1]);
    i = end;
  }
  return text;
}

std::string Describe(const IndexBuilt& built) {
  if (built.missing.empty()) {
    return fmt::format("dataset {} is whole: {}, and is in the index now\n", built.id, Count(built.ranks, "rank"));
  }
  std::string text = fmt::format("dataset {} is not whole, so nothing was written: {} of {} missing: {}\n", built.id,
                                 built.missing.size(), Count(built.ranks, "rank"), RankRanges(built.missing));
  for (std::size_t i = 0; i < std::min(built.reasons.size(), kShownMax); ++i) {
    text += fmt::format("  {}\n", Clean(built.reasons[i]));
  }
  if (built.reasons.size() > kShownMax) {
    text += fmt::format("  and {} more: see --json\n", built.reasons.size() - kShownMax);
  }
  return text;
}

Json BuiltJson(const std::string& prefix, const IndexBuilt& built) {
  return {{"prefix", prefix},         {"dataset", built.id},
          {"nranks", built.ranks},    {"whole", built.missing.empty()},
          {"missing", built.missing}, {"reasons", built.reasons}};
}

// --- calls ---

ExitCode RunIndexList(const Context& context, const std::string& run, bool all) {
  const auto prefix = FindPrefix(context, run);
  if (!prefix.ok()) return Complain(prefix.status());
  const auto disk = MakePosixDisk();
  const auto rows = List(*disk, *prefix);
  if (!rows.ok()) return ComplainOfFile(rows.status());
  if (rows->empty()) NoteIfEmpty(*disk, *prefix);
  if (context.json) {
    Print(Dump(ListJson(*prefix, *rows)));
    return ExitCode::kOk;
  }
  Print(all ? DescribeAll(*rows) : DescribeCheckpoints(*rows));
  const auto hidden = std::ranges::count_if(*rows, [](const IndexRow& row) { return !DescriptorOf(row).checkpoint; });
  if (!all && hidden > 0) {
    Note(fmt::format("not listed: {} that {} no checkpoint{}; --all lists all",
                     Count(static_cast<std::uint64_t>(hidden), "dataset"), hidden == 1 ? "is" : "are",
                     hidden == 1 ? "" : "s"));
  }
  return ExitCode::kOk;
}

ExitCode RunChange(const Context& context, IndexChange change, const std::string& run, const std::string& name) {
  const auto prefix = FindPrefix(context, run);
  if (!prefix.ok()) return Complain(prefix.status());
  const auto disk = MakePosixDisk();
  if (const absl::Status is_prefix = CheckIsPrefix(*disk, *prefix); !is_prefix.ok()) return ComplainOfFile(is_prefix);
  const auto changed = ChangeIndex(*disk, *prefix, change, name);
  if (!changed.ok()) return ComplainOfFile(changed.status());
  Print(context.json ? Dump(ChangedJson(*prefix, change, *changed)) : Describe(change, *changed, name));
  return ExitCode::kOk;
}

ExitCode RunBuild(const Context& context, const std::string& run, DatasetId dataset) {
  const auto prefix = FindPrefix(context, run);
  if (!prefix.ok()) return Complain(prefix.status());
  const auto disk = MakePosixDisk();
  if (const absl::Status is_prefix = CheckIsPrefix(*disk, *prefix); !is_prefix.ok()) return ComplainOfFile(is_prefix);
  const auto built = BuildIndex(*disk, *prefix, dataset);
  if (!built.ok()) return ComplainOfFile(built.status());
  Print(context.json ? Dump(BuiltJson(*prefix, *built)) : Describe(*built));
  return built->missing.empty() ? ExitCode::kOk : ExitCode::kIncomplete;
}

// --- options ---

Command AddAction(Command index, const SharedOptions& options, const char* name, const char* about) {
  const Command action = index.AddCommand(name, about);
  action.AddOption("RUN", options->run_of_action, kRunText).Required();
  const Option run_before = index.Get("RUN");
  action.OnReached([run_before, name] {
    if (run_before.count() == 0) return;
    RefuseValue("RUN", std::string("comes behind the action: cairn index ") + name + " RUN");
  });
  return action;
}

void AddChange(Command index, CommandLine& line, const SharedOptions& options, IndexChange change, const char* name,
               const char* about) {
  const Command action = AddAction(index, options, name, about);
  action.AddOption("NAME", options->name, "Name of the dataset, or its number")
      .Required()
      .Check([](const std::string& text) { return text.empty() ? "is empty" : std::string(); });
  action.OnParsed([&line, options, change] {
    line.run = [&line, options, change] {
      return RunChange(line.context, change, options->run_of_action, options->name);
    };
  });
}

void AddList(Command index, CommandLine& line, const SharedOptions& options) {
  const Command list = AddAction(index, options, "list", "List checkpoints, newest first; --all: outputs, too");
  list.Footer(
      "VALID: the index says that it is complete, and that no restart from it has failed (`cairn verify RUN` tests\n"
      "whether it can be read). FLUSHED: when it was flushed. CUR: a restart begins there, or before it. With\n"
      "--all, STATE says why a dataset is not valid, FETCHED when a restart last used it, BY who wrote it.");
  for (const Command command : {list, index}) {
    command.AddFlag("-a,--all", options->all,
                    "Datasets that are no checkpoints, too, and all that the index says of "
                    "each");
  }
  list.OnParsed([&line, options] {
    line.run = [&line, options] { return RunIndexList(line.context, options->run_of_action, options->all); };
  });
}

}  // namespace

void AddIndexCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<IndexOptions>();
  const Command index =
      app.AddCommand("index", "List and change the index of a run's prefix, as scr_index does; needs no daemon");
  index.Footer(kIndexFooter);
  index.AddOption("RUN", options->run, kRunText);
  index.RequireCommand(0, 1);
  AddList(index, line, options);
  AddChange(index, line, options, IndexChange::kCurrent, "current",
            "Let restarts begin at this checkpoint, or before it, until the next one is committed");
  AddChange(index, line, options, IndexChange::kDrop, "drop", "Take a dataset out of the index; its files stay");
  AddChange(index, line, options, IndexChange::kDropAfter, "drop-after",
            "Take all datasets that are newer than this one out of the index");
  AddChange(index, line, options, IndexChange::kRemove, "remove", "Remove a dataset: entry, records and files");
  AddChange(index, line, options, IndexChange::kAdd, "add",
            "Enter a dataset that was dropped, lost or failed again, from its records, if its files are whole");
  const Command build =
      AddAction(index, options, "build", "Complete and enter what a scavenge saved, or say what is missing");
  build.AddOption("ID", options->dataset, "Number of the dataset").Required().AtLeast(1);
  build.OnParsed([&line, options] {
    line.run = [&line, options] { return RunBuild(line.context, options->run_of_action, options->dataset); };
  });
  index.OnParsed([&line, options, index] {
    if (index.HasCommand()) {
      if (options->run.empty()) return;
      RefuseValue(options->run, "is too much");
    }
    if (options->run.empty()) RefuseWithout("RUN");
    line.run = [&line, options] { return RunIndexList(line.context, options->run, options->all); };
  });
}

}  // namespace cairn::cli
