#include "client/cli/verify_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "client/cli/context.h"
#include "client/cli/describe.h"
#include "client/cli/file_argument.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/file/fti/names.h"
#include "storage/file/known/known_file.h"

namespace cairn::cli {
namespace {

constexpr std::size_t kBadShown = 10;  // as text; JSON has all
constexpr std::string_view kSizesOnly = "sizes only";

// A finding in words.
struct FindingRow {
  std::string what;
  std::vector<std::string> lines{};  // further ones, as text
  Json json = Json::object();        // further fields
  std::string_view verdict = {};     // another word than the status has; in JSON "verdict"
};

// "0 to 3, 5".
std::string Ranges(const std::vector<std::uint32_t>& ranks) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    ranges.push_back(end - i == 1 ? fmt::format("{}", ranks[i]) : fmt::format("{} to {}", ranks[i], ranks[end - 1]));
    i = end;
  }
  const bool more = ranges.size() > kShown;
  if (more) ranges.resize(kShown);
  return fmt::format("{}{}", fmt::join(ranges, ", "), more ? ", …" : "");
}

std::string RanksText(const std::vector<std::uint32_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", Ranges(ranks));
}

struct RowMaker {
  FindingRow operator()(std::monostate) const { return {}; }
  FindingRow operator()(const verify::CheckedRecord& record) const { return {.what = std::string(record.kind)}; }
  FindingRow operator()(const verify::NothingCommitted&) const { return {.what = "no dataset is committed there"}; }
  FindingRow operator()(const verify::RemovedMeanwhile&) const {
    return {.what = "removed while it was looked at", .verdict = "removed"};
  }
  FindingRow operator()(const verify::CheckedCode& code) const {
    return {.what = fmt::format("FTI-FF code file of level 3, {}", Bytes(code.code_bytes))};
  }
  FindingRow operator()(const verify::CheckedRedundancy& file) const {
    if (file.payload_bytes == 0) return {.what = fmt::format("redundancy file of SCR's, {}", file.scheme)};
    return {.what = fmt::format("redundancy file of SCR's, {}, with {} behind its header: by size; not read",
                                file.scheme, Bytes(file.payload_bytes)),
            .verdict = kSizesOnly};
  }
  FindingRow operator()(const verify::CheckedCheckpoint& file) const;
  FindingRow operator()(const verify::CheckedRanks& files) const;
  FindingRow operator()(const verify::CheckedDataset& dataset) const;
};

FindingRow RowMaker::operator()(const verify::CheckedCheckpoint& file) const {
  const std::string id = file.id ? fmt::format(", checkpoint {}", *file.id) : "";
  const std::string layout(1, static_cast<char>(file.letter));
  FindingRow row{.what = fmt::format("FTI-FF layout {}{}, {}, {}", layout, id, Count(file.containers, "container"),
                                     Bytes(file.file_bytes))};
  if (!file.data_read) return row;
  Json bad = Json::array();
  for (const verify::CheckedCheckpoint::BadChunk& chunk : file.bad) {
    const ftiff::Container& container = chunk.container;
    bad.push_back({{"id", container.id},
                   {"containerid", container.index},
                   {"dptr", container.variable_offset},
                   {"fptr", container.file_offset},
                   {"chunksize", container.chunk_bytes},
                   {"why", chunk.why}});
    if (row.lines.size() < kBadShown) {
      row.lines.push_back(fmt::format("variable {}, container {}: {}", container.id, container.index, chunk.why));
    }
  }
  if (file.bad.size() > kBadShown) {
    row.lines.push_back(fmt::format("and {} more", Count(file.bad.size() - kBadShown, "container")));
  }
  row.json = {{"layout", layout}, {"bad", std::move(bad)}};
  if (file.id) row.json["ckptId"] = *file.id;
  if (!file.bad_checksum.empty()) {
    row.json["bad_checksum"] = file.bad_checksum;
    if (!file.bad.empty()) row.lines.push_back(file.bad_checksum);
  }
  return row;
}

