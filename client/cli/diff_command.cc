#include "client/cli/diff_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "client/cli/file_argument.h"
#include "client/cli/file_diff.h"
#include "client/cli/json.h"
#include "client/cli/known_file.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"

namespace cairn::cli {
namespace {

constexpr ExitCode kDifferent = ExitCode::kFailed;
constexpr ExitCode kCannotCompare = ExitCode::kUsage;

struct Side {
  std::string path;
  CheckpointFile file;
  std::vector<std::string> damage;
};

absl::StatusOr<Side> Open(Disk& disk, const std::string& given) {
  CAIRN_ASSIGN_OR_RETURN(const std::string path, ResolveFile(given));
  CAIRN_ASSIGN_OR_RETURN(CheckpointFile file, OpenCheckpointFile(disk, path));
  Side side{.path = path, .file = std::move(file), .damage = {}};
  CAIRN_ASSIGN_OR_RETURN(const ftiff::Verdict verdict, VerifyData(side.file, path));
  for (const ftiff::BadChunk& chunk : verdict.bad) side.damage.push_back(chunk.why);
  if (!verdict.bad_checksum.empty()) side.damage.push_back(verdict.bad_checksum);
  return side;
}

// "container 3" or "containers 0, 3, 4, …".
std::string List(const std::set<std::int32_t>& containers) {
  constexpr std::size_t kShown = 8;
  const std::vector<std::int32_t> shown(containers.begin(),
                                        std::next(containers.begin(), std::min(containers.size(), kShown)));
  return fmt::format("container{} {}{}", containers.size() == 1 ? "" : "s", fmt::join(shown, ", "),
                     containers.size() > kShown ? fmt::format(", … ({} in all)", containers.size()) : "");
}

std::string SizeOf(std::uint64_t bytes) {
  return bytes < 1024 ? Count(bytes, "byte") : fmt::format("{} bytes ({})", bytes, Bytes(bytes));
}

std::string Describe(const VariableDiff& variable) {
  if (!variable.in_both()) {
    const bool first = variable.bytes[0].has_value();
    return fmt::format("only in the {} file, {}", first ? "first" : "second", SizeOf(*variable.bytes[first ? 0 : 1]));
  }
  std::string text;
  if (variable.bytes[0] != variable.bytes[1]) {
    text =
        fmt::format("{} in the first file, {} in the second", SizeOf(*variable.bytes[0]), SizeOf(*variable.bytes[1]));
    if (variable.differing == 0) return text + "; what both have is the same";
    text += "; of what both have ";
  }
  const std::uint64_t common = std::min(*variable.bytes[0], *variable.bytes[1]);
  text += fmt::format("{} of {} {}, the first at {} ({:#x})", variable.differing, SizeOf(common),
                      variable.differing == 1 ? "differs" : "differ", variable.first, variable.first);
  return fmt::format("{}\n    in the first file {}, from offset {}; in the second {}, from offset {}", text,
                     List(variable.containers[0]), variable.first_in_file[0], List(variable.containers[1]),
                     variable.first_in_file[1]);
}

std::string ToText(const FileDiff& diff, const Side& a, const Side& b) {
  std::string text = fmt::format("first   {}\nsecond  {}\n", Clean(a.path), Clean(b.path));
  for (const Side* side : {&a, &b}) {
    for (const std::string& damage : side->damage) text += fmt::format("DAMAGED {}\n", Clean(damage));
  }
  if (!diff.fields.empty()) {
    text += "\nmetadata (does not count as a difference)\n";
    std::vector<std::vector<std::string>> rows = {{"", "", "first", "second"}};
    for (const FieldDiff& field : diff.fields) {
      const auto cell = [](const Json& value) {
        return value.is_null() ? "-" : value.is_string() ? value.get<std::string>() : value.dump();
      };
      rows.push_back({"", std::string(field.field), cell(field.values[0]), cell(field.values[1])});
    }
    text += Table(rows, {false, false, false, false});
  }
  const std::size_t different = diff.different();
  if (different == 0) {
    return text + fmt::format("\nno difference in {}\n", Count(diff.variables.size(), "variable"));
  }
  text += "\n";
  for (const VariableDiff& variable : diff.variables) {
    if (!variable.equal()) text += fmt::format("variable {}: {}\n", variable.id, Describe(variable));
  }
  return text + fmt::format("\n{} of {} differ{}\n", different, Count(diff.variables.size(), "variable"),
                            different == 1 ? "s" : "");
}

Json ToJson(const VariableDiff& variable) {
  const auto maybe = [](const std::optional<std::uint64_t>& bytes) { return bytes ? Json(*bytes) : Json(nullptr); };
  Json json = {{"id", variable.id},
               {"equal", variable.equal()},
               {"bytes", {maybe(variable.bytes[0]), maybe(variable.bytes[1])}}};
  if (!variable.in_both() || variable.equal()) return json;
  json["differing_bytes"] = variable.differing;
  json["first_offset"] = variable.first;
  if (variable.differing == 0) return json;
  json["containers"] = {variable.containers[0], variable.containers[1]};
  json["file_offsets"] = variable.first_in_file;
  return json;
}

Json ToJson(const FileDiff& diff, const Side& a, const Side& b) {
  Json files = Json::array(), metadata = Json::array(), variables = Json::array();
  for (const Side* side : {&a, &b}) {
    files.push_back({{"path", side->path},
                     {"layout", std::string(1, static_cast<char>(side->file.metadata.letter))},
                     {"damaged", side->damage}});
  }
  for (const FieldDiff& field : diff.fields) {
    metadata.push_back({{"field", field.field}, {"values", field.values}});
  }
  for (const VariableDiff& variable : diff.variables) variables.push_back(ToJson(variable));
  return {{"equal", diff.different() == 0},
          {"files", std::move(files)},
          {"metadata", std::move(metadata)},
          {"variables", std::move(variables)}};
}

ExitCode ComplainOfDiff(const absl::Status& status) {
  const ExitCode code = ComplainOfFile(status);
  return code == ExitCode::kFailed ? kCannotCompare : code;
}

}  // namespace

ExitCode RunDiff(const Context& context, const std::string& first, const std::string& second) {
  const auto disk = MakePosixDisk();
  const auto a = Open(*disk, first);
  if (!a.ok()) return ComplainOfDiff(a.status());
  const auto b = Open(*disk, second);
  if (!b.ok()) return ComplainOfDiff(b.status());
  const auto diff = CompareFiles({.metadata = a->file.metadata, .read = a->file.reader()},
                                 {.metadata = b->file.metadata, .read = b->file.reader()});
  if (!diff.ok()) return ComplainOfDiff(diff.status());
  Print(context.json ? Dump(ToJson(*diff, *a, *b)) : ToText(*diff, *a, *b));
  if (!a->damage.empty() || !b->damage.empty()) return ExitCode::kDamaged;
  return diff->different() == 0 ? ExitCode::kOk : kDifferent;
}

}  // namespace cairn::cli
