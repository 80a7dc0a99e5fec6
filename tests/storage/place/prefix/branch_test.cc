// Copies of a run's directory: branches, and what has only moved.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/place/prefix/identity.h"
#include "storage/place/prefix/prefix.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr auto kNotFound = absl::StatusCode::kNotFound;

constexpr char kFirst[] = "/pfs/first";
constexpr char kSecond[] = "/pfs/second";
constexpr char kThird[] = "/pfs/third";
constexpr std::uint64_t kUnknownKind = 0x12345;  // of file system: its inodes say nothing

class BranchTest : public ::testing::Test {
 protected:
  explicit BranchTest(FakeDiskOptions options = {}) : disk_(options) {}

  RunIdentity Open(const std::string& path, const identity::KnownPath& known = {}) {
    return OpenOn(disk_, path, known);
  }
  static RunIdentity OpenOn(Disk& disk, const std::string& path, const identity::KnownPath& known = {}) {
    const auto prefix = Prefix::Open(disk, path, {.known = known});
    EXPECT_OK(prefix.status());
    return prefix.ok() ? (*prefix)->identity() : RunIdentity();
  }
  RunIdentity Look(const std::string& path, const identity::KnownPath& known = {}) {
    const auto identity = identity::Read(disk_, path, known);
    EXPECT_OK(identity.status());
    return identity.ok() ? *identity : RunIdentity();
  }
  std::vector<std::string> Files(const std::string& path) {
    const auto names = disk_.List(path + "/.cairn");
    return names.ok() ? *names : std::vector<std::string>();
  }

  FakeDisk disk_;
};

TEST_F(BranchTest, ACopyBecomesABranchThatKnowsItsParentAndTheOriginalStays) {
  const RunId first = Open(kFirst).run;
  const auto before = Files(kFirst);
  disk_.CopyTree(kFirst, kSecond);
  const RunIdentity branch = Open(kSecond);
  EXPECT_NE(branch.run, first);
  EXPECT_EQ(branch.parent, first);
  EXPECT_EQ(branch.number, 1u);
  EXPECT_TRUE(branch.Includes(first));
  EXPECT_TRUE(branch.made_now);
  EXPECT_FALSE(branch.provisional);
  EXPECT_EQ(Open(kSecond).run, branch.run);
  EXPECT_FALSE(Open(kSecond).made_now);
  EXPECT_EQ(Open(kFirst).run, first);
  EXPECT_FALSE(Open(kFirst).parent.has_value());
  EXPECT_FALSE(Open(kFirst).Includes(branch.run));
  EXPECT_EQ(Files(kFirst), before);
}

TEST_F(BranchTest, ARenamedDirectoryIsTheSameRunWhateverPathWasKnown) {
  const RunId first = Open(kFirst).run;
  ASSERT_OK(disk_.Rename(kFirst, kSecond));
  const RunIdentity moved = Open(kSecond, [](const RunId&) { return std::optional<std::string>(kFirst); });
  EXPECT_EQ(moved.run, first);
  EXPECT_EQ(moved.number, 0u);
}

TEST_F(BranchTest, ADirectoryWithTheSameInodeButAnotherTimeOfBirthIsACopy) {
  const RunId first = Open(kFirst).run;
  ASSERT_OK_AND_ASSIGN(kvtree::Tree tree, ReadTree(disk_, "/pfs/first/.cairn/run"));
  tree.Set("BIRTH", "1.000000001");  // the number was given out again to the copy's folder
  ASSERT_OK(ReplaceTree(disk_, "/pfs/first/.cairn/run", tree));
  const RunIdentity branch = Open(kFirst);
  EXPECT_NE(branch.run, first);
  EXPECT_EQ(branch.parent, first);
}

