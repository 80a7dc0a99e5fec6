#include "daemon/supervisor/supervisor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "storage/base/clock.h"
#include "storage/base/sealed_memory.h"
#include "tests/daemon/supervisor/supervised.h"

namespace cairn::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

bool Lives(pid_t pid) {
  return ::kill(pid, 0) == 0;
}

class SupervisorTest : public Supervised {
 protected:
  // Its worker has crashed, and is handed nothing any more.
  void Crash(uid_t user) const {
    const pid_t worker = WorkerOf(user);
    Ask(user, "abort");
    EXPECT_TRUE(Within([worker] { return !Lives(worker); }));
  }
};

TEST_F(SupervisorTest, AWorkerHasItsUsersRightsAndNoOthers) {
  Start();
  const std::string text = Ask(kAlice, "look");
  EXPECT_THAT(text, HasSubstr("Uid:\t41001\t41001\t41001\t41001\n"));
  EXPECT_THAT(text, HasSubstr("Gid:\t41001\t41001\t41001\t41001\n"));
  EXPECT_THAT(text, HasSubstr("Groups:\t41001 42000 \n"));
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}) {
    EXPECT_THAT(text, HasSubstr(std::string(set) + ":\t0000000000000000\n"));
  }
  EXPECT_THAT(text, HasSubstr("NoNewPrivs:\t1\n"));
  const pid_t pid = std::atoi(text.c_str() + text.find(" pid ") + 5);
  EXPECT_THAT(text, HasSubstr("sid " + std::to_string(pid) + " "));
  // Its environment, and nothing of ours.
  EXPECT_THAT(text, HasSubstr("env USER=user41001\n"));
  EXPECT_THAT(text, HasSubstr("env HOME=/home/x\n"));
  EXPECT_THAT(text, Not(HasSubstr("env TEST")));
  EXPECT_THAT(text, HasSubstr("arg --worker\narg --flag\narg --runtime-dir\narg " + folder_ +
                              "/run/41001\narg --cache\narg " + folder_ + "/cache\n"));
  // Its descriptors: the streams, link, page and socket for deposits; then what it has opened itself, its signals, the
  // folder it reads, and the connection.
  EXPECT_THAT(text, HasSubstr("fd 0 /dev/null\n"));
  EXPECT_THAT(text, HasSubstr("fd 1 " + folder_ + "/run/41001/cairnd.log\n"));
  EXPECT_THAT(text, HasSubstr("fd 2 " + folder_ + "/run/41001/cairnd.log\n"));
  EXPECT_THAT(text, HasSubstr("fd 3 socket:"));
  EXPECT_THAT(text, HasSubstr("fd 4 /memfd:cairnd-counters"));
  int sockets = 0, files = 0;
  for (std::size_t at = text.find("\nfd "); at != text.npos; at = text.find("\nfd ", at + 1), ++files) {
    const std::string line = text.substr(at + 1, text.find('\n', at + 1) - at);
    sockets += line.find("socket:") != line.npos ? 1 : 0;
    EXPECT_THAT(line, Not(HasSubstr("odd_worker")));
    EXPECT_THAT(line, Not(HasSubstr("epoll")));
  }
  EXPECT_THAT(text, HasSubstr("fd 5 socket:"));
  EXPECT_EQ(sockets, 3) << text;
  EXPECT_EQ(files, 9) << text;
}

TEST_F(SupervisorTest, AWorkerThatIsTakenOverReachesNothingOfOthers) {
  Start();
  ASSERT_NE(WorkerOf(kBob), 0);
  // Its own, which shows that the trying works, and nothing else.
  EXPECT_EQ(Ask(kAlice, "reach"), "reached my folder\nreached my cache\nlooked");
  EXPECT_NE(WorkerOf(kBob), 0);
}

