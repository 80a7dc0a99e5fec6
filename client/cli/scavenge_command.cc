// `cairn scavenge`: from a node's cache to the prefix, without a daemon.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "client/cli/arbiters.h"
#include "client/cli/commands.h"
#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/text.h"
#include "daemon/config/command_line.h"
#include "storage/base/lock_file.h"
#include "storage/base/status.h"
#include "storage/base/user_name.h"
#include "storage/io/posix_disk.h"
#include "storage/job/scavenge/scavenge.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/prefix/prefix.h"

namespace cairn::cli {
namespace {

using State = SavedDataset::State;

constexpr std::size_t kIdentityDigitsMin = 4;

struct ScavengeOptions {
  std::string run;    // a directory, an identity or the beginning of one, a name; empty: all runs of the cache
  std::string cache;  // empty: where the daemon's settings say
  std::optional<std::uint64_t> dataset;
  bool all = false;
};

// What became of one run.
struct ScavengedRun {
  CacheFolder::Found run;
  absl::Status status;  // why it was not, or not wholly, looked after
  std::vector<SavedDataset> datasets;
};

absl::StatusOr<std::string> CacheOf(const ScavengeOptions& options) {
  std::string given = options.cache;
  if (given.empty()) {
    ::cairn::CommandLine line;
    line.single_user = true;  // also of root: what only root's own daemon would have
    CAIRN_ASSIGN_OR_RETURN(const Config config, MakeConfig(line, Surroundings::OfThisProcess()));
    given = config.cache.path;
  }
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(given, error);
  if (error) return NotFound("cache {}: {}", given, error.message());
  return path.string();
}

// As the daemon takes it: of two in one cache the later one gives way.
absl::StatusOr<LockFile> LockCache(const std::string& cache) {
  auto lock = LockFile::Take(fmt::format("{}/cairnd.{}.lock", cache, geteuid()));
  if (!absl::IsFailedPrecondition(lock.status())) return lock;
  return FailedPrecondition(
      "{}. A daemon flushes by itself what it has, also when the application is gone: `cairn status` shows its "
      "progress, and `cairn flush RUN` orders a flush now",
      MessageOf(lock.status()));
}

// The runs that RUN names. A directory is the prefix of the run that it says it is, wherever it was mounted before.
absl::StatusOr<std::vector<CacheFolder::Found>> Choose(Disk& disk, std::vector<CacheFolder::Found> found,
                                                       const std::string& given, const std::string& cache) {
  if (given.empty()) return found;
  RunArgument argument = ParseRun(given);
  std::vector<CacheFolder::Found> chosen;
  if (argument.is_directory) {
    CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Prefix> prefix, Prefix::OpenReadOnly(disk, argument.text));
    absl::Status why;
    for (CacheFolder::Found& run : found) {
      if (const absl::Status own = CheckCacheOf(run, argument.text, prefix->identity()); !own.ok()) {
        if (prefix->identity().Includes(run.run.run)) why = own;
        continue;
      }
      run.prefix = argument.text;
      chosen.push_back(std::move(run));
    }
    if (chosen.empty() && !why.ok()) return why;
    if (chosen.empty()) {
      return NotFound("{} has nothing of {}, which is run {}", cache, argument.text, prefix->run().Hex());
    }
    return chosen;
  }
  for (CacheFolder::Found& run : found) {
    const bool identity = given.size() >= kIdentityDigitsMin && run.run.run.Hex().starts_with(given);
    if (identity || run.run_name == given || run.prefix == given) chosen.push_back(std::move(run));
  }
  if (chosen.empty()) return NotFound("{} has nothing of a run {}", cache, given);
  if (chosen.size() > 1) {
    return InvalidArgument("{} names {} runs in {}: give the prefix or the identity", given, chosen.size(), cache);
  }
  return chosen;
}

// A prefix is never made anew for this: what lives there must be this run.
absl::StatusOr<std::vector<SavedDataset>> SaveRun(Disk& disk, const CacheFolder::Found& run,
                                                  const ScavengeRequest& request) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Prefix> seen, Prefix::OpenReadOnly(disk, run.prefix));
  CAIRN_RETURN_IF_ERROR(CheckCacheOf(run, run.prefix, seen->identity()));
  CAIRN_ASSIGN_OR_RETURN(const auto arbiters, ConfiguredArbiters());
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Prefix> prefix,
                         Prefix::Open(disk, run.prefix, {.arbiters = arbiters.get()}));
  auto saved = ScavengeRun(disk, disk, run, *prefix, request);
  for (const std::string& warning : prefix->TakeWarnings()) request.note(warning);
  return saved;
}

