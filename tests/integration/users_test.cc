// One daemon for all users: ordinary users who check point and restart through root's supervisor.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "client/cairn.h"
#include "daemon/supervisor/hand_over.h"
#include "daemon/supervisor/page.h"
#include "proto/supervisor.h"
#include "storage/base/clock.h"
#include "storage/base/unique_fd.h"
#include "storage/base/user_name.h"
#include "tests/integration/harness.h"
#include "tests/integration/notify_socket.h"
#include "tests/integration/process.h"

namespace cairn::testing {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t kElements = 1 << 20;  // 8 MiB

bool Within(const std::function<bool()>& holds, milliseconds deadline = seconds(30)) {
  const auto end = SteadyNow() + deadline;
  while (!holds()) {
    if (SteadyNow() >= end) return false;
    SleepFor(milliseconds(20));
  }
  return true;
}

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
      EXPECT_EQ(daemon_->Wait(seconds(90)).exit_code, 0);
    }
    if (HasFailure()) {
      std::cerr << "--- log of the supervisor:\n" << ReadLog("cairnd.log");
      for (const uid_t user : {kAlice, kBob, kCarol}) {
        std::cerr << "--- log of the worker of " << user << ":\n"
                  << ReadLog("run/" + std::to_string(user) + "/cairnd.log");
      }
    }
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
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
    ASSERT_EQ(ready.Await(*daemon_), "READY=1") << daemon_->Wait(seconds(0)).output;
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

// --- What was only captured ---

class CrashTest : public UsersTest {
 protected:
  static constexpr std::size_t kWords = 24 << 20;  // 192 MiB: their way to the disk takes some time

  void SetUp() override {
    UsersTest::SetUp();
    if (IsSkipped()) return;
    std::ofstream(folder_ + "/cairnd.toml")
        << "[supervisor]\nuid_min = 2\n[image]\nbytes_max = \"512MiB\"\n[lease]\nterm = \"1s\"\n";
  }

  // Runs as the user, one of `nranks` ranks: opens, restores `expected` (0: there is nothing), and, if `crash` is
  // given, checkpoints the next step, calls it as soon as that is captured, and waits until it is local. 0, or the
  // line.
  int Crash(uid_t user, int rank, int nranks, std::uint64_t expected, const std::function<void()>& crash) const {
    const std::string address = "unix:" + folder_ + "/run/cairnd.sock", prefix = PrefixOf(user);
    cairn_options options = CAIRN_OPTIONS_INIT;
    options.address = address.c_str();
    options.prefix = prefix.c_str();
    options.rank = rank, options.nranks = nranks;
    options.launch = expected == 0 ? "first" : "second";
    options.deadline_ms = 60'000;
    cairn_session* session = nullptr;
    const auto failed = [&](int line) {
      std::cerr << "rank " << rank << ", line " << line << ": " << cairn_error(session) << std::endl;
      return line % 200 + 10;
    };
    if (cairn_open(&options, &session) != CAIRN_OK) return failed(__LINE__);
    std::uint64_t step = 0;
    std::vector<std::uint64_t> field(kWords / nranks);
    cairn_protect_value(session, 1, "step", &step, 1, CAIRN_UINT64);
    cairn_protect(session, 2, field.data(), field.size(), CAIRN_UINT64);
    const int code = cairn_resume(session, nullptr);
    if (code != (expected == 0 ? CAIRN_NOT_FOUND : CAIRN_OK) || step != expected) return failed(__LINE__);
    for (std::size_t i = 0; expected != 0 && i < field.size(); ++i) {
      if (field[i] != i * 3 + step + rank) return failed(__LINE__);
    }
    if (crash) {
      std::uint64_t dataset = 0;
      ++step;
      for (std::size_t i = 0; i < field.size(); ++i) field[i] = i * 3 + step + rank;
      if (cairn_checkpoint(session, step, &dataset) != CAIRN_OK) return failed(__LINE__);
      crash();
      if (cairn_wait(session, dataset, CAIRN_LEVEL_LOCAL, 60'000) != CAIRN_OK) return failed(__LINE__);
    }
    if (cairn_close(session) != CAIRN_OK) return failed(__LINE__);
    return 0;
  }

  std::string WorkersLog() const { return ReadLog("run/" + std::to_string(kAlice) + "/cairnd.log"); }
};

// The worker is killed by its user the moment that the call has returned.
TEST_F(CrashTest, WhatWasOnlyCapturedOutlivesItsWorker) {
  Start({"--flush-every", "0"});
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 0, 0, 0); }), 0);  // there is a worker
  const auto worker = static_cast<pid_t>(Workers().at(kAlice).pid);
  EXPECT_EQ(As(kAlice, [&] { return Crash(kAlice, 0, 1, 0, [&] { ::kill(worker, SIGKILL); }); }), 0);
  EXPECT_THAT(WorkersLog(), HasSubstr("(step 1, launch 2), which the last daemon had captured, is taken up"));
  EXPECT_EQ(Workers().at(kAlice).lost, 1u);
  EXPECT_EQ(As(kAlice, [&] { return Crash(kAlice, 0, 1, 1, nullptr); }), 0) << "bit for bit";
}