TEST_F(BranchTest, ABranchOfABranchIncludesBothAndNamesItsOwnParent) {
  const RunId first = Open(kFirst).run;
  disk_.CopyTree(kFirst, kSecond);
  const RunId second = Open(kSecond).run;
  disk_.CopyTree(kSecond, kThird);
  const RunIdentity third = Open(kThird);
  EXPECT_EQ(third.number, 2u);
  EXPECT_EQ(third.parent, second);
  EXPECT_TRUE(third.Includes(first));
  EXPECT_TRUE(third.Includes(second.Hex()));
  EXPECT_EQ(Open(kSecond).run, second);
}

TEST_F(BranchTest, OfTwoOpenersThatRaceForABranchBothGetTheSame) {
  const RunId first = Open(kFirst).run;
  disk_.CopyTree(kFirst, kSecond);
  std::optional<RunId> other;
  disk_.SetHook([&](FakeOp op, const std::string& path) {
    if (op != FakeOp::kLink || other || path.find("/run.1") == std::string::npos) return;
    other = RunId();
    other = Open(kSecond).run;
  });
  const RunIdentity own = Open(kSecond);
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(own.run, *other);
  EXPECT_EQ(own.number, 1u);
  EXPECT_FALSE(own.made_now);
  EXPECT_NE(own.run, first);
}

// Once it was told, it stays; before that, a crash leaves the copy for the next opener.
TEST_F(BranchTest, APowerFailureAtAnyOperationLeavesOneBranchOrNone) {
  for (std::uint64_t n = 1;; ++n) {
    SCOPED_TRACE(fmt::format("power fails at operation {}", n));
    FakeDisk disk;
    const RunId first = OpenOn(disk, kFirst).run;
    disk.CopyTree(kFirst, kSecond);
    disk.SyncAll();
    disk.CrashAt(n);
    const auto told = Prefix::Open(disk, kSecond);
    const bool crashed = disk.crashed();
    disk.Restart(n);
    const RunIdentity after = OpenOn(disk, kSecond);
    EXPECT_EQ(after.parent, first);
    EXPECT_EQ(OpenOn(disk, kFirst).run, first);
    if (told.ok()) {
      EXPECT_EQ(after.run, (*told)->run());
    }
    if (!crashed) break;
  }
}

TEST_F(BranchTest, ADamagedRecordOfABranchIsNamedAndNeverGoneBackFrom) {
  Open(kFirst);
  disk_.CopyTree(kFirst, kSecond);
  Open(kSecond);
  disk_.FlipBit("/pfs/second/.cairn/run.1", 300);
  EXPECT_STATUS(kDataLoss, Prefix::Open(disk_, kSecond), "/pfs/second/.cairn/run.1");
  EXPECT_STATUS(kDataLoss, identity::Read(disk_, kSecond), "/pfs/second/.cairn/run.1");
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.Set("RUN", "not hex");
  ASSERT_OK(ReplaceTree(disk_, "/pfs/second/.cairn/run.1", tree));
  EXPECT_STATUS(kDataLoss, identity::Read(disk_, kSecond), "run.1: RUN");
  tree.Set("VERSION", std::uint64_t{2});
  ASSERT_OK(ReplaceTree(disk_, "/pfs/second/.cairn/run.1", tree));
  EXPECT_STATUS(kFailedPrecondition, identity::Read(disk_, kSecond), "VERSION 2");
}

TEST_F(BranchTest, ALookAtACopyChangesNothingAndTellsTheSameAgain) {
  const RunId first = Open(kFirst).run;
  disk_.CopyTree(kFirst, kSecond);
  const auto before = Files(kSecond);
  const RunIdentity look = Look(kSecond);
  EXPECT_TRUE(look.provisional);
  EXPECT_NE(look.run, first);
  EXPECT_EQ(look.parent, first);
  EXPECT_TRUE(look.Includes(first));
  EXPECT_EQ(Look(kSecond).run, look.run);
  ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::OpenReadOnly(disk_, kSecond));
  EXPECT_EQ(prefix->run(), look.run);
  EXPECT_EQ(*prefix->CurrentRun(), look.run);
  EXPECT_EQ(Files(kSecond), before);
}

