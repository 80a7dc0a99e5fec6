#include "client/cli/dataset_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "client/cli/describe.h"
#include "client/cli/nodes_asked.h"
#include "client/cli/text.h"

namespace cairn::cli {
namespace {

constexpr std::size_t kNewestMax = 5;

struct Rung {
  local::Level level;
  std::string_view block;
};
constexpr std::array kRungs = {Rung{local::CAPTURED, "▂"}, Rung{local::LOCAL, "▄"}, Rung{local::REDUNDANT, "▆"},
                               Rung{local::PREFIX, "█"}};

Paint PaintOf(local::Level level) {
  if (level >= local::PREFIX) return Paint::kGood;
  if (level >= local::LOCAL) return Paint::kKept;
  return level == local::NONE ? Paint::kDim : Paint::kBusy;
}

Paint PaintOfState(std::string_view state) {
  if (state == "failed" || state == "damaged" || state == "rejected" || state == "fenced") return Paint::kBad;
  return state == "writing" ? Paint::kBusy : Paint::kDim;
}

// What is not as with most datasets.
std::string NotesOf(const Look& look, const admin::DatasetRow& row) {
  std::vector<std::string> notes;
  if (row.state() != "whole") notes.push_back(Painted(look, PaintOfState(row.state()), Clean(row.state())));
  if (KindText(row) != "checkpoint") notes.push_back(KindText(row));
  if (row.pinned()) notes.push_back("pinned");
  if (row.unverified_files() > 0) notes.push_back(Painted(look, Paint::kBad, "unverified"));
  return fmt::format("{}", fmt::join(notes, ", "));
}

// The others of a run, after the newest.
std::string DescribeOlder(const std::vector<const admin::DatasetRow*>& rows, std::size_t from) {
  const auto on_prefix = std::count_if(rows.begin() + static_cast<std::ptrdiff_t>(from), rows.end(),
                                       [](const admin::DatasetRow* row) { return row->in_prefix(); });
  const std::size_t older = rows.size() - from;
  const std::string share = static_cast<std::size_t>(on_prefix) == older ? "all" : fmt::format("{} of them", on_prefix);
  return fmt::format("and {}, {} on the prefix", Count(older, "older dataset"), share);
}

}  // namespace

std::string LadderPicture(const Look& look, local::Level level) {
  std::string reached, missing;
  for (const Rung& rung : kRungs) {
    const bool has = level >= rung.level;
    (has ? reached : missing) += has ? (look.blocks ? rung.block : "#") : (look.blocks ? "·" : ".");
  }
  const Paint paint = PaintOf(level);
  return fmt::format("{}{}{}{} {}", look.blocks ? "" : "[", Painted(look, paint, reached),
                     Painted(look, Paint::kDim, missing), look.blocks ? "" : "]",
                     Painted(look, paint, LevelText(level)));
}

std::string DatasetTable(const Look& look, const std::vector<const admin::DatasetRow*>& rows,
                         const DatasetTableOptions& options) {
  if (rows.empty()) return "";
  std::vector<std::string> head = {"DATASET", "STEP", "LAUNCH", "RANKS", "SAFE", "SIZE", "AGE", "WHERE"};
  std::vector<bool> right = {true, true, true, true, false, true, true, false};
  if (options.nodes) {
    head.push_back("IN CACHE OF");
    right.push_back(false);
  }
  head.push_back("");
  right.push_back(false);
  std::vector<std::vector<std::string>> cells;
  for (std::string& name : head) name = Painted(look, Paint::kDim, name);
  head[0] = std::string(options.indent) + head[0];
  cells.push_back(head);
  for (const admin::DatasetRow* row : rows) {
    std::vector<std::string> line = {std::to_string(row->dataset()),         std::to_string(row->step()),
                                     std::to_string(row->launch()),          std::to_string(row->nranks()),
                                     LadderPicture(look, row->level()),      Bytes(row->bytes()),
                                     Ago(row->created_us(), options.now_us), WhereText(*row)};
    if (options.nodes) line.push_back(NamesText(row->nodes()));
    line.push_back(NotesOf(look, *row));
    cells.push_back(std::move(line));
  }
  return Table(cells, right);
}

std::string NewestDatasets(const Look& look, std::vector<const admin::DatasetRow*> rows,
                           const DatasetTableOptions& options) {
  std::ranges::sort(rows, [](const admin::DatasetRow* a, const admin::DatasetRow* b) {
    return std::tuple(a->launch(), a->dataset()) > std::tuple(b->launch(), b->dataset());
  });
  const std::size_t shown = std::min(rows.size(), kNewestMax);
  const std::vector<const admin::DatasetRow*> newest(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(shown));
  std::string text = DatasetTable(look, newest, options);
  if (shown == rows.size()) return text;
  return text + fmt::format("{}{}\n", options.indent, Painted(look, Paint::kDim, DescribeOlder(rows, shown)));
}

}  // namespace cairn::cli
