// One machine with systemd for all tests of the units, what they ask it, and the users' clients there.
#ifndef CAIRN_TESTS_SYSTEMD_UNITS_FIXTURE_H_
#define CAIRN_TESTS_SYSTEMD_UNITS_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "storage/base/clock.h"
#include "tests/integration/process.h"
#include "tests/integration/promises.h"
#include "tests/systemd/machine.h"

namespace cairn::testing {

// One for all tests: it takes some seconds to boot.
class OneMachine : public ::testing::Environment {
 public:
  void SetUp() override {
    auto started = Machine::Start();
    // Root may lack what it takes (mounts, control groups): then nothing is shown, and nothing is wrong.
    if (absl::IsFailedPrecondition(started.status())) GTEST_SKIP() << started.status().ToString();
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    machine = *std::move(started);
  }
  void TearDown() override { machine.reset(); }
  inline static std::unique_ptr<Machine> machine;
};

inline bool Within(const std::function<bool()>& holds, std::chrono::milliseconds deadline = std::chrono::seconds(40)) {
  const auto end = SteadyNow() + deadline;
  while (!holds()) {
    if (SteadyNow() >= end) return false;
    SleepFor(std::chrono::milliseconds(20));
  }
  return true;
}

inline std::string Read(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

inline int Count(const std::string& text, std::string_view what) {
  int count = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + what.size())) ++count;
  return count;
}

class UnitsTest : public ::testing::Test {
 protected:
  static constexpr int kAlice = 2001, kBob = 2002, kMallory = 2003;

  // The sockets are there, the service is not, nobody has anything in the cache.
  void SetUp() override {
    Must("systemctl stop cairnd.socket cairnd");
    Must("systemctl reset-failed; rm -rf /etc/systemd/system/cairnd.service.d /var/cache/cairn/* /run/cairn/*");
    Must("for u in alice bob mallory; do rm -rf /home/$u/*; done");
    Settings("");
    Must("systemctl daemon-reload && systemctl start cairnd.socket && mkdir -p /etc/systemd/system/cairnd.service.d");
  }

  void TearDown() override {
    if (!HasFailure()) return;
    std::cerr
        << Run("journalctl --no-pager -n 120 -u cairnd -u cairnd.socket; tail -n 40 /run/cairn/*/cairnd.log").output;
  }

  static Machine& machine() { return *OneMachine::machine; }
  static Ending Run(const std::string& line, const std::string& user = "root") { return machine().Run(line, user); }
  static void Must(const std::string& line) {
    const Ending ending = Run(line);
    EXPECT_EQ(ending.exit_code, 0) << line << ": " << ending.output;
  }
  static std::string Property(const std::string& name) {
    std::string value = Run("systemctl show --value -p " + name + " cairnd").output;
    while (!value.empty() && value.back() == '\n') value.pop_back();
    return value;
  }
  static void Settings(const std::string& more) {
    std::ofstream(machine().PathOf("/etc/cairn/cairnd.toml"))
        << more << "[image]\nbytes_max = \"256MiB\"\n[lease]\nterm = \"1s\"\n";
  }
  static void DropIn(const std::string& text) {
    std::ofstream(machine().PathOf("/etc/systemd/system/cairnd.service.d/test.conf")) << text;
    Must("systemctl daemon-reload");
  }

  // Processes of the service, seen from here: the supervisor's; a user's worker's, 0: none.
  static pid_t Supervisor() { return Seen(std::atoi(Property("MainPID").c_str())); }
  static pid_t WorkerOf(int user) {
    pid_t found = 0;
    ForEachProcess([&](pid_t pid) {
      const std::string status = Read("/proc/" + std::to_string(pid) + "/status");
      if (status.starts_with("Name:\tcairnd\n") &&
          status.find("\nUid:\t" + std::to_string(user) + "\t") != status.npos) {
        found = pid;
      }
    });
    return found;
  }
  // Those of the machine, and of no other that runs beside it.
  static void ForEachProcess(const std::function<void(pid_t)>& does) {
    const std::filesystem::path ours =
        std::filesystem::read_symlink("/proc/" + std::to_string(machine().leader()) + "/ns/pid");
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const pid_t pid = std::atoi(entry.path().filename().c_str());
      std::error_code gone;
      if (pid > 0 && std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/ns/pid", gone) == ours) does(pid);
    }
  }
  static bool MayRaiseLimits() {
    const std::string status = Read("/proc/self/status");
    const std::size_t at = status.find("\nCapBnd:\t");
    constexpr int kSysResource = 24;
    return (std::stoull(status.substr(at + 9), nullptr, 16) >> kSysResource & 1) != 0;
  }
  // Its number there, and here.
  static int There(pid_t pid) {
    const std::string status = Read("/proc/" + std::to_string(pid) + "/status");
    const std::size_t at = status.find("\nNSpid:\t");
    const std::string line = at == status.npos ? "" : status.substr(at + 1, status.find('\n', at + 1) - at - 1);
    return std::atoi(line.c_str() + line.rfind('\t') + 1);
  }
  static pid_t Seen(int there) {
    pid_t found = 0;
    ForEachProcess([&](pid_t pid) {
      if (There(pid) == there) found = pid;
    });
    return there == 0 ? 0 : found;
  }

  static std::string PromisesOf(const std::string& user) { return machine().PathOf("/home/" + user + "/promises"); }
  static std::unique_ptr<Process> Client(const std::string& user, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "crash_client");
    arguments.insert(arguments.end(), {"--promises", "/home/" + user + "/promises"});
    return Process::Start(machine().Command(user, arguments,
                                            {{"CAIRN_PREFIX", "/home/" + user + "/run"},
                                             {"CAIRN_LAUNCH", user + std::to_string(launches_++)},
                                             {"CAIRN_RANK", "0"},
                                             {"CAIRN_NRANKS", "1"}}));
  }
  static std::uint64_t Resumed(const Ending& client) {
    constexpr std::string_view kWord = "resumed ";
    return client.output.starts_with(kWord) ? std::stoull(client.output.substr(kWord.size())) : 0;
  }
  // The client has ended or was killed: its next life goes on from the newest checkpoint that it was promised, and
  // nothing that it was promised has been lost.
  static void ExpectKept(const std::string& user, const std::string& mib) {
    const Promises promised = ReadPromises(PromisesOf(user));
    EXPECT_THAT(promised.lost, ::testing::IsEmpty());
    ASSERT_TRUE(promised.by_kind.contains("captured")) << user << " has been promised nothing";
    const std::uint64_t newest = NewestStep(promised.by_kind.at("captured"));
    const Ending next = Client(user, {"--mib", mib, "--steps", "0"})->Wait();
    EXPECT_EQ(next.exit_code, 0) << next.output;
    // It may have been captured without that having been written down.
    EXPECT_GE(Resumed(next), newest) << user << ": " << next.output;
  }
  static bool Goes(const std::string& user, std::size_t more = 3) {
    return AwaitPromises(PromisesOf(user), "local", ReadPromises(PromisesOf(user)).by_kind["local"].size() + more);
  }
  static void End(Process& client) {
    client.Signal(SIGKILL);
    client.Wait();
  }

  inline static int launches_ = 0;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_SYSTEMD_UNITS_FIXTURE_H_