TEST_F(SupervisorTest, FoldersOfAUserAreTheUsersAlone) {
  Start();
  ASSERT_NE(WorkerOf(kAlice), 0);
  for (const char* name : {"/run/41001", "/cache/user41001"}) {
    struct stat info {};
    ASSERT_EQ(::lstat((folder_ + name).c_str(), &info), 0) << name;
    EXPECT_EQ(info.st_uid, kAlice);
    EXPECT_EQ(info.st_gid, kAlice);
    EXPECT_EQ(info.st_mode, mode_t{S_IFDIR | 0700});
  }
  struct stat lock {};
  ASSERT_EQ(::lstat((folder_ + "/cache/cairnd.41001.lock").c_str(), &lock), 0);
  EXPECT_EQ(lock.st_uid, kAlice);
  EXPECT_EQ(lock.st_mode, mode_t{S_IFREG | 0600});
}

TEST_F(SupervisorTest, EachUserHasOneWorkerAndReachesNoOther) {
  Start();
  const pid_t alice = WorkerOf(kAlice), bob = WorkerOf(kBob);
  EXPECT_NE(alice, 0);
  EXPECT_NE(bob, 0);
  EXPECT_NE(alice, bob);
  EXPECT_EQ(WorkerOf(kAlice), alice);
  EXPECT_THAT(Ask(kBob, "look"), HasSubstr("Uid:\t41002"));
  // At the other socket, too.
  const UniqueFd grpc = Connect(kAlice, kGrpcSocketName);
  SayWord(grpc, "look");
  EXPECT_THAT(Hear(grpc), HasSubstr(" pid " + std::to_string(alice) + "\n"));
}

TEST_F(SupervisorTest, UsersWhoAreNotServedAreToldSo) {
  Start([](Supervisor::Options* options) { options->uid_min = 1000; });
  EXPECT_EQ(Ask(0, "look"), "refused");
  EXPECT_EQ(Ask(999, "look"), "refused");
  EXPECT_TRUE(LogSays("user 999: 1 connections refused: users below supervisor.uid_min"));
  EXPECT_EQ(Ask(kNobodyKnows, "look"), "refused");
  EXPECT_TRUE(LogSays("the system does not know it"));
  EXPECT_NE(WorkerOf(kAlice), 0);
}

TEST_F(SupervisorTest, SomebodyElsesPlaceIsNotTaken) {
  std::filesystem::create_directories(folder_ + "/run");
  std::filesystem::create_directories(folder_ + "/cache/user41001");
  ASSERT_EQ(::chown((folder_ + "/cache/user41001").c_str(), kBob, kBob), 0);
  std::filesystem::create_directories(folder_ + "/cache/user41002");
  std::ofstream(folder_ + "/cache/user41002/kept") << "root's";
  // Root's folder at the end of the link is this test's own: a supervisor with a fault gives it away.
  std::filesystem::create_directory(folder_ + "/roots");
  std::filesystem::create_directory_symlink(folder_ + "/roots", folder_ + "/run/41003");
  Start();
  EXPECT_EQ(Ask(kAlice, "look"), "refused");
  EXPECT_TRUE(LogSays("user41001: belongs to user 41002"));
  EXPECT_EQ(Ask(kBob, "look"), "refused");
  EXPECT_TRUE(LogSays("user41002: belongs to user 0 and is not empty"));
  EXPECT_EQ(Ask(kCarol, "look"), "refused");
  EXPECT_TRUE(LogSays("41003: a link, or no folder"));
  struct stat roots {};
  ASSERT_EQ(::stat((folder_ + "/roots").c_str(), &roots), 0);
  EXPECT_EQ(roots.st_uid, 0u);
}

TEST_F(SupervisorTest, AWorkerThatCrashesInALoopIsStartedSeldomAndHoldsUpNobody) {
  Start([](Supervisor::Options* options) {
    options->pause_min = milliseconds(200);
    options->wait = milliseconds(300);
  });
  const pid_t bob = WorkerOf(kBob);
  const auto end = SteadyNow() + seconds(3);
  while (SteadyNow() < end) {
    const UniqueFd one = Connect(kAlice);
    SayWord(one, "abort");
    Hear(one, milliseconds(100));
    EXPECT_EQ(WorkerOf(kBob), bob);
  }
  const Rows rows = Status();
  ASSERT_NE(rows.of(kAlice), nullptr);
  // At once, then after 0.2, 0.4, 0.8 and 1.6 s.
  EXPECT_GE(rows.of(kAlice)->starts, 3u);
  EXPECT_LE(rows.of(kAlice)->starts, 5u);
  EXPECT_EQ(rows.of(kBob)->lost, 0u);
  EXPECT_TRUE(LogSays("killed by signal 6"));
}

