// Differential checkpoints: whose files are written over, when, and what is whole meanwhile. daemon/core/README.md.
#include <gtest/gtest.h>

#include <future>

#include "storage/format/ftiff/codec.h"
#include "tests/daemon/core/gate.h"
#include "tests/daemon/core/reuse_fixture.h"

namespace cairn {
namespace {

TEST_F(ReuseTest, TwoFilesTakeTurnsAndOnlyWhatChangedIsWritten) {
  Start();
  DatasetId before = Make(1), last = Make(2);
  EXPECT_GT(Written(before), 3 * kMiB);
  EXPECT_GT(Written(last), 3 * kMiB);
  for (std::uint64_t step = 3; step <= 8; ++step) {
    const std::uint64_t inode = Inode(before);
    const DatasetId next = Make(step);
    EXPECT_EQ(Inode(next), inode) << step;
    EXPECT_GT(Written(next), 0u);
    EXPECT_LT(Written(next), kLittle) << step;
    EXPECT_TRUE(LosesFolder(before));
    EXPECT_SAYS(client_->Test(before, local::LOCAL), local::SUPERSEDED, "was superseded by dataset");
    EXPECT_SAYS(client_->Wait(before, local::PREFIX), local::SUPERSEDED, "");
    before = std::exchange(last, next);
  }
  EXPECT_FALSE(harness_.Warned("new file"));
  ExpectRestores(before, 7);
  ExpectRestores(last, 8);
}

TEST_F(ReuseTest, ShowTellsBytesWrittenOfEachRank) {
  Start();
  Make(1);
  Make(2);
  const DatasetId id = Make(3);
  const admin::ShowReply show = harness_.Show(id);
  ASSERT_EQ(show.ranks_size(), 1);
  EXPECT_GT(show.ranks(0).bytes(), 3 * kMiB);
  EXPECT_GT(show.ranks(0).bytes_written(), 0u);
  EXPECT_LT(show.ranks(0).bytes_written(), kLittle);
  EXPECT_EQ(show.dataset().bytes_written(), show.ranks(0).bytes_written());
}

TEST_F(ReuseTest, TheLastWholeOneIsWholeWhileTheNextIsWritten) {
  Start();
  const DatasetId first = Make(1), second = Make(2);
  Gate gate(FakeOp::kSync, "-Rank0.fti");
  disk_.SetHook(gate.hook());
  const DatasetId third = Commit(3);
  gate.AwaitArrival();  // all but synced
  EXPECT_SAYS(client_->Test(first, local::LOCAL), local::SUPERSEDED, "");
  const local::Reply test = client_->Test(second, local::LOCAL);
  EXPECT_SAYS(test, local::OK, "");
  EXPECT_TRUE(test.test().reached());
  const local::Reply latest = client_->Latest();
  EXPECT_EQ(latest.latest().dataset(), second);
  disk_.CrashAt(1);  // the power fails
  gate.Open();
  disk_.SetHook(nullptr);
  client_ = nullptr;
  harness_.Stop();
  disk_.Restart(1);
  ASSERT_TRUE(harness_.Start().ok());
  EXPECT_TRUE(harness_.Row(third).state() != "whole");
  client_ = std::make_unique<FakeClient>(harness_);
  ASSERT_SAYS(client_->Open({.key = "job.2"}), local::OK, "");
  EXPECT_EQ(client_->Latest().latest().dataset(), second);
  ExpectRestores(second, 2);
}

TEST_F(ReuseTest, APinnedOneIsNeverWrittenOver) {
  Start();
  const DatasetId first = Make(1);
  ASSERT_EQ(harness_.Pin(first, true).code(), local::OK);
  const DatasetId second = Make(2), third = Make(3), fourth = Make(4);
  EXPECT_TRUE(LosesFolder(second));
  EXPECT_TRUE(HasFolder(first));
  EXPECT_GT(Written(third), 3 * kMiB);
  EXPECT_LT(Written(fourth), kLittle);
  ExpectRestores(first, 1);
}

TEST_F(ReuseTest, OneThatIsBeingFlushedIsNeverWrittenOver) {
  Start();
  const DatasetId first = Make(1);
  Gate gate(FakeOp::kWrite, "prefix/ckpt.");
  disk_.SetHook(gate.hook());
  const std::uint64_t flushed = client_->SendWait(first, local::PREFIX);
  gate.AwaitArrival();
  Make(2);
  EXPECT_GT(Written(Make(3)), 3 * kMiB);
  EXPECT_TRUE(HasFolder(first));
  gate.Open();
  EXPECT_SAYS(client_->Next(flushed), local::OK, "");
  disk_.SetHook(nullptr);
  EXPECT_TRUE(LosesFolder(first));
  ExpectRestores(first, 1, local::TIER_PREFIX);
}

TEST_F(ReuseTest, OneThatIsToBeFlushedIsNeverWrittenOver) {
  harness_.config.flush.every = 1;
  harness_.config.flush.superseded = true;  // all go to the prefix
  Start();
  for (std::uint64_t step = 1; step <= 5; ++step) Make(step);
  for (DatasetId id = client_->Latest().latest().dataset(), step = 5; step >= 1; --id, --step) {
    ASSERT_SAYS(client_->Wait(id, local::PREFIX), local::OK, "");
    const Memory memory = MemoryAt(step);
    Memory back = Blank(memory);
    const FakeClient::Restored restored = client_->Restore(id, back);
    ASSERT_EQ(restored.code, local::OK) << restored.message;
    EXPECT_TRUE(back[1].bytes == memory[1].bytes);
  }
}

TEST_F(ReuseTest, OneThatIsBeingRestoredIsNeverWrittenOver) {
  Start();
  const DatasetId first = Make(1), second = Make(2);
  ASSERT_SAYS(client_->Close(), local::OK, "");
  Ranks ranks(harness_, 2, "job.2");
  Memory back = {ValueOf(1, "step", 0)}, other = back;
  const std::uint64_t restoring = ranks[0].SendRestore(first, back);  // waits for rank 1, which checkpoints first
  const local::Reply third = ranks[1].Checkpoint(3, MemoryAt(3));
  ASSERT_SAYS(third, local::OK, "");
  auto rank0 = std::async(std::launch::async, [&] { return ranks[0].TakeRestore(restoring, back).code; });
  EXPECT_EQ(ranks[1].Restore(first, other).code, local::OK);
  EXPECT_EQ(rank0.get(), local::OK);
  EXPECT_EQ(NumberIn(back[0]), 1u);
  ASSERT_SAYS(ranks[0].Checkpoint(3, MemoryAt(3)), local::OK, "");
  ASSERT_SAYS(ranks[0].Wait(third.committed().dataset(), local::LOCAL), local::OK, "");
  EXPECT_GT(Written(third.committed().dataset()), 6 * kMiB);
  EXPECT_TRUE(HasFolder(second));
}

TEST_F(ReuseTest, TheApplicationsOwnFilesAreNeverWrittenOver) {
  Start();
  std::vector<DatasetId> files;
  for (std::uint64_t step = 1; step <= 2; ++step) {
    const local::Reply begun = client_->OutputBegin(step);
    ASSERT_SAYS(begun, local::OK, "");
    const local::Reply routed = client_->RouteFile("state.dat");
    ASSERT_SAYS(routed, local::OK, "");
    harness_.Write(disk_, routed.route_file().path(), RandomBytes(step, kMiB));
    ASSERT_SAYS(client_->OutputEnd(), local::OK, "");
    files.push_back(begun.output_begin().dataset());
    ASSERT_SAYS(client_->Wait(files.back(), local::LOCAL), local::OK, "");
  }
  EXPECT_GT(Written(Make(3)), 3 * kMiB);
  EXPECT_GT(Written(Make(4)), 3 * kMiB);
  EXPECT_LT(Written(Make(5)), kLittle);
}

TEST_F(ReuseTest, InAFullCacheTheOneThatHasToGoGivesItsFiles) {
  harness_.config.cache.keep = 1000;
  harness_.config.cache.bytes_max = 7 * kMiB;  // two of them
  Start();
  const DatasetId first = Make(1), second = Make(2);
  const DatasetId third = Make(3);
  EXPECT_LT(Written(third), kLittle);
  EXPECT_TRUE(LosesFolder(first));
  EXPECT_TRUE(HasFolder(second));
  EXPECT_LE(harness_.Status().cache_bytes_used(), 7 * kMiB);
  ExpectRestores(second, 2);
  ExpectRestores(third, 3);
}

TEST_F(ReuseTest, ADatasetWhoseFilesWereGivenAwayStaysOnThePrefix) {
  Start();
  const DatasetId first = Make(1);
  ASSERT_SAYS(client_->Wait(first, local::PREFIX), local::OK, "");
  Make(2);
  EXPECT_LT(Written(Make(3)), kLittle);
  EXPECT_SAYS(client_->Test(first, local::PREFIX), local::OK, "");
  ExpectRestores(first, 1, local::TIER_PREFIX);
}

TEST_F(ReuseTest, SizesThatChangeReuseWhatIsTheSame) {
  Start();
  Make(1);
  Make(2);
  Memory grown = MemoryAt(2);
  grown.push_back(PlainOf(3, RandomBytes(33, 100'000)));
  const local::Reply done = client_->Checkpoint(3, grown);
  ASSERT_SAYS(done, local::OK, "");
  const DatasetId id = done.committed().dataset();
  ASSERT_SAYS(client_->Wait(id, local::LOCAL), local::OK, "");
  EXPECT_LT(Written(id), kLittle + 110'000);
  ResumeAfterRestart();
  Memory back = Blank(grown);
  ASSERT_EQ(client_->Restore(id, back).code, local::OK);
  for (std::size_t i = 0; i < grown.size(); ++i) EXPECT_TRUE(back[i].bytes == grown[i].bytes) << i;
}

TEST_F(ReuseTest, AfterARestartOfTheDaemonTheBlocksAreKnownFromTheFiles) {
  Start();
  Make(1);
  Make(2);
  EXPECT_LT(Written(Make(3)), kLittle);
  ResumeAfterRestart();
  EXPECT_LT(Written(Make(4)), kLittle);
  const DatasetId fifth = Make(5);
  EXPECT_LT(Written(fifth), kLittle);
  ExpectRestores(fifth, 5);
}

TEST_F(ReuseTest, ADamagedSpareIsNoticedAfterARestart) {
  Start();
  const DatasetId first = Make(1);
  Make(2);
  const std::string file = harness_.CachedFile(first, 0);
  disk_.FlipBit(file, 8 * (kMiB + 77));
  ResumeAfterRestart();
  const DatasetId third = Make(3);
  ExpectRestores(third, 3);
}

TEST_F(ReuseTest, AnotherLaunchGoesOnWithTheFilesOfTheLast) {
  Start();
  Make(1);
  Make(2);
  ASSERT_SAYS(client_->Close(), local::OK, "");
  client_ = std::make_unique<FakeClient>(harness_);
  ASSERT_SAYS(client_->Open({.key = "job.2"}), local::OK, "");
  EXPECT_LT(Written(Make(3)), kLittle);
}

TEST_F(ReuseTest, IfItCannotBeRetiredTheNextOneIsWrittenInFull) {
  Start();
  const DatasetId first = Make(1), second = Make(2);
  disk_.FailOn({.op = FakeOp::kWrite, .path_part = "cindex"});
  const DatasetId third = Make(3);
  EXPECT_GT(Written(third), 3 * kMiB);
  EXPECT_TRUE(harness_.Warned("could not be retired"));
  EXPECT_TRUE(LosesFolder(first));
  ExpectRestores(second, 2);
  ExpectRestores(third, 3);
}

// The base has been consumed, and then the disk fails: the one before is there, and the next works.
TEST_F(ReuseTest, ACaptureThatFailsTakesOnlyTheSpareWithIt) {
  for (const FakeOp op : {FakeOp::kWrite, FakeOp::kSync}) {
    if (harness_.running()) {
      client_ = nullptr;
      harness_.Stop();
    }
    Start();
    const DatasetId first = Make(1), second = Make(2);
    disk_.FailOn({.op = op, .path_part = "-Rank0.fti.cairn-work"});
    const DatasetId third = Commit(3);
    EXPECT_SAYS(client_->Wait(third, local::LOCAL), local::FAILED, "injected");
    EXPECT_TRUE(LosesFolder(first));
    EXPECT_TRUE(LosesFolder(third));
    EXPECT_TRUE(HasFolder(second));
    const DatasetId fourth = Make(4);
    ExpectRestores(second, 2);
    ExpectRestores(fourth, 4);
    disk_.ClearFaults();
    ASSERT_SAYS(client_->Close(), local::OK, "");
  }
}

TEST_F(ReuseTest, WhatARankDidNotTakeGoesWhenTheDatasetFails) {
  ASSERT_TRUE(harness_.Start().ok());
  Ranks ranks(harness_, 2, "job.1");
  std::vector<DatasetId> ids;
  for (std::uint64_t step = 1; step <= 2; ++step) {
    ids.push_back(ranks.Checkpoint(step, {MemoryAt(step), MemoryAt(step)}));
    ASSERT_SAYS(ranks[0].Wait(ids.back(), local::LOCAL), local::OK, "");
  }
  ASSERT_SAYS(ranks[0].Begin(3, MemoryAt(3)), local::OK, "");
  ASSERT_SAYS(ranks[1].Abort("no"), local::OK, "");
  ASSERT_SAYS(ranks[1].Begin(4, MemoryAt(4)), local::OK, "");  // without the third: it fails
  EXPECT_TRUE(LosesFolder(ids[0]));
  EXPECT_TRUE(HasFolder(ids[1]));
}

TEST_F(ReuseTest, EachRankGetsItsOwnFileBack) {
  ASSERT_TRUE(harness_.Start().ok());
  std::vector<DatasetId> ids;
  {
    Ranks ranks(harness_, 2, "job.1");
    for (std::uint64_t step = 1; step <= 4; ++step) {
      ids.push_back(ranks.Checkpoint(step, {MemoryAt(step), MemoryAt(step + 100)}));
      ASSERT_SAYS(ranks[0].Wait(ids.back(), local::LOCAL), local::OK, "");
      EXPECT_TRUE(step <= 2 || Written(ids.back()) < 2 * kLittle) << step;
    }
  }
  harness_.Restart();
  Ranks ranks(harness_, 2, "job.2");
  std::vector<Memory> back = {Blank(MemoryAt(4)), Blank(MemoryAt(104))};
  back[1][0] = ValueOf(1, "step", 0);
  for (const FakeClient::Restored& one : ranks.Restore(ids.back(), back)) ASSERT_EQ(one.code, local::OK) << one.message;
  EXPECT_TRUE(back[0][1].bytes == MemoryAt(4)[1].bytes);
  EXPECT_TRUE(back[1][1].bytes == MemoryAt(104)[1].bytes);
}

// A variable of 16 MiB of which each step changes one block in a hundred.
class OnePercentTest : public ReuseTest, public ::testing::WithParamInterface<bool> {
 protected:
  OnePercentTest() : ReuseTest({.direct = true, .shares_extents = GetParam()}) {}
  double ShareWrittenOfNext() {
    constexpr std::uint64_t kBlocks = 4096, kBlockBytes = 4096;
    if (memory_.empty()) memory_ = {PlainOf(1, RandomBytes(1, kBlocks * kBlockBytes))};
    ++step_;
    for (std::uint64_t block = step_ * 37 % 100; block < kBlocks; block += 100) {
      memory_[0].bytes.replace(block * kBlockBytes, kBlockBytes, RandomBytes(step_ * kBlocks + block, kBlockBytes));
    }
    const local::Reply done = client_->Checkpoint(step_, memory_);
    EXPECT_SAYS(done, local::OK, "");
    const DatasetId id = done.committed().dataset();
    EXPECT_SAYS(client_->Wait(id, local::LOCAL), local::OK, "");
    const admin::DatasetRow row = harness_.Row(id);
    return static_cast<double>(row.bytes_written()) / static_cast<double>(row.bytes());
  }
  Memory memory_;
  std::uint64_t step_ = 0;
};

TEST_P(OnePercentTest, LittleMoreIsWrittenThanWhatChangedOverARestartToo) {
  const double bound = GetParam() ? 0.015 : 0.03;  // an alternating file is two steps behind
  Start();
  ShareWrittenOfNext();
  ShareWrittenOfNext();
  for (int step = 0; step < 3; ++step) EXPECT_LE(ShareWrittenOfNext(), bound);
  ResumeAfterRestart();
  for (int step = 0; step < 3; ++step) EXPECT_LE(ShareWrittenOfNext(), bound);
}

INSTANTIATE_TEST_SUITE_P(Each, OnePercentTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Cloned" : "Alternating"; });

TEST_F(CloneTest, WhereExtentsCanBeSharedNothingIsRetired) {
  harness_.config.cache.keep = 1000;
  Start();
  std::vector<DatasetId> made;
  for (std::uint64_t step = 1; step <= 4; ++step) {
    made.push_back(Make(step));
    if (step == 1) {
      EXPECT_GT(Written(made.back()), 3 * kMiB);
    } else {
      EXPECT_LT(Written(made.back()), kLittle);
    }
  }
  for (std::size_t i = 0; i < made.size(); ++i) {
    EXPECT_TRUE(HasFolder(made[i]));
    for (std::size_t k = 0; k < i; ++k) EXPECT_NE(Inode(made[i]), Inode(made[k]));
  }
  for (std::size_t i = 0; i < made.size(); ++i) ExpectRestores(made[i], i + 1);
  EXPECT_LT(Written(Make(5)), kLittle);  // after restarts, too
}

TEST_F(CloneTest, NoSpareIsKeptBeyondWhatKeepSays) {
  harness_.config.cache.keep = 0;
  Start();
  const DatasetId first = Make(1), second = Make(2);
  EXPECT_LT(Written(second), kLittle);
  EXPECT_TRUE(LosesFolder(first));
  ExpectRestores(second, 2);
}

TEST_F(CloneTest, ACloneThatFailsIsWrittenInFull) {
  Start();
  Make(1);
  disk_.FailOn({.op = FakeOp::kClone, .status = absl::ResourceExhaustedError("injected")});
  const DatasetId second = Make(2);
  EXPECT_GT(Written(second), 3 * kMiB);
  EXPECT_TRUE(harness_.Warned("into a new file"));
  ExpectRestores(second, 2);
}

// --- The documented layout ---

TEST_F(ReuseTest, LayoutAIsWrittenInFullAndRestoredFromCacheAndPrefix) {
  harness_.config.ftiff.layout_a = true;
  Start();
  DatasetId id = 0;
  for (std::uint64_t step = 1; step <= 4; ++step) {
    id = Make(step);
    EXPECT_EQ(Written(id), harness_.Row(id).bytes());
  }
  const std::string file = harness_.Read(disk_, harness_.CachedFile(id, 0));
  EXPECT_EQ(file.size(), harness_.Row(id).bytes());
  const auto read = [&file](std::uint64_t offset, std::span<std::byte> target) {
    file.copy(reinterpret_cast<char*>(target.data()), target.size(), offset);
    return absl::OkStatus();
  };
  const auto metadata = ftiff::DecodeMetadata("file", file.size(), read);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(metadata->letter, ftiff::Letter::kA);
  const auto verdict = ftiff::VerifyData("file", *metadata, read);
  EXPECT_TRUE(verdict.ok() && verdict->ok());
  // No image is kept, so this daemon restores from the file, too.
  const Memory memory = MemoryAt(4);
  Memory back = Blank(memory);
  FakeClient::Restored restored = client_->Restore(id, back);
  ASSERT_EQ(restored.code, local::OK) << restored.message;
  EXPECT_EQ(restored.tier, local::TIER_CACHE);
  EXPECT_TRUE(back[1].bytes == memory[1].bytes);
  ExpectRestores(id, 4);
  ASSERT_SAYS(client_->Wait(id, local::PREFIX), local::OK, "");
  EXPECT_TRUE(harness_.Read(disk_, harness_.PrefixFile(id, 0)) == file);
  disk_.FlipBit(harness_.CachedFile(id, 0), 8 * kMiB);
  back = Blank(memory);
  restored = client_->Restore(id, back);
  ASSERT_EQ(restored.code, local::OK) << restored.message;
  EXPECT_EQ(restored.tier, local::TIER_PREFIX);
  EXPECT_TRUE(back[1].bytes == memory[1].bytes);
}

TEST_F(ReuseTest, FilesOfLayoutAAreNoBase) {
  harness_.config.ftiff.layout_a = true;
  Start();
  Make(1);
  Make(2);
  harness_.config.ftiff.layout_a = false;
  harness_.core().Reload(harness_.config);
  const DatasetId third = Make(3);
  EXPECT_GT(Written(third), 3 * kMiB);
  EXPECT_TRUE(harness_.Warned("layout A"));
  ExpectRestores(third, 3);
}

}  // namespace
}  // namespace cairn
