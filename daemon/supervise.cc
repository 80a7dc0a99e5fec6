#include "daemon/supervise.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <utility>

#include "daemon/config/command_line.h"
#include "daemon/config/ingest_address.h"
#include "daemon/config/shares.h"
#include "daemon/data/image_label.h"
#include "daemon/door/frame_parser.h"
#include "daemon/door/handshake.h"
#include "daemon/process/machine.h"
#include "daemon/process/memory_limit.h"
#include "daemon/service_deposits.h"
#include "daemon/supervisor/deposits.h"
#include "daemon/supervisor/folders.h"
#include "daemon/supervisor/project_quota.h"
#include "daemon/supervisor/supervisor.h"
#include "storage/base/lock_file.h"
#include "storage/base/status.h"
#include "storage/base/version.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kPatience(2);      // a daemon that was just killed may not be quite gone
constexpr milliseconds kWorkerStopGrace(15'000);  // beyond quiesce: a worker cuts itself short a little earlier

void Log(Tone tone, std::string_view text) {
  spdlog::log(tone == Tone::kInfo      ? spdlog::level::info
              : tone == Tone::kWarning ? spdlog::level::warn
                                       : spdlog::level::err,
              "{}", text);
}

// Half of the time that the service manager gives (sd_watchdog_enabled(3)).
std::optional<milliseconds> WatchdogOf(const Surroundings& surroundings) {
  const auto number = [&](const char* name) {
    const std::string text = surroundings.variable(name).value_or("");
    return std::strtoull(text.c_str(), nullptr, 10);
  };
  if (number("WATCHDOG_USEC") < 2000 || (number("WATCHDOG_PID") != 0 && number("WATCHDOG_PID") != ::getpid() + 0ull)) {
    return std::nullopt;
  }
  return milliseconds(number("WATCHDOG_USEC") / 2000);
}

void SetLimits(const Config::Supervision& settings, Supervisor::Options* options) {
  options->limits = {.memory_bytes = MemoryOfThisProcess() / 100 * settings.memory_percent,
                     .cpu_weight = settings.cpu_weight,
                     .io_weight = settings.io_weight,
                     .tasks_max = settings.tasks_max};
  const bool limited = settings.memory_percent != 0 || settings.cpu_weight != 100 || settings.io_weight != 100 ||
                       settings.tasks_max != 0;
  if (!limited || settings.cgroup == "off") return;
  std::stringstream own;
  own << std::ifstream("/proc/self/cgroup").rdbuf();
  const std::string parent = settings.cgroup == "auto" ? "" : settings.cgroup;
  absl::StatusOr<WorkerGroups> groups =
      WorkerGroups::Open("/sys/fs/cgroup", own.str(), parent, ::getpid(), settings.io_weight != 100);
  if (groups.ok()) {
    options->groups = *std::move(groups);
    spdlog::info("workers are limited by control groups: {}", options->groups.Describe());
    if (settings.io_weight != 100 && !options->groups.weighs_io()) {
      spdlog::warn("supervisor.io_weight has no effect: the control groups have no controller for disks, or refuse it");
    }
  } else {
    spdlog::warn("workers are not limited by control groups: {}", MessageOf(groups.status()));
  }
}

// How much it is, is asked for in the process that becomes the worker: the file system may let it wait.
// By the settings that the worker is about to read.
void SetQuota(const CommandLine& line, const Config& config, Supervisor::Options* options) {
  if (config.supervisor.projects == 0) return;
  const auto bytes = [line, path = config.cache.path](const std::string& user) -> absl::StatusOr<std::uint64_t> {
    CAIRN_ASSIGN_OR_RETURN(const Config now, MakeConfig(line, Surroundings::OfThisProcess()));
    CAIRN_ASSIGN_OR_RETURN(const Machine machine, MachineOf(path));
    return QuotaOf(now, user, machine);
  };
  options->quota = ProjectQuota(config.supervisor.projects, bytes);
}

// Each worker has a port and keys of its own: one of another user's could answer at any port, but not with its keys.
absl::Status CheckIngest(const Config::Ingest& ingest) {
  if (ingest.listen.empty()) return absl::OkStatus();
  if (!ingest.announce.empty() && ingest.announce != "~") {
    return InvalidArgument("ingest.announce {}: one folder cannot be all users': only \"~\" can be", ingest.announce);
  }
  CAIRN_ASSIGN_OR_RETURN(const IngestAddress address, ParseIngestAddress(ingest.listen));
  if (!address.is_range()) {
    return InvalidArgument(
        "ingest.listen: one port cannot serve all users: name a range of ports, host:first-last, or start a daemon for "
        "one user (--single-user)");
  }
  if (!ingest.tls_ca.empty()) {
    return InvalidArgument(
        "ingest.tls_ca, tls_cert, tls_key: who has the one key could be taken for any user's daemon; leave them empty: "
        "each user's worker makes keys of its own");
  }
  if (ingest.insecure_loopback) {
    return InvalidArgument("ingest.insecure_loopback: would let every user of the node in; each worker has keys");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> Supervise(const CommandLine& line, const Config& config, const Supervision& with) {
  CAIRN_RETURN_IF_ERROR(CheckIngest(config.ingest));
  const Surroundings surroundings = Surroundings::OfThisProcess();
  CAIRN_RETURN_IF_ERROR(OpenSharedFolder(config.runtime_dir, 0755).status());
  CAIRN_ASSIGN_OR_RETURN(const LockFile lock, LockFile::Take(config.runtime_dir + "/cairnd.lock", kPatience));
  CAIRN_RETURN_IF_ERROR(with.set_up_log());
  Supervisor::Options options;
  options.arguments = FlagsForWorkers(line, surroundings);
  options.runtime_dir = config.runtime_dir;
  options.cache_dir = config.cache.path;
  options.uid_min = config.supervisor.uid_min;
  options.workers_max = config.supervisor.workers_max;
  options.idle = milliseconds(config.supervisor.idle_ms);
  options.stop = milliseconds(config.quiesce_ms) + kWorkerStopGrace;
  options.refusal = EncodeFrame(ErrorReply(
      0, local::UNAVAILABLE, "the daemon of all users has no worker for this user now: its log, and root, know why"));
  options.log = Log;
  options.notify = with.notify;
  if (HeldByService(surroundings.variable("FDSTORE")) > 0) options.notify_holder = with.notify_holder;
  const std::uint64_t images = config.image.bytes_max != 0 ? config.image.bytes_max : MemoryOfThisProcess() / 4;
  options.deposits_max.bytes = images + options.deposits_max.count / 2 * kLabelBytes;
  options.deposits = TakeGivenDeposits();
  options.watchdog = WatchdogOf(surroundings);
  SetLimits(config.supervisor, &options);
  SetQuota(line, config, &options);
  CAIRN_ASSIGN_OR_RETURN(options.listeners, TakeGivenListeners());
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Supervisor> supervisor, Supervisor::Open(std::move(options)));
  spdlog::info("{} ready for all users: sockets in {}, caches in {}", kVersion, config.runtime_dir, config.cache.path);
  const bool in_order = supervisor->Run();
  spdlog::info("stopped");
  return in_order;
}

}  // namespace cairn
