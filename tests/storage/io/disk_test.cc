// The helpers of disk.h on a disk that fails and crashes at every one of their operations.
#include "storage/io/disk.h"
#include "storage/base/path.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using Names = std::vector<std::string>;

constexpr std::uint64_t kSeeds = 25;  // crashes tried at each operation

// More than a block, so that a torn write shows.
const std::string kOld(9000, 'o');
const std::string kNew(10000, 'n');

// The content, or "-" if the file is not there.
std::string Read(Disk& disk, const std::string& path) {
  const auto text = ReadWhole(disk, path, 1 << 20);
  if (absl::IsNotFound(text.status())) return "-";
  return text.ok() ? *text : text.status().ToString();
}

struct Attempt {
  absl::Status status;
  bool interrupted = false;  // it met the crash or the fault
};

// Runs `act` on a fresh disk that `prepare` set up, with the power failing at its first operation, then at its second,
// and so on until it comes through; `check` looks at the disk after the restart.
void CrashEverywhere(const std::function<void(FakeDisk&)>& prepare, const std::function<absl::Status(Disk&)>& act,
                     const std::function<void(FakeDisk&, const Attempt&)>& check) {
  for (std::uint64_t n = 1;; ++n) {
    Attempt attempt;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      SCOPED_TRACE("power fails at operation " + std::to_string(n) + ", seed " + std::to_string(seed));
      FakeDisk disk;
      prepare(disk);
      disk.SyncAll();
      disk.CrashAt(n);
      attempt.status = act(disk);
      attempt.interrupted = disk.crashed();
      disk.Restart(seed);
      check(disk, attempt);
      if (testing::Test::HasFailure()) return;
    }
    if (!attempt.interrupted) return;
  }
}

// The same with each operation failing instead, without a crash.
void FailEverywhere(const std::function<void(FakeDisk&)>& prepare, const std::function<absl::Status(Disk&)>& act,
                    const std::function<void(FakeDisk&, const Attempt&)>& check) {
  for (std::uint64_t n = 1;; ++n) {
    SCOPED_TRACE("operation " + std::to_string(n) + " fails");
    FakeDisk disk;
    prepare(disk);
    disk.SyncAll();
    const std::uint64_t before = disk.operations();
    disk.FailOn({.nth = n, .status = absl::UnavailableError("EIO")});
    Attempt attempt;
    attempt.status = act(disk);
    attempt.interrupted = disk.operations() - before >= n;
    disk.ClearFaults();
    check(disk, attempt);
    if (testing::Test::HasFailure() || !attempt.interrupted) return;
  }
}

void WithOldFile(FakeDisk& disk) {
  ASSERT_OK(disk.MakeDirectory("/d", 0700));
  ASSERT_OK(ReplaceFile(disk, "/d/a", kOld));
}

void WithDirectory(FakeDisk& disk) {
  ASSERT_OK(disk.MakeDirectory("/d", 0700));
}

void ExpectNothingButWorkNamesAnd(Disk& disk, const std::string& name) {
  ASSERT_OK_AND_ASSIGN(const Names names, disk.List("/d"));
  for (const std::string& found : names) EXPECT_TRUE(found == name || IsWorkName(found)) << found;
}

TEST(ReplaceFileTest, CrashAtAnyOperationLeavesTheOldOrTheNewContentWhole) {
  CrashEverywhere(
      WithOldFile, [](Disk& disk) { return ReplaceFile(disk, "/d/a", kNew); },
      [](FakeDisk& disk, const Attempt& attempt) {
        const std::string text = Read(disk, "/d/a");
        EXPECT_TRUE(text == kNew || (!attempt.status.ok() && text == kOld)) << text.size() << " bytes";
        ExpectNothingButWorkNamesAnd(disk, "a");
      });
}

TEST(ReplaceFileTest, CrashAtAnyOperationLeavesNoneOrTheNewContentWhole) {
  CrashEverywhere(
      WithDirectory, [](Disk& disk) { return ReplaceFile(disk, "/d/a", kNew); },
      [](FakeDisk& disk, const Attempt& attempt) {
        const std::string text = Read(disk, "/d/a");
        EXPECT_TRUE(text == kNew || (!attempt.status.ok() && text == "-")) << text.size() << " bytes";
      });
}

