// `cairn drain`: from a burst buffer to another folder, whoever has written what is there.
#include <absl/synchronization/mutex.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "client/cli/commands.h"
#include "client/cli/drain_text.h"
#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/text.h"
#include "daemon/config/units.h"
#include "storage/base/clock.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"
#include "storage/job/drain/drain.h"
#include "storage/job/drain/watch.h"

namespace cairn::cli {
namespace {

using drain::Told;
using drain::ToldList;

constexpr std::size_t kToldShown = 10;  // as text; JSON has more
constexpr std::uint64_t kSettleMs = 10'000;
constexpr std::chrono::milliseconds kDrawEvery(500);
constexpr std::chrono::seconds kTellEvery(30);  // where progress is not on a terminal

struct DrainArguments {
  std::string from, to;
  std::string settle, wait, bandwidth, marker;
  std::uint32_t parallel = 4;
  bool watch = false, dry_run = false, delete_source = false, no_check = false;
};

// --- Stopping: what is under way is committed, nothing new is begun ---

std::atomic<bool> stop_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void AskToStop(int) {
  stop_asked = true;
}

// The second signal ends the process, as always: what was not committed then comes with the next drain.
void TakeSignals() {
  struct sigaction action {};
  action.sa_handler = AskToStop;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
}

// --- Progress ---

std::uint64_t PerSecond(std::uint64_t bytes, std::uint64_t ms) {
  return ms == 0 ? bytes : bytes * 1000 / ms;
}

std::string DescribeProgress(const DrainProgress& progress, std::uint64_t ms) {
  const std::uint64_t bytes = progress.bytes, all = progress.bytes_all;
  if (progress.waiting) return "waiting for files to settle";
  double left_ms = 0;
  if (bytes > 0 && all > bytes) {
    left_ms = static_cast<double>(ms) * static_cast<double>(all - bytes) / static_cast<double>(bytes);
  }
  return DescribePace({.files = progress.files,
                       .files_all = progress.files_all,
                       .bytes = bytes,
                       .bytes_all = all,
                       .bytes_per_s = PerSecond(bytes, ms),
                       .left_ms = static_cast<std::uint64_t>(left_ms)});
}

// On standard error, from a thread of its own: a line that is drawn over on a terminal, else a line now and then.
class ProgressLine {
 public:
  explicit ProgressLine(const DrainProgress& progress) : progress_(progress), thread_([this] { Run(); }) {}
  ~ProgressLine() {
    {
      const absl::MutexLock lock(&mutex_);
      over_ = true;
      changed_.Signal();
    }
    thread_.join();
  }
  ProgressLine(const ProgressLine&) = delete;

 private:
  void Run() {
    const bool terminal = ::isatty(STDERR_FILENO) == 1;
    const auto began = SteadyNow();
    auto told = began;
    const absl::MutexLock lock(&mutex_);
    while (!over_) {
      changed_.WaitWithTimeout(&mutex_, absl::FromChrono(kDrawEvery));
      const auto now = SteadyNow();
      const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now - began).count();
      const std::string text = DescribeProgress(progress_, static_cast<std::uint64_t>(ms));
      if (terminal && !over_) std::fprintf(stderr, "\r%s\x1b[K", text.c_str());
      if (!terminal && now - told >= kTellEvery) {
        std::fprintf(stderr, "cairn: %s\n", text.c_str());
        told = now;
      }
    }
    if (terminal) std::fprintf(stderr, "\r\x1b[K");
  }

