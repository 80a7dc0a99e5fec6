// When a checkpoint is due. daemon/core/steering.cc; SCR specification, 7.2.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>

#include "tests/daemon/core/gate.h"
#include "tests/daemon/core/steering_fixture.h"

namespace cairn {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

TEST_F(SteeringTest, ByCountAndByTheRanksEnvironmentInPlaceOfTheConfiguration) {
  harness_.config.checkpoint.every = 2;
  harness_.Restart();
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    for (std::uint64_t number = 1; number < 9; ++number) EXPECT_EQ(NeedSays(client, number), number % 2 == 0);
    ASSERT_SAYS(client.Close(), local::OK, "");
  }
  local::Rhythm rhythm;
  rhythm.set_has_every(true);
  rhythm.set_every(3);
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({.key = "job.2", .rhythm = rhythm}), local::OK, "");
    for (std::uint64_t number = 1; number < 9; ++number) EXPECT_EQ(NeedSays(client, number), number % 3 == 0);
    ASSERT_SAYS(client.Close(), local::OK, "");
  }
  rhythm.set_every(0);
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "job.3", .rhythm = rhythm}), local::OK, "");
  for (std::uint64_t number = 1; number < 9; ++number) EXPECT_FALSE(NeedSays(client, number));
}

TEST_F(SteeringTest, ByTimeSinceTheLastOneBeganAndAfterAReload) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  Pass(1h);
  EXPECT_FALSE(NeedSays(client, 1));
  Config config = harness_.config;
  config.checkpoint.interval_ms = 60'000;
  harness_.core().Reload(config);
  EXPECT_TRUE(NeedSays(client, 2)) << "more than that after the open";
  ASSERT_NE(CheckpointFor(client, 1, 10s), 0u);
  Pass(50s - 1ms);
  EXPECT_FALSE(NeedSays(client, 3));
  Pass(1ms);
  EXPECT_TRUE(NeedSays(client, 4));
}

TEST_F(SteeringTest, WhileOneIsOnItsWayTheNextMayBePutOffAndIsMadeUpFor) {
  harness_.config.checkpoint.every = 3;
  harness_.Restart();
  Ranks ranks(harness_, 2, "job.1");
  Gate gate(FakeOp::kSync, "Ckpt");
  cache_disk_.SetHook(gate.hook());
  CheckpointFor(ranks[0], 1, 1s);
  CheckpointFor(ranks[1], 1, 1s);
  EXPECT_TRUE(NeedSays(ranks[0], 3)) << "by default it is due all the same";
  EXPECT_TRUE(NeedSays(ranks[1], 3));
  Config config = harness_.config;
  config.checkpoint.skip_when_busy = true;
  harness_.core().Reload(config);
  for (std::uint64_t number = 4; number <= 9; ++number) EXPECT_FALSE(NeedSays(ranks[0], number)) << number;
  EXPECT_EQ(harness_.Status().runs(0).rhythm().put_off(), 1u) << "the one at 6 waits, the one at 9 is the same";
  gate.Open();
  cache_disk_.SetHook(nullptr);
  ASSERT_TRUE(harness_.Eventually([&] { return WholeCheckpoints() == 1; }));
  EXPECT_FALSE(NeedSays(ranks[1], 9)) << "all ranks hear the same";
  EXPECT_TRUE(NeedSays(ranks[0], 10)) << "made up for";
  EXPECT_TRUE(NeedSays(ranks[1], 10));
  EXPECT_FALSE(NeedSays(ranks[0], 11));
  EXPECT_TRUE(NeedSays(ranks[0], 12));
}

// Rank 1 could not begin it, so that it never becomes whole, and is over with the next one.
TEST_F(SteeringTest, OneThatSomeRankHasNotBegunPutsNothingOff) {
  harness_.config.checkpoint.every = 1;
  harness_.config.checkpoint.skip_when_busy = true;
  harness_.Restart();
  Ranks ranks(harness_, 2, "job.1");
  EXPECT_TRUE(NeedSays(ranks[0], 1));
  EXPECT_TRUE(NeedSays(ranks[1], 1));
  CheckpointFor(ranks[0], 1, 1s);
  EXPECT_TRUE(NeedSays(ranks[0], 2));
  EXPECT_TRUE(NeedSays(ranks[1], 2));
  EXPECT_NE(ranks.Checkpoint(2, {kMemory, kMemory}), 0u);
}

