// What the kernel keeps workers to: groups of processes, and quotas of their caches.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "daemon/supervisor/cgroup.h"
#include "daemon/supervisor/project_quota.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"
#include "tests/daemon/supervisor/parts_fixture.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// --- cgroup.h: a tree that looks like the kernel's ---

using GroupsTest = PartsTest;

constexpr WorkerLimits kLimits{.memory_bytes = 1 << 30, .cpu_weight = 50, .io_weight = 1090, .tasks_max = 400};

TEST_F(GroupsTest, Version2) {
  Write("system.slice/cairnd.service/cgroup.controllers", "cpuset cpu io memory pids\n");
  Write("system.slice/cairnd.service/cgroup.subtree_control");
  Write("system.slice/cairnd.service/supervisor/cgroup.procs");
  for (const char* file : {"memory.max", "cpu.weight", "io.weight", "io.bfq.weight", "pids.max", "cgroup.procs"}) {
    Write(std::string("system.slice/cairnd.service/user-7/") + file);
  }
  const auto groups = WorkerGroups::Open(folder_, "0::/system.slice/cairnd.service\n", "", 42, true);
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_TRUE(groups->there());
  EXPECT_THAT(groups->Describe(),
              HasSubstr("version 2 below " + folder_ + "/system.slice/cairnd.service: memory cpu pids io"));
  EXPECT_TRUE(groups->weighs_io());
  const std::string at = "system.slice/cairnd.service/";
  EXPECT_EQ(Read(at + "supervisor/cgroup.procs"), "42");
  EXPECT_EQ(Read(at + "cgroup.subtree_control"), "+memory +cpu +pids") << "as it was written last";
  EXPECT_TRUE(groups->Enter(7, kLimits, 43).ok());
  EXPECT_EQ(Read(at + "user-7/memory.max"), "1073741824");
  EXPECT_EQ(Read(at + "user-7/cpu.weight"), "50");
  EXPECT_EQ(Read(at + "user-7/io.weight"), "default 1090");
  EXPECT_EQ(Read(at + "user-7/io.bfq.weight"), "190");
  EXPECT_EQ(Read(at + "user-7/pids.max"), "400");
  EXPECT_EQ(Read(at + "user-7/cgroup.procs"), "43");
  EXPECT_TRUE(groups->Enter(7, {.memory_bytes = 0, .cpu_weight = 100, .tasks_max = 0}, 43).ok());
  EXPECT_EQ(Read(at + "user-7/memory.max").substr(0, 3), "max");
  EXPECT_FALSE(groups->Enter(8, kLimits, 43).ok()) << "a limit that cannot be set is none";
}

TEST_F(GroupsTest, Version1) {
  for (const char* file : {"memory/cairn/cgroup.procs", "memory/cairn/user-7/memory.limit_in_bytes",
                           "memory/cairn/user-7/cgroup.procs", "cpu,cpuacct/cairn/cgroup.procs",
                           "cpu,cpuacct/cairn/user-7/cpu.shares", "cpu,cpuacct/cairn/user-7/cgroup.procs"}) {
    Write(file);
  }
  fs::create_directories(folder_ + "/pids");  // which may not be written: no cgroup.procs in the parent
  const auto groups =
      WorkerGroups::Open(folder_, "8:pids:/\n4:memory:/x\n1:cpu,cpuacct:/x\n0::/\n", "/cairn", 42, true);
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_THAT(groups->Describe(), HasSubstr("/memory/cairn: memory"));
  EXPECT_TRUE(groups->Enter(7, kLimits, 43).ok());
  EXPECT_EQ(Read("memory/cairn/user-7/memory.limit_in_bytes"), "1073741824");
  EXPECT_EQ(Read("memory/cairn/user-7/cgroup.procs"), "43");
  EXPECT_EQ(Read("cpu,cpuacct/cairn/user-7/cpu.shares"), "512");
}

TEST_F(GroupsTest, DisksAreLeftAloneUnlessAWeightIsWanted) {
  Write("a/cgroup.controllers", "io memory\n");
  for (const char* file : {"a/cgroup.subtree_control", "a/supervisor/cgroup.procs", "blkio/cairn/cgroup.procs",
                           "memory/cairn/cgroup.procs"}) {
    Write(file);
  }
  const auto version2 = WorkerGroups::Open(folder_, "0::/a\n", "", 42, false);
  ASSERT_TRUE(version2.ok()) << version2.status();
  EXPECT_FALSE(version2->weighs_io());
  EXPECT_EQ(Read("a/cgroup.subtree_control"), "+memory");
  const std::string own = "5:blkio:/x\n4:memory:/x\n";
  const auto without = WorkerGroups::Open(folder_, own, "/cairn", 42, false);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_THAT(without->Describe(), Not(HasSubstr("blkio")));
  const auto with = WorkerGroups::Open(folder_, own, "/cairn", 42, true);
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_THAT(with->Describe(), HasSubstr("/blkio/cairn: io"));
}

