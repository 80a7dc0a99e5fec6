// `cairn adopt`: what others wrote becomes a dataset of a run.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "client/cli/adopt_kinds.h"
#include "client/cli/commands.h"
#include "client/cli/options.h"
#include "storage/file/fti/names.h"

namespace cairn::cli {
namespace {

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
  add("--execution", options.execution, "The id of the execution to take, if there are several");
  add("--node-size", options.node_size, "Processes per node, heads included; needed if there is no configuration file");
  add("--group-size", options.group_size, "Nodes per group; needed if there is no configuration file");
  add("--ranks", options.ranks, "All processes, heads included; needed if there is no configuration file");
  adopt.AddFlag("--heads", options.heads, "The first process of each node is a head and writes no checkpoint")
      .Needs(fti)
      .Group("With --fti");
}

void AddScrOptions(Command adopt, AdoptScrOptions& options, Option scr, Option id) {
  adopt.AddOption("--job", options.job, "The id of the job to take, if there are several")
      .Needs(scr)
      .Group("With --scr");
  adopt
      .AddFlag("--all", options.all,
               "Take every whole dataset that the run does not have, outputs too, instead of the newest checkpoint")
      .Needs(scr)
      .Excludes(id)
      .Group("With --scr");
  adopt
      .AddOption("--prefix-was", options.prefix_was,
                 "SCR's prefix at the time of the job; files are named relative to it (default: RUN, or the folder "
                 "to which the application's names were relative)")
      .Needs(scr)
      .Group("With --scr");
  adopt
      .AddFlag("--unverified", options.unverified,
               "Take files, too, that nothing can verify: all redundancy was used to rebuild files, or SCR kept none")
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
      "The checkpoint becomes a dataset on the run's prefix. The next launch restarts from it, on as many ranks:\n"
      "after FTI it protects the same ids with the same sizes, after SCR it asks for its files under their names.\n"
      "Lost files are rebuilt from copies, code files and parity wherever FTI or SCR could rebuild them. If a\n"
      "checkpoint is not whole, the next older one is tried. The answer says what verified the bytes: SCR's CRC,\n"
      "parity, a second copy, or FTI's hashes. If nothing can verify some bytes, for example because all parity was\n"
      "used for rebuilding, the dataset is refused. --unverified takes it all the same; `cairn show` and `cairn\n"
      "verify` say so from then on. A BP5 directory, as ADIOS2 writes it, becomes an output under its name. It has\n"
      "no checksums, so its bytes are taken as found; if it was never closed, it is taken up to its last whole\n"
      "step. Nothing is changed in DIR. No application may work in RUN at that time. If one does, the command ends;\n"
      "if one may, the command waits.\n"
      "\n"
      "Examples:\n"
      "  cairn adopt /scratch/me/heat --fti /local/fti --fti /scratch/fti/global\n"
      "  cairn adopt /scratch/me/heat --scr /mnt/ssd/me                  the newest checkpoint of its only job\n"
      "  cairn adopt /scratch/me/heat --scr /mnt/ssd/me --all            outputs and older checkpoints, too\n"
      "  cairn adopt /scratch/me/heat --scr /mnt/ssd/me --prefix-was /old/scratch/me/heat\n"
      "  cairn adopt /scratch/me/heat --scr /mnt/ssd/me --unverified     a node was lost, and XOR rebuilt its files\n"
      "  cairn adopt /scratch/me/heat --bp out/fields.bp                 ADIOS2's own output\n"
      "\n"
      "Exit codes: 0 adopted, now or before; 1 refused or failed; 2 the command is wrong; 4 there is nothing to\n"
      "adopt; 5 no checkpoint is whole.");
  adopt
      .AddOption("RUN", adoption->run,
                 "The run's directory, which is made if it is missing; or a run that the "
                 "daemon knows")
      .Required();
  const Option fti =
      adopt
          .AddOption("--fti", adoption->fti.roots,
                     "FTI's local, global and metadata directories of all nodes, or a folder above them; may be "
                     "given several times")
          .OneValue();  // else it would take RUN, too
  const Option scr =
      adopt
          .AddOption("--scr", adoption->scr.roots,
                     "SCR's cache and control directories of all nodes, or a folder above them; may be given several "
                     "times")
          .OneValue()
          .Excludes(fti);
  const Option bp = adopt.AddOption("--bp", adoption->bp.directory, "A BP5 directory").Excludes(fti).Excludes(scr);
  adopt.AddOption("--step", adoption->bp.step, "The dataset's step (default: the number of steps in the directory)")
      .Needs(bp)
      .Group("With --bp");
  const Option id = adopt.AddOption("--id", adoption->id, "Only this checkpoint of FTI, or dataset of SCR")
                        .Between(0, fti::kCheckpointIdMax)
                        .Excludes(bp);
  adopt
      .AddOption("--wait", adoption->wait,
                 "How long to wait for certainty that no application works in RUN; 0: do not wait")
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
