// The commands that move checkpoints: between other systems and Cairn, and from a cache that nobody looks after.
#include <CLI/CLI.hpp>

#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "client/cli/adopt_bp_command.h"
#include "client/cli/adopt_command.h"
#include "client/cli/adopt_scr_command.h"
#include "client/cli/command_line.h"
#include "client/cli/export_command.h"
#include "client/cli/scavenge_command.h"

namespace cairn::cli {
namespace {

constexpr std::int32_t kCheckpointIdMax = std::numeric_limits<std::int32_t>::max();

// What both kinds of adopting have, and the option that says which it is.
struct Adoption {
  AdoptOptions fti;
  AdoptScrOptions scr;
  AdoptBpOptions bp;
  std::string run;
  std::optional<std::int32_t> id;
};

void AddFtiOptions(CLI::App& adopt, AdoptOptions& options, CLI::Option* fti) {
  const auto add = [&](const char* name, auto& value, const char* help) {
    return adopt.add_option(name, value, help)->needs(fti)->group("With --fti");
  };
  add("--config", options.config, "FTI's configuration file (for nodes and groups)");
  add("--execution", options.execution, "Which execution, if there are several: its id");
  add("--node-size", options.node_size, "Processes a node, heads included, if no configuration says so");
  add("--group-size", options.group_size, "Nodes a group, likewise");
  add("--ranks", options.ranks, "Processes in all, heads included, likewise");
  adopt.add_flag("--heads", options.heads, "The first process of each node is a head and writes no checkpoint")
      ->needs(fti)
      ->group("With --fti");
}

void AddScrOptions(CLI::App& adopt, AdoptScrOptions& options, CLI::Option* scr, CLI::Option* id) {
  adopt.add_option("--job", options.job, "Which job, if there are several: its id")->needs(scr)->group("With --scr");
  adopt
      .add_flag("--all", options.all,
                "Every whole dataset that the run does not have, outputs too, not the newest checkpoint alone")
      ->needs(scr)
      ->excludes(id)
      ->group("With --scr");
  adopt
      .add_option("--prefix-was", options.prefix_was,
                  "SCR's prefix at that time: names are below it (default: RUN, or what the application's names were "
                  "relative to)")
      ->needs(scr)
      ->group("With --scr");
}

ExitCode RunAdoption(const Context& context, Adoption& adoption) {
  if (!adoption.bp.directory.empty()) {
    adoption.bp.run = adoption.run;
    return RunAdoptBp(context, adoption.bp);
  }
  if (!adoption.scr.roots.empty()) {
    adoption.scr.run = adoption.run;
    if (adoption.id) adoption.scr.dataset = static_cast<std::uint64_t>(*adoption.id);
    return RunAdoptScr(context, adoption.scr);
  }
  adoption.fti.run = adoption.run;
  adoption.fti.checkpoint = adoption.id;
  return RunAdopt(context, adoption.fti);
}

void AddAdopt(CLI::App& app, CommandLine& line) {
  const auto adoption = std::make_shared<Adoption>();
  CLI::App* const adopt = app.add_subcommand(
      "adopt",
      "Take the newest whole checkpoint of FTI or of an SCR cache, or a BP5 directory, into a run; needs no daemon");
  adopt->footer(
      "The checkpoint becomes a dataset on the run's prefix, which the next launch restarts from, on as many ranks:\n"
      "FTI's by protecting the same ids with the same sizes, SCR's by asking for its files under their names. Lost\n"
      "files are rebuilt from copies, code files and parity where FTI or SCR could do so; a checkpoint that is not\n"
      "whole is passed over for the next older one. A BP5 directory, as ADIOS2 writes it, becomes an output under its\n"
      "name; one that was never closed is taken up to its last whole step. In DIR nothing is changed.\n"
      "\n"
      "Examples:\n"
      "  cairn adopt /scratch/me/heat --fti /local/fti --fti /scratch/fti/global\n"
      "  cairn adopt /scratch/me/heat --scr /mnt/ssd/me                  the newest checkpoint of its only job\n"
      "  cairn adopt /scratch/me/heat --scr /mnt/ssd/me --all            outputs and older checkpoints, too\n"
      "  cairn adopt /scratch/me/heat --scr /mnt/ssd/me --prefix-was /old/scratch/me/heat\n"
      "  cairn adopt /scratch/me/heat --bp out/fields.bp                 ADIOS2's own output\n"
      "\n"
      "Exit codes: 0 adopted, or it was before; 1 refused or failed; 2 the command is wrong; 4 nothing to adopt is\n"
      "there; 5 no checkpoint is whole.");
  adopt->add_option("RUN", adoption->run, "The run's directory (made if need be), or a run that the daemon knows")
      ->required();
  CLI::Option* const fti =
      adopt
          ->add_option("--fti", adoption->fti.roots,
                       "FTI's local, global and metadata directories, of all nodes: a folder above them will do; may "
                       "be given several times")
          ->allow_extra_args(false);  // else it would take RUN, too
  CLI::Option* const scr =
      adopt
          ->add_option("--scr", adoption->scr.roots,
                       "SCR's cache and control directories, of all nodes: a folder above them will do; may be given "
                       "several times")
          ->allow_extra_args(false)
          ->excludes(fti);
  CLI::Option* const bp =
      adopt->add_option("--bp", adoption->bp.directory, "A BP5 directory")->excludes(fti)->excludes(scr);
  adopt->add_option("--step", adoption->bp.step, "The dataset's step (default: how many steps it has)")
      ->needs(bp)
      ->group("With --bp");
  CLI::Option* const id = adopt->add_option("--id", adoption->id, "Only this checkpoint of FTI, or dataset of SCR")
                              ->check(CLI::Range(0, kCheckpointIdMax))
                              ->excludes(bp);
  AddFtiOptions(*adopt, adoption->fti, fti);
  AddScrOptions(*adopt, adoption->scr, scr, id);
  adopt->callback([&line, adoption, fti, scr, bp] {
    if (fti->count() + scr->count() + bp->count() == 0) throw CLI::RequiredError("--fti DIR, --scr DIR or --bp DIR");
    line.run = [&line, adoption] { return RunAdoption(line.context, *adoption); };
  });
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

void AddScavenge(CLI::App& app, CommandLine& line) {
  const auto options = std::make_shared<ScavengeOptions>();
  CLI::App* const scavenge = app.add_subcommand(
      "scavenge",
      "Save to the prefix what this node's cache holds, when application and daemon are gone; needs no daemon");
  scavenge->footer(
      "Outputs, the oldest first, then the newest checkpoint that is whole. What a node has of a dataset goes to the\n"
      "prefix; when all ranks are there, perhaps by scavenges on other nodes, the dataset is committed, else the "
      "missing\n"
      "ranks are listed. Again is harmless. Before the daemon starts again: its start removes what was never "
      "completed.\n"
      "\n"
      "Examples:\n"
      "  cairn scavenge                                          all runs of yours in this node's cache\n"
      "  cairn scavenge /scratch/me/heat --cache /mnt/ssd        one run, from a cache that is named\n"
      "  cairn scavenge /scratch/me/heat --dataset 17            one dataset, whatever is newer\n"
      "\n"
      "Exit codes: 0 all is saved; 1 refused or failed (a daemon has the cache); 2 the command is wrong; 4 no such\n"
      "cache, run or dataset; 5 bytes are damaged; 7 ranks are missing: scavenge on the other nodes, too.");
  scavenge->add_option("RUN", options->run, "Prefix, identity or name of the run (default: all runs in the cache)");
  scavenge->add_option("--cache", options->cache, "The cache directory (default: the daemon's)");
  CLI::Option* const dataset = scavenge->add_option("--dataset", options->dataset, "Only this dataset");
  scavenge->add_flag("--all", options->all, "Every dataset, not only what a restart needs")->excludes(dataset);
  scavenge->callback([&line, options] { line.run = [&line, options] { return RunScavenge(line.context, *options); }; });
}

}  // namespace

void AddMovingCommands(CLI::App& app, CommandLine& line) {
  AddAdopt(app, line);
  AddExport(app, line);
  AddScavenge(app, line);
}

}  // namespace cairn::cli
