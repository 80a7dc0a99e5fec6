// A rank's checkpoints go to the cache one after the other; what is captured of a dataset is stored together.
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/gate.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

const Memory kMemory = {PlainOf(1, RandomBytes(1, 3 << 20)), ValueOf(2, "step", 7)};

class InTurnTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(harness_.Start().ok()); }

  // Operations of that kind whose path has `part` in it, and `end` at its end.
  struct Count {
    FakeOp op;
    std::string part, end = {};
    std::atomic<int> count{0};
    void See(FakeOp kind, const std::string& path) {
      if (kind == op && path.find(part) != path.npos && path.ends_with(end)) ++count;
    }
  };

  FakeDisk cache_disk_, prefix_disk_;
  CoreHarness harness_{&cache_disk_, &prefix_disk_};
};

TEST_F(InTurnTest, ANewerCheckpointOfARankWaitsForItsOlderOneAndForNoOtherRanks) {
  Gate gate(FakeOp::kWrite, "Ckpt1-Rank0");
  Count own{.op = FakeOp::kWrite, .part = "Ckpt2-Rank0"}, others{.op = FakeOp::kWrite, .part = "Ckpt2-Rank1"};
  cache_disk_.SetHook([&, hold = gate.hook()](FakeOp op, const std::string& path) {
    own.See(op, path);
    others.See(op, path);
    hold(op, path);
  });
  Ranks ranks(harness_, 2, "job.1");
  for (const std::uint64_t step : {1, 2}) {
    for (const int rank : {0, 1}) ASSERT_SAYS(ranks[rank].Checkpoint(step, kMemory), local::OK, "");
    gate.AwaitArrival();
  }
  EXPECT_TRUE(harness_.Eventually([&] { return others.count > 0; }));
  EXPECT_EQ(own.count, 0);
  EXPECT_FALSE(ranks[0].Test(1, local::LOCAL).test().reached());
  gate.Open();
  for (const DatasetId id : {1, 2}) EXPECT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  EXPECT_GT(own.count, 0);
}

TEST_F(InTurnTest, OneThatFailsLetsTheNextOneGo) {
  Gate gate(FakeOp::kWrite, "Ckpt1-Rank0");
  cache_disk_.SetHook(gate.hook());
  Ranks ranks(harness_, 2, "job.1");
  ASSERT_SAYS(ranks[0].Checkpoint(1, kMemory), local::OK, "");
  gate.AwaitArrival();
  ASSERT_SAYS(ranks[0].Checkpoint(2, kMemory), local::OK, "");
  ASSERT_SAYS(ranks[1].Checkpoint(2, kMemory), local::OK, "");  // rank 1 never begins the first one, which fails it
  EXPECT_SAYS(ranks[0].Wait(2, local::LOCAL), local::OK, "");   // while the disk still holds up the first one's write
  gate.Open();
}

TEST_F(InTurnTest, AFourthCheckpointWaitsForAnImageOfTheFirstAndMakesNoneOfItsOwn) {
  Gate gate(FakeOp::kWrite, "Ckpt1-Rank0");
  cache_disk_.SetHook(gate.hook());
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  for (const std::uint64_t step : {1, 2}) ASSERT_SAYS(client.Checkpoint(step, kMemory), local::OK, "");
  gate.AwaitArrival();
  ASSERT_SAYS(client.Checkpoint(3, kMemory), local::OK, "");  // in the reserve
  const std::uint64_t begin = client.SendBegin(4, kMemory, 20);
  EXPECT_SAYS(client.TakeBegin(begin), local::DEADLINE_EXCEEDED, "one of the rank's images");
  EXPECT_EQ(harness_.Status().image_bytes_used(), 3u * (4 << 20));
  gate.Open();
  ASSERT_SAYS(client.Checkpoint(5, kMemory), local::OK, "");
  EXPECT_SAYS(client.Wait(5, local::LOCAL), local::OK, "");
  EXPECT_EQ(harness_.Status().image_bytes_used(), 3u * (4 << 20));
}

