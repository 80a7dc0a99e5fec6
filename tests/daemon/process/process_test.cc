#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "daemon/process/background.h"
#include "daemon/process/job_step.h"
#include "daemon/process/memory_limit.h"
#include "daemon/process/service_notify.h"
#include "storage/base/lock_file.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

class ProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/process.XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string folder;
};

using LockFileTest = ProcessTest;

TEST_F(LockFileTest, ASecondHolderIsRefusedAndToldWhoHoldsIt) {
  const std::string path = folder + "/a/b/cairnd.lock";
  const auto first = LockFile::Take(path);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = LockFile::Take(path);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(MessageOf(second.status())), HasSubstr("process " + std::to_string(::getpid()) + " on "));
  struct stat info {};
  ASSERT_EQ(::stat((folder + "/a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(LockFileTest, IsFreeAgainOnceItsHolderIsGone) {
  const std::string path = folder + "/cairnd.lock";
  { ASSERT_TRUE(LockFile::Take(path).ok()); }
  EXPECT_TRUE(LockFile::Take(path).ok());
}

// As that of a daemon that is killed and started again at once.
TEST_F(LockFileTest, OneThatIsAboutToGoIsWaitedFor) {
  const std::string path = folder + "/cairnd.lock";
  auto first = LockFile::Take(path);
  ASSERT_TRUE(first.ok()) << first.status();
  std::atomic<bool> begun = false;
  absl::Status taken;
  std::thread second([&] {
    begun = true;
    taken = LockFile::Take(path, std::chrono::minutes(1)).status();
  });
  while (!begun) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();  // likely, not certainly, it has been refused once by now
  first = absl::UnavailableError("gone");
  second.join();
  EXPECT_TRUE(taken.ok()) << taken;
}

TEST_F(LockFileTest, WhatStandsInALeftFileIsNotTrusted) {
  const std::string path = folder + "/cairnd.lock";
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_EQ(::flock(fd.get(), LOCK_EX), 0);
  ASSERT_EQ(::write(fd.get(), "\x1b[31m 1\n", 8), 8);
  EXPECT_THAT(std::string(MessageOf(LockFile::Take(path).status())), HasSubstr("held by an unknown process"));
}

TEST_F(LockFileTest, LinksAndOtherThingsAreRefused) {
  std::filesystem::create_symlink("/tmp/elsewhere", folder + "/link.lock");
  EXPECT_EQ(LockFile::Take(folder + "/link.lock").status().code(), absl::StatusCode::kPermissionDenied);
  ASSERT_EQ(::mkfifo((folder + "/fifo.lock").c_str(), 0600), 0);
  EXPECT_EQ(LockFile::Take(folder + "/fifo.lock").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(LockFile::Take("/proc/none/cairnd.lock").status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(LockFileTest, AnotherUsersDirectoryIsRefused) {
  // Only root can make one. For others root's directory is the only foreign one at hand, and that is refused by the
  // kernel.
  const bool root = ::geteuid() == 0;
  if (root) {
    ASSERT_EQ(::chown(folder.c_str(), 65534, 65534), 0);
  }
  const std::string path = (root ? folder : "/etc") + "/cairnd.lock";
  EXPECT_EQ(LockFile::Take(path).status().code(), absl::StatusCode::kPermissionDenied);
  if (root) {
    EXPECT_EQ(CheckOwner(folder).code(), absl::StatusCode::kPermissionDenied);
  }
  EXPECT_TRUE(CheckOwner("/etc").ok());  // root's
}

using MemoryLimitTest = ProcessTest;

TEST_F(MemoryLimitTest, TheLeastLimitOfTheGroupsAboveCounts) {
  constexpr std::uint64_t kMachine = 64ull << 30;
  const auto put = [&](const std::string& group, const std::string& file, const std::string& limit) {
    std::filesystem::create_directories(folder + "/" + group);
    std::ofstream(folder + "/" + group + "/" + file) << limit << "\n";
  };
  EXPECT_EQ(MemoryLimit(kMachine, "0::/user/me\n", folder), kMachine);
  put("user", "memory.max", "8000000000");
  put("user/me", "memory.max", "max");
  EXPECT_EQ(MemoryLimit(kMachine, "0::/user/me\n", folder), 8'000'000'000u);
  EXPECT_EQ(MemoryLimit(kMachine, "0::/other\n", folder), kMachine);
  put("unified/job", "memory.max", "7000000000");  // beside version 1
  EXPECT_EQ(MemoryLimit(kMachine, "0::/job\n", folder), 7'000'000'000u);
  put("memory", "memory.limit_in_bytes", "9223372036854771712");  // the kernel's none
  put("memory/slurm/uid_1", "memory.limit_in_bytes", "6000000000");
  EXPECT_EQ(MemoryLimit(kMachine, "5:cpu:/x\n4:hugetlb,memory:/slurm/uid_1/step\n0::/\n", folder), 6'000'000'000u);
  EXPECT_EQ(MemoryLimit(kMachine, "4:memory:/elsewhere\n", folder), kMachine);
  EXPECT_EQ(MemoryLimit(kMachine, "no groups at all", folder), kMachine);
  EXPECT_EQ(MemoryLimit(1000, "0::/user\n", folder), 1000u);
}

using ServiceNotifyTest = ProcessTest;

TEST_F(ServiceNotifyTest, StateReachesPathAndAbstractSockets) {
  for (const std::string& name : {folder + "/notify", "@cairn-test-" + std::to_string(::getpid())}) {
    const UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof address.sun_path - 1);
    if (name.front() == '@') address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    ASSERT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
    EXPECT_TRUE(NotifyService(name, "READY=1").ok()) << name;
    std::array<char, 64> text{};
    EXPECT_EQ(::recv(fd.get(), text.data(), text.size(), MSG_DONTWAIT), 7);
    EXPECT_STREQ(text.data(), "READY=1");
  }
}

TEST_F(ServiceNotifyTest, NoSocketIsNoError) {
  EXPECT_TRUE(NotifyService(std::nullopt, "READY=1").ok());
}

TEST_F(ServiceNotifyTest, ABadSocketIsAnError) {
  EXPECT_EQ(NotifyService("relative", "READY=1").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(NotifyService("/" + std::string(200, 'x'), "READY=1").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(NotifyService(folder + "/nobody", "READY=1").code(), absl::StatusCode::kUnavailable);
}

std::string StepWith(std::map<std::string, std::string> variables, std::string_view cgroup) {
  return JobStepOf({.variable = [variables](const char* name) -> std::optional<std::string> {
                      const auto it = variables.find(name);
                      return it == variables.end() ? std::nullopt : std::optional(it->second);
                    },
                    .uid = 1},
                   cgroup);
}

TEST(JobStepTest, StepsAreKnownByVariablesAndControlGroups) {
  EXPECT_EQ(StepWith({{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}}, ""), "Slurm step 7.0");
  EXPECT_EQ(StepWith({{"PBS_JOBID", "8.srv"}}, ""), "PBS job 8.srv");
  EXPECT_EQ(StepWith({{"LSB_JOBID", "9"}}, ""), "LSF job 9");
  EXPECT_EQ(StepWith({}, "1:x:/\n0::/slurm/uid_1/job_7/step_batch/task_0\n"),
            "Slurm step in control group /slurm/uid_1/job_7/step_batch/task_0");
}

TEST(JobStepTest, APrologOrALoginIsNoStep) {
  EXPECT_EQ(StepWith({{"SLURM_JOB_ID", "7"}}, "0::/system.slice/slurmd.service\n"), "");
  EXPECT_EQ(StepWith({}, "0::/user.slice/user-1000.slice/session-2.scope"), "");
}

// Runs `child` below a Background of a process of its own; its exit code and output.
std::pair<int, std::string> RunInBackground(void (*child)(Background&, const std::string&),
                                            const std::string& argument) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    auto background = Background::Start(30'000);
    if (background.ok()) child(*background, argument);
    std::_Exit(77);
  }
  ::close(ends[1]);
  int status = 0;
  EXPECT_EQ(::waitpid(parent, &status, 0), parent);
  std::string text(4096, '\0');
  const ssize_t n = ::read(ends[0], text.data(), text.size());
  ::close(ends[0]);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return {WEXITSTATUS(status), text};
}

using BackgroundTest = ProcessTest;

TEST_F(BackgroundTest, TheStarterLeavesWithZeroOnceReady) {
  const auto [code, text] = RunInBackground(
      [](Background& background, const std::string& log) {
        background.Ready("123 /sock", log);
        std::_Exit(0);
      },
      folder + "/log");
  EXPECT_EQ(code, 0);
  EXPECT_EQ(text, "123 /sock\n");
}

TEST_F(BackgroundTest, TheStarterPassesTheReasonOn) {
  const auto [code, text] = RunInBackground(
      [](Background& background, const std::string&) {
        background.Failed(3, "held by process 1");
        std::_Exit(3);
      },
      "");
  EXPECT_EQ(code, 3);
  EXPECT_EQ(text, "held by process 1\n");
}

TEST_F(BackgroundTest, AChildThatDiesSilentlyIsAFailure) {
  const auto [code, text] = RunInBackground([](Background&, const std::string&) { std::_Exit(0); }, "");
  EXPECT_EQ(code, 1);
  EXPECT_THAT(text, HasSubstr("before it was ready"));
}

}  // namespace
}  // namespace cairn