TEST_F(SupervisorTest, WhatACrashInterruptedGoesOnWithoutItsUser) {
  Start();
  EXPECT_EQ(Ask(kAlice, "busy"), "done");
  const pid_t first = WorkerOf(kAlice);
  ::kill(first, SIGKILL);
  EXPECT_TRUE(Within([&] {
    const Rows rows = Status();
    return rows.of(kAlice) != nullptr && rows.of(kAlice)->pid != 0 && rows.of(kAlice)->starts == 2;
  }));
}

TEST_F(SupervisorTest, AStoppedWorkerHoldsUpItsUserAlone) {
  Start([](Supervisor::Options* options) { options->wait = milliseconds(500); });
  const UniqueFd stopping = Connect(kAlice);
  SayWord(stopping, "stop");
  SleepFor(milliseconds(200));
  // The kernel keeps a few of them, the supervisor no more than it is to: the rest is refused.
  std::vector<UniqueFd> waiting;
  for (int i = 0; i < 500; ++i) waiting.push_back(Connect(kAlice));
  EXPECT_NE(WorkerOf(kBob), 0);
  EXPECT_TRUE(Within([&] { return Status().of(kAlice)->waiting == 0; }));
  EXPECT_GE(Status().of(kAlice)->refused, 450u);
  EXPECT_EQ(Status().of(kAlice)->starts, 1u);
}

TEST_F(SupervisorTest, TenThousandConnectionsOfOneUserKeepNobodyOut) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  Start();
  std::vector<UniqueFd> many;
  bool answered = false;
  for (int i = 0; i < 10'000; ++i) {
    many.push_back(Connect(kAlice));  // says nothing: the worker waits for it
    if (!many.back().valid()) many.pop_back();
    if (i == 9'000) answered = WorkerOf(kBob) != 0;
  }
  EXPECT_TRUE(answered);
  EXPECT_NE(WorkerOf(kCarol), 0);
  EXPECT_LE(Status().of(kAlice)->waiting, 64u);
}

