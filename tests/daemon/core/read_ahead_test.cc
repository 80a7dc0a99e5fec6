// What a rank will most likely restore is read into memory when its session opens, if it is far: what the restore then
// costs, that it gives way, and that it answers for nothing. daemon/core/read_ahead.h.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/gate.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

constexpr std::size_t kBytes = 3 << 20;
constexpr std::uint64_t kImage = 4 << 20;  // one that holds these and the metadata

class ReadAheadTest : public ::testing::Test {
 protected:
  void TearDown() override { disk_.SetHook(nullptr); }

  void Start() { ASSERT_TRUE(harness_.Start().ok()); }
  // Made by a launch that has gone, and a daemon on another node.
  void Make() {
    {
      Ranks ranks(harness_, 2, "job.0");
      id_ = ranks.Checkpoint(1, memory_);
      ASSERT_SAYS(ranks[0].Wait(id_, local::PREFIX), local::OK, "");
    }
    harness_.Stop();
    harness_.config.cache.path = harness_.root() + "/another_node";
    Start();
    CountReads();
  }
  // Of checkpoint files on the prefix.
  void CountReads() {
    disk_.SetHook([this](FakeOp op, const std::string& path) {
      if (op == FakeOp::kRead && path.ends_with(".fti")) ++reads_;
    });
  }
  bool AwaitReads(int count) {
    return harness_.Eventually([&] { return reads_ >= count; });
  }
  std::uint64_t used() { return harness_.Status().image_bytes_used(); }
  local::Tier RestoredFrom(Ranks& ranks) {
    std::vector<Memory> back = {Blank(memory_[0]), Blank(memory_[1])};
    local::Tier tier = local::TIER_NONE;
    for (const FakeClient::Restored& one : ranks.Restore(id_, back)) {
      EXPECT_EQ(one.code, local::OK) << one.message;
      tier = one.tier;
    }
    for (Rank rank : {0, 1}) EXPECT_TRUE(back[rank][0].bytes == memory_[rank][0].bytes) << rank;
    return tier;
  }

  const std::vector<Memory> memory_ = {{PlainOf(1, RandomBytes(1, kBytes))}, {PlainOf(1, RandomBytes(2, kBytes))}};
  DatasetId id_ = 0;
  std::atomic<int> reads_{0};
  FakeDisk disk_;
  CoreHarness harness_{nullptr, &disk_};
};

// Whether it has ended is not told: so several launches may be needed until one asks late enough.
TEST_F(ReadAheadTest, ARestoreThatComesLateReadsNoFileAndTellsWhereItCameFrom) {
  Start();
  Make();
  bool from_memory = false;
  for (int launch = 1; launch <= 20 && !from_memory; ++launch) {
    reads_ = 0;
    Ranks ranks(harness_, 2, "job." + std::to_string(launch));
    EXPECT_TRUE(launch > 1 || AwaitReads(2));  // later ones may find what the first has read
    std::this_thread::sleep_for(std::chrono::milliseconds(50 * launch));
    const int before = reads_;
    EXPECT_EQ(RestoredFrom(ranks), local::TIER_PREFIX);
    from_memory = reads_ == before;
  }
  EXPECT_TRUE(from_memory);
}

TEST_F(ReadAheadTest, ItIsOneOfTheSessionsTwoImages) {
  Start();
  Make();
  Ranks ranks(harness_, 2, "job.1");
  ASSERT_TRUE(harness_.Eventually([this] { return used() == 2 * kImage; }));
  for (Rank rank : {0, 1}) ranks[rank].Expect(kBytes);
  ASSERT_TRUE(harness_.Eventually([this] { return used() == 4 * kImage; }));
  EXPECT_EQ(RestoredFrom(ranks), local::TIER_PREFIX);
  for (std::uint64_t step = 2; step < 6; ++step) {
    const DatasetId id = ranks.Checkpoint(step, memory_);
    ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
    EXPECT_LE(used(), 4 * kImage) << step;
  }
}

// Reading it is as fast.
TEST_F(ReadAheadTest, NotIfItIsInTheCache) {
  Start();
  {
    Ranks ranks(harness_, 2, "job.0");
    id_ = ranks.Checkpoint(1, memory_);
    ASSERT_SAYS(ranks[0].Wait(id_, local::PREFIX), local::OK, "");
  }
  harness_.Restart();
  Ranks ranks(harness_, 2, "job.1");
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_EQ(used(), 0u);
  EXPECT_EQ(RestoredFrom(ranks), local::TIER_CACHE);
}

TEST_F(ReadAheadTest, DamageIsFoundByTheRestoreAsEver) {
  Start();
  Make();
  harness_.Flip(disk_, harness_.PrefixFile(id_, 1), kBytes / 2);
  Ranks ranks(harness_, 2, "job.1");
  ASSERT_TRUE(AwaitReads(2));
  EXPECT_FALSE(harness_.Warned("is bad"));
  std::vector<Memory> back = {Blank(memory_[0]), Blank(memory_[1])};
  for (const FakeClient::Restored& one : ranks.Restore(id_, back)) EXPECT_EQ(one.code, local::RETRY) << one.message;
  EXPECT_TRUE(harness_.Warned("the copy of rank 1 in the prefix is bad"));
}

// The prefix hangs: a checkpoint does not.
TEST_F(ReadAheadTest, ACheckpointWaitsForNoReadThatHangs) {
  Start();
  Make();
  Gate gate(FakeOp::kRead, ".fti");
  disk_.SetHook(gate.hook());
  {
    Ranks ranks(harness_, 2, "job.1");
    gate.AwaitArrival();
    const DatasetId id = ranks.Checkpoint(2, memory_);
    EXPECT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  }
  gate.Open();
  ASSERT_TRUE(harness_.Eventually([this] { return used() <= 2 * kImage; })) << "what has been read goes, too";
}

TEST_F(ReadAheadTest, WithoutRoomNothingIsRead) {
  harness_.config.image.bytes_max = kImage;
  Start();
  Make();
  Ranks ranks(harness_, 2, "job.1");
  ASSERT_TRUE(AwaitReads(1));  // there is room for one
  EXPECT_LE(used(), kImage);
  EXPECT_EQ(RestoredFrom(ranks), local::TIER_PREFIX);
}

TEST_F(ReadAheadTest, NotForAnotherNumberOfRanksNorIfItIsSwitchedOff) {
  Start();
  Make();
  const auto expect_nothing = [this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    EXPECT_EQ(reads_, 0);
    EXPECT_EQ(used(), 0u);
  };
  {
    FakeClient alone(harness_);
    ASSERT_SAYS(alone.Open({.key = "job.1"}), local::OK, "");
    expect_nothing();
  }
  harness_.config.image.read_ahead = false;
  harness_.Restart();
  reads_ = 0;
  Ranks ranks(harness_, 2, "job.2");
  expect_nothing();
}

}  // namespace
}  // namespace cairn