TEST_F(BranchTest, APrefixThatBecomesAnotherRunWhileItIsOpenIsNotWrittenTo) {
  ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::Open(disk_, kFirst));
  disk_.CopyTree(kFirst, kSecond);
  ASSERT_OK(RemoveTree(disk_, kFirst));
  ASSERT_OK(disk_.Rename(kSecond, kFirst));  // a copy is put in its place
  EXPECT_STATUS(kFailedPrecondition, prefix->MakeLaunch({.key = "", .nranks = 1, .run = {}, .maker = {}}),
                "the prefix is run");
  const RunIdentity branch = Open(kFirst);
  EXPECT_EQ(branch.parent, prefix->run());
  EXPECT_EQ(*prefix->CurrentRun(), branch.run);
}

// --- Taken back ---

TEST_F(BranchTest, WhatHasMovedIsTakenBackAndTheBranchThatItWasBelongsToIt) {
  const RunId first = Open(kFirst).run;
  disk_.CopyTree(kFirst, kSecond);
  const RunId branch = Open(kSecond).run;
  ASSERT_OK(RemoveTree(disk_, kFirst));
  disk_.SyncAll();
  ASSERT_OK_AND_ASSIGN(const RunIdentity back, identity::TakeBack(disk_, kSecond));
  EXPECT_EQ(back.run, first);
  EXPECT_EQ(back.number, 2u);
  EXPECT_FALSE(back.parent.has_value());
  EXPECT_TRUE(back.Includes(branch));
  disk_.Restart(1);
  EXPECT_EQ(Open(kSecond).run, first);
}

TEST_F(BranchTest, WhatHasMovedIsTakenBackBeforeAnybodyHasOpenedIt) {
  const RunId first = Open(kFirst).run;
  disk_.CopyTree(kFirst, kSecond);
  ASSERT_OK(RemoveTree(disk_, kFirst));
  ASSERT_OK_AND_ASSIGN(const RunIdentity back, identity::TakeBack(disk_, kSecond));
  EXPECT_EQ(back.run, first);
  EXPECT_EQ(back.number, 1u);
  EXPECT_EQ(Open(kSecond).run, first);
}

TEST_F(BranchTest, ACopyIsNotTakenBackWhileTheRunLivesInItsPlace) {
  const RunId first = Open(kFirst).run;
  disk_.CopyTree(kFirst, kSecond);
  EXPECT_STATUS(kFailedPrecondition, identity::TakeBack(disk_, kSecond), "still lives in /pfs/first");
  const RunId branch = Open(kSecond).run;
  EXPECT_STATUS(kFailedPrecondition, identity::TakeBack(disk_, kSecond), "still lives in /pfs/first");
  EXPECT_EQ(Open(kSecond).run, branch);
  EXPECT_EQ(Open(kFirst).run, first);
}

TEST_F(BranchTest, ARunThatIsWhereItWasMadeHasNothingToBeTakenBack) {
  EXPECT_STATUS(kNotFound, identity::TakeBack(disk_, kFirst), "run");
  Open(kFirst);
  EXPECT_STATUS(kFailedPrecondition, identity::TakeBack(disk_, kFirst), "nothing to take back");
  disk_.CopyTree(kFirst, kSecond);
  ASSERT_OK(RemoveTree(disk_, kFirst));
  ASSERT_OK(identity::TakeBack(disk_, kSecond));
  EXPECT_STATUS(kFailedPrecondition, identity::TakeBack(disk_, kSecond), "nothing to take back");
}

// It was replaced by something else meanwhile: a copy that lies where the run was is no proof that the run lives.
TEST_F(BranchTest, ACopyInTheOldPlaceDoesNotKeepTheRunFromBeingTakenBack) {
  const RunId first = Open(kFirst).run;
  disk_.CopyTree(kFirst, kSecond);
  ASSERT_OK(RemoveTree(disk_, kFirst));
  disk_.CopyTree(kSecond, kFirst);
  ASSERT_OK_AND_ASSIGN(const RunIdentity back, identity::TakeBack(disk_, kSecond));
  EXPECT_EQ(back.run, first);
}

