// <prefix>/.cairn/launch.<n> and their bases: which launch is the newest, and what counts under it.
#include "storage/place/prefix/launches.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "storage/base/launch_mark.h"
#include "storage/base/status.h"
#include "storage/place/prefix/fence_names.h"
#include "tests/storage/place/prefix/site.h"

namespace cairn {
namespace {

constexpr auto kAborted = absl::StatusCode::kAborted;
constexpr auto kPermissionDenied = absl::StatusCode::kPermissionDenied;

NewLaunch Wanted(std::string key = "key", std::uint32_t nranks = 1) {
  return {.key = std::move(key), .nranks = nranks, .run = {}, .maker = {.cache = "c0ffee", .host = "node7", .pid = 4}};
}

class LaunchesTest : public ::testing::Test, protected Site {
 protected:
  LaunchRecord Launch(std::optional<LaunchId> after = {}) {
    const auto made = prefix->MakeLaunch(Wanted(), after);
    EXPECT_OK(made.status());
    return made.ok() ? *made : LaunchRecord();
  }
  // The dataset arrives and is committed by a program that serves that launch.
  absl::Status CommitUnder(DatasetId id, LaunchId committer) {
    CAIRN_RETURN_IF_ERROR(Arrive(id));
    return prefix->Commit(TestDescriptor(id, kRanks), CataloguesOf(id), committer);
  }
  absl::Status RemoveUnder(DatasetId id, LaunchId committer) { return prefix->Remove(id, CataloguesOf(id), committer); }
  Ids Fenced() {
    Ids ids;
    for (const auto& [id, dataset] : Contents().fenced) ids.push_back(id);
    return ids;
  }
  // The base of launch `id`, as it is on disk.
  std::string Counts(LaunchId id) {
    const kvtree::Tree tree = TreeAt(BasePath(id));
    std::map<DatasetId, std::string> ranges;
    if (const kvtree::Tree* counts = tree.Find("COUNTS")) {
      for (const auto& [first, last] : counts->elements())
        ranges[std::stoull(std::string(first))] = *counts->Get(first);
    }
    std::string text;
    for (const auto& [first, last] : ranges) text += fmt::format("{}-{} ", first, last);
    return text;
  }
  static std::string BasePath(LaunchId id) { return fmt::format("{}/.cairn/launch.{}.base", kPath, id); }
  static std::string RecordPath(LaunchId id) { return fmt::format("{}/.cairn/launch.{}", kPath, id); }
  // As release 0.1.0 made it: without RUN and what follows it.
  void MakeOld(LaunchId id) {
    kvtree::Tree tree = TreeAt(RecordPath(id));
    for (const char* key : {"RUN", "PID", "CACHE"}) tree.Erase(key);
    ASSERT_OK(ReplaceTree(disk, RecordPath(id), tree));
    ASSERT_OK(disk.Remove(BasePath(id)));
    Reopen();
  }
  std::unique_ptr<Prefix> OpenToRead() {
    auto reader = Prefix::OpenReadOnly(disk, kPath);
    EXPECT_OK(reader.status());
    return reader.ok() ? *std::move(reader) : nullptr;
  }
};

TEST_F(LaunchesTest, LaunchesAreNumberedAndKeepWhatTheyWereMadeWith) {
  EXPECT_FALSE((*prefix->NewestLaunch()).has_value());
  ASSERT_OK_AND_ASSIGN(const LaunchRecord first, prefix->MakeLaunch(Wanted("slurm/1/0", 64)));
  ASSERT_OK_AND_ASSIGN(const LaunchRecord second, prefix->MakeLaunch(Wanted("")));
  EXPECT_EQ(first.id, 1u);
  EXPECT_EQ(second.id, 2u);
  EXPECT_NE(first.secret, second.secret);
  EXPECT_NE(LaunchMark(first.secret), LaunchMark(second.secret));
  disk.Restart(1);
  Reopen();
  EXPECT_EQ((*prefix->NewestLaunch())->id, 2u);
  ASSERT_OK_AND_ASSIGN(const LaunchRecord found, prefix->FindLaunch(1));
  EXPECT_EQ(found.key, "slurm/1/0");
  EXPECT_EQ(found.nranks, 64u);
  EXPECT_EQ(found.secret, first.secret);
  EXPECT_EQ(found.secret.size(), 32u);
  EXPECT_EQ(found.run, prefix->run());
  EXPECT_TRUE(found.has_base());
  EXPECT_EQ(found.maker.cache, "c0ffee");
  EXPECT_EQ(found.maker.host, "node7");
  EXPECT_EQ(found.maker.pid, 4u);
  EXPECT_EQ(found.created_us, first.created_us);
  EXPECT_STATUS(kNotFound, prefix->FindLaunch(3), "launch.3");
}

TEST_F(LaunchesTest, TheNewestLaunchIsThatOfTheHighestNumber) {
  for (int i = 0; i < 11; ++i) Launch();
  EXPECT_EQ((*prefix->NewestLaunch())->id, 11u);
  ASSERT_OK(WriteTestFile(disk, "/pfs/demo/.cairn/launch.007", "not a number of ours"));
  ASSERT_OK(WriteTestFile(disk, "/pfs/demo/.cairn/launch.99999999999999999999", "nor this"));
  EXPECT_EQ((*prefix->NewestLaunch())->id, 11u);
}

TEST_F(LaunchesTest, AfterAnotherLaunchWasMadeWhoSawTheOldOneIsToAskAnew) {
  EXPECT_EQ(Launch(0).id, 1u);
  EXPECT_STATUS(kAborted, prefix->MakeLaunch(Wanted(), 0), "launch 1 was made meanwhile");
  EXPECT_EQ(Launch(1).id, 2u);
  EXPECT_EQ((*prefix->NewestLaunch())->id, 2u);
}

TEST_F(LaunchesTest, OfTwoLaunchesThatRaceEachGetsANumberOfItsOwn) {
  std::optional<LaunchRecord> other;
  disk.SetHook([&](FakeOp op, const std::string& path) {
    if (op != FakeOp::kLink || other || path.find("/launch.1") == std::string::npos) return;
    other.emplace();
    *other = *prefix->MakeLaunch(Wanted("other"));
  });
  ASSERT_OK_AND_ASSIGN(const LaunchRecord own, prefix->MakeLaunch(Wanted("own")));
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->id, 1u);
  EXPECT_EQ(own.id, 2u);
  EXPECT_EQ(prefix->FindLaunch(1)->key, "other");
}

TEST_F(LaunchesTest, OfTwoThatRaceAfterTheSameLaunchOneIsToAskAnew) {
  bool other = false;
  disk.SetHook([&](FakeOp op, const std::string& path) {
    if (op != FakeOp::kLink || other || path.find("/launch.1") == std::string::npos) return;
    other = true;
    EXPECT_OK(prefix->MakeLaunch(Wanted("other"), 0));
  });
  EXPECT_STATUS(kAborted, prefix->MakeLaunch(Wanted("own"), 0), "meanwhile");
  EXPECT_EQ((*prefix->NewestLaunch())->key, "other");
}

// Whoever has claimed a number may still finish it: a launch above it would not be seen as newer than that one's.
TEST_F(LaunchesTest, AnUnfinishedRecordIsNotSkipped) {
  Launch();
  ASSERT_OK(WriteTestFile(disk, RecordPath(2), ""));
  ASSERT_OK(WriteTestFile(disk, WorkName(RecordPath(2)), ""));  // its maker's work file is beside it
  EXPECT_EQ((*prefix->NewestLaunch())->id, 1u);
  EXPECT_FALSE((*prefix->LaunchAfter(1)).has_value());
  EXPECT_EQ(Launch(1).id, 2u);
}

TEST_F(LaunchesTest, ADamagedLaunchIsNamedAndTheNextOneGoesPastIt) {
  Launch();
  disk.FlipBit(RecordPath(1), 300);
  Reopen();
  EXPECT_STATUS(kDataLoss, prefix->NewestLaunch(), "launch.1");
  EXPECT_EQ(Launch().id, 2u);
  ASSERT_OK(disk.Rename(RecordPath(2), RecordPath(5)));
  Reopen();
  EXPECT_STATUS(kDataLoss, prefix->NewestLaunch(), "LAUNCH 2 instead of 5");
}

TEST_F(LaunchesTest, LaunchesThatNobodyCouldKeepAreRefused) {
  EXPECT_STATUS(kInvalidArgument, prefix->MakeLaunch(Wanted("key", 0)), "a launch of 0 ranks");
  EXPECT_STATUS(kInvalidArgument, prefix->MakeLaunch(Wanted("key", (1 << 20) + 1)), "a launch of 1048577 ranks");
  EXPECT_STATUS(kInvalidArgument, prefix->MakeLaunch(Wanted(std::string("a\0b", 3))), "NUL");
  EXPECT_STATUS(kInvalidArgument, prefix->MakeLaunch(Wanted(std::string(5000, 'x'))), "5000 bytes");
}

// --- Origins ---

TEST_F(LaunchesTest, ADatasetIsOursIfItsLaunchIsHereWithTheSameSecret) {
  const LaunchRecord launch = Launch();
  const std::string mark = LaunchMark(launch.secret);
  EXPECT_EQ(*prefix->OriginOf(1, mark), Prefix::Origin::kOurs);
  EXPECT_EQ(*prefix->OriginOf(9, mark), Prefix::Origin::kOurs);  // it was called so before it got its number here
  EXPECT_EQ(*prefix->OriginOf(1, LaunchMark("another secret")), Prefix::Origin::kAnothers);
  EXPECT_EQ(*prefix->OriginOf(2, LaunchMark("another secret")), Prefix::Origin::kAnothers);
}

TEST_F(LaunchesTest, ALaunchThatBeganWithoutThePrefixCountsIfNobodyCameBetween) {
  Launch();
  NewLaunch wanted = Wanted();
  wanted.predecessor = 1;
  wanted.secret = std::string(32, 's');
  ASSERT_OK_AND_ASSIGN(const LaunchRecord made, prefix->MakeLaunch(wanted));
  EXPECT_FALSE(made.abandoned);
  EXPECT_EQ(made.secret, wanted.secret);
  ASSERT_OK(CommitUnder(1, 2));
  EXPECT_EQ(Restorable(), Ids{1});
}

TEST_F(LaunchesTest, OneThatBeganAfterALaunchThatIsNotTheNewestIsAbandonedWithAllThatFollowsIt) {
  Launch();
  Launch();
  NewLaunch wanted = Wanted();
  wanted.predecessor = 1;
  ASSERT_OK_AND_ASSIGN(const LaunchRecord late, prefix->MakeLaunch(wanted));
  EXPECT_TRUE(late.abandoned);
  EXPECT_EQ(*prefix->OriginOf(late.id, LaunchMark(late.secret)), Prefix::Origin::kAbandoned);
  wanted.predecessor = late.id;
  wanted.after_abandoned = true;
  ASSERT_OK_AND_ASSIGN(const LaunchRecord next, prefix->MakeLaunch(wanted));
  EXPECT_TRUE(next.abandoned);
  EXPECT_TRUE(IsFenced(CommitUnder(1, next.id)));
  EXPECT_EQ(Restorable(), Ids{});
  Launch();
  EXPECT_EQ(Restorable(), Ids{});
  EXPECT_EQ(Fenced(), Ids{1});
}

// --- What counts ---

TEST_F(LaunchesTest, WhatIsCommittedUnderTheNewestLaunchCountsAndStaysInTheBases) {
  Launch();
  ASSERT_OK(CommitUnder(1, 1));
  ASSERT_OK(CommitUnder(2, 1));
  EXPECT_EQ(Restorable(), (Ids{1, 2}));
  Launch();
  EXPECT_EQ(Counts(1), "");
  EXPECT_EQ(Counts(2), "1-2 ");
  ASSERT_OK(CommitUnder(3, 2));
  Launch();
  EXPECT_EQ(Counts(3), "1-3 ");
  Reopen();
  EXPECT_EQ(Restorable(), (Ids{1, 2, 3}));
}

TEST_F(LaunchesTest, ACommitUnderALaunchThatIsNotTheNewestIsFenced) {
  Launch();
  ASSERT_OK(CommitUnder(1, 1));
  Launch();
  const absl::Status late = CommitUnder(2, 1);
  EXPECT_TRUE(IsFenced(late)) << late;
  EXPECT_STATUS(kFailedPrecondition, late, "restored by its number");
  EXPECT_EQ(Restorable(), Ids{1});
  EXPECT_EQ(Fenced(), Ids{2});
  EXPECT_EQ(Index().FindPath({"DSET", "2"}), nullptr);
  EXPECT_EQ(Current(), "ckpt.1");
  EXPECT_OK(prefix->Catalogues(2));
  EXPECT_TRUE(IsFenced(CommitUnder(2, 1)));
}

TEST_F(LaunchesTest, WhatWasFencedMayBeCommittedUnderTheNewerLaunchBesideTheFirstCommit) {
  Launch();
  Launch();
  ASSERT_TRUE(IsFenced(CommitUnder(1, 1)));
  ASSERT_OK(CommitUnder(1, 2));
  EXPECT_TRUE(IsThere(".scr/scr.dataset.1/commit.cairn"));
  EXPECT_TRUE(IsThere(".scr/scr.dataset.1/commit.2.cairn"));
  EXPECT_EQ(Restorable(), Ids{1});
  EXPECT_STATUS(kAlreadyExists, CommitUnder(1, 2), "committed");
  Launch();
  EXPECT_EQ(Counts(3), "1-1 ");
  EXPECT_EQ(Restorable(), Ids{1});
}

TEST_F(LaunchesTest, WhatTheUserCommitsIsNotFenced) {
  Launch();
  Launch();
  ASSERT_OK(CommitUnder(1, 0));
  EXPECT_EQ(Restorable(), Ids{1});
  Launch();
  EXPECT_EQ(Restorable(), Ids{1});
}

TEST_F(LaunchesTest, ARemovalUnderALaunchThatIsNotTheNewestRemovesNothing) {
  Launch();
  ASSERT_OK(CommitUnder(1, 1));
  ASSERT_OK(CommitUnder(2, 1));
  Launch();
  EXPECT_TRUE(IsFenced(RemoveUnder(1, 1)));
  EXPECT_EQ(Restorable(), (Ids{1, 2}));
  EXPECT_FALSE(IsThere(".scr/" + fence_names::RemovalMark(1, 1)));
  ASSERT_OK(RemoveUnder(1, 2));
  EXPECT_EQ(Restorable(), Ids{2});
  ASSERT_OK(RemoveUnder(2, 0));  // the user's will
  EXPECT_EQ(Restorable(), Ids{});
}

// Whoever has made the mark died there: the next launch's base says that it counts, and the removal is finished.
TEST_F(LaunchesTest, AMarkOfARemovalThatTheBaseHasFoundIsFinishedByWhoeverComesNext) {
  Launch();
  ASSERT_OK(CommitUnder(1, 1));
  ASSERT_OK(CommitUnder(2, 1));
  kvtree::Tree mark;
  mark.Set("VERSION", std::uint64_t{1});
  const std::string path = "/pfs/demo/.scr/" + fence_names::RemovalMark(1, 1);
  ASSERT_OK(ReplaceTree(disk, path, mark));
  Launch();
  EXPECT_EQ(Counts(2), "2-2 ");
  EXPECT_EQ(Restorable(), Ids{2});
  EXPECT_FALSE(disk.Info(path).ok());
  EXPECT_FALSE(IsThere("ckpt.1"));
}

TEST_F(LaunchesTest, AMarkOfARemovalThatCameTooLateIsTakenAway) {
  Launch();
  ASSERT_OK(CommitUnder(1, 1));
  Launch();
  kvtree::Tree mark;
  mark.Set("VERSION", std::uint64_t{1});
  const std::string path = "/pfs/demo/.scr/" + fence_names::RemovalMark(1, 1);
  ASSERT_OK(ReplaceTree(disk, path, mark));
  EXPECT_EQ(Restorable(), Ids{1});
  EXPECT_FALSE(disk.Info(path).ok());
}

// --- Bases ---

TEST_F(LaunchesTest, NobodyActsUnderALaunchWhoseBaseIsNotThere) {
  Launch();
  ASSERT_OK(CommitUnder(1, 1));
  Launch();
  ASSERT_OK(disk.Remove(BasePath(2)));  // its maker died before it
  Reopen();
  ASSERT_OK(prefix->EnterLaunch(2));
  EXPECT_EQ(Counts(2), "1-1 ");
  EXPECT_STATUS(kNotFound, prefix->EnterLaunch(3), "launch.3");
}

// Otherwise what was fenced before an older launch would be found to count under a newer one.
TEST_F(LaunchesTest, MissingBasesAreMadeTheOldestFirst) {
  Launch();
  ASSERT_OK(CommitUnder(1, 1));
  Launch();
  ASSERT_TRUE(IsFenced(CommitUnder(2, 1)));
  ASSERT_OK(CommitUnder(3, 2));
  Launch();
  ASSERT_OK(CommitUnder(4, 3));
  Launch();
  for (const LaunchId id : {3u, 4u}) ASSERT_OK(disk.Remove(BasePath(id)));
  Reopen();
  ASSERT_OK(prefix->EnterLaunch(4));
  EXPECT_EQ(Counts(3), "1-1 3-3 ");
  EXPECT_EQ(Counts(4), "1-1 3-4 ");
  EXPECT_EQ(Restorable(), (Ids{1, 3, 4}));
}

TEST_F(LaunchesTest, AReaderWhoMayNotWriteReadsAsIfALaunchWithoutBaseWasNotMade) {
  Launch();
  ASSERT_OK(CommitUnder(1, 1));
  Launch();
  ASSERT_OK(disk.Remove(BasePath(2)));
  const auto reader = OpenToRead();
  ASSERT_OK_AND_ASSIGN(const PrefixContents contents, reader->Contents());
  EXPECT_EQ(contents.datasets.size(), 1u);
  EXPECT_FALSE(disk.Info(BasePath(2)).ok());
  EXPECT_STATUS(kPermissionDenied, reader->MakeLaunch(Wanted()), "reading only");
  EXPECT_STATUS(kPermissionDenied, reader->EnterLaunch(2), "reading only");
}

TEST_F(LaunchesTest, ADamagedBaseIsNamedAndNotMadeAnew) {
  Launch();
  ASSERT_OK(CommitUnder(1, 1));
  Launch();
  disk.FlipBit(BasePath(2), 200);
  Reopen();
  EXPECT_STATUS(kDataLoss, prefix->Contents(), "launch.2.base");
  EXPECT_STATUS(kDataLoss, prefix->EnterLaunch(2), "launch.2.base");
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.SetEmpty("COUNTS").Set("7", std::uint64_t{3});
  tree.SetEmpty("REMOVED");
  ASSERT_OK(ReplaceTree(disk, BasePath(2), tree));
  Reopen();
  EXPECT_STATUS(kDataLoss, prefix->Contents(), "COUNTS: \"7\" to 3 are no ids");
}

TEST_F(LaunchesTest, LaunchesOfRelease010HaveNoBaseAndWhatWasCommittedThenCounts) {
  Launch();
  ASSERT_OK(CommitUnder(1, 0));
  MakeOld(1);
  EXPECT_FALSE((*prefix->NewestLaunch())->has_base());
  EXPECT_OK(prefix->EnterLaunch(1));
  EXPECT_FALSE(disk.Info(BasePath(1)).ok());
  EXPECT_EQ(Restorable(), Ids{1});
  Launch();
  EXPECT_EQ(Counts(2), "1-1 ");
  ASSERT_OK(CommitUnder(2, 2));
  EXPECT_EQ(Restorable(), (Ids{1, 2}));
}

TEST_F(LaunchesTest, APowerFailureAtAnyOperationLeavesALaunchWithABaseOrNone) {
  for (std::uint64_t n = 1;; ++n) {
    SCOPED_TRACE(fmt::format("power fails at operation {}", n));
    Site site;
    ASSERT_OK(site.Commit(1));
    site.disk.SyncAll();
    site.disk.CrashAt(n);
    const auto made = site.prefix->MakeLaunch(Wanted(), 0);
    const bool crashed = site.disk.crashed();
    site.disk.Restart(n);
    site.Reopen();
    ASSERT_OK_AND_ASSIGN(const auto newest, site.prefix->NewestLaunch());
    if (made.ok()) {
      ASSERT_TRUE(newest.has_value());
    }
    if (newest) {
      EXPECT_OK(site.prefix->EnterLaunch(newest->id));
    }
    EXPECT_EQ(site.Restorable(), Ids{1});
    if (!crashed) break;
  }
}

}  // namespace
}  // namespace cairn
