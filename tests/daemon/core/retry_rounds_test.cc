// Each rank is told of what its launch has passed over, and only once: daemon/core/retry_rounds.h.
#include "daemon/core/retry_rounds.h"

#include <gtest/gtest.h>

#include <memory>

#include "daemon/core/door.h"
#include "daemon/core/ledger.h"

namespace cairn {
namespace {

class Idle final : public Connection {
 public:
  void Send(const local::Reply&, SharedFd) override {}
  void Close() override {}
  bool shares_memory() const override { return true; }
  bool resumable() const override { return true; }
  Peer peer() const override { return {}; }
};

class RetryRoundsTest : public ::testing::Test {
 protected:
  static constexpr DatasetId kId = 7;
  RetryRoundsTest() { launch_.id = 3, launch_.nranks = 2; }
  bool IsToBeTold(Rank rank) { return rounds_.IsToBeTold(launch_, kId, rank, over_[rank]); }

  Launch launch_;
  std::shared_ptr<Connection> over_[2] = {std::make_shared<Idle>(), std::make_shared<Idle>()};
  RetryRounds rounds_;
};

TEST_F(RetryRoundsTest, EachRankIsToldOnce) {
  EXPECT_TRUE(IsToBeTold(0));
  EXPECT_FALSE(IsToBeTold(0));
  rounds_.Told(launch_.id, kId, 1, over_[1]);
  EXPECT_FALSE(IsToBeTold(1));
}

TEST_F(RetryRoundsTest, OtherDatasetsAndLaunchesAreOtherMatters) {
  for (const Rank rank : {0, 1}) EXPECT_TRUE(IsToBeTold(rank));
  EXPECT_TRUE(rounds_.IsToBeTold(launch_, kId + 1, 0, over_[0]));
  Launch newer;
  newer.id = 4, newer.nranks = 2;
  EXPECT_TRUE(rounds_.IsToBeTold(newer, kId, 0, over_[0]));
}

TEST_F(RetryRoundsTest, WhenItIsPassedOverAgainAllAreToldAgain) {
  for (const Rank rank : {0, 1}) EXPECT_TRUE(IsToBeTold(rank));
  rounds_.Begin(launch_.id, kId);
  for (const Rank rank : {0, 1}) EXPECT_TRUE(IsToBeTold(rank)) << rank;
}

// Its answer may be lost with the connection; then the others are to hear it with this one.
TEST_F(RetryRoundsTest, OverAnotherConnectionARankIsToldAgainAndSoAreAll) {
  for (const Rank rank : {0, 1}) EXPECT_TRUE(IsToBeTold(rank));
  over_[1] = std::make_shared<Idle>();
  for (const Rank rank : {1, 0}) EXPECT_TRUE(IsToBeTold(rank)) << rank;
  for (const Rank rank : {1, 0}) EXPECT_FALSE(IsToBeTold(rank)) << rank;
}

TEST_F(RetryRoundsTest, WhoIsToldAgainBeforeTheOthersHaveHeardTellsNobodyTwice) {
  EXPECT_TRUE(IsToBeTold(0));
  over_[0] = std::make_shared<Idle>();
  EXPECT_TRUE(IsToBeTold(0));
  EXPECT_TRUE(IsToBeTold(1));
  for (const Rank rank : {0, 1}) EXPECT_FALSE(IsToBeTold(rank)) << rank;
}

}  // namespace
}  // namespace cairn