TEST_F(SteeringTest, ByTheMeasuredCost) {
  harness_.config.checkpoint.overhead_percent = 10;
  harness_.Restart();
  Ranks ranks(harness_, 2, "job.1");
  EXPECT_TRUE(NeedSays(ranks[0], 1)) << "to learn the cost";
  EXPECT_TRUE(NeedSays(ranks[1], 1));
  CheckpointFor(ranks[0], 1, 2s);
  CheckpointFor(ranks[1], 1, 5s);  // the slowest counts
  Pass(87s);
  EXPECT_FALSE(NeedSays(ranks[0], 2)) << "10 of 99 s, with the next one";
  Pass(2s);
  EXPECT_TRUE(NeedSays(ranks[0], 3));
  const admin::RhythmStatus rhythm = harness_.Status().runs(0).rhythm();
  EXPECT_EQ(rhythm.checkpoints(), 1u);
  EXPECT_EQ(rhythm.cost_us(), 5'000'000u);
  EXPECT_EQ(rhythm.cost_total_us(), 5'000'000u);
  EXPECT_EQ(rhythm.elapsed_ms(), 96'000u);
}

TEST_F(SteeringTest, ByMeanTimeBetweenFailuresOfAllNodes) {
  harness_.config.checkpoint.mtbf_ms = 86'400'000;
  harness_.Restart();
  FakeClient one(harness_, On("node1")), two(harness_, On("node2"));
  ASSERT_SAYS(one.Open({.rank = 0, .nranks = 2}), local::OK, "");
  ASSERT_SAYS(two.Open({.rank = 1, .nranks = 2}), local::OK, "");
  EXPECT_TRUE(NeedSays(one, 1)) << "to learn the cost";
  CheckpointFor(one, 1, 60s);
  CheckpointFor(two, 1, 60s);
  const admin::RhythmStatus rhythm = harness_.Status().runs(0).rhythm();
  EXPECT_EQ(rhythm.nodes(), 2u);
  // Young's first term is sqrt(2 * 60 s * 43200 s) = 2277 s; Daly adds less than 2 %.
  EXPECT_GT(rhythm.interval_ms(), 2'277'000u);
  EXPECT_LT(rhythm.interval_ms(), 2'320'000u);
  EXPECT_FALSE(NeedSays(one, 2));
  Pass(milliseconds(rhythm.interval_ms()));
  EXPECT_TRUE(NeedSays(one, 3));
}

TEST_F(SteeringTest, ACheckpointOfFilesCostsTheTimeFromBeginToEnd) {
  harness_.config.checkpoint.overhead_percent = 50;
  harness_.Restart();
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  ASSERT_SAYS(client.OutputBegin(1), local::OK, "");
  Pass(7s);
  ASSERT_SAYS(client.OutputEnd(), local::OK, "");
  ASSERT_SAYS(client.OutputBegin(2, /*checkpoint=*/false, /*output=*/true), local::OK, "");
  Pass(9s);
  ASSERT_SAYS(client.OutputEnd(), local::OK, "");
  const admin::RhythmStatus rhythm = harness_.Status().runs(0).rhythm();
  EXPECT_EQ(rhythm.checkpoints(), 1u);
  EXPECT_EQ(rhythm.cost_us(), 7'000'000u);
}

TEST_F(SteeringTest, NonsenseFromAClientIsNoSetting) {
  local::Rhythm rhythm;
  rhythm.set_has_overhead(true);
  rhythm.set_overhead_percent(std::numeric_limits<double>::quiet_NaN());
  rhythm.set_has_interval(true);
  rhythm.set_interval_ms(UINT64_MAX);
  rhythm.set_has_mtbf(true);
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.end_time_s = INT64_MIN, .rhythm = rhythm}), local::OK, "");
  EXPECT_FALSE(NeedSays(client, UINT64_MAX));
}

}  // namespace
}  // namespace cairn
