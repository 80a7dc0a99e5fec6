#include "daemon/process/slurm.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <vector>

#include "storage/base/clock.h"
#include "storage/base/unique_fd.h"

namespace cairn {
namespace {

constexpr std::size_t kPrintedMax = 64 << 10;  // of an array with thousands of tasks no more is read

bool IsJobNumber(std::string_view job) {
  return !job.empty() && job.size() <= 20 && std::ranges::all_of(job, [](char c) { return c >= '0' && c <= '9'; });
}

// slurm.h, job_states. COMPLETING is none of these: processes are still being ended then.
bool IsOver(std::string_view state) {
  constexpr std::string_view kOver[] = {"BOOT_FAIL", "CANCELLED", "COMPLETED",     "DEADLINE", "FAILED",
                                        "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "REVOKED",  "TIMEOUT"};
  return std::ranges::find(kOver, state) != std::end(kOver);
}

// Standard input and error lead nowhere; standard output to `out`. False: it cannot be started.
bool Start(const std::string& program, std::vector<std::string> arguments, int out, pid_t* pid) {
  std::vector<char*> given = {const_cast<char*>(program.c_str())};
  for (std::string& argument : arguments) given.push_back(argument.data());
  given.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  if (posix_spawn_file_actions_init(&files) != 0) return false;
  if (posix_spawnattr_init(&attributes) != 0) {
    posix_spawn_file_actions_destroy(&files);
    return false;
  }
  // The daemon's threads block signals, which its children must not inherit.
  bool ok = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF) == 0 &&
            posix_spawnattr_setsigmask(&attributes, &none) == 0 &&
            posix_spawnattr_setsigdefault(&attributes, &all) == 0;
  ok = ok && posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
       posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO) == 0 &&
       posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0;
  ok = ok && posix_spawnp(pid, program.c_str(), &files, &attributes, given.data(), environ) == 0;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return ok;
}

// What comes out of it until its end. False: not all of it came in time, or it is too much.
bool ReadAll(int from, std::chrono::steady_clock::time_point until, std::string* printed) {
  char buffer[4096];
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - SteadyNow());
    pollfd waits{.fd = from, .events = POLLIN, .revents = 0};
    const int ready = left.count() <= 0 ? 0 : ::poll(&waits, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t got = ::read(from, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    printed->append(buffer, static_cast<std::size_t>(got));
    if (printed->size() > kPrintedMax) return false;
  }
}

// Its status; it is killed if it has not ended by then.
int EndOf(pid_t pid, std::chrono::steady_clock::time_point until) {
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (SteadyNow() >= until) ::kill(pid, SIGKILL);
    ::poll(nullptr, 0, 5);
  }
  return status;
}

}  // namespace

Slurm::Job Slurm::StateIn(std::string_view printed) {
  Job state = Job::kUnknown;
  while (!printed.empty()) {
    const std::string_view line = printed.substr(0, printed.find('\n'));
    printed.remove_prefix(std::min(printed.size(), line.size() + 1));
    if (line.empty()) continue;
    if (!IsOver(line)) return Job::kThere;
    state = Job::kOver;
  }
  return state;
}

Slurm::Job Slurm::StateOf(const std::string& job) const {
  int ends[2];
  if (!IsJobNumber(job) || ::pipe2(ends, O_CLOEXEC) != 0) return Job::kUnknown;
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  pid_t pid = 0;
  if (!Start(squeue_, {"--noheader", "--states=all", "--format=%T", "--jobs=" + job}, to.get(), &pid)) {
    return Job::kUnknown;
  }
  to = UniqueFd();
  const auto until = SteadyNow() + patience_;
  std::string printed;
  const bool all = ReadAll(from.get(), until, &printed);
  const int status = EndOf(pid, all ? until : SteadyNow());
  return all && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? StateIn(printed) : Job::kUnknown;
}

}  // namespace cairn
