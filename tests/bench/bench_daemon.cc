#include "tests/bench/bench_daemon.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

namespace cairn::bench {

void Die(const std::string& what) {
  fmt::print(stderr, "{}: {}\n", program_invocation_short_name, what);
  std::_Exit(1);
}

void Check(int code, cairn_session* session, const char* what) {
  if (code != CAIRN_OK) Die(fmt::format("{}: {}: {}", what, cairn_strerror(code), cairn_error(session)));
}

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Daemon::Daemon(std::string folder, const std::string& config) : folder_(std::move(folder)) {
  std::filesystem::remove_all(folder_);
  std::filesystem::create_directories(prefix());
  std::ofstream(folder_ + "/cairnd.toml") << config;
  Start();
}

Daemon::~Daemon() {
  Stop();
  std::filesystem::remove_all(folder_);
}

void Daemon::Start() {
  // It is built beside this program.
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::string built = here.parent_path().parent_path() / "daemon/cairnd";
  const char* program = std::getenv("CAIRND") != nullptr ? std::getenv("CAIRND") : built.c_str();
  const std::string socket = folder_ + "/run/cairnd.sock";
  std::filesystem::remove(socket);  // of one that was killed
  pid_ = fork();
  if (pid_ == 0) {
    const std::string log = folder_ + "/log";
    if (std::freopen(log.c_str(), "a", stderr) == nullptr) std::_Exit(127);
    execl(program, program, "--single-user", "--config", (folder_ + "/cairnd.toml").c_str(), "--runtime-dir",
          (folder_ + "/run").c_str(), "--cache", (folder_ + "/cache").c_str(),
          // Its cache is always a new one: it would be measured again in the middle of our measurements.
          "--cache-probe", "false", nullptr);
    std::_Exit(127);
  }
  for (int i = 0; i < 10000 && access(socket.c_str(), F_OK) != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Daemon::Stop() {
  if (pid_ <= 0) return;
  kill(pid_, SIGTERM);
  int status = 0;
  rusage usage{};
  wait4(pid_, &status, 0, &usage);
  cpu_seconds_ += static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                  static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
  pid_ = -1;
}

double Daemon::CpuSecondsSoFar() const {
  clockid_t clock{};
  timespec used{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &used) != 0) Die("the daemon's clock");
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

double Daemon::MibBeyondImages() const {
  std::ifstream status(fmt::format("/proc/{}/status", pid_));
  double kib = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:") || line.starts_with("RssFile:")) kib += std::atof(line.c_str() + 8);
  }
  return kib / 1024;
}

cairn_session* OpenRank(const Daemon& daemon, int rank, int nranks, const std::string& launch,
                        const std::string& name) {
  const std::string address = daemon.address(), prefix = daemon.folder() + "/" + name;
  cairn_options options = CAIRN_OPTIONS_INIT;
  options.prefix = prefix.c_str();
  options.rank = rank;
  options.nranks = nranks;
  options.launch = launch.c_str();
  options.address = address.c_str();
  cairn_session* session = nullptr;
  Check(cairn_open(&options, &session), nullptr, "cairn_open");
  return session;
}

}  // namespace cairn::bench
