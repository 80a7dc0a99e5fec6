#include "tests/client/cli/run_cairn.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <thread>
#include <utility>

#include "storage/base/unique_fd.h"
#include "tests/support/runfiles/runfiles.h"

namespace cairn::testing {
namespace {

constexpr auto kPatience = std::chrono::seconds(30);

struct Ends {
  UniqueFd read, write;
};

Ends MakePipe() {
  int fds[2] = {-1, -1};
  EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Ends MakeTerminal() {
  int master = -1, slave = -1;
  EXPECT_EQ(openpty(&master, &slave, nullptr, nullptr, nullptr), 0);
  fcntl(master, F_SETFD, FD_CLOEXEC);
  fcntl(slave, F_SETFD, FD_CLOEXEC);
  return {UniqueFd(master), UniqueFd(slave)};
}

pid_t Spawn(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment, int out,
            int err) {
  const std::string program = Runfile("client/cli/cairn");
  std::vector<std::string> texts = {program};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = {"PATH=/usr/bin:/bin", "TZ=UTC"};
  for (const char* name : {"ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) variables.push_back(std::string(name) + "=" + value);
  }
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  std::vector<char*> argv, envp;
  for (std::string& text : texts) argv.push_back(text.data());
  for (std::string& text : variables) envp.push_back(text.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  pid_t pid = -1;
  EXPECT_EQ(posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), envp.data()), 0) << program;
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

// Collects what `pid` writes and waits for its end. `out` may be invalid: then only errors are collected.
CairnRun Collect(pid_t pid, const UniqueFd& out, const UniqueFd& err) {
  CairnRun run;
  std::array<pollfd, 2> items{pollfd{.fd = out.get(), .events = POLLIN, .revents = 0},
                              pollfd{.fd = err.get(), .events = POLLIN, .revents = 0}};
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (items[0].fd >= 0 || items[1].fd >= 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "cairn did not end in time";
      kill(pid, SIGKILL);
      break;
    }
    poll(items.data(), items.size(), 1000);
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (items[i].fd < 0 || items[i].revents == 0) continue;
      std::array<char, 65536> buffer;
      const ssize_t got = read(items[i].fd, buffer.data(), buffer.size());
      if (got <= 0) {
        items[i].fd = -1;  // a terminal answers EIO at its end
      } else {
        (i == 0 ? run.out : run.err).append(buffer.data(), static_cast<std::size_t>(got));
      }
    }
  }
  int status = 0;
  waitpid(pid, &status, 0);
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return run;
}

CairnRun Run(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment,
             Ends out) {
  Ends err = MakePipe();
  const pid_t pid = Spawn(arguments, environment, out.write.get(), err.write.get());
  out.write.Reset();
  err.write.Reset();
  return Collect(pid, out.read, err.read);
}

}  // namespace

CairnRun RunCairn(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment) {
  return Run(arguments, environment, MakePipe());
}

CairnRun RunCairnOnTerminal(const std::vector<std::string>& arguments,
                            const std::map<std::string, std::string>& environment) {
  return Run(arguments, environment, MakeTerminal());
}

CairnRun RunCairnInto(int out, const std::vector<std::string>& arguments,
                      const std::map<std::string, std::string>& environment) {
  Ends err = MakePipe();
  const pid_t pid = Spawn(arguments, environment, out, err.write.get());
  err.write.Reset();
  return Collect(pid, UniqueFd(), err.read);
}

CairnOnTerminal::CairnOnTerminal(const std::vector<std::string>& arguments,
                                 const std::map<std::string, std::string>& environment, unsigned short rows,
                                 unsigned short columns) {
  Ends out = MakeTerminal(), err = MakePipe();
  const winsize size{.ws_row = rows, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  EXPECT_EQ(ioctl(out.read.get(), TIOCSWINSZ, &size), 0);
  pid_ = Spawn(arguments, environment, out.write.get(), err.write.get());
  terminal_ = std::move(out.read);
  errors_ = std::move(err.read);
}

CairnOnTerminal::~CairnOnTerminal() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::string CairnOnTerminal::WaitFor(std::string_view part) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    if (const std::size_t at = unseen_.find(part); at != std::string::npos) {
      std::string seen = unseen_.substr(0, at + part.size());
      unseen_.erase(0, at + part.size());
      return seen;
    }
    pollfd item{.fd = terminal_.get(), .events = POLLIN, .revents = 0};
    std::array<char, 4096> buffer;
    ssize_t got = 0;
    if (poll(&item, 1, 1000) > 0) got = read(terminal_.get(), buffer.data(), buffer.size());
    if (got > 0) unseen_.append(buffer.data(), static_cast<std::size_t>(got));
    if (got < 0 || std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "never seen: " << part << "\nbut: " << unseen_;
      return "";
    }
  }
}

void CairnOnTerminal::Send(int signal) {
  EXPECT_EQ(kill(pid_, signal), 0);
}

void CairnOnTerminal::WaitForState(char state) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    std::string line;
    std::getline(std::ifstream("/proc/" + std::to_string(pid_) + "/stat"), line);
    const std::size_t at = line.rfind(") ");  // before it: the program's name
    if (at != std::string::npos && line[at + 2] == state) return;
    if (std::chrono::steady_clock::now() > deadline) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ADD_FAILURE() << "never in state " << state;
}

CairnRun CairnOnTerminal::End() {
  CairnRun run = Collect(std::exchange(pid_, -1), terminal_, errors_);
  run.out.insert(0, unseen_);
  return run;
}

}  // namespace cairn::testing
