#include "client/cli/run_wait.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "client/cli/arbiters.h"
#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/run_prefix.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"
#include "storage/job/launch/launch_wait.h"
#include "storage/place/arbiter/arbiter_record.h"
#include "storage/place/prefix/prefix.h"

namespace cairn::cli {
namespace {

constexpr std::chrono::hours kNever(24 * 365);

struct RunWaitOptions {
  std::string run;
  std::string timeout;
  std::string job;  // empty: whosever it is
};

struct Over {
  std::string prefix;
  std::optional<LaunchId> launch;         // that is over; 0: there was none; none: its record is damaged
  std::optional<scr::Descriptor> newest;  // checkpoint on the prefix
};

// Only looks, unless the run's leases lie elsewhere: an arbiter is asked as a daemon asks it.
absl::StatusOr<std::unique_ptr<Prefix>> OpenToLook(Disk& disk, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const auto record, arbiter_record::Read(disk, path));
  if (!record || record->kind == ArbiterKind::kPrefix) return Prefix::OpenReadOnly(disk, path);
  CAIRN_ASSIGN_OR_RETURN(const auto arbiters, ConfiguredArbiters(record->kind));
  return Prefix::Open(disk, path, {.pause = {}, .known = {}, .arbiters = arbiters.get()});
}

absl::StatusOr<Over> WaitUntilDrained(const Context& context, const RunWaitOptions& options) {
  Over over;
  CAIRN_ASSIGN_OR_RETURN(over.prefix, FindPrefix(context, options.run));
  const auto disk = MakePosixDisk();
  CAIRN_RETURN_IF_ERROR(Prefix::RunAt(*disk, over.prefix).status());
  CAIRN_ASSIGN_OR_RETURN(const auto prefix, OpenToLook(*disk, over.prefix));
  LaunchWait wait;
  wait.until_drained = true;
  wait.of_job = options.job;
  wait.at_most = kNever;
  if (!options.timeout.empty()) wait.at_most = std::chrono::milliseconds(Milliseconds(options.timeout));
  CAIRN_ASSIGN_OR_RETURN(over.launch, WaitUntilOver(*prefix, wait, [](const std::string& text) { Note(Clean(text)); }));
  CAIRN_ASSIGN_OR_RETURN(const auto committed, prefix->Committed());
  // As a restart goes by them: first the launch, then the number.
  std::pair<LaunchId, DatasetId> newest;
  for (const auto& [id, dataset] : committed) {
    const std::pair of_this(dataset.descriptor.launch.value_or(0), id);
    if (!dataset.descriptor.checkpoint || of_this < newest) continue;
    newest = of_this;
    over.newest = dataset.descriptor;
  }
  return over;
}

std::string Describe(const Over& over, const std::string& job) {
  const std::string what =
      job.empty() ? "nobody works there" : fmt::format("nothing of job {} is on its way there", job);
  std::string text = fmt::format("{}: {}", Clean(over.prefix), what);
  if (!over.newest) return text + "; no checkpoint is on the prefix\n";
  text += fmt::format("; the newest checkpoint on the prefix is dataset {}", over.newest->id);
  if (over.newest->step) text += fmt::format(", step {}", *over.newest->step);
  return text + "\n";
}

Json OverJson(const Over& over) {
  const auto& newest = over.newest;
  return {{"prefix", Clean(over.prefix)},
          {"launch", over.launch ? Json(*over.launch) : Json()},
          {"dataset", newest ? Json(newest->id) : Json()},
          {"step", newest && newest->step ? Json(*newest->step) : Json()}};
}

ExitCode WaitForRun(const Context& context, const RunWaitOptions& options) {
  const auto over = WaitUntilDrained(context, options);
  if (absl::IsDeadlineExceeded(over.status())) return Complain(over.status());
  if (!over.ok()) return ComplainOfFile(over.status());
  Print(context.json ? Dump(OverJson(*over)) : Describe(*over, options.job));
  return ExitCode::kOk;
}

}  // namespace

void AddRunWait(Command run, CommandLine& line) {
  const auto options = std::make_shared<RunWaitOptions>();
  const Command wait = run.AddCommand("wait", "Wait until nobody works under the run, and nothing is on its way there");
  AddRun(wait, options->run);
  AddTimeout(wait, options->timeout);
  wait.AddOption("--job", options->job,
                 "Wait for this Slurm job only: the newest launch does not count if its key names another job")
      .ValueName("JOB");
  wait.Footer(
      "The run's work is over when its newest launch has said so, or when the launch's lease has not changed for a\n"
      "term (lease.term, 2 min by default). Until then ranks may be at work, or a daemon may be bringing data to\n"
      "the prefix that a restart would choose. The command looks at the directory only, and changes nothing. So it\n"
      "works where no daemon runs, for example for stage-in and stage-out on the controller of a batch system.\n"
      "\n"
      "Exit codes: 0 the work is over; 4 no run is there; 5 a record is damaged; 6 not in time.");
  SetRun(wait, line, options, WaitForRun);
}

}  // namespace cairn::cli