TEST_F(InTurnTest, ARestoreWaitsForNoTurn) {
  Gate gate(FakeOp::kWrite, "Ckpt2-Rank0");
  cache_disk_.SetHook(gate.hook());
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  ASSERT_SAYS(client.Checkpoint(1, kMemory), local::OK, "");
  ASSERT_SAYS(client.Wait(1, local::LOCAL), local::OK, "");
  for (const std::uint64_t step : {2, 3}) ASSERT_SAYS(client.Checkpoint(step, kMemory), local::OK, "");
  gate.AwaitArrival();
  Memory back = Blank(kMemory);
  const FakeClient::Restored restored = client.Restore(1, back);
  EXPECT_EQ(restored.code, local::OK) << restored.message;
  EXPECT_TRUE(back[0].bytes == kMemory[0].bytes);
  gate.Open();
  EXPECT_SAYS(client.Wait(3, local::LOCAL), local::OK, "");
}

TEST_F(InTurnTest, AStopBringsAllThatWaitToTheCache) {
  Ranks ranks(harness_, 1, "job.1");
  for (const std::uint64_t step : {1, 2}) ASSERT_SAYS(ranks[0].Checkpoint(step, kMemory), local::OK, "");
  EXPECT_TRUE(harness_.Quiesce());
  harness_.Restart();
  Ranks again(harness_, 1, "job.2");
  EXPECT_EQ(again[0].Latest().latest().step(), 2u);
}

TEST_F(InTurnTest, PartsThatComeWhileOthersAreStoredWaitForTheDiskOnceTogether) {
  constexpr int kRanks = 12;
  Gate gate(FakeOp::kSync, "rank_0.cat");
  Count syncs{.op = FakeOp::kSyncDirectory, .part = "scr.dataset.1", .end = "/.scr"};
  Count captured{.op = FakeOp::kSync, .part = "Ckpt1-Rank"};
  cache_disk_.SetHook([&, hold = gate.hook()](FakeOp op, const std::string& path) {
    syncs.See(op, path);
    captured.See(op, path);
    hold(op, path);
  });
  Ranks ranks(harness_, kRanks, "job.1");
  ASSERT_SAYS(ranks[0].Checkpoint(1, kMemory), local::OK, "");
  gate.AwaitArrival();
  for (int rank = 1; rank < kRanks; ++rank) ASSERT_SAYS(ranks[rank].Checkpoint(1, kMemory), local::OK, "");
  ASSERT_TRUE(harness_.Eventually([&] { return captured.count == kRanks; }));
  EXPECT_FALSE(ranks[0].Test(1, local::LOCAL).test().reached());
  gate.Open();
  ASSERT_SAYS(ranks[0].Wait(1, local::LOCAL), local::OK, "");
  // The first part, the others together (the last of them may just have missed that), the dataset's own records twice.
  EXPECT_LE(syncs.count, 6);
  harness_.Restart();
  Ranks again(harness_, kRanks, "job.2");
  EXPECT_EQ(again[0].Latest().latest().step(), 1u);
}

TEST_F(InTurnTest, APartThatCannotBeStoredFailsTheDatasetAndTheNextOneWorks) {
  Gate gate(FakeOp::kSync, "rank_0.cat");
  cache_disk_.SetHook(gate.hook());
  Ranks ranks(harness_, 4, "job.1");
  ASSERT_SAYS(ranks[0].Checkpoint(1, kMemory), local::OK, "");
  gate.AwaitArrival();
  for (const int rank : {1, 2, 3}) ASSERT_SAYS(ranks[rank].Checkpoint(1, kMemory), local::OK, "");
  // What lies in the way of one of those that are stored together.
  const std::string in_the_way = harness_.CacheFolderPath() + "/scr.dataset.1/rank_2.cat";
  ASSERT_TRUE(cache_disk_.MakeDirectory(in_the_way, 0700).ok());
  harness_.Write(cache_disk_, in_the_way + "/x", "x");
  gate.Open();
  EXPECT_SAYS(ranks[0].Wait(1, local::LOCAL), local::FAILED, "rank_2.cat");
  for (const int rank : {0, 1, 2, 3}) ASSERT_SAYS(ranks[rank].Checkpoint(2, kMemory), local::OK, "");
  EXPECT_SAYS(ranks[0].Wait(2, local::LOCAL), local::OK, "");
}

}  // namespace
}  // namespace cairn