TEST(ReplaceFileTest, FailureAtAnyOperationIsAnsweredAndLeavesNoWorkName) {
  FailEverywhere(
      WithOldFile, [](Disk& disk) { return ReplaceFile(disk, "/d/a", kNew); },
      [](FakeDisk& disk, const Attempt& attempt) {
        EXPECT_EQ(attempt.status.ok(), !attempt.interrupted);
        const std::string text = Read(disk, "/d/a");
        EXPECT_TRUE(text == kNew || text == kOld);
        EXPECT_EQ(disk.List("/d").value(), (Names{"a"}));
      });
}

TEST(ReplaceFileTest, FailedSyncNeverShowsTheFile) {
  FakeDisk disk;
  WithOldFile(disk);
  disk.SyncAll();
  disk.FailOn({.op = FakeOp::kSync});
  EXPECT_STATUS(StatusCode::kUnavailable, ReplaceFile(disk, "/d/a", kNew), "injected");
  disk.Restart(1);
  EXPECT_EQ(Read(disk, "/d/a"), kOld);
}

TEST(ReplaceFileTest, FullDiskKeepsTheOldContent) {
  FakeDisk disk({.capacity = 12000});
  WithOldFile(disk);
  EXPECT_STATUS(StatusCode::kResourceExhausted, ReplaceFile(disk, "/d/a", kNew), "No space left");
  EXPECT_EQ(Read(disk, "/d/a"), kOld);
  EXPECT_EQ(disk.List("/d").value(), (Names{"a"}));
}

TEST(ReplaceFileTest, EmptyContentAndModeAreKept) {
  FakeDisk disk;
  ASSERT_OK(ReplaceFile(disk, "/a", "", 0640));
  EXPECT_EQ(Read(disk, "/a"), "");
  EXPECT_EQ(disk.Info("/a")->mode, 0100640u);
}

TEST(MakeDirectoriesTest, CrashAfterSuccessLosesNothing) {
  CrashEverywhere([](FakeDisk&) {}, [](Disk& disk) { return MakeDirectories(disk, "/a/b/c"); },
                  [](FakeDisk& disk, const Attempt& attempt) {
                    EXPECT_NE(attempt.status.ok(), attempt.interrupted);
                    if (attempt.status.ok()) {
                      EXPECT_OK(disk.List("/a/b/c"));
                    }
                  });
}

TEST(MakeDirectoriesTest, TakesWhatIsThereAndLinksToDirectories) {
  FakeDisk disk;
  ASSERT_OK(MakeDirectories(disk, "/a/b"));
  EXPECT_OK(MakeDirectories(disk, "/a/b"));
  EXPECT_OK(MakeDirectories(disk, "/"));
  ASSERT_OK(disk.Symlink("/a", "/link"));
  EXPECT_OK(MakeDirectories(disk, "/link"));
  EXPECT_OK(MakeDirectories(disk, "/link/c/d"));
  EXPECT_OK(disk.List("/a/c/d"));
  EXPECT_EQ(disk.Info("/a/c")->mode, 040700u);
}

// Found by the core's model test: the second took the folder to be durable, and what was committed in it was lost.
TEST(MakeDirectoriesTest, AFolderThatCouldNotBeSyncedIsMadeDurableTheNextTime) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    FakeDisk disk;
    disk.FailOn({.op = FakeOp::kSyncDirectory});
    EXPECT_STATUS(StatusCode::kUnavailable, MakeDirectories(disk, "/a"), "injected");
    ASSERT_OK(MakeDirectories(disk, "/a"));
    disk.Restart(seed);
    EXPECT_OK(disk.List("/a"));
  }
}

TEST(MakeDirectoriesTest, FileInTheWayIsNamed) {
  FakeDisk disk;
  ASSERT_OK(ReplaceFile(disk, "/file", "x"));
  EXPECT_STATUS(StatusCode::kAlreadyExists, MakeDirectories(disk, "/file"), "/file");
  EXPECT_STATUS(StatusCode::kAlreadyExists, MakeDirectories(disk, "/file/a"), "/file");
}

TEST(MakeDirectoriesTest, ErrorOnTheWayIsAnsweredAsItIs) {
  FakeDisk disk;
  disk.FailOn({.op = FakeOp::kInfo, .status = absl::PermissionDeniedError("EACCES")});
  EXPECT_STATUS(StatusCode::kPermissionDenied, MakeDirectories(disk, "/a/b"), "/a/b/.: EACCES");
}

