// A flush on the disks: its two steps, what they leave behind at any instant, and what flush.scr says meanwhile.
#include "storage/job/flush/flush_work.h"
#include "storage/base/path.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "storage/base/status.h"
#include "storage/format/scr/records.h"
#include "storage/job/grow/grown_directory.h"
#include "storage/place/prefix/flush_file.h"
#include "storage/place/prefix/prefix.h"
#include "tests/storage/job/flush/flush_work_fixture.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using enum absl::StatusCode;

TEST_F(FlushWorkTest, TheCopyIsSeenAsIncompleteAndRestoredByNobody) {
  const Files files = Make(4, {"out/a", "b"});
  const FlushOutcome copy = Copy(files);
  ASSERT_OK(copy.status);
  EXPECT_EQ(CompleteInIndex(4), "0");
  EXPECT_EQ(Places(4), "CACHE FLUSHING ");
  EXPECT_TRUE(Committed().empty());
  EXPECT_STATUS(kNotFound, pfs_.Info(kPrefix + "/out/a"), "");
  const FlushOutcome commit = Commit(files, copy);
  ASSERT_OK(commit.status);
  EXPECT_EQ(CompleteInIndex(4), "1");
  EXPECT_EQ(Places(4), "CACHE PFS ");
  EXPECT_EQ(Committed(), std::set<DatasetId>{4});
  ExpectSound("after the commit");
}

TEST_F(FlushWorkTest, WhatHasArrivedIsNotCopiedAgain) {
  const Files files = Make(4, {"out/a", "b"});
  ASSERT_OK(Copy(files).status);
  pfs_.SetHook([](FakeOp op, const std::string& path) {
    EXPECT_FALSE(op == FakeOp::kWrite && (path.find("/out/a") != std::string::npos)) << path;
  });
  EXPECT_OK(Flush(files).status);
  EXPECT_OK(Flush(files).status);  // and once more when it is committed
  ExpectSound("at the end");
}

TEST_F(FlushWorkTest, ANewerOneTakesTheNamesOfOlderOnes) {
  const Files old = Make(1, {"out/a", "only_old"}), other = Make(2, {"c"}), young = Make(3, {"out/a", "b"});
  ASSERT_OK(Flush(old).status);
  ASSERT_OK(Flush(other).status);
  const FlushOutcome flushed = Flush(young);
  ASSERT_OK(flushed.status);
  EXPECT_EQ(IdsOf(flushed.withdrawn), std::vector<DatasetId>{1});
  EXPECT_EQ(Committed(), (std::set<DatasetId>{2, 3}));
  EXPECT_STATUS(kNotFound, pfs_.Info(kPrefix + "/only_old"), "");
  ExpectSound("at the end");
}

TEST_F(FlushWorkTest, AnOlderOneThatComesTooLateLeavesTheNewerOnesFiles) {
  const Files old = Make(1, {"out/a"}), young = Make(3, {"out/a"});
  const FlushOutcome copy = Copy(old);
  ASSERT_OK(copy.status);
  ASSERT_OK(Flush(young).status);
  const FlushOutcome late = Commit(old, copy);
  EXPECT_TRUE(late.too_late);
  EXPECT_STATUS(kAborted, late.status, "dataset 3");
  EXPECT_EQ(Committed(), std::set<DatasetId>{3});
  ExpectSound("at the end");
}

TEST_F(FlushWorkTest, WhatWasRemovedThereDoesNotComeBack) {
  const Files files = Make(1, {"out/a"});
  ASSERT_OK(Flush(files).status);
  ASSERT_OK(prefix_->Remove(1, files.catalogues));
  const FlushOutcome again = Flush(files);
  EXPECT_TRUE(again.too_late);
  EXPECT_STATUS(kAborted, again.status, "removed");
  EXPECT_STATUS(kNotFound, pfs_.Info(kPrefix + "/out/a"), "");
}

TEST_F(FlushWorkTest, NothingGivesWayToWhatCannotBeCommittedAnyMore) {
  const Files old = Make(1, {"out/a"}), young = Make(3, {"out/a"});
  ASSERT_OK(Flush(old).status);
  const FlushOutcome copy = Copy(young);
  ASSERT_OK(copy.status);
  const std::string record = kPrefix + "/.scr/scr.dataset.3/commit.cairn";
  ASSERT_OK(MakeDirectories(pfs_, ParentOf(record)));
  ASSERT_OK(WriteTestFile(pfs_, record, "damaged"));
  EXPECT_STATUS(kDataLoss, Commit(young, copy).status, record);
  ASSERT_OK(pfs_.Remove(record));
  ASSERT_OK(prefix_->Remove(3, {}));
  const FlushOutcome late = Commit(young, copy);
  EXPECT_TRUE(late.too_late);
  EXPECT_STATUS(kAborted, late.status, "removed");
  EXPECT_TRUE(late.withdrawn.empty());
  EXPECT_EQ(Committed(), std::set<DatasetId>{1});
  ExpectSound("at the end");
}