TEST_F(GroupsTest, AKernelThatSharesNoDiskByWeightsIsToldOfOnlyIfOneIsWanted) {
  Write("a/cgroup.controllers", "io\n");
  for (const char* file : {"a/cgroup.subtree_control", "a/supervisor/cgroup.procs", "a/user-7/cgroup.procs"})
    Write(file);
  const auto groups = WorkerGroups::Open(folder_, "0::/a\n", "", 42, true);
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_EQ(Read("a/cgroup.subtree_control"), "+io");
  EXPECT_TRUE(groups->Enter(7, {}, 43).ok());
  const absl::Status entered = groups->Enter(7, {.io_weight = 50}, 43);
  EXPECT_THAT(std::string(MessageOf(entered)), HasSubstr("/io.weight: "));
  EXPECT_EQ(Read("a/user-7/cgroup.procs"), "43") << "what can be limited is";
  Write("a/user-7/io.bfq.weight");
  EXPECT_TRUE(groups->Enter(7, {.io_weight = 50}, 43).ok());
  EXPECT_EQ(Read("a/user-7/io.bfq.weight"), "50");
}

TEST_F(GroupsTest, WithoutGroupsNothingIsLimited) {
  const auto groups = WorkerGroups::Open(folder_, "0::/\n", "", 42, true);
  ASSERT_FALSE(groups.ok());
  EXPECT_THAT(std::string(MessageOf(groups.status())), HasSubstr("no controllers"));
  EXPECT_FALSE(WorkerGroups().there());
  EXPECT_TRUE(WorkerGroups().Enter(7, kLimits, 43).ok());
}

// --- project_quota.h ---

// A kernel with one file system, XFS. Faults: no project quotas, or they are off, or usage is counted only; no
// CAP_SYS_ADMIN; a limit or a project that is refused.
struct FakeQuotas {
  bool there = true, on = true, limits_are_kept = true, privileged = true, takes_limits = true, takes_projects = true;
  std::map<std::uint32_t, std::uint64_t> limits;  // of projects, in bytes
  std::map<ino_t, fsxattr> folders;
  std::vector<std::string> done;  // in which order

  static int Fails(int error) {
    errno = error;
    return -1;
  }
  static ino_t FolderAt(int fd) {
    struct stat info {};
    EXPECT_EQ(::fstat(fd, &info), 0);
    return info.st_ino;
  }
  ProjectQuota::Kernel Kernel() {
    return {.ioctl =
                [this](int fd, unsigned long request, void* argument) {
                  auto* const attributes = static_cast<fsxattr*>(argument);
                  if (!there) return Fails(ENOTTY);
                  if (request == FS_IOC_FSGETXATTR) return *attributes = folders[FolderAt(fd)], 0;
                  EXPECT_EQ(request, static_cast<unsigned long>(FS_IOC_FSSETXATTR));
                  if (!takes_projects) return Fails(EPERM);
                  folders[FolderAt(fd)] = *attributes;
                  done.push_back("project");
                  return 0;
                },
            .quotactl =
                [this](int, unsigned command, unsigned id, void* argument) {
                  if (!on) return Fails(ESRCH);
                  if (command == static_cast<unsigned>(QCMD(Q_GETFMT, PRJQUOTA))) return Fails(ESRCH);
                  if (command == static_cast<unsigned>(QCMD(Q_XGETQSTAT, PRJQUOTA))) {
                    auto* const state = static_cast<fs_quota_stat*>(argument);
                    state->qs_flags = FS_QUOTA_PDQ_ACCT | (limits_are_kept ? FS_QUOTA_PDQ_ENFD : 0);
                    return 0;
                  }
                  if (!privileged) return Fails(EPERM);
                  EXPECT_EQ(command, static_cast<unsigned>(QCMD(Q_SETQUOTA, PRJQUOTA)));
                  if (!takes_limits) return Fails(EPERM);
                  const auto* const limit = static_cast<const if_dqblk*>(argument);
                  EXPECT_EQ(limit->dqb_valid, static_cast<unsigned>(QIF_BLIMITS));
                  EXPECT_EQ(limit->dqb_bsoftlimit, limit->dqb_bhardlimit) << "no grace";
                  limits[id] = limit->dqb_bhardlimit * 1024;
                  done.push_back("limit");
                  return 0;
                },
            .privileged = [this] { return privileged; }};
  }
};

class QuotaTest : public PartsTest {
 protected:
  static constexpr std::uint64_t kAlices = 1 << 30;
  QuotaTest() : parent_(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    fs::create_directory(folder_ + "/alice");
  }
  static absl::StatusOr<std::uint64_t> BytesOf(const std::string& user) {
    if (user == "carol") return absl::UnavailableError("the file system cannot be asked");
    return user == "alice" ? kAlices : 1 << 20;
  }
  ProjectQuota Quota(std::uint32_t first = 1000) { return ProjectQuota(first, BytesOf, quotas_.Kernel()); }
  fsxattr OfAlice() {
    struct stat info {};
    EXPECT_EQ(::stat((folder_ + "/alice").c_str(), &info), 0);
    return quotas_.folders[info.st_ino];
  }
  const UniqueFd parent_;
  FakeQuotas quotas_;
};

