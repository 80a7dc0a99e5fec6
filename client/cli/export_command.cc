// `cairn export`: from a run into FTI.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/run_prefix.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/file/fti/names.h"
#include "storage/io/posix_disk.h"
#include "storage/job/export/export.h"

namespace cairn::cli {
namespace {

constexpr std::int32_t kFtiVariableIdMax = 102400;  // FTI's max_var_id, if nothing else is set

struct ExportOptions {
  std::string run;
  std::string folder;
  int level = 4;
  std::string layout = "F";
  ExportRequest request;  // folder, level and letter are made of those above
};

// A dataset that the daemon has in the cache only; 0: none, or no daemon.
DatasetId OnlyInCache(const Context& context, const std::string& prefix, DatasetId wanted, DatasetId above) {
  const auto daemon = context.Daemon();
  if (!daemon.ok()) return 0;
  admin::ListRequest request;
  request.set_run(prefix);
  request.set_this_node_only(true);
  const auto reply = (*daemon)->List(request);
  if (!reply.ok()) return 0;
  DatasetId found = 0;
  for (const admin::DatasetRow& row : reply->datasets()) {
    if (!row.in_cache() || row.in_prefix() || row.files() || row.dataset() <= above) continue;
    if (wanted != 0 ? row.dataset() == wanted : row.checkpoint()) found = std::max<DatasetId>(found, row.dataset());
  }
  return found;
}

std::string HowToFlush(const std::string& prefix, DatasetId dataset) {
  return fmt::format("dataset {} is only in this node's cache: `cairn flush {} {} --wait` brings it to the prefix",
                     dataset, prefix, dataset);
}

struct FtiExport {
  std::string prefix, folder;
  Exported exported;
};

absl::StatusOr<FtiExport> Export(const Context& context, const ExportOptions& options,
                                 const std::function<void(const std::string&)>& note) {
  const auto disk = MakePosixDisk();
  CAIRN_ASSIGN_OR_RETURN(const std::string path, FindPrefix(context, options.run));
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Prefix> prefix, Prefix::OpenReadOnly(*disk, path));
  ExportRequest request = options.request;
  std::error_code error;
  request.folder = std::filesystem::absolute(options.folder, error).lexically_normal().string();
  if (error) return InvalidArgument("{}: {}", options.folder, error.message());
  while (request.folder.size() > 1 && request.folder.ends_with('/')) request.folder.pop_back();
  request.level = static_cast<fti::Level>(options.level);
  request.letter = options.layout == "A" ? ftiff::Letter::kA : ftiff::Letter::kF;
  const auto exported = ExportDataset(*disk, *prefix, request);
  if (absl::IsNotFound(exported.status())) {
    const DatasetId cached = OnlyInCache(context, path, request.dataset, 0);
    if (cached != 0) return FailedPrecondition("{}", HowToFlush(path, cached));
  }
  for (const std::string& warning : prefix->TakeWarnings()) note(warning);
  if (!exported.ok()) return exported.status();
  if (request.dataset == 0) {
    const DatasetId newer = OnlyInCache(context, path, 0, exported->dataset);
    if (newer != 0) note("a newer one was not exported: " + HowToFlush(path, newer));
  }
  return FtiExport{.prefix = path, .folder = request.folder, .exported = *exported};
}

std::string InOrder(const std::vector<ProtectedVariable>& variables) {
  std::string text;
  for (const ProtectedVariable& variable : variables) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", variable.id);
    if (!variable.name.empty()) text += fmt::format(" \"{}\"", variable.name);
  }
  return text;
}

// What the user has to do before FTI restarts from it.
std::vector<std::string> StepsOf(const FtiExport& outcome, const ExportOptions& options) {
  const Exported& exported = outcome.exported;
  std::vector<std::string> steps;
  steps.push_back(
      fmt::format("call FTI_Init with {}/config.fti, or copy these settings from it into your own configuration: "
                  "failure, exec_id, ckpt_io, head, node_size, group_size and the three directories",
                  outcome.folder));
  steps.push_back(fmt::format("start {} processes, {} on each node, and protect the same ids with the same sizes",
                              exported.topology.ranks, exported.topology.node_size));
  if (options.level != 4) {
    steps.push_back(
        fmt::format("where each node has a file system of its own: copy {}/Local/node<k>/{} into node k's "
                    "ckpt_dir and set local_test = 0",
                    outcome.folder, exported.execution));
  }
  if (exported.variable_id_max > kFtiVariableIdMax) {
    steps.push_back(
        fmt::format("with a configuration of your own: set max_var_id to {} or more, FTI takes ids up to {} by default",
                    exported.variable_id_max, kFtiVariableIdMax));
  }
  if (options.layout == "A") {
    steps.push_back("use FTI 1.1: later releases cannot read layout A");
    steps.push_back(
        fmt::format("protect the variables in exactly this order. FTI 1.1 finds them by it: in another order it "
                    "swaps variables of equal size and reports nothing: {}",
                    InOrder(exported.protect_order)));
  }
  return steps;
}

