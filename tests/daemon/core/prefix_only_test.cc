// Datasets that only the prefix has: a long run has many, and the core keeps their catalogues there.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/daemon/core/fake_client.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

class PrefixOnlyTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kDatasets = 12;  // more than are described at open

  static Memory MemoryOf(std::uint64_t step) {
    return {ValueOf(1, "step", step), PlainOf(2, RandomBytes(step, 10000))};
  }

  // All on the prefix; then a node that has never seen the run.
  void SetUp() override {
    harness_.config.flush.every = 1;
    harness_.config.flush.superseded = true;
    ASSERT_TRUE(harness_.Start().ok());
    {
      FakeClient client(harness_);
      ASSERT_EQ(client.Open({}).status().code(), local::OK);
      for (std::uint64_t step = 1; step <= kDatasets; ++step) {
        const local::Reply done = client.Checkpoint(step, MemoryOf(step));
        ASSERT_EQ(done.status().code(), local::OK) << done.status().message();
        ids_.push_back(done.committed().dataset());
        ASSERT_EQ(client.Wait(ids_.back(), local::PREFIX).status().code(), local::OK);
      }
      client.Close();
    }
    harness_.Stop();
    std::filesystem::remove_all(harness_.config.cache.path);
    ASSERT_TRUE(harness_.Start().ok());
    client_ = std::make_unique<FakeClient>(harness_);
    ASSERT_EQ(client_->Open({.key = "the next job"}).status().code(), local::OK);
  }
  void TearDown() override { client_ = nullptr; }

  CoreHarness harness_;
  std::vector<DatasetId> ids_;
  std::unique_ptr<FakeClient> client_;
};

TEST_F(PrefixOnlyTest, TheNewestIsTheLatest) {
  const local::Reply latest = client_->Latest();
  EXPECT_EQ(latest.latest().dataset(), ids_.back());
  EXPECT_EQ(latest.latest().step(), kDatasets);
}

TEST_F(PrefixOnlyTest, EveryOneIsListedWithItsBytesAndCanBeDescribedAndRestored) {
  EXPECT_EQ(harness_.List().size(), kDatasets);
  for (std::uint64_t step = 1; step <= kDatasets; ++step) {
    const DatasetId id = ids_[step - 1];
    EXPECT_GT(harness_.Row(id).bytes(), 10000u) << "step " << step;
    EXPECT_EQ(client_->Stored(id).stored().variables_size(), 2) << "step " << step;
    Memory memory = Blank(MemoryOf(step));
    const FakeClient::Restored restored = client_->Restore(id, memory);
    EXPECT_EQ(restored.code, local::OK) << restored.message;
    EXPECT_EQ(restored.tier, local::TIER_PREFIX);
    EXPECT_EQ(memory[1].bytes, MemoryOf(step)[1].bytes) << "step " << step;
  }
}

TEST_F(PrefixOnlyTest, AnOldOneWhoseCatalogueIsDamagedIsPassedOver) {
  harness_.Flip(harness_.prefix_disk(), harness_.prefix() + "/ckpt." + std::to_string(ids_[0]) + "/rank_0.cat", 40);
  Memory memory = Blank(MemoryOf(1));
  EXPECT_EQ(client_->Restore(ids_[0], memory).code, local::RETRY);
  EXPECT_EQ(client_->Latest().latest().dataset(), ids_.back());
}

// Its catalogues cannot be read for now.
TEST_F(PrefixOnlyTest, APrefixThatIsOutOfReachForAWhileDoesNotMoveTheChoice) {
  client_ = nullptr;
  harness_.Stop();
  FakeDisk prefix_disk;
  CoreHarness harness(nullptr, &prefix_disk);
  harness.config.flush.every = 1;
  ASSERT_TRUE(harness.Start().ok());
  DatasetId id = 0;
  {
    FakeClient client(harness);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    id = client.Checkpoint(1, MemoryOf(1)).committed().dataset();
    ASSERT_SAYS(client.Wait(id, local::PREFIX), local::OK, "");
    harness.config.cache.linger_ms = 1;
  }
  harness.Restart();  // it leaves the cache, and is not described any more
  ASSERT_TRUE(harness.Eventually([&] { return !harness.Row(id).in_cache(); }));
  FakeClient client(harness);
  ASSERT_SAYS(client.Open({.key = "the next job"}), local::OK, "");
  ASSERT_EQ(client.Latest().latest().dataset(), id);
  prefix_disk.FailOn({.op = FakeOp::kAny, .path_part = ".cat", .times = UINT64_MAX});
  Memory memory = Blank(MemoryOf(1));
  EXPECT_EQ(client.Restore(id, memory).code, local::UNAVAILABLE);
  prefix_disk.ClearFaults();
  EXPECT_EQ(client.Latest().latest().dataset(), id);
  EXPECT_EQ(client.Restore(id, memory).code, local::OK);
  EXPECT_EQ(memory[1].bytes, MemoryOf(1)[1].bytes);
}

TEST_F(PrefixOnlyTest, AnOldOneCanBeRemoved) {
  const std::string file = harness_.PrefixFile(ids_[0], 0);
  EXPECT_TRUE(harness_.IsThere(harness_.prefix_disk(), file));
  EXPECT_EQ(harness_.Remove(ids_[0]).code(), local::OK);
  EXPECT_FALSE(harness_.IsThere(harness_.prefix_disk(), file));
  EXPECT_EQ(client_->Test(ids_[0], local::LOCAL).status().code(), local::NOT_FOUND);
}

}  // namespace
}  // namespace cairn
