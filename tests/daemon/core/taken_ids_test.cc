// SCR gives out an id again that a dataset in Cairn's cache has, which never came to the prefix.
#include <gtest/gtest.h>

#include "storage/io/disk.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/scr_writer.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

class TakenIdsTest : public ::testing::Test {
 protected:
  // At `local` only, by a daemon that is gone.
  DatasetId MakeUnflushed(bool output) {
    prefix_disk_.FailOn({.op = FakeOp::kAny, .path_part = "ckpt.1/", .times = UINT64_MAX});  // an output goes at once
    EXPECT_TRUE(harness_.Start().ok());
    FakeClient client(harness_);
    EXPECT_SAYS(client.Open({.key = "job.0"}), local::OK, "");
    DatasetId id = 0;
    if (output) {
      id = client.OutputBegin(7, /*checkpoint=*/true, /*output=*/true).output_begin().dataset();
      EXPECT_SAYS(client.OutputEnd(), local::OK, "");
    } else {
      id = client.Checkpoint(7, memory_).committed().dataset();
    }
    EXPECT_SAYS(client.Wait(id, local::LOCAL), local::OK, "");
    EXPECT_SAYS(client.Close(), local::OK, "");
    return id;
  }
  void PutScrs(DatasetId id) {
    prefix_disk_.ClearFaults();
    PutScr(harness_.prefix_disk(), harness_.prefix(), id, {{"step_30/rank_0.ckpt"}});
  }
  // The cached one is whole, and it is what is restored.
  void ExpectKept(FakeClient& client, DatasetId id) {
    EXPECT_TRUE(harness_.Row(id).in_cache());
    EXPECT_FALSE(harness_.Row(id).in_prefix());
    EXPECT_EQ(harness_.Row(id).step(), 7u);
    EXPECT_SAYS(client.Test(id, local::PREFIX), local::FAILED, "its id to another dataset, step_");
    EXPECT_EQ(client.Latest().latest().dataset(), id);
    EXPECT_EQ(client.Latest().latest().step(), 7u);
    Memory back = Blank(memory_);
    const FakeClient::Restored restored = client.Restore(id, back);
    EXPECT_EQ(restored.code, local::OK) << restored.message;
    EXPECT_EQ(back[0].bytes, memory_[0].bytes);
  }

  const Memory memory_ = {PlainOf(1, RandomBytes(1, 1000))};
  FakeDisk prefix_disk_;
  CoreHarness harness_{nullptr, &prefix_disk_};
};

TEST_F(TakenIdsTest, WhatIsInTheCacheStaysAndIsRestored) {
  const DatasetId id = MakeUnflushed(/*output=*/false);
  harness_.Stop();  // it would try again
  PutScrs(id);
  for (const char* key : {"job.1", "job.2"}) {
    harness_.Restart();
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({.key = key}), local::OK, "");
    ExpectKept(client, id);
    EXPECT_EQ(harness_.Warned("which SCR has written"), key == std::string("job.1"));
  }
}

TEST_F(TakenIdsTest, ItIsSeenByADaemonThatRanMeanwhile) {
  const DatasetId id = MakeUnflushed(/*output=*/false);
  PutScrs(id);
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "job.1"}), local::OK, "");
  ExpectKept(client, id);
}

TEST_F(TakenIdsTest, AnOutputDoesNotLeaveTheCacheForIt) {
  const DatasetId id = MakeUnflushed(/*output=*/true);
  harness_.Stop();  // it would try again
  PutScrs(id);
  harness_.config.cache.linger_ms = 1;
  harness_.config.cache.keep = 0;
  for (const char* key : {"job.1", "job.2"}) {
    harness_.Restart();
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({.key = key}), local::OK, "");
    for (std::uint64_t step = 8; step < 11; ++step) {
      const local::Reply done = client.Checkpoint(step, memory_);
      ASSERT_SAYS(client.Wait(done.committed().dataset(), local::PREFIX), local::OK, "");
    }
    EXPECT_TRUE(harness_.Row(id).in_cache());
  }
}

// What was fetched into the cache is not what the prefix has now.
TEST_F(TakenIdsTest, ACopyOfScrsEarlierDatasetGivesWay) {
  ASSERT_TRUE(MakeDirectories(harness_.prefix_disk(), harness_.prefix()).ok());
  PutScr(harness_.prefix_disk(), harness_.prefix(), 3, {{"step_30/rank_0.ckpt"}}, /*created_us=*/1);
  ASSERT_TRUE(harness_.Start().ok());
  Memory none;
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({.key = "job.0"}), local::OK, "");
    ASSERT_EQ(client.Restore(3, none).tier, local::TIER_PREFIX);
    ASSERT_TRUE(harness_.Row(3).in_cache());
  }
  PutScr(harness_.prefix_disk(), harness_.prefix(), 3, {{"other/rank_0.ckpt"}}, /*created_us=*/2);
  for (const char* key : {"job.1", "job.2"}) {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({.key = key}), local::OK, "");
    ASSERT_EQ(client.Latest().latest().dataset(), 3u);
    ASSERT_EQ(client.Restore(3, none).code, local::OK);
    EXPECT_SAYS(client.RestartFile(3, "other/rank_0.ckpt"), local::OK, "");
    EXPECT_SAYS(client.RestartFile(3, "step_30/rank_0.ckpt"), local::NOT_FOUND, "");
    harness_.Restart();
  }
}

}  // namespace
}  // namespace cairn