TEST_F(BranchTest, AnOpenerThatComesBetweenMakesTakingBackFailOnce) {
  const RunId first = Open(kFirst).run;
  disk_.CopyTree(kFirst, kSecond);
  ASSERT_OK(RemoveTree(disk_, kFirst));
  bool opened = false;
  disk_.SetHook([&](FakeOp op, const std::string& path) {
    if (op != FakeOp::kLink || opened || path.find("/run.1") == std::string::npos) return;
    opened = true;
    Open(kSecond);
  });
  EXPECT_STATUS(absl::StatusCode::kAborted, identity::TakeBack(disk_, kSecond), "meanwhile");
  ASSERT_OK_AND_ASSIGN(const RunIdentity back, identity::TakeBack(disk_, kSecond));
  EXPECT_EQ(back.run, first);
}

// --- Where inodes say nothing ---

class PathBranchTest : public BranchTest {
 protected:
  PathBranchTest() : BranchTest({.file_system = kUnknownKind}) {}
  // This node has seen the run that was opened first, there.
  static identity::KnownPath SeenAtFirst(const RunId& run) {
    return [run](const RunId& asked) { return asked == run ? std::optional<std::string>(kFirst) : std::nullopt; };
  }
};

TEST_F(PathBranchTest, ThePathThatThisNodeHasLastSeenTellsACopy) {
  const RunId first = Open(kFirst).run;
  ASSERT_OK_AND_ASSIGN(const kvtree::Tree tree, ReadTree(disk_, "/pfs/first/.cairn/run"));
  EXPECT_FALSE(tree.Get("INODE").has_value());
  disk_.CopyTree(kFirst, kSecond);
  EXPECT_EQ(Open(kFirst, SeenAtFirst(first)).run, first);
  EXPECT_TRUE(Look(kSecond, SeenAtFirst(first)).provisional);
  const RunIdentity branch = Open(kSecond, SeenAtFirst(first));
  EXPECT_NE(branch.run, first);
  EXPECT_EQ(branch.parent, first);
}

// The path alone is the caller's to know: the same run is mounted elsewhere on other nodes.
TEST_F(PathBranchTest, ANodeThatHasNeverSeenTheRunTakesItAsItIs) {
  const RunId first = Open(kFirst).run;
  ASSERT_OK(disk_.Rename(kFirst, kSecond));
  EXPECT_EQ(Open(kSecond).run, first);
  EXPECT_EQ(Open(kSecond, [](const RunId&) { return std::optional<std::string>(); }).run, first);
}

TEST_F(PathBranchTest, WhatHasMovedIsTakenBackThoughThisNodeKnowsTheOldPath) {
  const RunId first = Open(kFirst).run;
  ASSERT_OK(disk_.Rename(kFirst, kSecond));
  EXPECT_NE(Look(kSecond, SeenAtFirst(first)).run, first);
  ASSERT_OK_AND_ASSIGN(const RunIdentity back, identity::TakeBack(disk_, kSecond));
  EXPECT_EQ(back.run, first);
  EXPECT_EQ(Open(kSecond, SeenAtFirst(first)).run, first);
}

TEST_F(PathBranchTest, ABranchIsNotTakenBackWhileTheRunLivesInItsPlace) {
  const RunId first = Open(kFirst).run;
  disk_.CopyTree(kFirst, kSecond);
  const RunId branch = Open(kSecond, SeenAtFirst(first)).run;
  EXPECT_STATUS(kFailedPrecondition, identity::TakeBack(disk_, kSecond), "still lives in /pfs/first");
  EXPECT_EQ(Open(kSecond).run, branch);
}

}  // namespace
}  // namespace cairn