  const DrainProgress& progress_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// --- What is said of it ---

std::string Describe(const char* what, const ToldList& list) {
  if (list.count() == 0) return "";
  std::string text = fmt::format("  {}: {}\n", what, list.count());
  std::size_t shown = 0;
  for (const Told& told : list.list()) {
    if (++shown > kToldShown) break;
    text += fmt::format("    {}: {}\n", Clean(told.path), Clean(told.why));
  }
  if (list.count() > kToldShown) text += fmt::format("    and {} more\n", list.count() - kToldShown);
  return text;
}

std::string Describe(const DrainArguments& options, const DrainReport& report) {
  std::string text = fmt::format("{} {}, {}", options.dry_run ? "would drain" : "drained", Count(report.files, "file"),
                                 Bytes(report.bytes));
  if (!options.dry_run && report.files > 0) {
    text += fmt::format(" in {} ({}/s)", Duration(report.milliseconds),
                        Bytes(PerSecond(report.bytes, report.milliseconds)));
    text += options.no_check ? ", not read back" : ", every byte read back and compared";
  }
  text += "\n";
  if (report.symlinks > 0) text += fmt::format("  {}\n", Count(report.symlinks, "symbolic link"));
  if (report.hard_links > 0)
    text += fmt::format("  {} of these files (hard links)\n", Count(report.hard_links, "further name"));
  if (report.there_files > 0) {
    text += fmt::format("  there already: {}, {}\n", Count(report.there_files, "file"), Bytes(report.there_bytes));
  }
  if (report.deleted > 0) text += fmt::format("  deleted from the source: {}\n", Count(report.deleted, "file"));
  text += Describe("waiting", report.waiting) + Describe("FAILED", report.failed) +
          Describe("DAMAGED at the target", report.damaged) + Describe("left out", report.left_out) +
          Describe("note: links that lead out", report.outward);
  if (report.former > 0) {
    text += fmt::format("  removed at the target: {} of FTI's former checkpoints\n", Count(report.former, "file"));
  }
  if (report.gone > 0) text += fmt::format("  note: {} vanished during the drain\n", Count(report.gone, "file"));
  if (report.links_copied > 0) {
    text += fmt::format("  note: {} copied, since the target makes no hard links\n",
                        Count(report.links_copied, "further name"));
  }
  if (report.attributes_lost > 0) {
    text += fmt::format("  note: owner or extended attributes of {} could not be kept\n",
                        Count(report.attributes_lost, "file"));
  }
  if (report.read_through_cache > 0) {
    text += fmt::format("  note: {} read back through the page cache: the target cannot without\n",
                        Count(report.read_through_cache, "file"));
  }
  if (report.stopped) text += fmt::format("  STOPPED: {}\n", Clean(report.stopped_why));
  return text;
}

Json ToldJson(const ToldList& list) {
  Json json = Json::array();
  for (const Told& told : list.list()) json.push_back({{"path", told.path}, {"why", told.why}});
  return {{"count", list.count()}, {"first", std::move(json)}};
}

Json ReportJson(const DrainOptions& options, const DrainReport& report) {
  return {{"from", options.from},
          {"to", options.to},
          {"dry_run", options.dry_run},
          {"complete", report.complete()},
          {"files", report.files},
          {"bytes", report.bytes},
          {"symbolic_links", report.symlinks},
          {"hard_links", report.hard_links},
          {"folders", report.folders},
          {"there_files", report.there_files},
          {"there_bytes", report.there_bytes},
          {"deleted", report.deleted},
          {"checked", options.check},
          {"waiting", ToldJson(report.waiting)},
          {"failed", ToldJson(report.failed)},
          {"damaged", ToldJson(report.damaged)},
          {"left_out", ToldJson(report.left_out)},
          {"links_that_lead_out", ToldJson(report.outward)},
          {"former", report.former},
          {"gone", report.gone},
          {"hard_links_copied", report.links_copied},
          {"attributes_lost", report.attributes_lost},
          {"read_through_cache", report.read_through_cache},
          {"stopped", report.stopped_why},
          {"milliseconds", report.milliseconds}};
}

ExitCode ExitCodeOf(const DrainReport& report) {
  if (report.damaged.count() > 0) return ExitCode::kDamaged;
  if (report.failed.count() > 0 || report.stopped) return ExitCode::kFailed;
  return report.complete() ? ExitCode::kOk : ExitCode::kIncomplete;
}

// --- The command ---

absl::StatusOr<std::string> Folder(const std::string& given, bool may_be_missing) {
  std::error_code error;
  const std::filesystem::path path =
      may_be_missing ? std::filesystem::weakly_canonical(given, error) : std::filesystem::canonical(given, error);
  if (error) return NotFound("{}: {}", given, error.message());
  std::string text = std::filesystem::absolute(path, error).string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

absl::StatusOr<DrainOptions> OptionsOf(const DrainArguments& options) {
  DrainOptions drain;
  CAIRN_ASSIGN_OR_RETURN(drain.from, Folder(options.from, false));
  CAIRN_ASSIGN_OR_RETURN(drain.to, Folder(options.to, true));
  drain.make_target = true;
  drain.settle_ms.reset();
  if (!options.settle.empty()) drain.settle_ms = Milliseconds(options.settle);
  if (options.settle.empty() && options.marker.empty()) drain.settle_ms = kSettleMs;
  drain.marker = options.marker;
  drain.delete_source = options.delete_source;
  drain.check = !options.no_check;
  drain.dry_run = options.dry_run;
  drain.parallel = options.parallel;
  if (!options.bandwidth.empty()) {
    CAIRN_ASSIGN_OR_RETURN(drain.bytes_per_s, ParseRate(options.bandwidth));
  }
  return drain;
}

absl::StatusOr<DrainReport> RunOnce(Disk& disk, const DrainArguments& options, const DrainOptions& drain_options) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Drain> drain, Drain::Open(disk, drain_options));
  const ProgressLine line(drain->progress());
  const std::uint64_t wait_ms = options.dry_run        ? 0
                                : options.wait.empty() ? drain_options.settle_ms.value_or(0) + 1000
                                                       : Milliseconds(options.wait);
  return DrainOnce(*drain, wait_ms, stop_asked);
}

std::string DescribePass(const DrainReport& report) {
  return fmt::format("{} drained {}, {}{}{}{}{}\n", LocalTime(NowMicros()), Count(report.files, "file"),
                     Bytes(report.bytes), report.deleted > 0 ? fmt::format(", deleted {}", report.deleted) : "",
                     report.former > 0 ? fmt::format(", removed {} of FTI's former checkpoints", report.former) : "",
                     report.waiting.count() > 0 ? fmt::format(", waiting {}", report.waiting.count()) : "",
                     report.failed.count() + report.damaged.count() > 0
                         ? fmt::format(", FAILED {}", report.failed.count() + report.damaged.count())
                         : "");
}

// Until a signal. What was brought adds up; what is not done is so as of the last pass.
ExitCode RunWatch(const Context& context, Disk& disk, const DrainOptions& drain_options) {
  DrainWatchOptions watch{.drain = drain_options};
  ExitCode code = ExitCode::kIncomplete;  // nothing was looked at yet
  watch.passed = [&](const DrainReport& report) {
    // A look that the signal has cut short tells of trouble, but not that there is none.
    const bool cut = report.stopped && !report.full;
    if (!cut || report.failed.count() + report.damaged.count() > 0) code = ExitCodeOf(report);
    const bool nothing = report.files + report.symlinks + report.hard_links + report.deleted + report.former == 0;
    if (nothing && report.failed.count() + report.damaged.count() == 0) return;
    Print(context.json ? ReportJson(drain_options, report).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"
                       : DescribePass(report));
    std::fflush(stdout);
    if (context.json) return;
    for (const ToldList* list : {&report.failed, &report.damaged}) {
      for (const Told& told : list->list()) Note(told.path + ": " + told.why);
    }
  };
  watch.trouble = [&](const absl::Status& status) {
    if (status.ok()) return;
    code = FileCodeOf(status);
    Note(MessageOf(status));
  };
  WatchAndDrain(disk, watch, stop_asked);
  return code;
}

ExitCode RunDrain(const Context& context, const DrainArguments& options) {
  const auto drain_options = OptionsOf(options);
  if (!drain_options.ok()) return ComplainOfFile(drain_options.status());
  TakeSignals();
  const auto disk = MakePosixDisk();
  if (options.watch) return RunWatch(context, *disk, *drain_options);
  const auto report = RunOnce(*disk, options, *drain_options);
  if (!report.ok()) return ComplainOfFile(report.status());
  Print(context.json ? Dump(ReportJson(*drain_options, *report)) : Describe(options, *report));
  return ExitCodeOf(*report);
}

std::string CheckMarker(const std::string& marker) {
  const bool bad = marker.find('/') != std::string::npos || marker.find('*', 1) != std::string::npos || marker == "*";
  return bad ? "a name such as DONE, or a star and an ending such as *.done" : "";
}

}  // namespace

void AddDrainCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<DrainArguments>();
  const Command drain = app.AddCommand(
      "drain", "Bring what any program has left in a folder (a burst buffer) to another folder; needs no daemon");
  drain.Footer(
      "Each file arrives whole and verified, or not at all, under the same name. The command copies it to a work\n"
      "name, syncs it, reads it back past the page cache, compares, and renames it. If it is killed at any instant,\n"
      "the same command goes on. The command brings complete files only, and never guesses. A file is complete if\n"
      "it has not changed for --settle, or its --marker is there, or (with --watch) its writer was seen closing it;\n"
      "and nobody on this machine may have it open for writing. Checkpoints of FTI and SCR, and BP5 directories,\n"
      "are complete by their own records: complete sets go first, indexes last. It never follows links.\n"
      "\n"
      "At the target the command replaces only what a drain of this folder has made. It removes one thing there:\n"
      "FTI's former checkpoints, as FTI does itself. A file of these goes if a drain of this folder has brought it,\n"
      "the source no longer has it, and a checkpoint of a higher id, and of the same level or a higher one, is whole\n"
      "and durable at the target. A file stays if it is newer than the file of its rank with the higher id. If two\n"
      "executions of one id are in the target, nothing is removed.\n"
      "\n"
      "Examples:\n"
      "  cairn drain /bb/job7 --to /scratch/me/job7                     what is complete; waits until files settle\n"
      "  cairn drain /bb/job7 --to /scratch/me/job7 --dry-run           only say what would go, and what waits for "
      "what\n"
      "  cairn drain /bb/job7 --to /scratch/me/job7 --watch --delete-source   while the job runs, and make room\n"
      "  cairn drain out --to /archive/out --marker '*.done' --bandwidth '200 MB/s'\n"
      "\n"
      "Exit codes: 0 all that is there has arrived; 1 something failed, or the target is full, or another drain of\n"
      "this folder is at work; 2 the command is wrong; 4 a folder is missing, or has vanished; 5 bytes at the\n"
      "target differ from what was written; 7 something waits, or is no file, folder or link: call the command\n"
      "again later. A signal ends the command after it has committed what is under way (exit code 1; with --watch\n"
      "as of the last pass). A second signal ends it at once.");
  drain.AddOption("DIR", options->from, "The folder to drain").Required();
  drain.AddOption("--to", options->to, "The folder to which files go; the command makes it, but not its parents")
      .Required();
  const Option watch = drain.AddFlag("--watch", options->watch,
                                     "Go on until a signal, and bring files when they are "
                                     "complete");
  drain.AddFlag("--dry-run", options->dry_run, "Change nothing, and say what the command would do").Excludes(watch);
  drain
      .AddOption("--settle", options->settle,
                 "A file is complete if it has not changed for this time (default: 10s; with --marker: never)")
      .Check(CheckDuration);
  drain
      .AddOption("--marker", options->marker,
                 "A file that says what is complete. DONE: all in and below its folder; *.done: the file of that name")
      .Check(CheckMarker)
      .ValueName("NAME");
  drain
      .AddOption("--wait", options->wait,
                 "Wait at most this long for files to settle (default: until those that are there now have; 0: do "
                 "not wait)")
      .Check(CheckDuration)
      .Excludes(watch);
  drain.AddFlag("--delete-source", options->delete_source,
                "Delete each source file that is safe at the target and has not changed since; folders stay");
  drain.AddFlag("--no-check", options->no_check, "Do not read back what was written");
  drain.AddOption("--parallel", options->parallel, "How many files are in flight at a time")
      .Between(1, 64)
      .ShowDefault();
  drain
      .AddOption("--bandwidth", options->bandwidth,
                 "Limit for all files together, for example '500 MB/s' (default: "
                 "no limit)")
      .Check(CheckBy([](const std::string& rate) { return ParseRate(rate); }));
  SetRun(drain, line, options, RunDrain);
}

}  // namespace cairn::cli
