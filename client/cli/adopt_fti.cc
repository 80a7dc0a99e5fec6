// `cairn adopt --fti`: from FTI into a run.
#include <fmt/format.h>

#include <utility>

#include "client/cli/adopt_kinds.h"
#include "client/cli/adopt_target.h"
#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"
#include "storage/job/adopt/adopt.h"

namespace cairn::cli {
namespace {

absl::StatusOr<fti::Search> SearchOf(const AdoptFtiOptions& options) {
  fti::Search search;
  search.execution = options.execution;
  search.node_size = options.node_size;
  search.group_size = options.group_size;
  search.ranks = options.ranks;
  if (options.heads) search.heads = true;
  CAIRN_ASSIGN_OR_RETURN(search.roots, ExistingPaths(options.roots));
  if (!options.config.empty()) {
    CAIRN_ASSIGN_OR_RETURN(search.config, ExistingPath(options.config));
  }
  return search;
}

struct FtiAdoption {
  std::string prefix;
  RunId run;
  std::string execution;
  Adopted adopted;
};

absl::StatusOr<FtiAdoption> Adopt(const Context& context, const AdoptFtiOptions& options, const AdoptRequest& request) {
  const auto disk = MakePosixDisk();
  CAIRN_ASSIGN_OR_RETURN(const fti::Search search, SearchOf(options));
  CAIRN_ASSIGN_OR_RETURN(const fti::Execution execution, fti::Find(*disk, search));
  for (const std::string& warning : execution.warnings) request.note(warning);
  CAIRN_ASSIGN_OR_RETURN(const AdoptTarget target, OpenAdoptTarget(context, *disk, options.run));
  auto adopted = AdoptCheckpoint(*disk, *target.prefix, execution, request);
  for (const std::string& warning : target.prefix->TakeWarnings()) request.note(warning);
  if (!adopted.ok()) return adopted.status();
  return FtiAdoption{
      .prefix = target.prefix->path(), .run = target.prefix->run(), .execution = execution.id, .adopted = *adopted};
}

std::string Describe(const FtiAdoption& outcome) {
  const Adopted& adopted = outcome.adopted;
  const std::string what = fmt::format("checkpoint {} ({}) of FTI's execution {}", adopted.checkpoint,
                                       fti::NameOf(adopted.level), Clean(outcome.execution));
  if (adopted.before) {
    return fmt::format("{} was adopted before: it is dataset {} of {}\n", what, adopted.dataset, Clean(outcome.prefix));
  }
  std::string text = fmt::format("adopted {} as dataset {} (step {}) of {}\n", what, adopted.dataset,
                                 adopted.checkpoint, Clean(outcome.prefix));
  text += fmt::format("  {} ranks, {}, every byte verified by FTI's hashes", adopted.ranks, Bytes(adopted.bytes));
  if (adopted.rebuilt > 0) text += fmt::format("; {} file{} rebuilt", adopted.rebuilt, adopted.rebuilt == 1 ? "" : "s");
  return text + fmt::format(
                    "\nThe next launch with CAIRN_PREFIX={} and {} ranks restores it, if it protects what FTI had "
                    "under the same ids.\n",
                    Clean(outcome.prefix), adopted.ranks);
}

Json AdoptionJson(const FtiAdoption& outcome, const std::vector<std::string>& notes) {
  const Adopted& adopted = outcome.adopted;
  const bool differential = adopted.level == fti::Level::kDifferential;
  return {{"run", outcome.run.Hex()},
          {"prefix", outcome.prefix},
          {"dataset", adopted.dataset},
          {"adopted_before", adopted.before},
          {"execution", outcome.execution},
          {"checkpoint", adopted.checkpoint},
          {"step", adopted.checkpoint},
          {"level", static_cast<int>(differential ? fti::Level::kGlobal : adopted.level)},
          {"differential", differential},
          {"ranks", adopted.ranks},
          {"rebuilt", adopted.rebuilt},
          {"bytes", adopted.bytes},
          {"notes", notes}};
}

}  // namespace

ExitCode RunAdoptFti(const Context& context, const AdoptFtiOptions& options) {
  std::vector<std::string> notes;
  AdoptRequest request{.checkpoint = options.checkpoint,
                       .note =
                           [&](const std::string& text) {
                             notes.push_back(text);
                             if (!context.json) Note(text);
                           },
                       .wait = options.wait};
  const auto outcome = Adopt(context, options, request);
  if (!outcome.ok()) {
    for (const std::string& note : notes) {
      if (context.json) Note(note);  // else it was told at once
    }
    return ComplainOfFile(outcome.status());
  }
  Print(context.json ? Dump(AdoptionJson(*outcome, notes)) : Describe(*outcome));
  return ExitCode::kOk;
}

}  // namespace cairn::cli
