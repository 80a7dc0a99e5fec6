// `cairn adopt --bp`: a BP5 directory into a run.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "client/cli/adopt_kinds.h"
#include "client/cli/adopt_target.h"
#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"
#include "storage/job/adopt/adopt_bp.h"

namespace cairn::cli {
namespace {

struct BpAdoption {
  std::string prefix;
  RunId run;
  AdoptedBp adopted;
};

absl::StatusOr<BpAdoption> Adopt(const Context& context, const AdoptBpOptions& options, AdoptBpRequest request) {
  const auto disk = MakePosixDisk();
  CAIRN_ASSIGN_OR_RETURN(request.directory, ExistingPath(options.directory));
  CAIRN_ASSIGN_OR_RETURN(const AdoptTarget target, OpenAdoptTarget(context, *disk, options.run));
  auto adopted = AdoptBp(*disk, *target.prefix, request);
  for (const std::string& warning : target.prefix->TakeWarnings()) request.note(warning);
  if (!adopted.ok()) return adopted.status();
  return BpAdoption{.prefix = target.prefix->path(), .run = target.prefix->run(), .adopted = *std::move(adopted)};
}

std::string Describe(const BpAdoption& outcome) {
  const AdoptedBp& adopted = outcome.adopted;
  if (adopted.before) {
    return fmt::format("{} was adopted before: it is dataset {} of {}\n", Clean(adopted.name), adopted.dataset,
                       Clean(outcome.prefix));
  }
  return fmt::format(
      "adopted {} as dataset {} (step {}) of {}\n  {}, {}, {}; its bytes are as found, since BP5 has no checksums\n",
      Clean(adopted.name), adopted.dataset, adopted.step, Clean(outcome.prefix), Count(adopted.steps, "step"),
      Count(adopted.files, "file"), Bytes(adopted.bytes));
}

Json AdoptionJson(const BpAdoption& outcome, const std::vector<std::string>& notes) {
  const AdoptedBp& adopted = outcome.adopted;
  return {{"run", outcome.run.Hex()},
          {"prefix", outcome.prefix},
          {"dataset", adopted.dataset},
          {"adopted_before", adopted.before},
          {"name", adopted.name},
          {"step", adopted.step},
          {"steps", adopted.steps},
          {"closed", adopted.closed},
          {"files", adopted.files},
          {"bytes", adopted.bytes},
          {"notes", notes}};
}

}  // namespace

ExitCode RunAdoptBp(const Context& context, const AdoptBpOptions& options) {
  std::vector<std::string> notes;
  const auto outcome = Adopt(context, options,
                             {.directory = {},
                              .step = options.step,
                              .note =
                                  [&](const std::string& text) {
                                    notes.push_back(text);
                                    if (!context.json) Note(text);
                                  },
                              .wait = options.wait});
  if (!outcome.ok()) return ComplainOfFile(outcome.status());
  Print(context.json ? Dump(AdoptionJson(*outcome, notes)) : Describe(*outcome));
  return ExitCode::kOk;
}

}  // namespace cairn::cli
