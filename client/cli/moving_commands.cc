// The commands that move checkpoints between FTI and Cairn.
#include <CLI/CLI.hpp>

#include <limits>
#include <memory>
#include <string>

#include "client/cli/adopt_command.h"
#include "client/cli/command_line.h"
#include "client/cli/export_command.h"

namespace cairn::cli {
namespace {

constexpr std::int32_t kCheckpointIdMax = std::numeric_limits<std::int32_t>::max();

void AddAdopt(CLI::App& app, CommandLine& line) {
  const auto options = std::make_shared<AdoptOptions>();
  CLI::App* const adopt =
      app.add_subcommand("adopt", "Take the newest whole checkpoint of an FTI execution into a run; needs no daemon");
  adopt->footer(
      "The checkpoint becomes a dataset on the run's prefix, which the next launch restarts from: on as many ranks,\n"
      "protecting the same ids with the same sizes. Lost files are rebuilt from copies and code files where FTI could\n"
      "do so; a checkpoint that is not whole is passed over for the next older one. In DIR nothing is changed.");
  adopt->add_option("RUN", options->run, "The run's directory (made if need be), or a run that the daemon knows")
      ->required();
  adopt
      ->add_option("--fti", options->roots,
                   "FTI's local, global and metadata directories, of all nodes: a folder above them will do; may be "
                   "given several times")
      ->allow_extra_args(false)  // else it would take RUN, too
      ->required();
  adopt->add_option("--config", options->config, "FTI's configuration file (for nodes and groups)");
  adopt->add_option("--execution", options->execution, "Which execution, if there are several: its id");
  adopt->add_option("--id", options->checkpoint, "Only this checkpoint of FTI")->check(CLI::Range(0, kCheckpointIdMax));
  adopt->add_option("--node-size", options->node_size, "Processes a node, heads included, if no configuration says so");
  adopt->add_option("--group-size", options->group_size, "Nodes a group, likewise");
  adopt->add_option("--ranks", options->ranks, "Processes in all, heads included, likewise");
  adopt->add_flag("--heads", options->heads, "The first process of each node is a head and writes no checkpoint");
  adopt->callback([&line, options] { line.run = [&line, options] { return RunAdopt(line.context, *options); }; });
}

void AddExport(CLI::App& app, CommandLine& line) {
  const auto options = std::make_shared<ExportOptions>();
  ExportRequest& request = options->request;
  CLI::App* const to_fti =
      app.add_subcommand("export", "Write a dataset of a run's prefix as an execution that FTI restarts from");
  to_fti->footer(
      "Values and arrays are plain variables to FTI. The prefix is only read; what is in the cache only has to be\n"
      "flushed first (`cairn flush`).");
  to_fti->add_option("RUN", options->run, "Prefix, identity or name of the run")->required();
  to_fti->add_option("DATASET", request.dataset,
                     "Number of the dataset, from `cairn ls` (default: the newest "
                     "checkpoint on the prefix)");
  to_fti->add_option("--fti", options->folder, "The directory to write: not there yet, or empty")->required();
  to_fti->add_option("--level", options->level, "FTI's level: 1, 2, 3 or 4 (default 4)")->check(CLI::Range(1, 4));
  to_fti->add_option("--layout", options->layout, "F for the current FTI, A for its release 1.1 (default F)")
      ->check(CLI::IsMember({"A", "F"}));
  to_fti
      ->add_option_function<std::string>(
          "--packing", [options](const std::string& packing) { options->request.keep_containers = packing == "keep"; },
          "exact: one container a variable; keep: those of Cairn's file (default exact)")
      ->check(CLI::IsMember({"exact", "keep"}));
  to_fti->add_option("--node-size", request.node_size, "FTI's processes a node, heads included (default 1)");
  to_fti->add_option("--group-size", request.group_size, "Nodes a group; levels 2 and 3 need 2 or more (default 1)");
  to_fti->add_flag("--heads", request.heads, "The first process of each node is a head");
  to_fti->add_option("--id", request.checkpoint, "FTI's number of the checkpoint (default: the step)")
      ->check(CLI::Range(1, kCheckpointIdMax));
  to_fti->callback([&line, options] { line.run = [&line, options] { return RunExport(line.context, *options); }; });
}

}  // namespace

void AddMovingCommands(CLI::App& app, CommandLine& line) {
  AddAdopt(app, line);
  AddExport(app, line);
}

}  // namespace cairn::cli
