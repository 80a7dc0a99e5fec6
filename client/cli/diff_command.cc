// `cairn diff`: how two checkpoint files differ. Needs no daemon. Exit codes of its own, in the manner of diff(1).
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"
#include "storage/job/diff/diff.h"

namespace cairn::cli {
namespace {

constexpr ExitCode kDifferent = ExitCode::kFailed;
constexpr ExitCode kCannotCompare = ExitCode::kUsage;

constexpr const char* kDiffFooter =
    "The command compares variables by id and offset. So two files with the same contents are the same, whatever\n"
    "their layout, packing and order. It shows metadata that differs, but does not count it as a difference.\n"
    "Offsets are in bytes.\n"
    "\n"
    "Examples:\n"
    "  cairn diff Ckpt17-Rank0.fti Ckpt18-Rank0.fti\n"
    "  cairn diff --json a.fti b.fti | jq '.variables[] | select(.equal | not) | .id'\n"
    "\n"
    "Exit codes: 0 all variables are the same; 1 they differ; 2 the files cannot be compared; 4 no such file;\n"
    "5 a file is damaged (all that can be read of it is compared).";

struct DiffOptions {
  std::string file, other;
};

absl::StatusOr<SideOfDiff> Open(Disk& disk, const std::string& given) {
  CAIRN_ASSIGN_OR_RETURN(const std::string path, ResolveFile(given));
  return OpenSideOfDiff(disk, path);
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

std::string Describe(const ftiff::VariableDiff& variable) {
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

std::string ToText(const ftiff::FileDiff& diff, const SideOfDiff& a, const SideOfDiff& b) {
  std::string text = fmt::format("first   {}\nsecond  {}\n", Clean(a.path), Clean(b.path));
  for (const SideOfDiff* side : {&a, &b}) {
    for (const std::string& damage : side->damage) text += fmt::format("DAMAGED {}\n", Clean(damage));
  }
  if (!diff.fields.empty()) {
    text += "\nmetadata (does not count as a difference)\n";
    std::vector<std::vector<std::string>> rows = {{"", "", "first", "second"}};
    for (const ftiff::FieldDiff& field : diff.fields) {
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
  for (const ftiff::VariableDiff& variable : diff.variables) {
    if (!variable.equal()) text += fmt::format("variable {}: {}\n", variable.id, Describe(variable));
  }
  return text + fmt::format("\n{} of {} differ{}\n", different, Count(diff.variables.size(), "variable"),
                            different == 1 ? "s" : "");
}

Json VariableJson(const ftiff::VariableDiff& variable) {
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

Json DiffJson(const ftiff::FileDiff& diff, const SideOfDiff& a, const SideOfDiff& b) {
  Json files = Json::array(), metadata = Json::array(), variables = Json::array();
  for (const SideOfDiff* side : {&a, &b}) {
    files.push_back({{"path", side->path},
                     {"layout", std::string(1, static_cast<char>(side->file.metadata.letter))},
                     {"damaged", side->damage}});
  }
  for (const ftiff::FieldDiff& field : diff.fields) {
    metadata.push_back({{"field", field.field}, {"values", field.values}});
  }
  for (const ftiff::VariableDiff& variable : diff.variables) variables.push_back(VariableJson(variable));
  return {{"equal", diff.different() == 0},
          {"files", std::move(files)},
          {"metadata", std::move(metadata)},
          {"variables", std::move(variables)}};
}

ExitCode ComplainOfDiff(const absl::Status& status) {
  const ExitCode code = ComplainOfFile(status);
  return code == ExitCode::kFailed ? kCannotCompare : code;
}

ExitCode RunDiff(const Context& context, const DiffOptions& options) {
  const auto disk = MakePosixDisk();
  const auto a = Open(*disk, options.file);
  if (!a.ok()) return ComplainOfDiff(a.status());
  const auto b = Open(*disk, options.other);
  if (!b.ok()) return ComplainOfDiff(b.status());
  const auto diff = Compare(*a, *b);
  if (!diff.ok()) return ComplainOfDiff(diff.status());
  Print(context.json ? Dump(DiffJson(*diff, *a, *b)) : ToText(*diff, *a, *b));
  if (!a->damage.empty() || !b->damage.empty()) return ExitCode::kDamaged;
  return diff->different() == 0 ? ExitCode::kOk : kDifferent;
}

}  // namespace

void AddDiffCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<DiffOptions>();
  const Command diff = app.AddCommand("diff", "Show which variables of two checkpoint files differ; needs no daemon");
  diff.AddOption("FILE", options->file, "An FTI-FF checkpoint file").Required();
  diff.AddOption("OTHER", options->other, "Another one").Required();
  diff.Footer(kDiffFooter);
  SetRun(diff, line, options, RunDiff);
}

}  // namespace cairn::cli
