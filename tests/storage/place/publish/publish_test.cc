// The commit protocol as its four users have it, flush, bypass, scavenge and adopt: what is refused, and what only
// warns.
#include "storage/place/publish/publish.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "tests/storage/place/prefix/shown.h"
#include "tests/storage/place/publish/publishing.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using enum absl::StatusCode;

class PublishTest : public ::testing::TestWithParam<User>, protected Publishing {
 protected:
  absl::Status PublishOne(const Output& output) { return Publish(GetParam(), output); }
};

INSTANTIATE_TEST_SUITE_P(Users, PublishTest, ::testing::ValuesIn(kUsers),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(PublishTest, AnOlderOutputGivesWayAndIsRemoved) {
  ASSERT_OK(Flush(OutputOf(run(), 1)));
  ASSERT_OK(PublishOne(OutputOf(run(), 2)));
  EXPECT_EQ(warnings, "");
  EXPECT_EQ(Committed(), Ids{2});
  EXPECT_EQ(CompleteInIndex(), Ids{2});
  ExpectWhole({2});
  EXPECT_FALSE(IsThere("out/1"));
  EXPECT_FALSE(IsThere(RoutedFolder(2)) || IsThere(AdoptedFolder(2))) << "where its files waited";
}

TEST_P(PublishTest, ADirectoryInTheWayIsRefusedAndNothingHasChanged) {
  ASSERT_OK(Flush(OutputOf(run(), 1)));
  ASSERT_OK(MakeDirectories(pfs, prefix->FilePath("out/2")));
  EXPECT_STATUS(kFailedPrecondition, PublishOne(OutputOf(run(), 2)), "out/2: in the way: a directory");
  EXPECT_EQ(Committed(), Ids{1});
  ExpectWhole({1});
  EXPECT_TRUE(IsThere("out/2"));
}

TEST_P(PublishTest, ADirectoryThatComesInTheWayAfterTheCopyIsRefusedToo) {
  ASSERT_OK(Flush(OutputOf(run(), 1)));
  bool came = false;
  when_copied = [&] {
    came = true;
    ASSERT_OK(MakeDirectories(pfs, prefix->FilePath("out/2")));
  };
  EXPECT_STATUS(kFailedPrecondition, PublishOne(OutputOf(run(), 2)), "out/2: in the way: a directory");
  EXPECT_TRUE(came);
  EXPECT_EQ(Committed(), Ids{1});
  EXPECT_EQ(CompleteInIndex(), Ids{1});
  ExpectWhole({1});
}

TEST_P(PublishTest, ALinkOutOfThePrefixThatComesAfterTheCopyIsRefused) {
  ASSERT_OK(Flush(OutputOf(run(), 1)));
  when_copied = [&] {
    ASSERT_OK(pfs.Rename(prefix->FilePath("out"), "/pfs/elsewhere"));
    ASSERT_OK(pfs.Symlink("/pfs/elsewhere", prefix->FilePath("out")));
  };
  EXPECT_STATUS(kFailedPrecondition, PublishOne(OutputOf(run(), 2)), "out");
  EXPECT_EQ(Committed(), Ids{1});
}

TEST_P(PublishTest, ARemovalThatFailsAfterTheCommitIsAWarning) {
  ASSERT_OK(Flush(OutputOf(run(), 1)));
  pfs.FailOn({.op = FakeOp::kRemove, .path_part = "/out/1", .times = UINT64_MAX});
  ASSERT_OK(PublishOne(OutputOf(run(), 2)));
  EXPECT_NE(warnings.find("dataset 1: "), std::string::npos) << warnings;
  EXPECT_NE(warnings.find("injected"), std::string::npos) << warnings;
  pfs.ClearFaults();
  EXPECT_EQ(Committed(), Ids{2});
  ExpectWhole({2});
}

TEST_P(PublishTest, AViewIsThereAfterwards) {
  const Output checkpoint = CheckpointOf(run(), 3);
  ASSERT_OK(PublishOne(checkpoint));
  EXPECT_EQ(warnings, "");
  EXPECT_EQ(Committed(), Ids{3});
  ExpectShown(pfs, 3, ViewPathOf(3));
}

TEST_P(PublishTest, AViewThatCannotBeMadeIsAWarning) {
  pfs.FailOn({.op = FakeOp::kAny, .path_part = "ckpt.3.bp", .times = UINT64_MAX});
  ASSERT_OK(PublishOne(CheckpointOf(run(), 3)));
  EXPECT_NE(warnings.find("dataset 3 has no BP5 view"), std::string::npos) << warnings;
  EXPECT_EQ(Committed(), Ids{3});
}

TEST_P(PublishTest, WhatComesTooLateForItsNamesChangesNothing) {
  ASSERT_OK(Flush(OutputOf(run(), 5)));
  EXPECT_STATUS(kAborted, PublishOne(OutputOf(run(), 2)), "dataset 5, which is newer");
  EXPECT_EQ(Committed(), Ids{5});
  ExpectWhole({5});
  EXPECT_FALSE(IsThere("out/2"));
}

TEST_P(PublishTest, ARemovalThatComesBeforeTheCommitWins) {
  bool removed = false;
  when_copied = [&] {
    // Its files are in their places then, and their folder is about to be synced.
    pfs.SetHook([&](FakeOp op, const std::string& path) {
      if (op != FakeOp::kSyncDirectory || !path.ends_with("/out") || std::exchange(removed, true)) return;
      EXPECT_TRUE(IsThere("out/2"));
      EXPECT_OK(prefix->Remove(2, {}));
    });
  };
  ASSERT_OK(MakeDirectories(pfs, prefix->FilePath("out")));
  EXPECT_STATUS(kAborted, PublishOne(OutputOf(run(), 2)), "removed");
  EXPECT_TRUE(removed);
  EXPECT_TRUE(Committed().empty());
}

// --- One of them each ---

class ProtocolTest : public ::testing::Test, protected Publishing {};

TEST_F(ProtocolTest, ADirectoryInTheWayOfACheckpointFileIsRefused) {
  for (const User user : {User::kFlush, User::kScavenge}) {
    SCOPED_TRACE(NameOf(user));
    Publishing site;
    ASSERT_OK(MakeDirectories(site.pfs, site.prefix->FilePath("ckpt.3/Ckpt3-Rank1.fti")));
    EXPECT_STATUS(kFailedPrecondition, site.Publish(user, CheckpointOf(site.run(), 3)), "in the way: a directory");
    EXPECT_TRUE(site.Committed().empty());
  }
}

TEST_F(ProtocolTest, WhatGaveWayToAnEarlierTryIsRemovedByTheOneThatCommits) {
  ASSERT_OK(Flush(OutputOf(run(), 1)));
  pfs.FailOn({.op = FakeOp::kRename, .path_part = "out/2"});
  EXPECT_STATUS(kUnavailable, Flush(OutputOf(run(), 2)), "injected");
  EXPECT_TRUE(gave_way.contains(1));
  EXPECT_TRUE(CompleteInIndex().empty());
  EXPECT_TRUE(IsThere("out/1"));
  ASSERT_OK(Flush(OutputOf(run(), 2)));
  EXPECT_FALSE(IsThere("out/1"));
  EXPECT_EQ(Committed(), Ids{2});
  ExpectWhole({2});
}

TEST_F(ProtocolTest, WhatIsCommittedAndNotInItsPlaceIsFinishedByTheNextLook) {
  ASSERT_OK(Flush(OutputOf(run(), 1)));
  pfs.FailOn({.op = FakeOp::kRename, .path_part = "out/2"});
  EXPECT_STATUS(kUnavailable, Flush(OutputOf(run(), 2)), "injected");
  EXPECT_EQ(Committed(), Ids{2});
  EXPECT_EQ(CompleteInIndex(), Ids{2});
  ExpectWhole({2});
}

// Nothing of it is committed, so the older stays.
TEST_F(ProtocolTest, ABypassThatFailsBeforeItsCommitTakesItsOwnAwayAndNobodyGaveWay) {
  ASSERT_OK(Flush(OutputOf(run(), 1)));
  pfs.FailOn({.op = FakeOp::kWrite, .path_part = "scr.dataset.2/rank2file", .times = UINT64_MAX});
  EXPECT_FALSE(BypassCache(OutputOf(run(), 2)).ok());
  pfs.ClearFaults();
  EXPECT_TRUE(bypass->TakeWithdrawn().empty());
  EXPECT_EQ(Committed(), Ids{1});
  ASSERT_OK(bypass->Remove(2));
  for (const char* name : {"out/2", "ckpt.2", ".scr/place.2.cairn"}) EXPECT_FALSE(IsThere(name)) << name;
  EXPECT_EQ(Committed(), Ids{1});
  ExpectWhole({1});
}

// It would be the second that is lost.
TEST_F(ProtocolTest, ABypassThatFailsAfterItsCommitIsThere) {
  ASSERT_OK(Flush(OutputOf(run(), 1)));
  pfs.FailOn({.op = FakeOp::kRename, .path_part = "ckpt.2/files"});
  ASSERT_OK(BypassCache(OutputOf(run(), 2)));
  EXPECT_NE(warnings.find("come to their names later"), std::string::npos) << warnings;
  EXPECT_EQ(bypass->TakeWithdrawn(), (std::vector<std::pair<DatasetId, DatasetId>>{{1, 2}}));
  ASSERT_OK(bypass->Remove(2));
  EXPECT_EQ(Committed(), Ids{2});
  ExpectWhole({2});
  EXPECT_FALSE(IsThere(RoutedFolder(2)));
}

// The data of a BP5 directory's steps is durable before what shows them.
TEST_F(ProtocolTest, WhatShowsTheStepsOfADirectoryComesLast) {
  bool crashed = true;
  int shown = 0;
  for (std::uint64_t n = 1; crashed; ++n) {
    Publishing site;
    Output output = OutputOf(site.run(), 2, {"f.bp/md.idx", "f.bp/data.0"});
    site.pfs.SyncAll();
    site.pfs.CrashAt(n);
    site.BypassCache(output).IgnoreError();
    crashed = site.pfs.crashed();
    site.pfs.Restart(n);
    shown += site.IsThere("f.bp/md.idx") ? 1 : 0;
    EXPECT_TRUE(!site.IsThere("f.bp/md.idx") || site.IsThere("f.bp/data.0")) << n;
  }
  EXPECT_GT(shown, 3);
}

}  // namespace
}  // namespace cairn
