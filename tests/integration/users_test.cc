// One daemon for all users: ordinary users who check point and restart through root's supervisor.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "client/cairn.h"
#include "daemon/supervisor/hand_over.h"
#include "daemon/supervisor/page.h"
#include "proto/supervisor.h"
#include "storage/base/unique_fd.h"
#include "storage/base/user_name.h"
#include "tests/integration/process.h"
#include "tests/integration/users_fixture.h"

namespace cairn::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(UsersTest, TwoUsersCheckpointAndRestartAndSeeNothingOfEachOther) {
  Start();
  const pid_t alice = Begin(kAlice, [&] { return Work(kAlice, 0, 3, CAIRN_LEVEL_PREFIX); });
  const pid_t bob = Begin(kBob, [&] { return Work(kBob, 0, 5, CAIRN_LEVEL_PREFIX); });
  EXPECT_EQ(End(alice), 0);
  EXPECT_EQ(End(bob), 0);
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 3, 0, 0); }), 0);
  EXPECT_EQ(As(kBob, [&] { return Work(kBob, 5, 0, 0); }), 0);
  // Neither enters the other's folders, nor opens a run of theirs.
  for (const char* place : {"/run/5", "/cache/games"}) {
    EXPECT_EQ(As(kBob,
                 [&] {
                   return ::access((folder_ + place).c_str(), R_OK) == 0 ||
                                  ::access((folder_ + place).c_str(), X_OK) == 0
                              ? 1
                              : 0;
                 }),
              0);
    struct stat info {};
    ASSERT_EQ(::lstat((folder_ + place).c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, kAlice);
    EXPECT_EQ(info.st_mode & 07777, 0700u);
  }
  EXPECT_NE(As(kBob, [&] { return Work(kAlice, 3, 0, 0); }), 0) << "a prefix that is not the user's";
  const auto workers = Workers();
  ASSERT_EQ(workers.size(), 2u);
  EXPECT_TRUE(Within([&] { return Workers()[kAlice].counters.runs == 1; }));
  EXPECT_EQ(
      As(kBob, [&] { return ::kill(static_cast<pid_t>(workers.at(kAlice).pid), 0) != 0 && errno == EPERM ? 0 : 1; }),
      0);
}

TEST_F(UsersTest, AWorkerRefusesAConnectionOfAnotherUser) {
  // What a supervisor with a fault would do: this test is one, and hands Bob's connections to Alice's worker.
  auto link = MakeLink();
  auto page = CountersPage::Make();
  ASSERT_TRUE(link.ok() && page.ok());
  fs::create_directory(folder_ + "/alice");
  const std::optional<Account> account = AccountOf(kAlice);
  ASSERT_EQ(::chown((folder_ + "/alice").c_str(), kAlice, account->group), 0);
  ASSERT_EQ(::chmod((folder_ + "/alice").c_str(), 0700), 0);
  const UniqueFd program(::open(DataPath("daemon/cairnd").c_str(), O_PATH | O_CLOEXEC));
  const pid_t worker = Begin(kAlice, [&] {
    const int high_link = ::fcntl(link->worker.get(), F_DUPFD, 20), high_page = ::fcntl(page->fd(), F_DUPFD, 20);
    const int high_program = ::fcntl(program.get(), F_DUPFD_CLOEXEC, 20);
    ::dup2(high_link, kLinkFd), ::dup2(high_page, kPageFd);
    ::close(high_link), ::close(high_page);
    const std::string run = folder_ + "/alice/run", cache = folder_ + "/alice/cache", log = folder_ + "/alice/log";
    const int errors = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(errors, 2);
    const char* arguments[] = {"cairnd", "--worker", "--runtime-dir", run.c_str(), "--cache", cache.c_str(), nullptr};
    char* nothing[] = {nullptr};
    ::execveat(high_program, "", const_cast<char**>(arguments), nothing, AT_EMPTY_PATH);
    return 102;
  });
  link->worker.Reset();
  ASSERT_TRUE(Within([&] { return page->Read().ready == 1; })) << ReadLog("alice/log");
  for (const Door door : {Door::kLocal, Door::kGrpc}) {
    int ends[2];
    ASSERT_EQ(::seteuid(kBob), 0);
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);  // both ends are Bob's
    ASSERT_EQ(::seteuid(0), 0);
    const UniqueFd mine(ends[0]);
    UniqueFd theirs(ends[1]);
    ASSERT_EQ(SendConnection(link->supervisor.get(), door, theirs.get()), 0);
    theirs.Reset();
    std::string heard;
    std::array<char, 1000> block;
    for (ssize_t n = 0; (n = ::recv(mine.get(), block.data(), block.size(), 0)) > 0;)
      heard.append(block.data(), static_cast<std::size_t>(n));
    if (door != Door::kLocal) continue;
    EXPECT_THAT(heard, HasSubstr("this daemon serves user 5, not user 6"));
  }
  EXPECT_TRUE(Within([&] {
    return ReadLog("alice/log").find("a connection that was handed over: this daemon serves user 5") !=
           std::string::npos;
  }));
  EXPECT_EQ(page->Read().taken, 2u);
  // The supervisor goes: so does the worker, in order.
  link->supervisor.Reset();
  EXPECT_EQ(End(worker), 0);
  EXPECT_THAT(ReadLog("alice/log"), HasSubstr("the supervisor has gone"));
}

