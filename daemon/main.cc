// cairnd: reads its settings, starts the server, waits for signals. Exit codes: see --help.
#include <absl/synchronization/mutex.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "daemon/config/command_line.h"
#include "daemon/config/shares.h"
#include "daemon/config/units.h"
#include "daemon/drain/watch_folders.h"
#include "daemon/process/background.h"
#include "daemon/process/job_step.h"
#include "daemon/process/machine.h"
#include "daemon/process/service_notify.h"
#include "daemon/server.h"
#include "daemon/service_deposits.h"
#include "daemon/supervise.h"
#include "daemon/worker_link.h"
#include "storage/base/caught.h"
#include "storage/base/check.h"
#include "storage/base/lock_file.h"
#include "storage/base/status.h"
#include "storage/base/user_name.h"
#include "storage/base/version.h"
#include "storage/file/transfer/throttle.h"

namespace cairn {
namespace {

enum ExitCode { kStopped = 0, kCannotStart = 1, kBadSettings = 2, kHeld = 3, kCutShort = 4 };

constexpr int kReadyWaitMs = 300'000;          // --background: so long may reading the cache take
constexpr std::uint64_t kDrainsEndMs = 5'000;  // drains that do not end in this time are left behind
constexpr int kQuiesceGraceMs = 10'000;        // beyond quiesce_ms, before a stop that hangs is cut short

// So often as users make it: the log is no place that they may fill.
bool NotifyHolder(std::string_view state, int fd) {
  return NotifyService(Surroundings::OfThisProcess().variable("NOTIFY_SOCKET"), state, fd).ok();
}

void Notify(std::string_view state) {
  const absl::Status status = NotifyService(Surroundings::OfThisProcess().variable("NOTIFY_SOCKET"), state);
  if (!status.ok()) spdlog::warn("{}", MessageOf(status));
}

void WarnOf(const Config& config) {
  for (const std::string& warning : config.warnings) spdlog::warn("settings: {}", warning);
}

absl::Status SetUpLog(const Config& config) {
  try {
    std::shared_ptr<spdlog::logger> logger;
    if (config.log_file.empty()) {
      logger = std::make_shared<spdlog::logger>("cairnd", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    } else {
      logger = std::make_shared<spdlog::logger>("cairnd",
                                                std::make_shared<spdlog::sinks::basic_file_sink_mt>(config.log_file));
    }
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z cairnd[%P] %l %v");
    logger->flush_on(spdlog::level::trace);
    spdlog::set_default_logger(std::move(logger));
  } catch (const spdlog::spdlog_ex& error) {
    return InvalidArgument("log_file: {}", error.what());
  }
  spdlog::set_level(spdlog::level::from_str(config.log_level));
  WarnOf(config);
  return absl::OkStatus();
}

// Signals come as reads. Set up before the first thread, which all inherit the mask.
UniqueFd TakeSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  UniqueFd fd(::signalfd(-1, &signals, SFD_CLOEXEC));
  CAIRN_CHECK(fd.valid());
  return fd;
}

// The next signal; 0 if there is none and `event` (-1: none) is readable, -1 after `timeout_ms` (-1: never).
int NextSignal(int signals, int event, int timeout_ms) {
  for (;;) {
    pollfd polls[] = {{.fd = signals, .events = POLLIN, .revents = 0}, {.fd = event, .events = POLLIN, .revents = 0}};
    const int ready = ::poll(polls, 2, timeout_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return -1;
    if (polls[0].revents == 0) return 0;
    signalfd_siginfo info{};
    if (::read(signals, &info, sizeof info) == sizeof info) return static_cast<int>(info.ssi_signo);
  }
}

// A worker has its user's shares of the machine.
absl::StatusOr<Config> SettingsOf(const CommandLine& line) {
  CAIRN_ASSIGN_OR_RETURN(Config config, MakeConfig(line, Surroundings::OfThisProcess()));
  if (!line.worker) return config;
  CAIRN_ASSIGN_OR_RETURN(const Machine machine, MachineOf(config.cache.path));
  return WithShares(std::move(config), UserName(), machine);
}

// `cache_bytes`: that this life has begun with. The kernel's limit, if there is one, is of then.
void Reload(Server& server, WatchFolders& drains, const CommandLine& line, std::uint64_t cache_bytes) {
  absl::StatusOr<Config> config = SettingsOf(line);
  const auto folders = MakeDrains(line, Surroundings::OfThisProcess());
  if (!config.ok() || !folders.ok()) {
    spdlog::error("settings not reloaded, the old ones stay: {}",
                  MessageOf(config.ok() ? folders.status() : config.status()));
    return;
  }
  spdlog::set_level(spdlog::level::from_str(config->log_level));
  WarnOf(*config);
  if (line.worker && config->supervisor.projects != 0) {
    config->cache.bytes_max = std::min(config->cache.bytes_max, cache_bytes);
  }
  server.Reload(*config);
  drains.Set(*folders);
  spdlog::info("settings reloaded");
}

// Brings captured datasets to `local`. A second signal, or a stop that takes too long or brings not all of them there,
// ends the process here. `of_worker`: SIGTERM may come twice, from the service manager and from the supervisor, which
// has SIGKILL for one that is to end at once.
void Quiesce(Server& server, int signals, std::uint64_t quiesce_ms, bool of_worker) {
  Notify("STOPPING=1");
  const UniqueFd done(::eventfd(0, EFD_CLOEXEC));
  CAIRN_CHECK(done.valid());
  bool all_local = false;
  std::thread worker([&] {
    const absl::Status quiesced = Caught([&] { all_local = server.Quiesce(); });
    if (!quiesced.ok()) spdlog::error("stopping: {}", MessageOf(quiesced));
    ::eventfd_write(done.get(), 1);
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(quiesce_ms + kQuiesceGraceMs);
  int signal = SIGHUP;
  while (signal == SIGHUP || (of_worker && signal == SIGTERM)) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    signal = NextSignal(signals, done.get(), static_cast<int>(std::max<std::int64_t>(0, left)));
  }
  if (signal != 0) {
    spdlog::error("{}: ending at once, what was captured may not be in the cache",
                  signal > 0 ? "second signal" : "stopping takes too long");
    std::_Exit(kCutShort);
  }
  worker.join();
  if (!all_local) std::_Exit(kCutShort);
  // Everything promised is kept. What is left knows what it may not wait for; this is for what nobody has thought of.
  std::thread([] {
    ::poll(nullptr, 0, kQuiesceGraceMs);
    std::_Exit(kStopped);
  }).detach();
}

// Every client costs descriptors: its connection and its image. A refusal leaves the limit that the daemon came with.
void RaiseFileLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void WarnOfJobStep() {
  std::ifstream file("/proc/self/cgroup");
  std::stringstream cgroup;
  cgroup << file.rdbuf();
  const std::string step = JobStepOf(Surroundings::OfThisProcess(), cgroup.str());
  if (step.empty()) return;
  spdlog::warn(
      "started inside {}, which ends this daemon with it: what is not on the prefix by then waits for the next "
      "daemon on this node; start it from the prolog or as a service to let it outlive the job",
      step);
}

int GiveUp(std::optional<Background>& background, int exit_code, std::string_view why) {
  const std::string text = fmt::format("cairnd: {}", why);
  if (background) {
    background->Failed(exit_code, text);
  } else {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
  return exit_code;
}

void TellReady(std::optional<Background>& background, const std::string& socket, const std::string& log_file) {
  if (background) background->Ready(fmt::format("{} {}", ::getpid(), socket), log_file);
  background.reset();
}

// `supervisor`: of a worker; null: this is no worker.
int Serve(const CommandLine& line, const Config& config, const UniqueFd& signals, std::optional<Background> background,
          std::unique_ptr<WorkerLink> supervisor) {
  const auto give_up = [&](int code, std::string_view why) { return GiveUp(background, code, why); };
  const absl::StatusOr<std::vector<LockFile>> locks = TakeLocks(config);
  const absl::StatusOr<std::vector<DrainFolder>> folders = MakeDrains(line, Surroundings::OfThisProcess());
  if (!folders.ok()) return give_up(kBadSettings, MessageOf(folders.status()));
  if (!locks.ok()) {
    return give_up(absl::IsFailedPrecondition(locks.status()) ? kHeld : kCannotStart, MessageOf(locks.status()));
  }
  if (const absl::Status status = SetUpLog(config); !status.ok()) return give_up(kBadSettings, MessageOf(status));
  WarnOfJobStep();
  RaiseFileLimit();
  const Surroundings surroundings = Surroundings::OfThisProcess();
  const std::shared_ptr<Deposits> deposits =
      supervisor ? supervisor->deposits()
                 : DepositsWithService(surroundings.variable("NOTIFY_SOCKET"), surroundings.variable("FDSTORE"));
  // The server borrows it; the drains begin when that is ready. All copies in the background have one budget.
  WatchFolders drains(std::make_shared<BackgroundBudget>(config.background.beside_captures));
  const absl::StatusOr<std::unique_ptr<Server>> started =
      Server::Start(config, supervisor ? Server::Clients::kAdmitted : Server::Clients::kListenedFor, deposits, drains);
  if (!started.ok()) return give_up(kCannotStart, MessageOf(started.status()));
  Server& server = **started;
  spdlog::info("{} ready: socket {}, cache {}", kVersion, server.socket_path(), config.cache.path);
  if (supervisor) {
    spdlog::info("for this user: {} of the cache's file system, of which {} stay free, {} of memory for images",
                 FormatSize(config.cache.bytes_max), FormatSize(config.cache.reserve),
                 FormatSize(config.image.bytes_max));
  }
  Notify("READY=1");
  TellReady(background, server.socket_path(), config.log_file);
  if (supervisor) supervisor->Serve(server, !config.peers.interface.empty());
  drains.Set(*folders);
  for (int signal = SIGHUP; signal == SIGHUP;) {
    signal = NextSignal(signals.get(), supervisor ? supervisor->gone() : -1, -1);
    if (signal == SIGHUP) Reload(server, drains, line, config.cache.bytes_max);
    if (signal == 0) spdlog::warn("the supervisor has gone");
  }
  if (supervisor) supervisor->End();
  drains.Stop();
  spdlog::info("stopping: bringing what was captured to the cache");
  Quiesce(server, signals.get(), config.quiesce_ms, supervisor != nullptr);
  if (const absl::Status stopped = server.Stop(); !stopped.ok()) {
    spdlog::warn("stopped, without waiting for file systems that hang: {}; the next daemon goes on",
                 MessageOf(stopped));
    std::_Exit(kStopped);
  }
  if (!drains.WaitForEnd(kDrainsEndMs)) std::_Exit(kStopped);
  spdlog::info("stopped");
  return kStopped;
}

int ServeAllUsers(const CommandLine& line, const Config& config, std::optional<Background> background) {
  RaiseFileLimit();
  ::signal(SIGPIPE, SIG_IGN);
  const absl::StatusOr<bool> in_order =
      Supervise(line, config,
                {.set_up_log = [&] { return SetUpLog(config); },
                 .notify =
                     [&](std::string_view state) {
                       Notify(state);
                       if (state == "READY=1")
                         TellReady(background, config.runtime_dir + "/cairnd.sock", config.log_file);
                     },
                 .notify_holder = NotifyHolder});
  if (in_order.ok()) return *in_order ? kStopped : kCutShort;
  return GiveUp(background,
                absl::IsFailedPrecondition(in_order.status()) ? kHeld
                : absl::IsInvalidArgument(in_order.status())  ? kBadSettings
                                                              : kCannotStart,
                MessageOf(in_order.status()));
}

int Main(int argc, char** argv) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine(argc, argv);
  if (!line.ok()) {
    std::fprintf(stderr, "cairnd: %s\n", std::string(MessageOf(line.status())).c_str());
    return kBadSettings;
  }
  if (line->answered) {
    std::fputs(line->text.c_str(), stdout);
    return kStopped;
  }
  absl::StatusOr<Config> config = SettingsOf(*line);
  if (!config.ok()) {
    std::fprintf(stderr, "%s\n", std::string(MessageOf(config.status())).c_str());
    return kBadSettings;
  }
  if (line->print_config) {
    const auto drains = MakeDrains(*line, Surroundings::OfThisProcess());
    std::fputs((PrintConfig(*config) + (drains.ok() ? PrintDrains(*drains) : "")).c_str(), stdout);
  }
  if (line->check_config) {
    for (const std::string& warning : config->warnings) std::fprintf(stderr, "%s\n", warning.c_str());
  }
  if (line->print_config || line->check_config) return kStopped;

  std::optional<Background> background;
  if (line->background) {
    // Standard error will not be there for long.
    if (config->log_file.empty()) config->log_file = config->runtime_dir + "/cairnd.log";
    absl::StatusOr<Background> started = Background::Start(kReadyWaitMs);
    if (!started.ok()) {
      std::fprintf(stderr, "cairnd: %s\n", std::string(MessageOf(started.status())).c_str());
      return kCannotStart;
    }
    background = *std::move(started);
  }
  if (ServesOf(*line, Surroundings::OfThisProcess()) == Serves::kAllUsers) {
    return ServeAllUsers(*line, *config, std::move(background));
  }
  std::unique_ptr<WorkerLink> supervisor;
  if (line->worker) {
    absl::StatusOr<std::unique_ptr<WorkerLink>> taken = WorkerLink::Take();
    if (!taken.ok()) return GiveUp(background, kBadSettings, MessageOf(taken.status()));
    supervisor = *std::move(taken);
  }
  const UniqueFd signals = TakeSignals();
  return Serve(*line, *config, signals, std::move(background), std::move(supervisor));
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  // Debian's absl ends a process that takes two mutexes now in one order and now in the other, even if that never
  // blocks, and each lock takes three times as long for this check. It is for tests.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  try {
    return cairn::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cairnd: %s\n", error.what());
    return cairn::kCannotStart;
  }
}
