// `cairn bp`: all checkpoints of a run as one BP5 directory.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "client/cli/bp/place.h"
#include "client/cli/commands.h"
#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/run_prefix.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"
#include "storage/job/combine/combine.h"
#include "storage/place/prefix/prefix.h"

namespace cairn::cli {
namespace {

constexpr const char* kBpFooter =
    "Each committed dataset of protected memory is a step, in the order of their numbers. The directory has links\n"
    "to the checkpoint files, and no byte of data is copied. The links are relative if both are below one\n"
    "directory. When checkpoints are added or removed, make the directory again: the command replaces an older one\n"
    "that it made, and nothing else. Datasets of the application's own files are left out, and the command says so.\n"
    "\n"
    "Examples:\n"
    "  cairn bp /scratch/me/heat -o /scratch/me/heat/all.bp\n"
    "  cairn bp /scratch/me/heat -o some.bp --dataset 17 --dataset 20\n"
    "  bpls -l all.bp; cairn vars all.bp -D\n"
    "\n"
    "Exit codes: 0 done; 1 refused or failed; 2 the command is wrong; 4 no such run or dataset, or none to show; 5\n"
    "a dataset is damaged.";

struct BpOptions {
  std::string run;
  std::string output;
  std::vector<DatasetId> datasets;  // none: all
};

// Absolute, and no link on the way there: links in the new directory count from where it really is.
absl::StatusOr<std::string> ResolveOutput(const std::string& given) {
  std::string text = given;
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(text, error).lexically_normal();
  if (error || text.empty() || path.filename().empty()) return InvalidArgument("-o '{}' names no directory", given);
  const std::filesystem::path parent = std::filesystem::canonical(path.parent_path(), error);
  if (error) return NotFound("{}: {}", path.parent_path().string(), error.message());
  return (parent / path.filename()).string();
}

struct CombinedRun {
  std::string prefix, path;
  view::Combined combined;
};

absl::StatusOr<CombinedRun> Combine(const Context& context, const BpOptions& options) {
  const auto disk = MakePosixDisk();
  CombinedRun outcome;
  CAIRN_ASSIGN_OR_RETURN(outcome.path, ResolveOutput(options.output));
  CAIRN_ASSIGN_OR_RETURN(outcome.prefix, FindPrefix(context, options.run));
  CAIRN_RETURN_IF_ERROR(CheckIsPrefix(*disk, outcome.prefix));
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Prefix> prefix, Prefix::OpenReadOnly(*disk, outcome.prefix));
  std::optional<std::set<DatasetId>> only;
  if (!options.datasets.empty()) only.emplace(options.datasets.begin(), options.datasets.end());
  auto combined = view::CombineRun(*disk, *prefix, outcome.path, only);
  for (const std::string& warning : prefix->TakeWarnings()) Note(warning);
  if (!combined.ok()) return combined.status();
  outcome.combined = *std::move(combined);
  return outcome;
}

Json CombinedJson(const CombinedRun& outcome) {
  Json steps = Json::array(), left_out = Json::array();
  for (const view::CombinedStep& step : outcome.combined.steps) {
    steps.push_back({{"dataset", step.dataset}, {"step", step.step}});
  }
  for (const auto& [id, why] : outcome.combined.left_out) left_out.push_back({{"dataset", id}, {"why", why}});
  return {{"prefix", outcome.prefix},
          {"directory", outcome.path},
          {"steps", std::move(steps)},
          {"left_out", std::move(left_out)}};
}

std::string Describe(const CombinedRun& outcome) {
  const auto& steps = outcome.combined.steps;
  std::string text =
      fmt::format("{}: {} of {}\n", Clean(outcome.path), Count(steps.size(), "step"), Clean(outcome.prefix));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    text += fmt::format("  step {}: dataset {}, the application's step {}\n", i, steps[i].dataset, steps[i].step);
  }
  for (const auto& [id, why] : outcome.combined.left_out) {
    text += fmt::format("  not in it: dataset {}: {}\n", id, Clean(why));
  }
  return text;
}

ExitCode RunBp(const Context& context, const BpOptions& options) {
  const auto outcome = Combine(context, options);
  if (!outcome.ok()) return ComplainOfBp(outcome.status());
  Print(context.json ? Dump(CombinedJson(*outcome)) : Describe(*outcome));
  return ExitCode::kOk;
}

}  // namespace

void AddBpCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<BpOptions>();
  const Command bp = app.AddCommand("bp", "Show all checkpoints of a run as one BP5 directory, without a copy");
  bp.AddOption("RUN", options->run, "Prefix, identity or name of the run").Required();
  bp.AddOption("-o,--output", options->output, "The directory to make").Required();
  bp.AddOption("--dataset", options->datasets, "Only this dataset (may be repeated)").OneValue();
  bp.Footer(kBpFooter);
  SetRun(bp, line, options, RunBp);
}

}  // namespace cairn::cli