TEST_F(UsersTest, ASupervisorThatIsKilledTakesItsWorkersAlongAndLosesNothing) {
  Start({"--flush-every", "0"});
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 0, 2, 0); }), 0);  // captured, and no more
  const auto before = Workers();
  ASSERT_TRUE(before.contains(kAlice));
  daemon_->Signal(SIGKILL);
  EXPECT_EQ(daemon_->Wait().signal, SIGKILL);
  EXPECT_TRUE(Within([&] { return ::kill(static_cast<pid_t>(before.at(kAlice).pid), 0) != 0; }));
  Start();
  EXPECT_TRUE(Within([&] { return Workers()[kAlice].pid != 0; })) << "somebody has something in the cache";
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 2, 1, CAIRN_LEVEL_PREFIX); }), 0);
}

TEST_F(UsersTest, AStopInTheMiddleKeepsWhatWasCaptured) {
  Start({"--flush-every", "0"});
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 0, 2, 0); }), 0);
  daemon_->Signal(SIGTERM);
  EXPECT_EQ(daemon_->Wait().exit_code, 0);
  Start();
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 2, 0, 0); }), 0);
}

TEST_F(UsersTest, AWorkerThatIsKilledIsStartedAnewForTheSameApplication) {
  Start();
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 0, 1, CAIRN_LEVEL_LOCAL); }), 0);
  EXPECT_EQ(As(kBob, [&] { return Work(kBob, 0, 1, CAIRN_LEVEL_LOCAL); }), 0);
  const auto before = Workers();
  EXPECT_EQ(As(kAlice, [&] { return ::kill(static_cast<pid_t>(before.at(kAlice).pid), SIGKILL); }), 0);
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 1, 1, CAIRN_LEVEL_LOCAL); }), 0);
  const auto after = Workers();
  EXPECT_EQ(after.at(kAlice).lost, 1u);
  EXPECT_EQ(after.at(kBob).pid, before.at(kBob).pid);
}

