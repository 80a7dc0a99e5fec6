// `cairn doctor`: which of the mechanisms that Cairn uses work on this machine, and what happens where one does not.
#include <fmt/format.h>
#include <unistd.h>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/arbiters.h"
#include "client/cli/commands.h"
#include "client/cli/json.h"
#include "client/cli/mechanisms.h"
#include "client/cli/probes.h"
#include "client/cli/text.h"
#include "daemon/config/command_line.h"
#include "proto/admin.pb.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"

namespace cairn::cli {
namespace {

struct DoctorOptions {
  std::string cache;   // empty: the daemon's, else $CAIRN_CACHE, else /var/tmp/cairn-<uid>/cache
  std::string prefix;  // empty: $CAIRN_PREFIX, else none is tried
};

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// `told`: what it says of itself, if there is one.
Finding AskDaemon(const Context& context, std::optional<admin::StatusReply>* told) {
  const auto daemon = context.Daemon();
  const auto status = daemon.ok() ? (*daemon)->StatusOfThisNode() : absl::StatusOr<admin::StatusReply>(daemon.status());
  if (!status.ok()) {
    return {.name = "daemon", .works = false, .needed = false, .detail = std::string(MessageOf(status.status()))};
  }
  *told = *status;
  return {.name = "daemon",
          .works = true,
          .needed = false,
          .detail = fmt::format("{}, process {}, at {}", status->version(), status->pid(), (*daemon)->socket())};
}

// Of the daemon's settings; the prefix itself needs no asking.
void AskArbiter(std::vector<Finding>& findings) {
  Finding finding{.name = "arbiter", .works = false, .needed = true, .detail = {}};
  const auto arbiters = ConfiguredArbiters();
  if (arbiters.ok() && (*arbiters)->kind() == ArbiterKind::kPrefix) return;
  const absl::Status reached = arbiters.ok() ? (*arbiters)->Reach() : arbiters.status();
  finding.works = reached.ok();
  finding.detail = reached.ok() ? fmt::format("{} answers at {}", NameOf((*arbiters)->kind()), (*arbiters)->where())
                                : std::string(MessageOf(reached));
  findings.push_back(std::move(finding));
}

// Of the daemon's settings, too.
void AskRedundant(Disk& disk, const std::string& cache, std::vector<Finding>& findings) {
  const auto config = MakeConfig({}, Surroundings::OfThisProcess());
  if (!config.ok() || config->redundant.path.empty()) return;  // what is wrong with them the arbiter's finding says
  findings.push_back(ProbeRedundant(disk, config->redundant.path, cache, config->redundant.apart));
}

// Of the daemon's settings; what is wrong with them the arbiter's finding says.
Config::Cache CacheSettings() {
  const auto config = MakeConfig({}, Surroundings::OfThisProcess());
  return config.ok() ? config->cache : Config::Cache();
}

std::vector<Finding> Examine(const Context& context, const DoctorOptions& options) {
  std::optional<admin::StatusReply> told;
  std::vector<Finding> findings = {AskDaemon(context, &told)};
  std::string cache = options.cache.empty() && told ? told->cache() : options.cache;
  if (cache.empty()) cache = Variable("CAIRN_CACHE");
  if (cache.empty()) cache = fmt::format("/var/tmp/cairn-{}/cache", geteuid());
  const std::string prefix = options.prefix.empty() ? Variable("CAIRN_PREFIX") : options.prefix;

  const bool of_daemon = told && told->cache() == cache;  // what it says of its cache is said of this one
  const std::optional<admin::Mechanisms> used =
      told && told->has_mechanisms() ? std::optional(told->mechanisms()) : std::nullopt;
  const auto add = [&](Finding finding, const std::function<std::string()>& daemon) {
    if (used) finding.daemon = daemon();
    findings.push_back(std::move(finding));
  };

  const auto disk = MakePosixDisk();
  findings.push_back(ProbePeerCredentials());
  findings.push_back(ProbeSealedMemory());
  add(ProbeHugePages(), [&] { return TellHugePages(*used); });
  findings.push_back(ProbeTouching());
  findings.push_back(ProbeCopy());
  findings.push_back(ProbeMd5());
  add(ProbeUring(used && LacksUring(*used)), [&] { return TellEngines(*used); });
  add(ProbePinnedMemory(), [&] { return TellPinning(*used); });
  findings.push_back(ProbeWritable(*disk, "cache", cache));
  add(ProbeDirectIo(*disk, "direct I/O in the cache", cache),
      [&] { return of_daemon ? TellDirectIo(used->cache(), "its cache") : std::string(); });
  add(ProbeHanding(*disk, cache), [&] { return of_daemon ? TellHanding(used->cache()) : std::string(); });
  findings.push_back(ProbeReserved(*disk, cache));
  findings.push_back(ProbeShared(*disk, cache));
  add(ProbePriorities(*disk, "I/O priorities in the cache", cache, /*measured=*/true),
      [&] { return TellBackground(*used); });
  findings.push_back(of_daemon && told->has_transfers() ? TellTransfers(told->transfers())
                                                        : FindTransfers(*disk, cache, CacheSettings()));
  findings.push_back(ProbePersistence(cache));
  if (!prefix.empty()) {
    findings.push_back(ProbePrefix(*disk, prefix));
    add(ProbeDirectIo(*disk, "direct I/O on the prefix", prefix),
        [&] { return TellDirectIo(used->prefix(), "all its prefixes"); });
    findings.push_back(ProbePriorities(*disk, "I/O priorities on the prefix", prefix, /*measured=*/false));
    findings.push_back(ProbeInodes(*disk, prefix));
  }
  AskArbiter(findings);
  AskRedundant(*disk, cache, findings);
  return findings;
}

// kFailed: something is missing that Cairn cannot do without. That no daemon runs is told, but is no failure.
ExitCode RunDoctor(const Context& context, const DoctorOptions& options) {
  bool healthy = true;
  Json rows = Json::array();
  std::string text;
  for (const Finding& finding : Examine(context, options)) {
    healthy = healthy && (finding.works || !finding.needed);
    Json row = {
        {"name", finding.name}, {"works", finding.works}, {"needed", finding.needed}, {"detail", finding.detail}};
    if (!finding.known) row["works"] = nullptr;
    if (!finding.daemon.empty()) row["daemon"] = finding.daemon;
    if (!finding.creation.empty()) row["exclusive_creation"] = finding.creation;
    if (!finding.file_system.empty()) {
      row["file_system"] = finding.file_system;
      row["copies_told_by"] = finding.told_by;
    }
    rows.push_back(std::move(row));
    const char* const verdict = finding.works ? "works" : finding.needed ? "MISSING" : finding.known ? "no" : "unknown";
    text += fmt::format("{:<7}  {}: {}{}\n", verdict, finding.name, Clean(finding.detail),
                        finding.daemon.empty() ? std::string() : "; " + finding.daemon);
  }
  text += healthy ? "Cairn can work here.\n" : "Cairn cannot work here: first mend what is MISSING.\n";
  Print(context.json ? Dump({{"healthy", healthy}, {"findings", std::move(rows)}}) : text);
  return healthy ? ExitCode::kOk : ExitCode::kFailed;
}

}  // namespace

void AddDoctorCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<DoctorOptions>();
  const Command doctor = app.AddCommand("doctor",
                                        "Test which mechanisms work on this machine, and say what happens "
                                        "without them");
  doctor.AddOption("--cache", options->cache, "The cache directory to try (default: the daemon's)");
  doctor.AddOption("--prefix", options->prefix, "The prefix to try (default: $CAIRN_PREFIX)");
  doctor.Footer(FileSystemTable());
  doctor.OnParsed([&line, options] { line.run = [&line, options] { return RunDoctor(line.context, *options); }; });
}

}  // namespace cairn::cli
