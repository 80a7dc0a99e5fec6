// `cairn adopt`: what others wrote becomes a dataset of a run.
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "client/cli/adopt_kinds.h"
#include "client/cli/commands.h"
#include "client/cli/options.h"

namespace cairn::cli {
namespace {

constexpr std::int32_t kCheckpointIdMax = std::numeric_limits<std::int32_t>::max();

// What both kinds of adopting have, and the option that says which it is.
struct Adoption {
  AdoptFtiOptions fti;
  AdoptScrOptions scr;
  AdoptBpOptions bp;
  std::string run;
  std::optional<std::int32_t> id;
  std::string wait = "3min";
};

void AddFtiOptions(Command adopt, AdoptFtiOptions& options, Option fti) {
  const auto add = [&](const char* name, auto& value, const char* help) {
    return adopt.AddOption(name, value, help).Needs(fti).Group("With --fti");
  };
  add("--config", options.config, "FTI's configuration file (for nodes and groups)");
  add("--execution", options.execution, "Which execution, if there are several: its id");
  add("--node-size", options.node_size, "Processes a node, heads included, if no configuration says so");
  add("--group-size", options.group_size, "Nodes a group, likewise");
  add("--ranks", options.ranks, "Processes in all, heads included, likewise");
  adopt.AddFlag("--heads", options.heads, "The first process of each node is a head and writes no checkpoint")
      .Needs(fti)
      .Group("With --fti");
}

void AddScrOptions(Command adopt, AdoptScrOptions& options, Option scr, Option id) {
  adopt.AddOption("--job", options.job, "Which job, if there are several: its id").Needs(scr).Group("With --scr");
  adopt
      .AddFlag("--all", options.all,
               "Every whole dataset that the run does not have, outputs too, not the newest checkpoint alone")
      .Needs(scr)
      .Excludes(id)
      .Group("With --scr");
  adopt
      .AddOption("--prefix-was", options.prefix_was,
                 "SCR's prefix at that time: names are below it (default: RUN, or what the application's names were "
                 "relative to)")
      .Needs(scr)
      .Group("With --scr");
  adopt
      .AddFlag("--unverified", options.unverified,
               "Files, too, whose bytes nothing verifies: all redundancy went into rebuilding, or SCR kept none")
      .Needs(scr)
      .Group("With --scr");
}

ExitCode RunAdoption(const Context& context, Adoption& adoption) {
  const LaunchWait wait{.at_most = std::chrono::milliseconds(Milliseconds(adoption.wait))};
  if (!adoption.bp.directory.empty()) {
    adoption.bp.run = adoption.run;
    adoption.bp.wait = wait;
    return RunAdoptBp(context, adoption.bp);
  }
  if (!adoption.scr.roots.empty()) {
    adoption.scr.run = adoption.run;
    adoption.scr.wait = wait;
    if (adoption.id) adoption.scr.dataset = static_cast<std::uint64_t>(*adoption.id);
    return RunAdoptScr(context, adoption.scr);
  }
  adoption.fti.run = adoption.run;
  adoption.fti.wait = wait;
  adoption.fti.checkpoint = adoption.id;
  return RunAdoptFti(context, adoption.fti);
}

}  // namespace

void AddAdoptCommand(Command app, CommandLine& line) {
  const auto adoption = std::make_shared<Adoption>();
  const Command adopt = app.AddCommand(
      "adopt",
      "Take the newest whole checkpoint of FTI or of an SCR cache, or a BP5 directory, into a run; needs no daemon");
  adopt.Footer(
      "The checkpoint becomes a dataset on the run's prefix, which the next launch restarts from, on as many ranks:\n"
      "FTI's by protecting the same ids with the same sizes, SCR's by asking for its files under their names. Lost\n"
      "files are rebuilt from copies, code files and parity where FTI or SCR could do so; a checkpoint that is not\n"
      "whole is passed over for the next older one. The answer says by what the bytes were verified: SCR's CRC,\n"
      "parity, a second copy, FTI's hashes. If nothing could verify some, as when all parity went into rebuilding,\n"
      "the dataset is refused; --unverified takes it, and `cairn show` and `cairn verify` say so from then on. A BP5\n"
      "directory, as ADIOS2 writes it, becomes an output under its name, as found, since it has no checksums; one\n"
      "that was never closed is taken up to its last whole step. In DIR nothing is changed.\n"
      "No application may work in RUN meanwhile: if one does, the command ends; if one may, it waits.\n"
      "\n"
      "Examples:\n"
      "  cairn adopt /scratch/me/heat --fti /local/fti --fti /scratch/fti/global\n"
      "  cairn adopt /scratch/me/heat --scr /mnt/ssd/me                  the newest checkpoint of its only job\n"
      "  cairn adopt /scratch/me/heat --scr /mnt/ssd/me --all            outputs and older checkpoints, too\n"
      "  cairn adopt /scratch/me/heat --scr /mnt/ssd/me --prefix-was /old/scratch/me/heat\n"
      "  cairn adopt /scratch/me/heat --scr /mnt/ssd/me --unverified     a node was lost, and XOR rebuilt its files\n"
      "  cairn adopt /scratch/me/heat --bp out/fields.bp                 ADIOS2's own output\n"
      "\n"
      "Exit codes: 0 adopted, or it was before; 1 refused or failed; 2 the command is wrong; 4 nothing to adopt is\n"
      "there; 5 no checkpoint is whole.");
  adopt.AddOption("RUN", adoption->run, "The run's directory (made if need be), or a run that the daemon knows")
      .Required();
  const Option fti =
      adopt
          .AddOption("--fti", adoption->fti.roots,
                     "FTI's local, global and metadata directories, of all nodes: a folder above them will do; may "
                     "be given several times")
          .OneValue();  // else it would take RUN, too
  const Option scr =
      adopt
          .AddOption("--scr", adoption->scr.roots,
                     "SCR's cache and control directories, of all nodes: a folder above them will do; may be given "
                     "several times")
          .OneValue()
          .Excludes(fti);
  const Option bp = adopt.AddOption("--bp", adoption->bp.directory, "A BP5 directory").Excludes(fti).Excludes(scr);
  adopt.AddOption("--step", adoption->bp.step, "The dataset's step (default: how many steps it has)")
      .Needs(bp)
      .Group("With --bp");
  const Option id = adopt.AddOption("--id", adoption->id, "Only this checkpoint of FTI, or dataset of SCR")
                        .Between(0, kCheckpointIdMax)
                        .Excludes(bp);
  adopt
      .AddOption("--wait", adoption->wait,
                 "How long to wait until it is certain that no application works in RUN any more; 0: not at all")
      .ShowDefault()
      .Check(CheckDuration);
  AddFtiOptions(adopt, adoption->fti, fti);
  AddScrOptions(adopt, adoption->scr, scr, id);
  adopt.OnParsed([&line, adoption, fti, scr, bp] {
    if (fti.count() + scr.count() + bp.count() == 0) RefuseWithout("--fti DIR, --scr DIR or --bp DIR");
    line.run = [&line, adoption] { return RunAdoption(line.context, *adoption); };
  });
}

}  // namespace cairn::cli