TEST_F(UsersTest, TheCommandShowsRootAllAndUsersTheirOwn) {
  Start();
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 0, 2, CAIRN_LEVEL_PREFIX); }), 0);
  EXPECT_EQ(As(kBob, [&] { return Work(kBob, 0, 1, CAIRN_LEVEL_PREFIX); }), 0);
  ASSERT_TRUE(Within([&] { return Workers()[kAlice].counters.runs == 1 && Workers()[kBob].counters.runs == 1; }));
  const auto cairn = [&](std::vector<std::string> arguments) {
    Process::Options options;
    options.arguments = {DataPath("client/cli/cairn")};
    options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
    options.environment = {{"CAIRN_ADDRESS", "unix:" + folder_ + "/run/cairnd.sock"}};
    return RunProcess(options);
  };
  const Ending all = cairn({"status", "--all"});
  EXPECT_EQ(all.exit_code, 0);
  EXPECT_THAT(all.output, HasSubstr("2 of at most 512 workers\n"));
  EXPECT_THAT(all.output, ::testing::ContainsRegex("games +[0-9]+ +(idle|works)"));
  EXPECT_THAT(all.output, ::testing::ContainsRegex("man +[0-9]+ +(idle|works)"));
  EXPECT_THAT(all.output, Not(HasSubstr("prefix")));
  EXPECT_THAT(cairn({"--json", "status", "--all"}).output, HasSubstr("\"user\": \"games\""));
  // As users, by the socket of all users, through gRPC in the worker.
  const UniqueFd program(::open(DataPath("client/cli/cairn").c_str(), O_PATH));
  const auto as = [&](uid_t user, std::vector<const char*> arguments) {
    const std::string file = folder_ + "/output";
    const UniqueFd output(::open(file.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0666));
    const std::string address = "CAIRN_ADDRESS=unix:" + folder_ + "/run/cairnd.sock";
    arguments.insert(arguments.begin(), "cairn"), arguments.push_back(nullptr);
    EXPECT_NE(As(user,
                 [&] {
                   ::dup2(output.get(), 1), ::dup2(output.get(), 2);
                   const char* environment[] = {address.c_str(), nullptr};
                   return ::execveat(program.get(), "", const_cast<char**>(arguments.data()),
                                     const_cast<char**>(environment), AT_EMPTY_PATH);
                 }),
              255);
    return ReadLog("output");
  };
  EXPECT_THAT(as(kAlice, {"ls"}), HasSubstr(PrefixOf(kAlice)));
  EXPECT_THAT(as(kAlice, {"ls"}), Not(HasSubstr(PrefixOf(kBob))));
  EXPECT_THAT(as(kAlice, {"status"}), Not(HasSubstr(PrefixOf(kBob))));
  EXPECT_THAT(as(kBob, {"status"}), HasSubstr(PrefixOf(kBob)));
  EXPECT_THAT(as(kBob, {"show", PrefixOf(kAlice).c_str(), "1"}), Not(HasSubstr("step")));
  EXPECT_THAT(as(kBob, {"status", "--all"}), HasSubstr("only root sees all users"));
}

TEST_F(UsersTest, AWorkerEndsOnceThereIsNothingToDoAndNotBefore) {
  Start({"--supervisor-idle", "1s", "--flush-bandwidth", "2MB/s", "--background-beside-captures", "2MB/s"});
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 0, 1, CAIRN_LEVEL_LOCAL); }), 0);
  const std::string commit = PrefixOf(kAlice) + "/.scr/scr.dataset.1/commit.cairn";
  EXPECT_FALSE(fs::exists(commit));
  EXPECT_TRUE(Within([&] { return Workers()[kAlice].pid == 0; }));
  EXPECT_TRUE(fs::exists(commit)) << "it ended in the middle of a flush";
  EXPECT_EQ(Workers()[kAlice].lost, 0u);
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 1, 0, 0); }), 0);
}