TEST(RemoveTreeTest, RemovesAllBelowAndFollowsNoLink) {
  FakeDisk disk;
  ASSERT_OK(MakeDirectories(disk, "/keep"));
  ASSERT_OK(ReplaceFile(disk, "/keep/a", "x"));
  ASSERT_OK(MakeDirectories(disk, "/t/u/v"));
  ASSERT_OK(ReplaceFile(disk, "/t/u/b", "x"));
  ASSERT_OK(disk.Symlink("/keep", "/t/link"));
  EXPECT_OK(RemoveTree(disk, "/t"));
  EXPECT_EQ(disk.List("/").value(), (Names{"keep"}));
  EXPECT_EQ(Read(disk, "/keep/a"), "x");
  EXPECT_OK(RemoveTree(disk, "/t"));
}

TEST(RemoveTreeTest, FailureIsAnsweredAndASecondTryFinishes) {
  FailEverywhere(
      [](FakeDisk& disk) {
        ASSERT_OK(MakeDirectories(disk, "/t/u"));
        ASSERT_OK(ReplaceFile(disk, "/t/u/a", "x"));
      },
      [](Disk& disk) { return RemoveTree(disk, "/t"); },
      [](FakeDisk& disk, const Attempt& attempt) {
        EXPECT_NE(attempt.status.ok(), attempt.interrupted);
        EXPECT_OK(RemoveTree(disk, "/t"));
        EXPECT_EQ(disk.List("/").value(), Names{});
      });
}

TEST(ReadWholeTest, RefusesWhatIsTooLargeMissingOrNoFile) {
  FakeDisk disk;
  ASSERT_OK(ReplaceFile(disk, "/a", "12345"));
  EXPECT_EQ(ReadWhole(disk, "/a", 5).value(), "12345");
  EXPECT_STATUS(StatusCode::kResourceExhausted, ReadWhole(disk, "/a", 4), "/a: 5 bytes");
  EXPECT_STATUS(StatusCode::kNotFound, ReadWhole(disk, "/b", 4), "/b");
  ASSERT_OK(disk.MakeDirectory("/d", 0700));
  EXPECT_STATUS(StatusCode::kInvalidArgument, ReadWhole(disk, "/d", 4), "/d");
  disk.FailOn({.op = FakeOp::kRead});
  EXPECT_STATUS(StatusCode::kUnavailable, ReadWhole(disk, "/a", 5), "injected");
}

TEST(WorkNameTest, IsInTheSameDirectoryUniqueAndKnown) {
  const std::string a = WorkName("/d/a"), b = WorkName("/d/a");
  EXPECT_NE(a, b);
  EXPECT_EQ(ParentOf(a), "/d");
  EXPECT_TRUE(BaseOf(a).starts_with("a" + std::string(kWorkSuffix)));
  EXPECT_TRUE(IsWorkName(BaseOf(a)));
  EXPECT_TRUE(IsWorkName(a));
}

TEST(WorkNameTest, LongNamesAreCutToWhatAFileSystemTakes) {
  const std::string work = WorkName("/d/" + std::string(255, 'n'));
  EXPECT_EQ(BaseOf(work).size(), 255u);
  EXPECT_EQ(ParentOf(work), "/d");
  EXPECT_TRUE(IsWorkName(work));
}

TEST(WorkNameTest, OtherNamesAreNotTaken) {
  for (const std::string_view name : {"a", "", ".cairn-work", "a.cairn-work", "a.cairn-workX", "a.cairn-work12.bak"}) {
    EXPECT_FALSE(IsWorkName(name)) << name;
  }
  EXPECT_TRUE(IsWorkName("a.cairn-work12"));
}

TEST(PathTest, ParentAndBase) {
  EXPECT_EQ(ParentOf("/a/b"), "/a");
  EXPECT_EQ(ParentOf("/a"), "/");
  EXPECT_EQ(ParentOf("/"), "/");
  EXPECT_EQ(BaseOf("/a/b"), "b");
  EXPECT_EQ(BaseOf("/a"), "a");
}

}  // namespace
}  // namespace cairn