// --- What is said of it ---

const char* NameOf(State state) {
  switch (state) {
    case State::kSaved:
      return "saved";
    case State::kThere:
      return "there";
    case State::kIncomplete:
      return "incomplete";
    case State::kHeldBack:
      return "held_back";
    case State::kTooLate:
      return "too_late";
    case State::kFenced:
      return "fenced";
  }
  return "?";
}

std::string Ranks(const std::vector<Rank>& ranks) {
  std::string text;
  for (std::size_t at = 0; at < ranks.size();) {
    std::size_t end = at + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ranks[at]);
    if (end > at + 1) text += fmt::format("-{}", ranks[end - 1]);
    at = end;
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + text;
}

std::string DescribeMissing(const SavedDataset& dataset) {
  std::map<std::string, std::vector<Rank>> reasons;
  for (const MissingRank& missing : dataset.missing) reasons[missing.why].push_back(missing.rank);
  std::string text;
  for (const auto& [why, ranks] : reasons) text += fmt::format("    {}: {}\n", Ranks(ranks), Clean(why));
  if (!dataset.saved.empty()) {
    text += fmt::format(
        "    {} of this node, {}, are on the prefix: a scavenge on the other nodes completes the "
        "dataset\n",
        Ranks(dataset.saved), Bytes(dataset.bytes));
  }
  return text;
}

std::string Describe(const SavedDataset& dataset) {
  const char* const kind = dataset.output ? "output" : dataset.checkpoint ? "checkpoint" : "dataset";
  const std::string what = fmt::format("  dataset {} ({}, step {}): ", dataset.id, kind, dataset.step);
  switch (dataset.state) {
    case State::kSaved:
      return what + fmt::format("saved: {} {} on the prefix, {} from here, every byte verified\n",
                                Count(dataset.ranks, "rank"), dataset.ranks == 1 ? "is" : "are", Bytes(dataset.bytes));
    case State::kThere:
      return what + "is on the prefix already\n";
    case State::kIncomplete:
      return what + fmt::format("INCOMPLETE: {} of {} ranks are missing\n", dataset.missing.size(), dataset.ranks) +
             DescribeMissing(dataset);
    case State::kHeldBack:
      return what + fmt::format("copied, but not committed: {}; --dataset {} commits it all the same\n",
                                Clean(dataset.why), dataset.id);
    case State::kTooLate:
      return what + fmt::format("not saved: {}\n", Clean(dataset.why));
    case State::kFenced:
      return what + fmt::format(
                        "is on the prefix, but a newer launch had begun: it can be restored by its number "
                        "only ({})\n",
                        Clean(dataset.why));
  }
  return what;
}

std::string Describe(const ScavengedRun& outcome) {
  std::string text = fmt::format("{} (run {})\n", Clean(outcome.run.prefix), outcome.run.run.run.ShortHex());
  for (const SavedDataset& dataset : outcome.datasets) text += Describe(dataset);
  if (!outcome.status.ok()) return text + fmt::format("  FAILED: {}\n", Clean(MessageOf(outcome.status)));
  if (outcome.datasets.empty())
    text += "  nothing to save: what a restart needs is on the prefix, or not in this cache\n";
  return text;
}

Json SavedJson(const SavedDataset& dataset) {
  Json missing = Json::array();
  for (const MissingRank& rank : dataset.missing) {
    missing.push_back({{"rank", rank.rank}, {"why", Clean(rank.why)}, {"damaged", rank.damaged}});
  }
  return {{"dataset", dataset.id},        {"step", dataset.step},   {"checkpoint", dataset.checkpoint},
          {"output", dataset.output},     {"ranks", dataset.ranks}, {"state", NameOf(dataset.state)},
          {"saved_ranks", dataset.saved}, {"bytes", dataset.bytes}, {"missing", std::move(missing)},
          {"why", Clean(dataset.why)}};
}

Json RunJson(const ScavengedRun& outcome) {
  Json datasets = Json::array();
  for (const SavedDataset& dataset : outcome.datasets) datasets.push_back(SavedJson(dataset));
  return {{"run", outcome.run.run.run.Hex()},
          {"prefix", Clean(outcome.run.prefix)},
          {"error", Clean(MessageOf(outcome.status))},
          {"datasets", std::move(datasets)}};
}