std::string Describe(const FtiExport& outcome, const ExportOptions& options) {
  const Exported& exported = outcome.exported;
  std::string text =
      fmt::format("exported dataset {} (step {}) of {} as FTI's checkpoint {}, level {}, layout {}\n", exported.dataset,
                  exported.step, Clean(outcome.prefix), exported.checkpoint, options.level, options.layout);
  text += fmt::format("  {} ranks, {}, every byte verified, in {}\n", exported.application_ranks, Bytes(exported.bytes),
                      Clean(outcome.folder));
  text += "What you have to do now:\n";
  for (const std::string& step : StepsOf(outcome, options)) text += fmt::format("  - {}\n", Clean(step));
  return text;
}

Json ExportJson(const FtiExport& outcome, const ExportOptions& options, const std::vector<std::string>& notes) {
  const Exported& exported = outcome.exported;
  Json order = Json::array();
  for (const ProtectedVariable& variable : exported.protect_order) {
    order.push_back({{"id", variable.id}, {"name", variable.name}});
  }
  return {{"prefix", outcome.prefix},
          {"dataset", exported.dataset},
          {"step", exported.step},
          {"folder", outcome.folder},
          {"config", outcome.folder + "/config.fti"},
          {"execution", exported.execution},
          {"checkpoint", exported.checkpoint},
          {"level", options.level},
          {"layout", options.layout},
          {"ranks", exported.application_ranks},
          {"processes", exported.topology.ranks},
          {"node_size", exported.topology.node_size},
          {"group_size", exported.topology.group_size},
          {"heads", exported.topology.heads},
          {"bytes", exported.bytes},
          {"protect_order", std::move(order)},
          {"to_do", StepsOf(outcome, options)},
          {"notes", notes}};
}

ExitCode RunExport(const Context& context, const ExportOptions& options) {
  std::vector<std::string> notes;
  const auto outcome = Export(context, options, [&](const std::string& text) {
    notes.push_back(text);
    if (!context.json) Note(text);
  });
  if (!outcome.ok()) return ComplainOfFile(outcome.status());
  Print(context.json ? Dump(ExportJson(*outcome, options, notes)) : Describe(*outcome, options));
  return ExitCode::kOk;
}

}  // namespace

void AddExportCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<ExportOptions>();
  ExportRequest& request = options->request;
  const Command to_fti = app.AddCommand("export", "Write a dataset of a run's prefix so that FTI restarts from it");
  to_fti.Footer(
      "Values and arrays are plain variables to FTI. The command reads the prefix and changes nothing there. It\n"
      "finds only datasets on the prefix: flush others first (`cairn flush`). Layout A: FTI 1.1 finds variables by\n"
      "the order in which they are protected. The files have the order of the launch that wrote the dataset; the\n"
      "command prints it. It refuses ranks whose orders contradict each other.");
  to_fti.AddOption("RUN", options->run, "Prefix, identity or name of the run").Required();
  to_fti.AddOption("DATASET", request.dataset,
                   "Number of the dataset, from `cairn ls` (default: the newest "
                   "checkpoint on the prefix)");
  to_fti.AddOption("--fti", options->folder, "The directory to write: not there yet, or empty").Required();
  to_fti.AddOption("--level", options->level, "FTI's level: 1, 2, 3 or 4 (default 4)").Between(1, 4);
  to_fti.AddOption("--layout", options->layout, "F for the current FTI, A for its release 1.1 (default F)")
      .OneOf({"A", "F"});
  to_fti
      .AddOption(
          "--packing", [options](const std::string& packing) { options->request.keep_containers = packing == "keep"; },
          "exact: one container for each variable; keep: the containers of Cairn's file (default exact)")
      .OneOf({"exact", "keep"});
  to_fti.AddOption("--node-size", request.node_size, "FTI's processes per node, heads included (default 1)");
  to_fti.AddOption("--group-size", request.group_size, "Nodes per group; levels 2 and 3 need 2 or more (default 1)");
  to_fti.AddFlag("--heads", request.heads, "The first process of each node is a head");
  to_fti.AddOption("--id", request.checkpoint, "FTI's number of the checkpoint (default: the step)")
      .Between(1, fti::kCheckpointIdMax);
  SetRun(to_fti, line, options, RunExport);
}

}  // namespace cairn::cli