// All ranks have told each other that they have captured when one of them kills it.
TEST_F(CrashTest, WhatAllRanksHadCapturedIsTakenUpTogether) {
  Start({"--flush-every", "0"});
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 0, 0, 0); }), 0);
  const auto worker = static_cast<pid_t>(Workers().at(kAlice).pid);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  const pid_t other =
      Begin(kAlice, [&] { return Crash(kAlice, 1, 2, 0, [&] { EXPECT_EQ(::write(writer.get(), "x", 1), 1); }); });
  EXPECT_EQ(As(kAlice,
               [&] {
                 return Crash(kAlice, 0, 2, 0, [&] {
                   char byte = 0;
                   EXPECT_EQ(::read(reader.get(), &byte, 1), 1);
                   ::kill(worker, SIGKILL);
                 });
               }),
            0);
  EXPECT_EQ(End(other), 0);
  EXPECT_THAT(WorkersLog(), HasSubstr("is taken up"));
  const pid_t again = Begin(kAlice, [&] { return Crash(kAlice, 1, 2, 1, nullptr); });
  EXPECT_EQ(As(kAlice, [&] { return Crash(kAlice, 0, 2, 1, nullptr); }), 0);
  EXPECT_EQ(End(again), 0);
}

// Kilobytes of a process that are its own, or its share of what others have, too.
long ShareOfMemory(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/smaps_rollup");
  for (std::string word; file >> word;) {
    if (word != "Pss:") continue;
    long kilobytes = 0;
    file >> kilobytes;
    return kilobytes;
  }
  return 0;
}

TEST_F(UsersTest, FiftyUsersAtOnce) {
  constexpr uid_t kFirst = 43'000, kCount = 50;
  const std::string passwd = folder_ + "/passwd";
  std::ofstream users(passwd);
  users << "root:x:0:0:root:/root:/bin/sh\n";
  for (uid_t user = kFirst; user < kFirst + kCount; ++user) {
    users << "u" << user << ":x:" << user << ":" << user << "::/:/bin/sh\n";
    ASSERT_EQ(::mkdir(PrefixOf(user).c_str(), 0700), 0);
    ASSERT_EQ(::chown(PrefixOf(user).c_str(), user, user), 0);
  }
  users.close();
  Start({}, "mount --bind \"$0/passwd\" /etc/passwd");
  const auto begin = SteadyNow();
  const auto ms = [&] { return std::chrono::duration_cast<milliseconds>(SteadyNow() - begin).count(); };
  std::vector<pid_t> clients;
  for (uid_t user = kFirst; user < kFirst + kCount; ++user) {
    clients.push_back(Begin(user, [&, user] { return Work(user, 0, 0, 0); }));
  }
  std::map<int, int> codes;
  std::vector<long> ended;
  for (const pid_t client : clients) {
    ++codes[End(client)];
    ended.push_back(ms());
  }
  EXPECT_EQ(codes[0], static_cast<int>(kCount));
  const auto workers = Workers();
  EXPECT_EQ(workers.size(), kCount);
  long memory = 0;
  for (const auto& [user, worker] : workers) memory += ShareOfMemory(static_cast<pid_t>(worker.pid));
  std::cout << kCount << " users at once, each opens a run for the first time: the first has done so after "
            << *std::ranges::min_element(ended) << " ms, the last after " << *std::ranges::max_element(ended) << " ms; "
            << memory / static_cast<long>(kCount) << " KiB for each worker, " << ShareOfMemory(daemon_->pid())
            << " KiB for the supervisor\n";
  const auto again = SteadyNow();
  EXPECT_EQ(As(kFirst, [&] { return Work(kFirst, 0, 0, 0); }), 0);
  std::cout << "one of them again: " << std::chrono::duration_cast<milliseconds>(SteadyNow() - again).count()
            << " ms\n";
}

// The cache on a file system of its own, of 160 MiB, of which 32 MiB stay free.
class UsersShareTest : public UsersTest {
 protected:
  static constexpr std::uint64_t kMiB = 1 << 20, kReserve = 32 * kMiB, kShare = 64 * kMiB;

