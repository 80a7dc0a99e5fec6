#include "tests/integration/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "storage/base/unique_fd.h"

namespace cairn::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array kPassedOn = {"PATH",          "HOME",         "ASAN_OPTIONS", "LSAN_OPTIONS",
                                  "UBSAN_OPTIONS", "TSAN_OPTIONS", "TEST_TMPDIR"};

std::vector<std::string> EnvironmentOf(const Process::Options& options) {
  std::vector<std::string> environment;
  for (const char* name : kPassedOn) {
    const char* value = std::getenv(name);
    if (value != nullptr) environment.push_back(std::string(name) + "=" + value);
  }
  for (const auto& [name, value] : options.environment) environment.push_back(name + "=" + value);
  return environment;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

class ProcessImpl : public Process {
 public:
  ProcessImpl(pid_t pid, UniqueFd output) : pid_(pid), output_(std::move(output)) {
    pid_fd_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  }

  ~ProcessImpl() override {
    if (!running()) return;
    ::kill(pid_, SIGKILL);
    int status = 0;
    ::waitpid(pid_, &status, 0);
  }

  bool WaitForOutput(std::string_view text, std::chrono::seconds deadline) override {
    const auto end = Clock::now() + deadline;
    while (ending_.output.find(text) == std::string::npos) {
      if (!ReadMore(end)) return ending_.output.find(text) != std::string::npos;
    }
    return true;
  }

  Ending Wait(std::chrono::seconds deadline) override {
    const auto end = Clock::now() + deadline;
    // The process counts, not the end of the output: a grandchild may hold that open.
    while (running() && Clock::now() < end) ReadMore(end);
    if (running()) {
      ::kill(pid_, SIGKILL);
      int status = 0;
      ::waitpid(pid_, &status, 0);
      ended_ = true;
    }
    while (ReadMore(Clock::now())) {
    }
    return ending_;
  }

  void Signal(int signal) override {
    if (running()) ::kill(pid_, signal);
  }
  pid_t pid() const override { return pid_; }

  bool running() override {
    int status = 0;
    if (ended_ || ::waitpid(pid_, &status, WNOHANG) != pid_) return !ended_;
    ended_ = true;
    if (WIFEXITED(status)) ending_.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) ending_.signal = WTERMSIG(status);
    return false;
  }

 private:
  // Waits for output or the process's end; false if there is no more to come by `end`.
  bool ReadMore(Clock::time_point end) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    std::array<pollfd, 2> polls{{{.fd = output_.get(), .events = POLLIN, .revents = 0},
                                 {.fd = ended_ ? -1 : pid_fd_.get(), .events = POLLIN, .revents = 0}}};
    const int ready = ::poll(polls.data(), polls.size(), left > 0 ? static_cast<int>(left) : 0);
    if (ready < 0 && errno == EINTR) return true;
    if (ready <= 0) return false;
    if (polls[0].revents == 0) return running();
    std::array<char, 4096> block;
    const ssize_t n = ::read(output_.get(), block.data(), block.size());
    if (n <= 0) {
      output_.Reset();
      return running();
    }
    ending_.output.append(block.data(), static_cast<std::size_t>(n));
    return true;
  }

  const pid_t pid_;
  UniqueFd output_, pid_fd_;
  bool ended_ = false;
  Ending ending_;
};

}  // namespace

std::unique_ptr<Process> Process::Start(const Options& options) {
  std::vector<std::string> arguments = options.arguments, environment = EnvironmentOf(options);
  const std::vector<char*> argv = Pointers(arguments), envp = Pointers(environment);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    ADD_FAILURE() << "pipe: " << std::strerror(errno);
    return nullptr;
  }
  UniqueFd reader(ends[0]), writer(ends[1]);
  // Nobody reads before Wait: a sanitizer's report must not stop the process in the middle of what it does.
  ::fcntl(writer.get(), F_SETPIPE_SZ, 1 << 20);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) std::_Exit(126);
    if (!options.working_directory.empty() && ::chdir(options.working_directory.c_str()) != 0) std::_Exit(126);
    ::dup2(writer.get(), STDOUT_FILENO);
    ::dup2(writer.get(), STDERR_FILENO);
    ::execvpe(argv[0], argv.data(), envp.data());
    std::_Exit(127);
  }
  if (pid < 0) {
    ADD_FAILURE() << "fork: " << std::strerror(errno);
    return nullptr;
  }
  return std::make_unique<ProcessImpl>(pid, std::move(reader));
}

Ending RunProcess(const Process::Options& options, std::chrono::seconds deadline) {
  const std::unique_ptr<Process> process = Process::Start(options);
  return process ? process->Wait(deadline) : Ending();
}

bool EndProcess(pid_t pid, int signal, std::chrono::seconds deadline) {
  const UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd.valid()) return errno == ESRCH;
  ::kill(pid, signal);
  pollfd poll{.fd = fd.get(), .events = POLLIN, .revents = 0};
  return ::poll(&poll, 1, static_cast<int>(std::chrono::milliseconds(deadline).count())) == 1;
}

std::string DataPath(std::string_view workspace_path) {
  const char* runfiles = std::getenv("TEST_SRCDIR");
  const std::filesystem::path root =
      runfiles != nullptr
          ? std::filesystem::path(runfiles)
          : std::filesystem::path(std::filesystem::read_symlink("/proc/self/exe").string() + ".runfiles");
  const std::filesystem::path path = root / "cairn" / workspace_path;
  EXPECT_TRUE(std::filesystem::exists(path)) << path << ": is it in the rule's data?";
  return path.string();
}

}  // namespace cairn::testing
