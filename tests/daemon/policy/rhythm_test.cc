// When a checkpoint is due: daemon/policy/rhythm.h, promise by promise, at given times.
#include "daemon/policy/rhythm.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cairn {
namespace {

using namespace std::chrono_literals;
using Time = CheckpointCosts::Time;

constexpr Time kOpened{1000s};

bool Due(const Rhythm& rhythm, const CheckpointCosts& costs, std::chrono::nanoseconds after, std::uint64_t number = 1,
         std::uint32_t nodes = 1) {
  return WhyDue(rhythm, costs, number, kOpened + after, nodes).has_value();
}

TEST(RhythmTest, NothingIsDueByNothing) {
  CheckpointCosts costs(kOpened);
  EXPECT_TRUE(Rhythm().none());
  for (std::uint64_t number = 1; number < 10; ++number) EXPECT_FALSE(Due({}, costs, 1000h, number));
}

TEST(RhythmTest, EveryCountsQuestions) {
  CheckpointCosts costs(kOpened);
  for (std::uint64_t number = 1; number < 20; ++number) {
    EXPECT_EQ(Due({.every = 3}, costs, 0s, number), number % 3 == 0) << number;
    EXPECT_TRUE(Due({.every = 1}, costs, 0s, number));
  }
}

TEST(RhythmTest, IntervalCountsFromTheBeginOfTheLastOneOrTheOpen) {
  const Rhythm rhythm{.interval = 60s};
  CheckpointCosts costs(kOpened);
  EXPECT_FALSE(Due(rhythm, costs, 60s - 1ns));
  EXPECT_TRUE(Due(rhythm, costs, 60s));
  costs.Begun(7, kOpened + 61s);
  EXPECT_FALSE(Due(rhythm, costs, 121s - 1ns));
  EXPECT_TRUE(Due(rhythm, costs, 121s));
}

TEST(RhythmTest, TheFirstRanksBeginOfADatasetCounts) {
  CheckpointCosts costs(kOpened);
  costs.Begun(7, kOpened + 10s);
  costs.Begun(7, kOpened + 20s);
  costs.Begun(6, kOpened + 30s);
  EXPECT_EQ(costs.last_begin(), kOpened + 10s);
  costs.Begun(8, kOpened + 40s);
  EXPECT_EQ(costs.last_begin(), kOpened + 40s);
}

TEST(RhythmTest, TheSlowestRanksTimeIsACheckpointsCost) {
  CheckpointCosts costs(kOpened);
  EXPECT_EQ(costs.mean(), 0s);
  costs.HeldUp(1, 2s);
  costs.HeldUp(1, 5s);
  costs.HeldUp(1, 3s);
  EXPECT_EQ(costs.measured(), 1u);
  EXPECT_EQ(costs.total(), 5s);
  costs.HeldUp(2, 1s);
  EXPECT_EQ(costs.measured(), 2u);
  EXPECT_EQ(costs.total(), 6s);
  EXPECT_EQ(costs.mean(), 3s);
}

TEST(RhythmTest, TheMeanIsOfTheLastOnesAndOldOnesStayAsTheyWere) {
  CheckpointCosts costs(kOpened);
  costs.HeldUp(1, 100s);
  for (DatasetId id = 2; id <= 9; ++id) costs.HeldUp(id, 2s);
  EXPECT_EQ(costs.mean(), 2s);
  EXPECT_EQ(costs.total(), 116s);
  costs.HeldUp(1, 500s);  // a straggler
  EXPECT_EQ(costs.total(), 116s);
  EXPECT_EQ(costs.measured(), 9u);
}

TEST(RhythmTest, OverheadStaysBelowThePercentageWithOneMore) {
  const Rhythm rhythm{.overhead_percent = 10};
  CheckpointCosts costs(kOpened);
  EXPECT_TRUE(Due(rhythm, costs, 0s)) << "the first one, to learn the cost";
  costs.HeldUp(1, 5s);
  // Another of 5 s: 10 s of elapsed + 5 s are less than 10 % from 95 s on.
  EXPECT_FALSE(Due(rhythm, costs, 95s));
  EXPECT_TRUE(Due(rhythm, costs, 96s));
  costs.HeldUp(2, 5s);
  EXPECT_FALSE(Due(rhythm, costs, 101s));
  EXPECT_TRUE(Due(rhythm, costs, 146s));
  EXPECT_TRUE(Due({.overhead_percent = 0.5}, costs, 1000h));
}

// Daly's expected wall time for a unit of computing, without the constant factor of the restarts.
double WallTime(double interval_s, double cost_s, double mtbf_s) {
  return mtbf_s * std::expm1(interval_s / mtbf_s) / (interval_s - cost_s);
}

TEST(RhythmTest, TheBestIntervalLosesLeastTime) {
  for (const double mtbf_s : {600.0, 3600.0, 86400.0, 1e7}) {
    for (const double share : {1e-6, 1e-4, 1e-2, 0.1, 0.5}) {
      const double cost_s = share * mtbf_s;
      const double best_s =
          std::chrono::duration<double>(BestInterval(std::chrono::nanoseconds(static_cast<std::int64_t>(cost_s * 1e9)),
                                                     std::chrono::nanoseconds(static_cast<std::int64_t>(mtbf_s * 1e9))))
              .count();
      const double best = WallTime(best_s, cost_s, mtbf_s);
      for (double other_s = cost_s * 1.01; other_s < 5 * mtbf_s; other_s *= 1.01) {
        ASSERT_LT(best, WallTime(other_s, cost_s, mtbf_s) * 1.0005)
            << "cost " << cost_s << " mtbf " << mtbf_s << ": " << best_s << " loses more than " << other_s;
      }
    }
  }
}

TEST(RhythmTest, TheBestIntervalsEnds) {
  EXPECT_EQ(BestInterval(0s, 24h), 0s);
  EXPECT_EQ(BestInterval(10s, 0s), 10s);
  EXPECT_EQ(BestInterval(100s, 40s), 140s) << "beyond the estimate's range: the mean time itself";
  EXPECT_GT(BestInterval(std::chrono::hours(1), std::chrono::hours(200 * 365 * 24)), 0s);
}

TEST(RhythmTest, MtbfIsOfOneNodeAndTheFirstIsDue) {
  const Rhythm rhythm{.mtbf = std::chrono::hours(24)};
  CheckpointCosts costs(kOpened);
  EXPECT_TRUE(Due(rhythm, costs, 0s)) << "the first one, to learn the cost";
  EXPECT_FALSE(IntervalOf(rhythm, costs, 1));
  costs.Begun(1, kOpened);
  costs.HeldUp(1, 60s);
  const auto one = IntervalOf(rhythm, costs, 1), hundred = IntervalOf(rhythm, costs, 100);
  ASSERT_TRUE(one && hundred);
  EXPECT_EQ(*one, BestInterval(60s, 24h));
  EXPECT_EQ(*hundred, BestInterval(60s, 864s));
  EXPECT_LT(*hundred, *one / 8);
  EXPECT_FALSE(Due(rhythm, costs, *hundred));
  EXPECT_TRUE(Due(rhythm, costs, *hundred, 1, 100));
  EXPECT_TRUE(Due(rhythm, costs, *one));
  EXPECT_EQ(*IntervalOf(rhythm, costs, 0), *one) << "no node counts as one";
}

TEST(RhythmTest, AnyOfThemMakesItDueAndTheShorterIntervalCounts) {
  CheckpointCosts costs(kOpened);
  costs.HeldUp(1, 1s);
  const Rhythm both{.every = 5, .interval = 10s, .mtbf = std::chrono::hours(1000)};
  EXPECT_EQ(IntervalOf(both, costs, 1), std::chrono::nanoseconds(10s));
  EXPECT_TRUE(Due(both, costs, 10s));
  EXPECT_TRUE(Due(both, costs, 0s, 5));
  EXPECT_FALSE(Due(both, costs, 0s, 6));
  EXPECT_NE(WhyDue(both, costs, 1, kOpened + 10s, 1)->find("10 s"), std::string::npos);
}

}  // namespace
}  // namespace cairn