FindingRow RowMaker::operator()(const verify::CheckedRanks& files) const {
  FindingRow row{.what = fmt::format("the {} given are of {}", fti::PluralOf(files.kind),
                                     Count(files.ranks.size(), "checkpoint"))};
  if (files.alike) return row;
  for (const auto& [id, ranks] : files.ranks) {
    row.lines.push_back(fmt::format("checkpoint {}: {}", id, RanksText({ranks.begin(), ranks.end()})));
  }
  return row;
}

FindingRow RowMaker::operator()(const verify::CheckedDataset& dataset) const {
  const std::string all =
      fmt::format("{}, {}, {}", Count(dataset.ranks, "rank"), Count(dataset.files, "file"), Bytes(dataset.bytes));
  FindingRow row{.what = dataset.by_cairn ? all : fmt::format("SCR's own: {} by size; not read", all)};
  if (!dataset.failed.empty()) {
    row.verdict = "failed";
  } else if (!dataset.by_cairn) {
    row.verdict = kSizesOnly;
  } else if (!dataset.unverified.empty()) {
    row.verdict = "as adopted";
  }
  if (dataset.unverified.empty()) return row;
  row.what += "; " + DescribeUnverified(dataset.unverified.size());
  row.json["unverified"] = dataset.unverified;
  for (std::size_t i = 0; i < dataset.unverified.size() && i < kBadShown; ++i)
    row.lines.push_back(dataset.unverified[i]);
  if (dataset.unverified.size() > kBadShown) {
    row.lines.push_back(fmt::format("and {} more", dataset.unverified.size() - kBadShown));
  }
  return row;
}

}  // namespace

void VerifyReport::Add(const verify::Finding& finding) {
  const absl::Status& status = finding.status;
  const FindingRow row = std::visit(RowMaker(), finding.what);
  const std::string target =
      finding.dataset ? fmt::format("{}: dataset {}", finding.target, *finding.dataset) : finding.target;
  std::string error(WithoutName(MessageOf(status), target));
  if (const auto* const dataset = std::get_if<verify::CheckedDataset>(&finding.what)) {
    if (!status.ok()) error += "; what is there now: " + row.what;
    failed_ = failed_ || !dataset->failed.empty();
    unverified_ = unverified_ || !dataset->unverified.empty();
  }
  sizes_only_ = sizes_only_ || (status.ok() && row.verdict == kSizesOnly);
  code_ = Worse(code_, FileCodeOf(status));
  if (json_) {
    Json json = {{"target", target}, {"what", row.what}, {"ok", status.ok()}, {"error", error}};
    if (!row.verdict.empty()) json["verdict"] = row.verdict;
    json.update(row.json);
    rows_.push_back(std::move(json));
    return;
  }
  const std::string_view verdict = !row.verdict.empty()       ? row.verdict
                                   : status.ok()              ? "ok"
                                   : absl::IsDataLoss(status) ? "DAMAGED"
                                                              : "FAILED";
  std::string text = fmt::format("{:<8} {}: {}\n", verdict, Clean(target), Clean(status.ok() ? row.what : error));
  for (const std::string& line : row.lines) text += fmt::format("           {}\n", Clean(line));
  Print(text);
}

ExitCode VerifyReport::Finish() {
  if (json_) {
    Print(Dump({{"ok", code_ == ExitCode::kOk}, {"targets", std::move(rows_)}}));
    return code_;
  }
  if (sizes_only_) Note("sizes only: SCR keeps no checksums, so nothing can tell whether the bytes are right");
  if (unverified_) {
    Note("as adopted: the bytes are those that `cairn adopt` found; nothing could tell whether they were right");
  }
  if (failed_) {
    Note(
        "failed: no restart uses such a dataset; `cairn index add RUN NAME` looks at it anew and lets restarts use it");
  }
  return code_;
}

}  // namespace cairn::cli
