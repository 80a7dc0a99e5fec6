// The three ways of making a record once, by real processes that race for names: on the machine's file system, and on
// one that has neither hard links nor RENAME_NOREPLACE.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/io/create_once.h"
#include "storage/io/disk.h"
#include "storage/io/once_frame.h"
#include "storage/io/posix_disk.h"
#include "tests/support/fuse/fuse_test.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using Names = std::vector<std::string>;

constexpr int kProcesses = 8;
constexpr int kNames = 200;
constexpr std::uint64_t kBytesMax = 1 << 20;

// What the processes tell the test.
struct Shared {
  std::array<std::atomic<int>, kNames> arrived;  // processes that are at this name
  std::atomic<int> winners[kNames];
  std::atomic<int> whose[kProcesses][kNames];  // content that this process then saw: 1 + its maker; 0: none
};

std::string ContentOf(int process, int name) {
  return fmt::format("{} of {}: {}", process, name, std::string(5000, static_cast<char>('a' + process)));
}

std::string PathOf(const std::string& folder, int name) {
  return fmt::format("{}/record.{}", folder, name);
}

// 1 + the maker of what is there; -1: it is not whole.
int MakerOf(Disk& disk, const std::string& folder, int name) {
  const auto text = ReadOnce(disk, PathOf(folder, name), kBytesMax);
  if (!text.ok()) return -1;
  for (int process = 0; process < kProcesses; ++process) {
    if (*text == ContentOf(process, name)) return 1 + process;
  }
  return -1;
}

using Ways = std::vector<std::optional<CreationWay>>;  // of each process in turn

// One process: at each name it waits for the others. The exit code is 0 if all went as it should.
int RaceInProcess(const std::string& folder, int process, int names, const CreateOnceOptions& options, Shared& shared) {
  const auto disk = MakePosixDisk();
  for (int name = 0; name < names; ++name) {
    ++shared.arrived[name];
    while (shared.arrived[name] < kProcesses) ::sched_yield();
    const absl::Status made = CreateFileOnce(*disk, PathOf(folder, name), ContentOf(process, name), options);
    if (!made.ok() && !absl::IsAlreadyExists(made)) {
      fmt::print(stderr, "process {}: {}\n", process, made.ToString());
      return 1;
    }
    if (made.ok()) ++shared.winners[name];
    shared.whose[process][name] = MakerOf(*disk, folder, name);
    if (made.ok() && shared.whose[process][name] != 1 + process) return 2;
  }
  return 0;
}

struct RaceOptions {
  int names = kNames;
  bool durable = true;
};

void Race(const std::string& folder, const Ways& ways, const RaceOptions& race = {}) {
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::unique_ptr<Shared, void (*)(Shared*)> shared(new (memory) Shared{},
                                                          [](Shared* s) { ::munmap(s, sizeof(Shared)); });
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const CreateOnceOptions options{.durable = race.durable,
                                    .way = ways[static_cast<std::size_t>(process) % ways.size()]};
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) ::_exit(RaceInProcess(folder, process, race.names, options, *shared));
    children.push_back(child);
  }
  for (std::size_t i = 0; i < children.size(); ++i) {
    int status = 0;
    ASSERT_EQ(::waitpid(children[i], &status, 0), children[i]);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "process " << i << ": " << status;
    if (status == 0) continue;
    for (auto& arrived : shared->arrived) arrived += kProcesses;  // nobody waits for it
  }
  const auto disk = MakePosixDisk();
  for (int name = 0; name < race.names; ++name) {
    SCOPED_TRACE(PathOf(folder, name));
    EXPECT_EQ(shared->winners[name], 1);
    const int maker = MakerOf(*disk, folder, name);
    EXPECT_GT(maker, 0) << "whole";
    for (const auto& whose : shared->whose) EXPECT_EQ(whose[name], maker) << "all see the winner's";
    if (::testing::Test::HasFailure()) return;
  }
  ASSERT_OK_AND_ASSIGN(const Names names, disk->List(folder));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(race.names)) << "work files are gone";
}

// What makers leave that die between claim and record.
void LeaveClaims(const std::string& folder, int names) {
  const auto disk = MakePosixDisk();
  for (int name = 0; name < names; name += 2) {
    const std::string path = PathOf(folder, name);
    ASSERT_OK(disk->Open(path, {.writable = true, .create = true, .exclusive = true}));
    if (name % 4 == 0) {
      ASSERT_OK(disk->Open(OnceWorkName(path), {.writable = true, .create = true, .exclusive = true}));
    }
  }
}

class CreateOnceProcessesTest : public FuseTest {};

TEST_F(CreateOnceProcessesTest, ByHardLinksOneOfManyWins) {
  Race(Real(""), {CreationWay::kHardLink});
}

TEST_F(CreateOnceProcessesTest, ByRenameat2OneOfManyWins) {
  Race(Real(""), {CreationWay::kRenameNew});
}

TEST_F(CreateOnceProcessesTest, ByChecksummedFilesOneOfManyWins) {
  Race(Real(""), {CreationWay::kChecksummed});
}

TEST_F(CreateOnceProcessesTest, WithoutSyncsOneOfManyWins) {
  Race(Real(""), {CreationWay::kHardLink, CreationWay::kChecksummed}, {.durable = false});
}

