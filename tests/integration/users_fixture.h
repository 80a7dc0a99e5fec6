// One daemon for all users: root's supervisor in folders of its own, and ordinary users who checkpoint and restart
// through it, each in a process of that user's.
#ifndef CAIRN_TESTS_INTEGRATION_USERS_FIXTURE_H_
#define CAIRN_TESTS_INTEGRATION_USERS_FIXTURE_H_

#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "client/cairn.h"
#include "proto/supervisor.h"
#include "storage/base/clock.h"
#include "storage/base/unique_fd.h"
#include "storage/base/user_name.h"
#include "tests/integration/notify_socket.h"
#include "tests/integration/process.h"

namespace cairn::testing {

inline constexpr std::size_t kElements = 1 << 20;  // 8 MiB

inline bool Within(const std::function<bool()>& holds, std::chrono::milliseconds deadline = std::chrono::seconds(30)) {
  const auto end = SteadyNow() + deadline;
  while (!holds()) {
    if (SteadyNow() >= end) return false;
    SleepFor(std::chrono::milliseconds(20));
  }
  return true;
}

// Root's daemon on folders of its own, and what its users do there.
class UsersTest : public ::testing::Test {
 protected:
  // Of Debian's base-passwd, which every machine has.
  static constexpr uid_t kAlice = 5, kBob = 6, kCarol = 7;

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can be several users";
    std::string folder = "/tmp/cairn-test.XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
    std::ofstream(folder_ + "/cairnd.toml") << "[supervisor]\nuid_min = 2\n[cache]\nreserve = "
                                               "\"1MiB\"\n[image]\nbytes_max = \"64MiB\"\n[lease]\nterm = \"1s\"\n";
    for (const uid_t user : {kAlice, kBob, kCarol}) {
      ASSERT_TRUE(AccountOf(user)) << user;
      ASSERT_EQ(::mkdir(PrefixOf(user).c_str(), 0700), 0);
      ASSERT_EQ(::chown(PrefixOf(user).c_str(), user, AccountOf(user)->group), 0);
    }
  }

  void TearDown() override {
    if (daemon_) {
      daemon_->Signal(SIGTERM);
      EXPECT_EQ(daemon_->Wait(std::chrono::seconds(90)).exit_code, 0);
    }
    if (HasFailure()) {
      std::cerr << "--- log of the supervisor:\n" << ReadLog("cairnd.log");
      for (const uid_t user : {kAlice, kBob, kCarol}) {
        std::cerr << "--- log of the worker of " << user << ":\n"
                  << ReadLog("run/" + std::to_string(user) + "/cairnd.log");
      }
    }
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }

  // `prepare`: what root does before, in the daemon's own view of the file systems (mounts); empty: nothing.
  void Start(const std::vector<std::string>& flags = {}, const std::string& prepare = "") {
    NotifySocket ready(folder_ + "/notify");
    Process::Options options;
    options.arguments = {DataPath("daemon/cairnd"), "--config",       folder_ + "/cairnd.toml",
                         "--runtime-dir",           folder_ + "/run", "--cache",
                         folder_ + "/cache",        "--log-file",     folder_ + "/cairnd.log"};
    options.arguments.insert(options.arguments.end(), flags.begin(), flags.end());
    options.environment = {{"NOTIFY_SOCKET", folder_ + "/notify"}};
    if (!prepare.empty()) {
      const std::string script = prepare + " && exec \"$@\"";
      const std::vector<std::string> unshare = {"unshare", "--mount", "sh", "-c", script, folder_};
      options.arguments.insert(options.arguments.begin(), unshare.begin(), unshare.end());
    }
    daemon_ = Process::Start(options);
    ASSERT_NE(daemon_, nullptr);
    ASSERT_EQ(ready.Await(*daemon_), "READY=1") << daemon_->Wait(std::chrono::seconds(0)).output;
  }

  std::string PrefixOf(uid_t user) const { return folder_ + "/prefix" + std::to_string(user); }
  std::string ReadLog(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(folder_ + "/" + name).rdbuf();
    return text.str();
  }

  // Does it as `user`, in a process of that user's; the process' exit code is what it returns.
  static pid_t Begin(uid_t user, const std::function<int()>& does) {
    const std::optional<Account> account = AccountOf(user);
    const gid_t group = account ? account->group : user;
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    if (::setgroups(0, nullptr) != 0 || ::setresgid(group, group, group) != 0 || ::setresuid(user, user, user) != 0) {
      std::_Exit(101);
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::_Exit(does());
  }
  static int End(pid_t pid) {
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  static int As(uid_t user, const std::function<int()>& does) { return End(Begin(user, does)); }

  // Runs as the user: resumes, checks what it has read, checkpoints `steps` times, waits for `level`. 0, or the line.
  int Work(uid_t user, std::uint64_t expected_step, int steps, int level, std::string address = "") const {
    if (address.empty()) address = "unix:" + folder_ + "/run/cairnd.sock";
    const std::string prefix = PrefixOf(user);
    cairn_options options = CAIRN_OPTIONS_INIT;
    options.address = address.c_str();
    options.prefix = prefix.c_str();
    options.rank = 0, options.nranks = 1;
    options.deadline_ms = 60'000;
    cairn_session* session = nullptr;
    const auto failed = [&](int line) {
      std::cerr << "user " << user << ", line " << line << ": " << cairn_error(session) << std::endl;
      return line % 200 + 10;
    };
    if (cairn_open(&options, &session) != CAIRN_OK) return failed(__LINE__);
    std::uint64_t step = 0;
    std::vector<std::uint64_t> field(kElements);
    cairn_protect_value(session, 1, "step", &step, 1, CAIRN_UINT64);
    cairn_protect(session, 2, field.data(), field.size(), CAIRN_UINT64);
    const int code = cairn_resume(session, nullptr);
    if (code != (expected_step == 0 ? CAIRN_NOT_FOUND : CAIRN_OK) || step != expected_step) return failed(__LINE__);
    for (std::size_t i = 0; expected_step != 0 && i < kElements; ++i) {
      if (field[i] != i * user + step) return failed(__LINE__);
    }
    std::uint64_t dataset = 0;
    for (int i = 0; i < steps; ++i) {
      ++step;
      for (std::size_t k = 0; k < kElements; ++k) field[k] = k * user + step;
      if (cairn_checkpoint(session, step, &dataset) != CAIRN_OK) return failed(__LINE__);
    }
    if (steps > 0 && level != 0 && cairn_wait(session, dataset, level, 60'000) != CAIRN_OK) return failed(__LINE__);
    if (cairn_close(session) != CAIRN_OK) return failed(__LINE__);
    return 0;
  }

  // Rows of `cairn status --all`, as it reads them.
  std::map<uid_t, WorkerStatus> Workers() const {
    const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (folder_ + "/run/" + kStatusSocketName).copy(address.sun_path, sizeof address.sun_path - 1);
    std::map<uid_t, WorkerStatus> workers;
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return workers;
    SupervisorStatus head{};
    if (::recv(fd.get(), &head, sizeof head, MSG_WAITALL) != sizeof head) return workers;
    for (WorkerStatus row{}; ::recv(fd.get(), &row, sizeof row, MSG_WAITALL) == sizeof row;) workers[row.uid] = row;
    return workers;
  }

  std::string folder_;
  std::unique_ptr<Process> daemon_;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_INTEGRATION_USERS_FIXTURE_H_
