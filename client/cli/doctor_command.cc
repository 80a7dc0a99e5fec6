#include "client/cli/doctor_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "client/cli/json.h"
#include "client/cli/probes.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"

namespace cairn::cli {
namespace {

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// `cache`: set to the daemon's, if it says so and none was given.
Finding AskDaemon(const Context& context, std::string* cache) {
  const auto daemon = context.Daemon();
  const auto status = daemon.ok() ? (*daemon)->Status() : absl::StatusOr<admin::StatusReply>(daemon.status());
  if (!status.ok()) {
    return {.name = "daemon", .works = false, .needed = false, .detail = std::string(MessageOf(status.status()))};
  }
  if (cache->empty()) *cache = status->cache();
  return {.name = "daemon",
          .works = true,
          .needed = false,
          .detail = fmt::format("{}, process {}, at {}", status->version(), status->pid(), (*daemon)->socket())};
}

std::vector<Finding> Examine(const Context& context, const DoctorOptions& options) {
  std::string cache = options.cache;
  std::vector<Finding> findings = {AskDaemon(context, &cache)};
  if (cache.empty()) cache = Variable("CAIRN_CACHE");
  if (cache.empty()) cache = fmt::format("/var/tmp/cairn-{}/cache", geteuid());
  const std::string prefix = options.prefix.empty() ? Variable("CAIRN_PREFIX") : options.prefix;

  const auto disk = MakePosixDisk();
  findings.push_back(ProbePeerCredentials());
  findings.push_back(ProbeSealedMemory());
  findings.push_back(ProbeHugePages());
  findings.push_back(ProbeMd5());
  findings.push_back(ProbeUring());
  findings.push_back(ProbeLockedMemory());
  findings.push_back(ProbeWritable(*disk, "cache", cache));
  findings.push_back(ProbeDirectIo(*disk, cache));
  findings.push_back(ProbePersistence(cache));
  if (!prefix.empty()) findings.push_back(ProbeWritable(*disk, "prefix", prefix));
  return findings;
}

}  // namespace

ExitCode RunDoctor(const Context& context, const DoctorOptions& options) {
  bool healthy = true;
  Json rows = Json::array();
  std::string text;
  for (const Finding& finding : Examine(context, options)) {
    healthy = healthy && (finding.works || !finding.needed);
    rows.push_back(
        {{"name", finding.name}, {"works", finding.works}, {"needed", finding.needed}, {"detail", finding.detail}});
    const char* const verdict = finding.works ? "works" : finding.needed ? "MISSING" : "no";
    text += fmt::format("{:<7}  {}: {}\n", verdict, finding.name, Clean(finding.detail));
  }
  text += healthy ? "Cairn can work here.\n" : "Cairn cannot work here before what is MISSING is mended.\n";
  Print(context.json ? Dump({{"healthy", healthy}, {"findings", std::move(rows)}}) : text);
  return healthy ? ExitCode::kOk : ExitCode::kFailed;
}

}  // namespace cairn::cli