TEST_F(QuotaTest, AUsersFolderIsAProjectWithALimit) {
  EXPECT_TRUE(Quota().Check(parent_.get()).ok());
  ASSERT_TRUE(Quota().Limit(parent_.get(), "alice", 7).ok());
  EXPECT_GE(quotas_.limits.at(1007), kAlices);
  EXPECT_LE(quotas_.limits.at(1007), kAlices + 1024);
  EXPECT_EQ(OfAlice().fsx_projid, 1007u);
  EXPECT_NE(OfAlice().fsx_xflags & FS_XFLAG_PROJINHERIT, 0u) << "what is made in it belongs to it";
  EXPECT_EQ(quotas_.done, (std::vector<std::string>{"limit", "project"})) << "nothing is written without a limit";
  // The next worker: the limit may be another, the project is there.
  ASSERT_TRUE(Quota().Limit(parent_.get(), "alice", 7).ok());
  EXPECT_EQ(quotas_.done.size(), 3u);
}

TEST_F(QuotaTest, WhatTheFolderWasElseItStays) {
  struct stat info {};
  ASSERT_EQ(::stat((folder_ + "/alice").c_str(), &info), 0);
  quotas_.folders[info.st_ino].fsx_xflags = FS_XFLAG_NODUMP;
  ASSERT_TRUE(Quota().Limit(parent_.get(), "alice", 7).ok());
  EXPECT_EQ(OfAlice().fsx_xflags, static_cast<unsigned>(FS_XFLAG_NODUMP | FS_XFLAG_PROJINHERIT));
}

TEST_F(QuotaTest, AFolderStaysInAProjectOfTheSite) {
  struct stat info {};
  ASSERT_EQ(::stat((folder_ + "/alice").c_str(), &info), 0);
  quotas_.folders[info.st_ino].fsx_projid = 5;
  EXPECT_THAT(std::string(MessageOf(Quota().Limit(parent_.get(), "alice", 7))), HasSubstr("belongs to project 5"));
  EXPECT_TRUE(quotas_.done.empty());
}

TEST_F(QuotaTest, WhereThereAreNoneThatIsSaid) {
  quotas_.there = false;
  EXPECT_THAT(std::string(MessageOf(Quota().Check(parent_.get()))), HasSubstr("projects: "));
  quotas_.there = true, quotas_.on = false;
  EXPECT_THAT(std::string(MessageOf(Quota().Check(parent_.get()))), HasSubstr("project quotas: "));
  quotas_.on = true, quotas_.limits_are_kept = false;
  EXPECT_THAT(std::string(MessageOf(Quota().Check(parent_.get()))), HasSubstr("it limits nothing"));
  quotas_.limits_are_kept = true, quotas_.privileged = false;
  EXPECT_THAT(std::string(MessageOf(Quota().Check(parent_.get()))), HasSubstr("CAP_SYS_ADMIN"));
  EXPECT_TRUE(ProjectQuota().Check(parent_.get()).ok()) << "none is wanted";
  EXPECT_TRUE(ProjectQuota().Limit(parent_.get(), "alice", 7).ok());
  EXPECT_TRUE(quotas_.done.empty());
}

TEST_F(QuotaTest, ALimitThatCannotBeSetIsAnError) {
  quotas_.takes_limits = false;
  EXPECT_THAT(std::string(MessageOf(Quota().Limit(parent_.get(), "alice", 7))), HasSubstr("limit of a project"));
  EXPECT_EQ(OfAlice().fsx_projid, 0u);
  quotas_.takes_limits = true, quotas_.takes_projects = false;
  EXPECT_THAT(std::string(MessageOf(Quota().Limit(parent_.get(), "alice", 7))), HasSubstr("project of a folder"));
  quotas_.takes_projects = true;
  EXPECT_FALSE(Quota().Limit(parent_.get(), "bob", 8).ok()) << "there is no such folder";
  fs::create_directory_symlink(folder_ + "/alice", folder_ + "/bob");
  EXPECT_FALSE(Quota().Limit(parent_.get(), "bob", 8).ok()) << "a link is none";
  fs::create_directory(folder_ + "/carol");
  EXPECT_THAT(std::string(MessageOf(Quota().Limit(parent_.get(), "carol", 9))), HasSubstr("cannot be asked"));
  EXPECT_THAT(std::string(MessageOf(Quota(0xffff'fff0).Limit(parent_.get(), "alice", 16))), HasSubstr("no project"));
}

}  // namespace
}  // namespace cairn