  // `others`: what lies there besides, in MiB.
  void StartWithShares(int others, const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = {"--cache-reserve",      "32MiB", "--supervisor-shares", "2",
                                      "--cache-keep",         "1000",  "--flush-every",       "0",
                                      "--ftiff-differential", "false"};
    flags.insert(flags.end(), more.begin(), more.end());
    Start(flags, fmt::format("mkdir -m 755 $0/cache && mount -t tmpfs -o size=160m,mode=755 cache $0/cache && "
                             "head -c {}M /dev/zero > $0/cache/others",
                             others));
  }
  // As the daemon sees it.
  std::uint64_t Free() const {
    struct statvfs info {};
    const std::string cache = fmt::format("/proc/{}/root{}/cache", daemon_->pid(), folder_);
    return ::statvfs(cache.c_str(), &info) == 0 ? std::uint64_t{info.f_bavail} * info.f_frsize : 0;
  }
};

TEST_F(UsersShareTest, AUserWhoFillsTheCacheLeavesTheOtherTheirShareAndTheReserve) {
  StartWithShares(0);
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 0, 24, CAIRN_LEVEL_LOCAL); }), 0);  // three times her share
  EXPECT_TRUE(Within([&] { return Workers()[kAlice].counters.cache_bytes_max == kShare; }));
  EXPECT_TRUE(Within([&] { return Workers()[kAlice].counters.cache_bytes_used >= kShare - 16 * kMiB; }));
  EXPECT_LE(Workers()[kAlice].counters.cache_bytes_used, kShare);
  EXPECT_EQ(As(kBob, [&] { return Work(kBob, 0, 7, CAIRN_LEVEL_LOCAL); }), 0);
  EXPECT_TRUE(Within([&] { return Workers()[kBob].counters.cache_bytes_used >= 7 * 8 * kMiB; }))
      << Workers()[kBob].counters.cache_bytes_used;
  EXPECT_GE(Free(), kReserve);
  EXPECT_THAT(ReadLog("run/6/cairnd.log"), Not(HasSubstr("is full")));
  EXPECT_THAT(ReadLog("run/6/cairnd.log"), HasSubstr("64MiB of the cache's file system, of which 32MiB stay free"));
}

TEST_F(UsersShareTest, AUserWithTwoSharesHasTwice) {
  StartWithShares(0, {"--supervisor-shares-of", AccountOf(kAlice)->name + "=2"});
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 0, 12, CAIRN_LEVEL_LOCAL); }), 0);
  EXPECT_TRUE(Within([&] { return Workers()[kAlice].counters.cache_bytes_max == 2 * kShare; }));
  EXPECT_TRUE(Within([&] { return Workers()[kAlice].counters.cache_bytes_used >= 12 * 8 * kMiB; }));
}

TEST_F(UsersShareTest, TheReserveHoldsWhoeverHasTakenTheRest) {
  StartWithShares(104, {"--flush-every", "1"});  // 24 MiB are left above the reserve: less than the share
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 0, 6, CAIRN_LEVEL_PREFIX); }), 0)
      << "by way of the prefix, if need be";
  EXPECT_GE(Free(), kReserve);
  EXPECT_EQ(As(kBob, [&] { return Work(kBob, 0, 6, CAIRN_LEVEL_PREFIX); }), 0);
  EXPECT_GE(Free(), kReserve - kMiB) << "records are small";
}

// Clients that share no memory with the node, and know the folder of their run.
class RemoteUsersTest : public UsersTest {
 protected:
  static constexpr int kPorts = 2;
  void StartListening(std::vector<std::string> flags = {}) {
    // For libcairn, which finds it by its name then; the folder that it lies in is not for all users.
    ASSERT_NE(::dlopen(DataPath("client/grpc/libcairn_grpc.so").c_str(), RTLD_NOW | RTLD_LOCAL), nullptr)
        << ::dlerror();
    first_ = 24'000 + ::getpid() % 2'000 * 4;
    flags.insert(flags.end(), {"--ingest-listen", fmt::format("127.0.0.1:{}-{}", first_, first_ + kPorts - 1)});
    Start(flags);
  }
  int WorkFromAfar(uid_t user, std::uint64_t expected_step, int steps) const {
    return Work(user, expected_step, steps, CAIRN_LEVEL_PREFIX, "grpc+run:");
  }
  // The file in which the user's worker tells of itself.
  std::string ToldBy(uid_t user) const {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(PrefixOf(user) + "/.cairn", none)) {
      if (entry.path().filename().string().starts_with("ingest.")) return entry.path();
    }
    return "";
  }
  bool Listens(uid_t user) const {
    return Within([&] { return !ToldBy(user).empty(); });
  }
  static std::string Content(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  int first_ = 0;
};