TEST_F(FlushWorkTest, AFileOfTheSameBytesIsSharedAndWithdrawsNobody) {
  Files old = Make(1, {"same"}), young = Make(3, {"same", "b"});
  const std::string bytes = BytesOf(1, "same");
  ASSERT_OK(WriteTestFile(cache_, young.folder + "/same", bytes));
  *young.catalogues[0].mutable_file(0) = TestEntry("same", "same", bytes);
  ASSERT_OK(Flush(old).status);
  ASSERT_OK(Flush(young).status);
  EXPECT_EQ(Committed(), (std::set<DatasetId>{1, 3}));
  ExpectSound("at the end");
}

TEST_F(FlushWorkTest, AFileThatHasLeftItsPlaceSinceTheCopyIsCopiedAgain) {
  const Files files = Make(1, {"a"});
  ASSERT_OK(WriteTestFile(pfs_, kPrefix + "/a", BytesOf(1, "a")));
  const FlushOutcome copy = Copy(files);
  ASSERT_OK(copy.status);
  ASSERT_OK(pfs_.Remove(kPrefix + "/a"));
  ASSERT_OK(WriteTestFile(pfs_, kPrefix + "/a", BytesOf(2, "b")));
  const FlushOutcome commit = Commit(files, copy);
  EXPECT_STATUS(kAborted, commit.status, "/a");
  EXPECT_FALSE(commit.too_late);
  EXPECT_OK(Flush(files).status);
  ExpectSound("at the end");
}

TEST_F(FlushWorkTest, SomethingInTheWayIsNamed) {
  ASSERT_OK(WriteTestFile(pfs_, kPrefix + "/out", "a file"));
  EXPECT_STATUS(kFailedPrecondition, Flush(Make(1, {"out/a"})).status, "/out: in the way");
  ASSERT_OK(MakeDirectories(pfs_, kPrefix + "/b"));
  EXPECT_STATUS(kFailedPrecondition, Flush(Make(2, {"b"})).status, "/b: in the way");
  EXPECT_TRUE(Committed().empty());
}

TEST_F(FlushWorkTest, DamageOfTheCacheNamesTheFile) {
  const Files files = Make(1, {"b", "out/a"});
  cache_.FlipBit(files.folder + "/out/a", 1234);
  const FlushOutcome flipped = Flush(files);
  EXPECT_STATUS(kDataLoss, flipped.status, "out/a");
  EXPECT_EQ(flipped.damaged_file, "out/a");
  ASSERT_OK(cache_.Remove(files.folder + "/b"));
  const FlushOutcome missing = Flush(files);
  EXPECT_STATUS(kDataLoss, missing.status, "/b: missing");
  EXPECT_EQ(missing.damaged_file, "b");
}

// Whenever the power fails: nobody restores a dataset whose files have been replaced, and the next try succeeds.
TEST_F(FlushWorkTest, ACrashAnywhereLeavesNoEntryWithTheFilesOfAnother) {
  std::uint64_t operations = 0;
  for (std::uint64_t n = 1;; ++n) {
    const std::string when = "crash at operation " + std::to_string(n);
    pfs_.Restart(n);
    EXPECT_OK(RemoveTree(pfs_, kPrefix));
    flush_file_ = std::make_unique<FlushFile>("node1:/cache");
    prefix_ = OpenPrefix();
    ASSERT_NE(prefix_, nullptr);
    const Files old = Make(1, {"out/a", "b"}), young = Make(2, {"out/a", "c"});
    ASSERT_OK(Flush(old).status) << when;
    pfs_.SyncAll();
    pfs_.CrashAt(n);
    const bool done = Flush(young).status.ok();
    pfs_.Restart(n);
    prefix_ = OpenPrefix();
    ASSERT_NE(prefix_, nullptr) << when;
    ExpectSound(when);
    if (HasFatalFailure()) return;
    flush_file_ = std::make_unique<FlushFile>("node1:/cache");
    ASSERT_OK(Flush(young).status) << when;
    EXPECT_EQ(Committed(), std::set<DatasetId>{2}) << when;
    ExpectSound(when + ", again");
    operations = n;
    if (done) break;
  }
  EXPECT_GT(operations, 40u);
}

// --- flush.scr ---