TEST_F(SupervisorTest, APageFullOfGarbageIsBelievedByNobody) {
  Start([](Supervisor::Options* options) { options->idle = milliseconds(300); });
  EXPECT_EQ(Ask(kAlice, "garbage"), "done") << "the page could be made shorter";
  const pid_t bob = WorkerOf(kBob);
  SleepFor(milliseconds(200));
  EXPECT_EQ(Status().of(kAlice)->counters.runs, 0xa5a5a5a5'a5a5a5a5u);
  EXPECT_NE(bob, 0);
  EXPECT_NE(WorkerOf(kAlice), 0);
}

TEST_F(SupervisorTest, AnIdleWorkerIsEndedAndTheNextConnectionHasANewOne) {
  Start([](Supervisor::Options* options) { options->idle = milliseconds(300); });
  EXPECT_EQ(Ask(kBob, "busy"), "done");
  const pid_t alice = WorkerOf(kAlice), bob = WorkerOf(kBob);
  EXPECT_TRUE(Within([&] { return !Lives(alice); }));
  const pid_t next = WorkerOf(kAlice);
  EXPECT_NE(next, 0);
  EXPECT_NE(next, alice);
  EXPECT_EQ(WorkerOf(kBob), bob);
  EXPECT_EQ(Status().of(kAlice)->lost, 0u);
}

TEST_F(SupervisorTest, WhereWorkersAreAsManyAsMayBeAnIdleOneGivesWay) {
  Start([](Supervisor::Options* options) { options->workers_max = 2; });
  EXPECT_EQ(Ask(kAlice, "busy"), "done");
  const pid_t alice = WorkerOf(kAlice);
  EXPECT_NE(WorkerOf(kBob), 0);
  EXPECT_NE(WorkerOf(kCarol), 0);
  EXPECT_EQ(WorkerOf(kAlice), alice);
  EXPECT_LE(Status().head.workers, 2u);
}

TEST_F(SupervisorTest, AStopAsksAndThenKills) {
  Start([](Supervisor::Options* options) { options->stop = milliseconds(700); });
  const pid_t alice = WorkerOf(kAlice), bob = WorkerOf(kBob);
  EXPECT_EQ(Ask(kBob, "stubborn"), "done");
  const UniqueFd stopped = Connect(kAlice);
  SayWord(stopped, "stop");
  SleepFor(milliseconds(100));
  Signal(SIGTERM);
  EXPECT_EQ(Wait(), W_EXITCODE(1, 0)) << "one did not end in order";
  EXPECT_FALSE(Lives(alice));
  EXPECT_FALSE(Lives(bob));
  EXPECT_THAT(Log(), HasSubstr("user 41001: worker " + std::to_string(alice) + " ended, exit code 0"));
  EXPECT_THAT(Log(), HasSubstr("user 41002: worker " + std::to_string(bob) + " does not end, and is killed"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/run/cairnd.sock"));
}

// A second SIGTERM ends a worker at once, with what it has only captured.
TEST_F(SupervisorTest, AWorkerThatEndsAlreadyIsNotSignalledAgain) {
  Start([](Supervisor::Options* options) { options->idle = milliseconds(200), options->stop = seconds(4); });
  EXPECT_EQ(Ask(kAlice, "stubborn"), "done");
  ASSERT_TRUE(Within([&] { return Status().of(kAlice)->ending == 1; }));
  // What waits while it ends is not handed to it.
  const UniqueFd waiting = Connect(kAlice);
  EXPECT_TRUE(Within([&] { return Status().of(kAlice)->waiting == 1; }));
  Signal(SIGTERM);
  EXPECT_EQ(Hear(waiting), "refused");
  EXPECT_EQ(Wait(), W_EXITCODE(1, 0));
  std::ifstream file(folder_ + "/run/41001/cairnd.log");
  std::string signals;
  std::getline(file, signals);
  EXPECT_EQ(signals, "signal 15") << "and no second one";
  EXPECT_FALSE(std::getline(file, signals));
}

TEST_F(SupervisorTest, AReloadIsPassedOn) {
  Start();
  ASSERT_NE(WorkerOf(kAlice), 0);
  Signal(SIGHUP);
  EXPECT_TRUE(Within([&] { return Ask(kAlice, "signals") == " " + std::to_string(SIGHUP); }));
}

TEST_F(SupervisorTest, WorkersEndWithTheSupervisor) {
  Start();
  const pid_t alice = WorkerOf(kAlice);
  Signal(SIGKILL);
  EXPECT_EQ(Wait(), W_EXITCODE(0, SIGKILL));
  EXPECT_TRUE(Within([&] { return !Lives(alice); }));
  // Its sockets are in the way of nobody. Those who have a cache get a worker without asking for it.
  Start();
  EXPECT_TRUE(Within([&] { return Status().of(kAlice) != nullptr && Status().of(kAlice)->pid != 0; }));
  EXPECT_NE(WorkerOf(kAlice), 0);
}

// --- What workers leave ---

TEST_F(SupervisorTest, WhatACrashedWorkerLeavesTheNextOneOfItsUserGetsAndNobodyElse) {
  Start();
  const std::string of_alice = Ask(kAlice, "deposit"), of_bob = Ask(kBob, "deposit");
  ASSERT_THAT(of_alice, MatchesRegex("[0-9]+"));
  ASSERT_THAT(of_bob, MatchesRegex("[0-9]+"));
  EXPECT_EQ(Ask(kAlice, "left"), "end") << "it was the first";
  Crash(kAlice);
  EXPECT_EQ(Ask(kAlice, "left"), "left " + of_alice + " of 41001\nend");
  Crash(kBob);
  EXPECT_EQ(Ask(kBob, "left"), "left " + of_bob + " of 41002\nend");
  EXPECT_EQ(Ask(kCarol, "left"), "end");
  // Twice: nothing is lost while nobody lets go of it.
  Crash(kAlice);
  EXPECT_EQ(Ask(kAlice, "left"), "left " + of_alice + " of 41001\nend");
  EXPECT_EQ(Ask(kAlice, "drop"), "done");
  Crash(kAlice);
  EXPECT_EQ(Ask(kAlice, "left"), "end");
}

TEST_F(SupervisorTest, AWorkerIsStartedForWhatIsLeftThoughNobodyAsks) {
  Start();
  ASSERT_THAT(Ask(kAlice, "deposit"), MatchesRegex("[0-9]+"));
  Crash(kAlice);
  EXPECT_TRUE(Within([&] {
    const Rows rows = Status();
    return rows.of(kAlice) != nullptr && rows.of(kAlice)->pid != 0 && rows.of(kAlice)->lost == 1;
  }));
}

TEST_F(SupervisorTest, AWorkerThatEndsInOrderLeavesNothing) {
  Start();
  ASSERT_THAT(Ask(kAlice, "deposit"), MatchesRegex("[0-9]+"));
  const pid_t worker = WorkerOf(kAlice);
  ::kill(worker, SIGTERM);
  EXPECT_TRUE(Within([&] { return !Lives(worker); }));
  EXPECT_EQ(Ask(kAlice, "left"), "end");
}

// So that workers are started one soon after the other though nobody asks for them.
void WithoutPauses(Supervisor::Options* options) {
  options->pause_min = options->pause_max = options->start_every = milliseconds(1);
  options->watchdog = milliseconds(10);
}

TEST_F(SupervisorTest, WhatThirtyWorkersDidNotSurviveIsLetGoOf) {
  Start(WithoutPauses);
  ASSERT_THAT(Ask(kAlice, "sick 1000"), MatchesRegex("[0-9]+"));
  Crash(kAlice);
  EXPECT_TRUE(LogSays("user 41001: 30 workers did not take up what was left: it is let go of"));
  EXPECT_EQ(Ask(kAlice, "left"), "end");
  const std::string log = Log();
  std::size_t sick = 0;
  for (std::size_t at = log.find("exit code 5"); at != log.npos; at = log.find("exit code 5", at + 1)) ++sick;
  EXPECT_EQ(sick, 30u);
}

TEST_F(SupervisorTest, OneWorkerThatServesMakesThemCountAnew) {
  Start(WithoutPauses);
  ASSERT_THAT(Ask(kAlice, "sick 29"), MatchesRegex("[0-9]+"));
  Crash(kAlice);
  ASSERT_TRUE(Within([&] { return Status().of(kAlice)->lost == 30; }));
  EXPECT_THAT(Ask(kAlice, "left"), HasSubstr("sick 0\nend"));
  EXPECT_EQ(Ask(kAlice, "sick 29"), "done");
  Crash(kAlice);
  ASSERT_TRUE(Within([&] { return Status().of(kAlice)->lost == 60; }));
  EXPECT_THAT(Ask(kAlice, "left"), HasSubstr("sick 0\nend"));
}

// The requests beyond what is usual are answered as fast as others are not held up by them: a hundred a second.
TEST_F(SupervisorTest, WhoAsksForDepositsWithoutEndIsListenedToNowAndThen) {
  Start();
  const auto begun = SteadyNow();
  EXPECT_THAT(Ask(kAlice, "flood"), MatchesRegex("[0-9]+")) << "it is answered in the end";
  EXPECT_GE(SteadyNow() - begun, milliseconds(900)) << "but not at once";
  EXPECT_THAT(Ask(kBob, "deposit"), MatchesRegex("[0-9]+"));
}

TEST_F(SupervisorTest, AUserHasSoManyDepositsAndNoMore) {
  Start([](Supervisor::Options* options) { options->deposits_max = {.count = 3, .bytes = 5 << 20}; });
  EXPECT_THAT(Ask(kAlice, "deposit"), MatchesRegex("[0-9]+"));  // of 2 MiB each
  EXPECT_THAT(Ask(kAlice, "deposit"), MatchesRegex("[0-9]+"));
  EXPECT_EQ(Ask(kAlice, "deposit"), "none");
  EXPECT_THAT(Ask(kBob, "deposit"), MatchesRegex("[0-9]+")) << "another's are no matter to him";
}

TEST_F(SupervisorTest, TheServiceManagerHoldsWhatTheSupervisorHolds) {
  const std::string told = folder_ + "/told";
  Start([&](Supervisor::Options* options) {
    options->notify_holder = [told](std::string_view state, int fd) {
      std::ofstream(told, std::ios::app) << state << "\nwith " << (fd >= 0 ? "one" : "none") << std::endl;
      return true;
    };
  });
  const std::string inode = Ask(kAlice, "deposit");
  Crash(kAlice);
  ASSERT_THAT(Ask(kAlice, "left"), HasSubstr(inode));
  EXPECT_EQ(Ask(kAlice, "drop"), "done");
  const std::string name = "FDNAME=cairn-41001-" + inode;
  const std::string expected =
      "FDSTORE=1\nFDPOLL=0\n" + name + "\nwith one\nFDSTOREREMOVE=1\n" + name + "\nwith none\n";
  EXPECT_TRUE(Within([&] {
    std::stringstream text;
    text << std::ifstream(told).rdbuf();
    return text.str() == expected;
  }));
}

TEST_F(SupervisorTest, WhatTheServiceManagerHeldGoesToAWorkerOfItsUser) {
  Start([&](Supervisor::Options* options) {
    absl::StatusOr<UniqueFd> memory = MakeSealedMemory("test", 4096);
    if (!memory.ok() || ::pwrite(memory->get(), "of 41001", 9, 0) != 9) std::_Exit(7);
    options->deposits.push_back({.user = kAlice, .fd = *std::move(memory)});
    options->deposits.push_back({.user = kBob, .fd = UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC))});
  });
  EXPECT_TRUE(LogSays("user 41002: a deposit: "));
  EXPECT_THAT(Ask(kAlice, "left"), MatchesRegex("left [0-9]+ of 41001\nend"));
  EXPECT_EQ(Ask(kBob, "left"), "end");
}

TEST_F(SupervisorTest, StatusIsRootsAlone) {
  Start();
  EXPECT_FALSE(Connect(kAlice, kStatusSocketName).valid());
  ASSERT_EQ(::chmod((folder_ + "/run/cairnd-status.sock").c_str(), 0666), 0);
  EXPECT_EQ(Hear(Connect(kAlice, kStatusSocketName)), "");
  ASSERT_NE(WorkerOf(kAlice), 0);
  const Rows rows = Status();
  ASSERT_EQ(rows.rows.size(), 1u);
  EXPECT_EQ(rows.head.pid, static_cast<std::uint32_t>(pid_));
  EXPECT_EQ(rows.head.workers, 1u);
  EXPECT_EQ(rows.rows[0].counters.ready, 1u);
  EXPECT_EQ(rows.rows[0].counters.taken, 1u);
}

TEST_F(SupervisorTest, AFolderThatOthersMayChangeIsNoPlaceForUsersFolders) {
  std::filesystem::create_directories(folder_ + "/cache");
  std::filesystem::permissions(folder_ + "/cache", std::filesystem::perms::all);
  Supervisor::Options options;
  options.runtime_dir = folder_ + "/run", options.cache_dir = folder_ + "/cache";
  const auto opened = Supervisor::Open(std::move(options));
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("others may change it"));
}

}  // namespace
}  // namespace cairn::testing
