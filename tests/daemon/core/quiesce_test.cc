// Stops: what is finished, what is refused, and what the next incarnation finds.
#include <gtest/gtest.h>

#include "tests/daemon/core/fake_client.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

const Memory kMemory = {PlainOf(1, RandomBytes(1, 8 << 20))};

TEST(QuiesceTest, BringsWhatIsCapturedToLocal) {
  CoreHarness harness;
  ASSERT_TRUE(harness.Start().ok());
  DatasetId id = 0;
  {
    Ranks ranks(harness, 2, "job.1");
    id = ranks.Checkpoint(1, {kMemory, kMemory});  // captured, and no more than that is promised
    harness.Quiesce();
    EXPECT_SAYS(ranks[0].Test(id, local::LOCAL), local::OK, "");
    EXPECT_TRUE(ranks[0].Test(id, local::LOCAL).test().reached());
    EXPECT_SAYS(ranks[0].Begin(2, kMemory), local::UNAVAILABLE, "going away");
    EXPECT_SAYS(ranks[0].OutputBegin(2), local::UNAVAILABLE, "going away");
    Memory blank = Blank(kMemory);
    EXPECT_EQ(ranks[0].Restore(id, blank).code, local::UNAVAILABLE);
    FakeClient late(harness);
    EXPECT_SAYS(late.Open({.key = "job.2"}), local::UNAVAILABLE, "going away");
    EXPECT_TRUE(harness.Status().quiescing());
  }
  harness.Restart();
  Ranks ranks(harness, 2, "job.2");
  EXPECT_EQ(ranks[0].Latest().latest().dataset(), id);
}

TEST(QuiesceTest, DoesNotWaitForHalfADataset) {
  CoreHarness harness;
  ASSERT_TRUE(harness.Start().ok());
  Ranks ranks(harness, 2, "job.1");
  ASSERT_SAYS(ranks[0].Checkpoint(1, kMemory), local::OK, "");
  ASSERT_SAYS(ranks[1].Begin(1, kMemory), local::OK, "");
  harness.Quiesce();
}

TEST(QuiesceTest, EndsAFlushAndTheNextIncarnationGoesOn) {
  FakeDisk prefix_disk;
  CoreHarness harness(nullptr, &prefix_disk);
  harness.config.flush.every = 1;
  ASSERT_TRUE(harness.Start().ok());
  prefix_disk.FailOn({.op = FakeOp::kWrite, .path_part = "ckpt.", .times = UINT64_MAX});
  DatasetId id = 0;
  {
    FakeClient client(harness);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    const local::Reply done = client.Checkpoint(1, kMemory);
    ASSERT_SAYS(done, local::OK, "");
    id = done.committed().dataset();
    ASSERT_TRUE(harness.Eventually([&] { return harness.Warned("next try in"); }));
    harness.Quiesce();
  }
  harness.Stop();
  prefix_disk.ClearFaults();
  ASSERT_TRUE(harness.Start().ok());
  EXPECT_EQ(harness.Wait(id, local::PREFIX).status().code(), local::OK);
}

// Nothing here is waited for: whatever is going on when the core ends, it ends, and the next one finds what is whole.
TEST(QuiesceTest, TheCoreMayEndAtAnyInstant) {
  CoreHarness harness;
  harness.config.image.bytes_max = 12 << 20;
  harness.config.flush.every = 1;
  for (int round = 0; round < 12; ++round) {
    ASSERT_TRUE(harness.Start().ok());
    {
      Ranks ranks(harness, 2, "job." + std::to_string(round));
      const local::Reply latest = ranks[0].Latest();
      const DatasetId id = CodeOfReply(latest) == local::OK ? latest.latest().dataset() : 0;
      if (round % 3 == 1 && id != 0) {
        ranks[0].SendRestore(id, kMemory);
        ranks[1].SendRestore(id, kMemory);
      } else {
        ranks.Checkpoint(static_cast<std::uint64_t>(round), {kMemory, kMemory});
        if (round % 3 == 2) {
          ASSERT_SAYS(ranks[0].Begin(1000, kMemory), local::OK, "");
          ranks[0].Fill(kMemory, 0, 3);
          ranks[1].SendBegin(1000, kMemory);
        }
      }
      if (round % 2 == 0) harness.Restart();  // the clients find out later
    }
    harness.Stop();
  }
  ASSERT_TRUE(harness.Start().ok());
  Ranks ranks(harness, 2, "job.last");
  const DatasetId id = ranks.Checkpoint(99, {kMemory, kMemory});
  EXPECT_SAYS(ranks[0].Wait(id, local::PREFIX), local::OK, "");
}

TEST(StartTest, ACacheThatCannotBeMadeSaysWhy) {
  CoreHarness harness;
  harness.config.cache.path = "/proc/cairn/cache";
  const absl::Status started = harness.Start();
  EXPECT_FALSE(started.ok());
  EXPECT_NE(started.ToString().find("/proc"), std::string::npos) << started;
}

TEST(StartTest, RemovesWhatWasNeverWhole) {
  CoreHarness harness;
  ASSERT_TRUE(harness.Start().ok());
  DatasetId id = 0;
  std::string folder;
  {
    Ranks ranks(harness, 2, "job.1");
    const local::Reply half = ranks[0].Checkpoint(1, kMemory);
    ASSERT_SAYS(half, local::OK, "");
    id = half.committed().dataset();
    folder = harness.CacheFolderPath() + "/scr.dataset." + std::to_string(id);
    ASSERT_TRUE(harness.Eventually([&] { return harness.IsThere(harness.cache_disk(), folder); }));
    harness.Stop();  // before the clients are gone: nothing is failed, nothing removed
    ASSERT_TRUE(harness.Start().ok());
  }
  EXPECT_FALSE(harness.IsThere(harness.cache_disk(), folder));
}

}  // namespace
}  // namespace cairn