TEST_F(FlushWorkTest, TheFlushFileIsMendedForThisNodeOnly) {
  scr::FlushEntry foreign;
  foreign.in_cache = foreign.flushing = true;
  foreign.name = "scr's";
  ASSERT_OK(prefix_->PutFlush(7, foreign));
  FlushFile other("node2:/cache");
  other.Put(TestDescriptor(8, 1), FlushFile::Place::kFlushing);
  ASSERT_OK(other.Write(*prefix_));
  flush_file_->Put(TestDescriptor(1, 1), FlushFile::Place::kFlushing);
  flush_file_->Put(TestDescriptor(2, 1), FlushFile::Place::kCache);
  ASSERT_OK(flush_file_->Write(*prefix_));
  EXPECT_FALSE(flush_file_->stale());

  FlushFile next("node1:/cache");  // after a restart that found dataset 1 only
  EXPECT_TRUE(next.stale());
  next.Put(TestDescriptor(1, 1), FlushFile::Place::kCache);
  ASSERT_OK(next.Write(*prefix_));
  EXPECT_EQ(Places(1), "CACHE ");
  EXPECT_EQ(Places(2), "no entry");
  EXPECT_EQ(Places(7), "CACHE FLUSHING ");
  EXPECT_EQ(Places(8), "CACHE FLUSHING ");
  next.KeepOnly({});
  EXPECT_TRUE(next.stale());
  EXPECT_FALSE(next.Says(1, FlushFile::Place::kCache));
  ASSERT_OK(next.Write(*prefix_));
  EXPECT_EQ(Places(1), "no entry");
}

TEST_F(FlushWorkTest, WhatCouldNotBeWrittenIsWrittenLater) {
  flush_file_->Put(TestDescriptor(1, 1), FlushFile::Place::kCache);
  pfs_.FailOn({.op = FakeOp::kWrite, .path_part = "flush.scr"});
  EXPECT_STATUS(kUnavailable, flush_file_->Write(*prefix_), "");
  EXPECT_TRUE(flush_file_->stale());
  EXPECT_OK(flush_file_->Write(*prefix_));
  EXPECT_EQ(Places(1), "CACHE ");
}

// --- Under a launch ---

TEST_F(FlushWorkTest, WhatIsFlushedUnderALaunchThatIsNotTheNewestIsFencedAndNobodyGivesWayToIt) {
  const auto launch = [&] { return prefix_->MakeLaunch({.key = "job", .nranks = 1, .run = {}, .maker = {}}); };
  const auto flush = [&](const Files& files, LaunchId committer) {
    const FlushSource source{cache_, files.folder, files.descriptor, files.catalogues};
    const FlushTarget target{.disk = pfs_, .prefix = *prefix_, .flush_file = *flush_file_, .committer = committer};
    const FlushOutcome copy = CopyDataset(source, target, throttle_, progress_);
    return copy.status.ok() ? CommitCopied(source, target, copy.copied) : copy;
  };
  ASSERT_OK(launch());
  EXPECT_FALSE(flush(Make(1, {"out/a"}), 1).fenced);
  ASSERT_OK(launch());
  const FlushOutcome replacing = flush(Make(2, {"out/a"}), 1);
  EXPECT_TRUE(replacing.fenced);
  EXPECT_FALSE(replacing.too_late);
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, replacing.status, "newer");
  EXPECT_TRUE(replacing.withdrawn.empty());
  EXPECT_EQ(Committed(), (std::set<DatasetId>{1}));
  ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadWhole(pfs_, kPrefix + "/out/a", 1 << 20));
  EXPECT_EQ(bytes, BytesOf(1, "out/a"));
  EXPECT_TRUE(flush(Make(3, {"out/b"}), 1).fenced);  // it is there, and does not count
  EXPECT_EQ(Committed(), (std::set<DatasetId>{1}));
  ASSERT_OK_AND_ASSIGN(const PrefixContents contents, prefix_->Contents());
  EXPECT_TRUE(contents.fenced.contains(3));
  EXPECT_FALSE(flush(Make(4, {"out/a"}), 2).fenced);
  EXPECT_EQ(Committed(), (std::set<DatasetId>{4}));
}

TEST_F(FlushWorkTest, AGrowingDirectoryTakesNoPlaceUnderALaunchThatIsNotTheNewest) {
  const auto launch = [&] { return prefix_->MakeLaunch({.key = "job", .nranks = 1, .run = {}, .maker = {}}); };
  ASSERT_OK(launch());
  ASSERT_OK(Flush(Make(1, {"out/md.idx", "out/data.0"})).status);
  ASSERT_OK(launch());
  for (const bool close : {false, true}) {
    const GrowOutcome outcome =
        close ? ClosePlace(pfs_, *prefix_, 2, "out", 1) : TakePlace(pfs_, *prefix_, TestDescriptor(2, 1), "out", 1);
    EXPECT_TRUE(outcome.fenced) << outcome.status;
    EXPECT_FALSE(outcome.too_late);
    EXPECT_TRUE(outcome.withdrawn.empty());
    EXPECT_TRUE(pfs_.Info(kPrefix + "/out/md.idx").ok());
    EXPECT_EQ(Committed(), (std::set<DatasetId>{1}));
  }
  const GrowOutcome taken = TakePlace(pfs_, *prefix_, TestDescriptor(2, 1), "out", 2);
  ASSERT_OK(taken.status);
  EXPECT_FALSE(taken.fenced);
  EXPECT_EQ(Committed(), (std::set<DatasetId>{}));
}

}  // namespace
}  // namespace cairn