TEST_F(UsersTest, DrainsAreCountedAndAWorkerStaysWhileItBringsSomething) {
  constexpr int kFiles = 12;  // of 1 MiB, one in a second
  const std::string name = AccountOf(kAlice)->name, from = folder_ + "/bb-" + name, to = folder_ + "/pfs-" + name;
  for (const std::string& folder : {from, to}) {
    fs::create_directory(folder);
    ASSERT_EQ(::chown(folder.c_str(), kAlice, AccountOf(kAlice)->group), 0);
  }
  for (int i = 0; i < kFiles; ++i) {
    const std::string file = from + "/" + std::to_string(i);
    std::ofstream(file) << std::string(1 << 20, 'x');
    ASSERT_EQ(::chown(file.c_str(), kAlice, AccountOf(kAlice)->group), 0);
  }
  std::ofstream(folder_ + "/cairnd.toml", std::ios::app)
      << "[[drain]]\nfrom = \"" << folder_ << "/bb-%u\"\nto = \"" << folder_
      << "/pfs-%u\"\nsettle = \"0\"\nbandwidth = \"1 MB/s\"\nparallel = 1\n";
  Start({"--supervisor-idle", "1s"});
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 0, 1, CAIRN_LEVEL_PREFIX); }), 0);
  EXPECT_TRUE(Within([&] { return Workers()[kAlice].counters.drain_bytes_left > 0; }));
  EXPECT_EQ(Workers()[kAlice].counters.drains, 1u);
  EXPECT_EQ(Workers()[kAlice].counters.drains_failing, 0u);
  EXPECT_TRUE(Within([&] { return Workers()[kAlice].pid == 0; }));
  for (int i = 0; i < kFiles; ++i) EXPECT_TRUE(fs::exists(to + "/" + std::to_string(i))) << i;
  EXPECT_EQ(Workers()[kAlice].lost, 0u);
}

TEST_F(UsersTest, RootIsNotServedAndSaysSo) {
  Start();
  EXPECT_NE(As(0,
               [&] {
                 cairn_options options = CAIRN_OPTIONS_INIT;
                 const std::string address = "unix:" + folder_ + "/run/cairnd.sock", prefix = folder_ + "/prefix0";
                 options.address = address.c_str(), options.prefix = prefix.c_str();
                 options.deadline_ms = 1500, options.rank = 0, options.nranks = 1;
                 cairn_session* session = nullptr;
                 return cairn_open(&options, &session) == CAIRN_OK ? 0 : 1;
               }),
            0);
  EXPECT_TRUE(Within([&] { return ReadLog("cairnd.log").find("user 0: ") != std::string::npos; }));
}

TEST_F(UsersTest, ASecondDaemonIsRefused) {
  Start();
  Process::Options options;
  options.arguments = {DataPath("daemon/cairnd"), "--runtime-dir", folder_ + "/run", "--cache", folder_ + "/cache2"};
  const Ending second = RunProcess(options);
  EXPECT_EQ(second.exit_code, 3) << second.output;
  EXPECT_THAT(second.output, HasSubstr("held by process"));
  // One port, or one key, is none for all of them.
  const auto listening = [&](std::vector<std::string> flags) {
    Process::Options with = options;
    with.arguments.insert(with.arguments.end(), flags.begin(), flags.end());
    const Ending ending = RunProcess(with);
    EXPECT_EQ(ending.exit_code, 2);
    return ending.output;
  };
  EXPECT_THAT(listening({"--ingest-listen", "127.0.0.1:0"}), HasSubstr("ingest.listen: one port"));
  const std::vector<std::string> range = {"--ingest-listen", "127.0.0.1:7100-7199"};
  std::vector<std::string> flags = range;
  flags.insert(flags.end(), {"--ingest-insecure-loopback", "true"});
  EXPECT_THAT(listening(flags), HasSubstr("ingest.insecure_loopback: would let every user"));
  flags = range;
  flags.insert(flags.end(), {"--ingest-tls-ca", "/a", "--ingest-tls-cert", "/b", "--ingest-tls-key", "/c"});
  EXPECT_THAT(listening(flags), HasSubstr("who has the one key"));
  // Nor may anybody start a worker but a supervisor.
  options.arguments = {DataPath("daemon/cairnd"), "--worker", "--runtime-dir",
                       folder_ + "/run2",         "--cache",  folder_ + "/cache2"};
  EXPECT_EQ(RunProcess(options).exit_code, 2);
}

}  // namespace
}  // namespace cairn::testing