TEST_F(CreateOnceProcessesTest, ProcessesThatTakeDifferentWaysExcludeEachOther) {
  Race(Real(""), {CreationWay::kHardLink, CreationWay::kRenameNew, CreationWay::kChecksummed});
}

TEST_F(CreateOnceProcessesTest, WhatTheDeadHaveClaimedIsMadeByOneOfManyToo) {
  LeaveClaims(Real(""), kNames);
  Race(Real(""), {CreationWay::kChecksummed, CreationWay::kHardLink, CreationWay::kRenameNew});
}

// --- A file system without ---

struct Lack {
  FuseOptions options;
  CreationWay way;
};

class LackingFileSystemTest : public FuseTest, public ::testing::WithParamInterface<Lack> {
 protected:
  std::unique_ptr<Disk> disk_ = MakePosixDisk();
};

std::string LackName(const ::testing::TestParamInfo<Lack>& info) {
  return fmt::format("Links{}Rename{}", info.param.options.no_links, info.param.options.no_rename_flags);
}

INSTANTIATE_TEST_SUITE_P(
    Lacks, LackingFileSystemTest,
    ::testing::Values(Lack{{}, CreationWay::kHardLink}, Lack{{.no_links = EPERM}, CreationWay::kRenameNew},
                      Lack{{.no_links = ENOSYS}, CreationWay::kRenameNew},
                      Lack{{.no_links = EPERM, .no_rename_flags = EINVAL}, CreationWay::kChecksummed},
                      Lack{{.no_links = ENOSYS, .no_rename_flags = ENOSYS}, CreationWay::kChecksummed}),
    LackName);

TEST_P(LackingFileSystemTest, TheWayIsFoundAndARecordIsMadeOnceAndReadBack) {
  CAIRN_MOUNT_OR_SKIP(GetParam().options);
  EXPECT_EQ(ProbeCreation(*disk_, Shown("")).value(), GetParam().way);
  EXPECT_EQ(disk_->List(Real("")).value(), Names{});
  ASSERT_OK(CreateFileOnce(*disk_, Shown("a"), "content"));
  EXPECT_STATUS(StatusCode::kAlreadyExists, CreateFileOnce(*disk_, Shown("a"), "other"), Shown("a"));
  EXPECT_EQ(ReadWhole(*disk_, Shown("a"), kBytesMax).value(), "content");
  EXPECT_EQ(ReadOnce(*disk_, Shown("a"), kBytesMax).value(), "content");
  ASSERT_OK(CreateFileOnce(*disk_, Shown("b"), "for other programs", {.framed = false}));
  EXPECT_EQ(disk_->Info(Shown("b"))->bytes, std::string("for other programs").size());
  EXPECT_EQ(disk_->List(Real("")).value(), (Names{"a", "b"}));
}

TEST_F(CreateOnceProcessesTest, OnAFileSystemWithoutOneOfManyWins) {
  CAIRN_MOUNT_OR_SKIP({.no_links = EPERM, .no_rename_flags = EINVAL});
  Race(Shown(""), {std::nullopt}, {.names = 40});
}

TEST_F(CreateOnceProcessesTest, OnAFileSystemWithoutWhatTheDeadHaveClaimedIsMadeByOneOfMany) {
  CAIRN_MOUNT_OR_SKIP({.no_links = EPERM, .no_rename_flags = EINVAL});
  LeaveClaims(Real(""), 40);
  Race(Shown(""), {std::nullopt}, {.names = 40});
}

// The maker hangs between claim and record, another makes it, and then the first goes on: it has lost.
TEST_F(CreateOnceProcessesTest, AMakerThatWasSlowLosesToTheOneThatFinished) {
  CAIRN_MOUNT_OR_SKIP({.no_links = EPERM, .no_rename_flags = EINVAL});
  const auto disk = MakePosixDisk();
  ASSERT_EQ(ProbeCreation(*disk, Shown("")).value(), CreationWay::kChecksummed);
  folder().Hang({.opcode = FUSE_RENAME2, .name_part = "record"});
  folder().Hang({.opcode = FUSE_RENAME, .name_part = "record"});
  const pid_t slow = ::fork();
  if (slow == 0) {
    const absl::Status made = CreateFileOnce(*MakePosixDisk(), Shown("record"), "of the slow one");
    ::_exit(static_cast<int>(made.code()));
  }
  for (int i = 0; i < 30'000 && folder().hanging() == 0; ++i) ::usleep(1000);
  ASSERT_NE(folder().hanging(), 0) << "it did not come to the file system";
  EXPECT_EQ(disk->Info(Real("record"))->bytes, 0u) << "claimed";
  // By another mount of the same folder, which does not hang.
  EXPECT_STATUS(StatusCode::kNotFound, ReadWhole(*disk, Real("record"), kBytesMax), "its maker has not finished");
  EXPECT_OK(CreateFileOnce(*disk, Real("record"), "of the fast one", {.way = CreationWay::kHardLink}));
  folder().Release();
  int status = 0;
  ASSERT_EQ(::waitpid(slow, &status, 0), slow);
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(StatusCode::kAlreadyExists));
  EXPECT_EQ(ReadWhole(*disk, Shown("record"), kBytesMax).value(), "of the fast one");
}

}  // namespace
}  // namespace cairn
