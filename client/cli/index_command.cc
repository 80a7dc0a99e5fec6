#include "client/cli/index_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/run_prefix.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"
#include "storage/place/prefix/index_tools.h"

namespace cairn::cli {
namespace {

using Rows = std::vector<IndexRow>;

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

const IndexRow* CurrentOf(const Rows& rows) {
  const auto current = std::ranges::find_if(rows, &IndexRow::current);
  return current == rows.end() ? nullptr : &*current;
}

const IndexRow* Find(const Rows& rows, DatasetId id) {
  const auto row = std::ranges::find_if(rows, [id](const IndexRow& row) { return DescriptorOf(row).id == id; });
  return row == rows.end() ? nullptr : &*row;
}

// One without a byte counts as missing (SCR specification, 1.5), and nobody writes it on purpose.
void NoteIfEmpty(Disk& disk, const std::string& prefix) {
  const std::string path = prefix + "/.scr/index.scr";
  const auto info = disk.Info(path);
  if (!info.ok() || info->bytes != 0) return;
  Note(
      fmt::format("{} is empty, which counts as missing: `cairn index add RUN NAME` enters datasets anew from their "
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

Json ToJson(const IndexRow& row) {
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
  for (const IndexRow& row : rows) datasets.push_back(ToJson(row));
  const IndexRow* const current = CurrentOf(rows);
  return {{"prefix", prefix},
          {"current", current == nullptr ? Json(nullptr) : Json(DescriptorOf(*current).id)},
          {"datasets", std::move(datasets)}};
}

// --- changes ---

// What a change did: the rows that it is about, and which dataset is current before and after it.
struct Changed {
  Rows rows;
  DatasetId current_before = 0, current_after = 0;  // 0: none
  std::string current_name{};                       // afterwards
};

DatasetId CurrentIdOf(const Rows& rows) {
  const IndexRow* const current = CurrentOf(rows);
  return current == nullptr ? 0 : DescriptorOf(*current).id;
}

absl::StatusOr<DatasetId> Apply(Disk& disk, const std::string& prefix, IndexChange change, const std::string& name) {
  switch (change) {
    case IndexChange::kCurrent:
      CAIRN_RETURN_IF_ERROR(SetIndexCurrent(disk, prefix, name));
      return 0;
    case IndexChange::kDrop:
      CAIRN_RETURN_IF_ERROR(DropFromIndex(disk, prefix, name));
      return 0;
    case IndexChange::kDropAfter:
      CAIRN_RETURN_IF_ERROR(DropAfter(disk, prefix, name).status());
      return 0;
    case IndexChange::kRemove:
      CAIRN_RETURN_IF_ERROR(RemoveFromIndex(disk, prefix, name));
      return 0;
    case IndexChange::kAdd:
      return AddToIndex(disk, prefix, name);
  }
  return Internal("no such change");
}

// The rows come from the index before and after: NAME may be a name or a number, and one change many datasets.
absl::StatusOr<Changed> Change(Disk& disk, const std::string& prefix, IndexChange change, const std::string& name) {
  absl::StatusOr<Rows> before = List(disk, prefix);
  // What was lost with a damaged index may be added to a new one: AddToIndex decides.
  if (change == IndexChange::kAdd && absl::IsDataLoss(before.status())) before = Rows();
  if (!before.ok()) return before.status();
  CAIRN_ASSIGN_OR_RETURN(const DatasetId added, Apply(disk, prefix, change, name));
  CAIRN_ASSIGN_OR_RETURN(const Rows after, ListIndex(disk, prefix));
  Changed changed = {.rows = {}, .current_before = CurrentIdOf(*before), .current_after = CurrentIdOf(after)};
  const IndexRow* const current = CurrentOf(after);
  if (current != nullptr) changed.current_name = DescriptorOf(*current).name;
  if (change == IndexChange::kCurrent) {
    if (current != nullptr) changed.rows.push_back(*current);
  } else if (change == IndexChange::kAdd) {
    if (const IndexRow* const row = Find(after, added)) changed.rows.push_back(*row);
  } else {
    std::set<DatasetId> left;
    for (const IndexRow& row : after) left.insert(DescriptorOf(row).id);
    for (const IndexRow& row : *before) {
      if (!left.contains(DescriptorOf(row).id)) changed.rows.push_back(row);
    }
  }
  return changed;
}

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

std::string Describe(IndexChange change, const Changed& changed, const std::string& name) {
  std::string text;
  for (const IndexRow& row : changed.rows) text += Sentence(change, row) + "\n";
  if (changed.rows.empty()) {
    text += change == IndexChange::kDropAfter ? fmt::format("nothing is newer than {}\n", Clean(name)) : "done\n";
  }
  if (change == IndexChange::kCurrent || changed.current_before == changed.current_after) return text;
  if (changed.current_after == 0) return text + "no dataset is current now\n";
  return text + fmt::format("current is now dataset {} ({})\n", changed.current_after, Clean(changed.current_name));
}

Json ChangedJson(const std::string& prefix, IndexChange change, const Changed& changed) {
  Json datasets = Json::array();
  for (const IndexRow& row : changed.rows) datasets.push_back(ToJson(row));
  return {{"prefix", prefix},
          {"change", NameOf(change)},
          {"datasets", std::move(datasets)},
          {"current", changed.current_after == 0 ? Json(nullptr) : Json(changed.current_after)}};
}

// --- build ---

constexpr std::size_t kShownMax = 20;  // of ranges and reasons: a run may have a million ranks

// "0, 3-5, 9" of sorted ranks.
std::string Ranges(const std::vector<Rank>& ranks) {
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
  std::string text = fmt::format("dataset {} is not whole, nothing was written: {} of {} missing: {}\n", built.id,
                                 built.missing.size(), Count(built.ranks, "rank"), Ranges(built.missing));
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

}  // namespace

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

ExitCode RunIndexChange(const Context& context, IndexChange change, const std::string& run, const std::string& name) {
  const auto prefix = FindPrefix(context, run);
  if (!prefix.ok()) return Complain(prefix.status());
  const auto disk = MakePosixDisk();
  const auto changed = Change(*disk, *prefix, change, name);
  if (!changed.ok()) return ComplainOfFile(changed.status());
  Print(context.json ? Dump(ChangedJson(*prefix, change, *changed)) : Describe(change, *changed, name));
  return ExitCode::kOk;
}

ExitCode RunIndexBuild(const Context& context, const std::string& run, DatasetId dataset) {
  const auto prefix = FindPrefix(context, run);
  if (!prefix.ok()) return Complain(prefix.status());
  const auto disk = MakePosixDisk();
  if (const absl::Status is_prefix = CheckIsPrefix(*disk, *prefix); !is_prefix.ok()) return ComplainOfFile(is_prefix);
  const auto built = BuildIndex(*disk, *prefix, dataset);
  if (!built.ok()) return ComplainOfFile(built.status());
  Print(context.json ? Dump(BuiltJson(*prefix, *built)) : Describe(*built));
  return built->missing.empty() ? ExitCode::kOk : ExitCode::kIncomplete;
}

}  // namespace cairn::cli