TEST_F(RemoteUsersTest, EachFindsTheirOwnWorkerAndNoneComesToAnothers) {
  StartListening();
  for (const uid_t user : {kAlice, kBob}) {  // the run is opened on the node
    EXPECT_EQ(As(user, [&] { return Work(user, 0, 1, CAIRN_LEVEL_LOCAL); }), 0);
    ASSERT_TRUE(Listens(user));
  }
  const pid_t alice = Begin(kAlice, [&] { return WorkFromAfar(kAlice, 1, 2); });
  const pid_t bob = Begin(kBob, [&] { return WorkFromAfar(kBob, 1, 3); });
  EXPECT_EQ(End(alice), 0);
  EXPECT_EQ(End(bob), 0);
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 3, 0, 0); }), 0);
  EXPECT_EQ(As(kBob, [&] { return Work(kBob, 4, 0, 0); }), 0);
  // Each says a port and keys of its own, to its user alone.
  const std::string of_alice = Content(ToldBy(kAlice)), of_bob = Content(ToldBy(kBob));
  EXPECT_THAT(of_alice + of_bob, HasSubstr(fmt::format("address 127.0.0.1:{}\n", first_)));
  EXPECT_THAT(of_alice + of_bob, HasSubstr(fmt::format("address 127.0.0.1:{}\n", first_ + 1)));
  EXPECT_EQ(As(kBob, [&] { return ::access(ToldBy(kAlice).c_str(), R_OK) == 0 ? 1 : 0; }), 0);
  // Bob says, where his client looks, that he is at Alice's port: her worker has not his keys, and does not take them.
  const auto address = [](const std::string& told) {
    const std::size_t at = told.find("address ");
    return told.substr(at, told.find('\n', at) - at);
  };
  std::string forged = of_bob;
  forged.replace(forged.find("address "), address(of_bob).size(), address(of_alice));
  EXPECT_EQ(As(kBob,
               [&] {
                 std::ofstream(ToldBy(kBob)) << forged;
                 return 0;
               }),
            0);
  EXPECT_NE(As(kBob, [&] { return WorkFromAfar(kBob, 4, 0); }), 0);
  EXPECT_THAT(ReadLog("run/5/cairnd.log"), Not(HasSubstr(PrefixOf(kBob))));
}

TEST_F(RemoteUsersTest, AfterTheEndOfAWorkerItsSuccessorIsFound) {
  StartListening();
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 0, 1, CAIRN_LEVEL_LOCAL); }), 0);
  ASSERT_TRUE(Listens(kAlice));
  const std::string before = Content(ToldBy(kAlice));
  const auto pid = static_cast<pid_t>(Workers()[kAlice].pid);
  EXPECT_EQ(As(kAlice, [&] { return ::kill(pid, SIGKILL); }), 0);
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 1, 0, 0); }), 0);  // on the node: that starts the next
  EXPECT_TRUE(Within([&] { return Content(ToldBy(kAlice)) != before; }));
  EXPECT_EQ(As(kAlice, [&] { return WorkFromAfar(kAlice, 1, 1); }), 0);
}

TEST_F(RemoteUsersTest, WhoFindsNoPortIsToldAndServedOnTheNode) {
  StartListening();
  for (const uid_t user : {kAlice, kBob, kCarol}) {
    EXPECT_EQ(As(user, [&] { return Work(user, 0, 1, CAIRN_LEVEL_LOCAL); }), 0);
  }
  EXPECT_TRUE(
      Within([&] { return ReadLog("run/7/cairnd.log").find("no port of ingest.listen") != std::string::npos; }));
  EXPECT_TRUE(Within([&] { return Workers()[kCarol].counters.warnings >= 1; })) << "`cairn status` says it";
  EXPECT_EQ(ToldBy(kCarol), "");
  EXPECT_NE(As(kCarol, [&] { return WorkFromAfar(kCarol, 1, 0); }), 0);
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
  Start({"--supervisor-idle", "1s", "--flush-bandwidth", "2MB/s", "--flush-beside-captures", "2MB/s"});
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 0, 1, CAIRN_LEVEL_LOCAL); }), 0);
  const std::string commit = PrefixOf(kAlice) + "/.scr/scr.dataset.1/commit.cairn";
  EXPECT_FALSE(fs::exists(commit));
  EXPECT_TRUE(Within([&] { return Workers()[kAlice].pid == 0; }));
  EXPECT_TRUE(fs::exists(commit)) << "it ended in the middle of a flush";
  EXPECT_EQ(Workers()[kAlice].lost, 0u);
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 1, 0, 0); }), 0);
}

TEST_F(UsersTest, DrainsAreCountedAndAWorkerStaysWhileItBringsSomething) {
  constexpr int kFiles = 8;  // of 1 MiB
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
      << "/pfs-%u\"\nsettle = \"0\"\nbandwidth = \"2 MB/s\"\nparallel = 1\n";
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
