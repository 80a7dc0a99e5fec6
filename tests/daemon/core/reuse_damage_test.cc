// Differential checkpoints where something is damaged, refused or too large: nothing older is lost for it, and what is
// wrong does not live on. daemon/core/README.md.
#include <gtest/gtest.h>

#include "tests/daemon/core/reuse_fixture.h"

namespace cairn {
namespace {

TEST_F(ReuseTest, ABeginThatFailsAtOnceCostsNoOlderOne) {
  ASSERT_TRUE(harness_.Start().ok());
  Ranks ranks(harness_, 2, "job.1");
  std::vector<DatasetId> ids;
  for (std::uint64_t step = 1; step <= 2; ++step) {
    ids.push_back(ranks.Checkpoint(step, {MemoryAt(step), MemoryAt(step)}));
    ASSERT_SAYS(ranks[0].Wait(ids.back(), local::LOCAL), local::OK, "");
  }
  ASSERT_SAYS(ranks[1].Close(), local::OK, "");
  EXPECT_NE(ranks[0].Begin(3, MemoryAt(3)).status().code(), local::OK);
  EXPECT_TRUE(HasFolder(ids[0]));
  EXPECT_EQ(harness_.Row(ids[0]).state(), "whole");
}

TEST_F(ReuseTest, WhatTheLaunchHasRestoredStaysUntilItHasOneOfItsOwn) {
  Start();
  const DatasetId first = Make(1);
  Make(2);
  ASSERT_SAYS(client_->Close(), local::OK, "");
  client_ = std::make_unique<FakeClient>(harness_);
  ASSERT_SAYS(client_->Open({.key = "job.2"}), local::OK, "");
  Memory back = Blank(MemoryAt(1));
  ASSERT_EQ(client_->Restore(first, back).code, local::OK);
  disk_.FailOn({.op = FakeOp::kSync, .path_part = "-Rank0.fti.cairn-work"});
  const DatasetId third = Commit(3);
  EXPECT_SAYS(client_->Wait(third, local::LOCAL), local::FAILED, "injected");
  EXPECT_EQ(harness_.Row(first).state(), "whole");
  const DatasetId fourth = Make(4);
  EXPECT_GT(Written(fourth), 3 * kMiB);
  EXPECT_LT(Written(Make(5)), kLittle);
}

TEST_F(ReuseTest, ARingDoesNotWaitForABaseToBeRead) {
  harness_.config.image.bytes_max = 2 * kMiB;
  Start();
  Make(1);
  const DatasetId second = Make(2);
  EXPECT_LT(Written(Make(3)), kLittle);
  ResumeAfterRestart();
  const std::uint64_t inode = Inode(second);
  const DatasetId fourth = Make(4);
  EXPECT_GT(Written(fourth), 3 * kMiB);
  EXPECT_EQ(Inode(fourth), inode);
  Make(5);
  const DatasetId sixth = Make(6);
  EXPECT_LT(Written(sixth), kLittle);
  ExpectRestores(sixth, 6);
}

TEST_F(CloneTest, ADamagedBaseIsReportedAndSetAside) {
  harness_.config.flush.every = 0;
  Start();
  const DatasetId first = Make(1);
  disk_.FlipBit(harness_.CachedFile(first, 0), 8 * (2 * kMiB + kMiB / 2));
  ResumeAfterRestart();
  const DatasetId second = Make(2);
  EXPECT_TRUE(harness_.Warned("from a damaged file"));
  EXPECT_NE(harness_.Row(first).state(), "whole");
  ExpectRestores(second, 2);
}

// A flush finds it. By then another one has taken it over with the rest of the file, and its digests know nothing of
// it.
TEST_F(CloneTest, DamageThatIsFoundLaterDoesNotLiveOn) {
  harness_.config.flush.every = 0;
  Start();
  const DatasetId first = Make(1);
  disk_.FlipBit(harness_.CachedFile(first, 0), 8 * (2 * kMiB + kMiB / 2));
  const DatasetId second = Make(2);
  EXPECT_LT(Written(second), kLittle);
  const DatasetId third = Make(3);
  EXPECT_NE(client_->Wait(second, local::PREFIX).status().code(), local::OK);
  EXPECT_NE(harness_.Row(second).state(), "whole");
  const DatasetId fourth = Make(4);
  EXPECT_NE(harness_.Row(third).state(), "whole");
  EXPECT_SAYS(client_->Wait(fourth, local::PREFIX), local::OK, "");
  ExpectRestores(fourth, 4);
}

}  // namespace
}  // namespace cairn