ExitCode ExitCodeOf(const ScavengedRun& outcome) {
  ExitCode code = FileCodeOf(outcome.status);
  for (const SavedDataset& dataset : outcome.datasets) {
    const bool damaged = std::any_of(dataset.missing.begin(), dataset.missing.end(),
                                     [](const MissingRank& rank) { return rank.damaged; });
    if (damaged) code = Worse(code, ExitCode::kDamaged);
    if (dataset.state == State::kIncomplete || dataset.state == State::kHeldBack) {
      code = Worse(code, ExitCode::kIncomplete);
    }
  }
  return code;
}

absl::StatusOr<std::vector<ScavengedRun>> Scavenge(const ScavengeOptions& options, const ScavengeRequest& request) {
  const auto disk = MakePosixDisk();
  CAIRN_ASSIGN_OR_RETURN(const std::string cache, CacheOf(options));
  CAIRN_ASSIGN_OR_RETURN(const LockFile lock, LockCache(cache));
  CAIRN_ASSIGN_OR_RETURN(std::vector<CacheFolder::Found> found, CacheFolder::Find(*disk, cache, UserName()));
  CAIRN_ASSIGN_OR_RETURN(found, Choose(*disk, std::move(found), options.run, cache));
  if (request.dataset && found.size() > 1) {
    return InvalidArgument("dataset {} of which run? {} has {}", *request.dataset, cache, found.size());
  }
  std::vector<ScavengedRun> outcomes;
  for (CacheFolder::Found& run : found) {
    ScavengedRun outcome;
    auto saved = SaveRun(*disk, run, request);
    outcome.run = std::move(run);
    outcome.status = saved.status();
    if (saved.ok()) outcome.datasets = *std::move(saved);
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

// kIncomplete: a dataset's ranks are missing; kDamaged: also since a file is damaged.
ExitCode RunScavenge(const Context& context, const ScavengeOptions& options) {
  std::vector<std::string> notes;
  const ScavengeRequest request{.dataset = options.dataset, .all = options.all, .note = [&](const std::string& text) {
                                  notes.push_back(Clean(text));
                                  if (!context.json) Note(text);
                                }};
  const auto outcomes = Scavenge(options, request);
  if (!outcomes.ok()) return ComplainOfFile(outcomes.status());
  ExitCode code = ExitCode::kOk;
  std::string text = outcomes->empty() ? "this cache has no run of yours\n" : "";
  Json runs = Json::array();
  for (const ScavengedRun& outcome : *outcomes) {
    code = Worse(code, ExitCodeOf(outcome));
    text += Describe(outcome);
    runs.push_back(RunJson(outcome));
  }
  Print(context.json ? Dump({{"runs", std::move(runs)}, {"notes", notes}}) : text);
  return code;
}

}  // namespace

void AddScavengeCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<ScavengeOptions>();
  const Command scavenge = app.AddCommand(
      "scavenge",
      "Save what this node's cache holds to the prefix, when application and daemon are gone; needs no daemon");
  scavenge.Footer(
      "The command saves outputs, the oldest first, and then the newest checkpoint that is whole. It copies to the\n"
      "prefix what this node has of them. When all ranks of a dataset are there, perhaps by scavenges on other\n"
      "nodes, it commits the dataset; before that it lists the missing ranks. Calling it again does no harm. Call\n"
      "it before the daemon starts again: a daemon that starts removes what was never completed.\n"
      "\n"
      "Examples:\n"
      "  cairn scavenge                                          all runs of yours in this node's cache\n"
      "  cairn scavenge /scratch/me/heat --cache /mnt/ssd        one run, from a cache that is named\n"
      "  cairn scavenge /scratch/me/heat --dataset 17            one dataset, whatever is newer\n"
      "\n"
      "Exit codes: 0 all is saved; 1 refused or failed (a daemon has the cache); 2 the command is wrong; 4 no such\n"
      "cache, run or dataset; 5 bytes are damaged; 7 ranks are missing: scavenge on the other nodes, too.");
  scavenge.AddOption("RUN", options->run, "Prefix, identity or name of the run (default: all runs in the cache)");
  scavenge.AddOption("--cache", options->cache, "The cache directory (default: the daemon's)");
  const Option dataset = scavenge.AddOption("--dataset", options->dataset, "Only this dataset");
  scavenge.AddFlag("--all", options->all, "Every dataset, not only what a restart needs").Excludes(dataset);
  SetRun(scavenge, line, options, RunScavenge);
}

}  // namespace cairn::cli
