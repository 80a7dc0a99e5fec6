// How long a home waits for an order to another node.
#include "daemon/core/away_orders.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>

#include "tests/daemon/core/by_hand.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr DatasetId kDataset = 7;
constexpr char kNode[] = "0123456789abcdef0123456789abcdef";

class AwayOrdersTest : public ::testing::Test {
 protected:
  void SetUp() override { by_hand_.context.config.flush.stalled_ms = 1000; }
  void OrderRebuild() {
    peer::FromHome order;
    order.mutable_rebuild()->mutable_dataset()->set_dataset(kDataset);
    orders_.Give(AwayOrders::Kind::kRebuild, kDataset, {kNode}, order, [this](const OrderEnded& how) { ended_ = how; });
    by_hand_.RunAll();
  }
  void Turn(int ms) {
    by_hand_.Turn(std::chrono::milliseconds(ms));
    by_hand_.RunAll();
  }
  void GoesOn(std::uint64_t number) {
    peer::CopyGoesOn on;
    on.set_dataset(kDataset);
    on.set_order(number);
    orders_.CopyGoesOn(kNode, on);
  }

  ByHand by_hand_;
  std::uint64_t number_ = 0;  // of the last order
  std::optional<OrderEnded> ended_;
  AwayOrders orders_{by_hand_.context, [this](const NodeId&, const peer::FromHome& order) {
                       number_ = order.rebuild().order();
                       return true;
                     }};
};

TEST_F(AwayOrdersTest, WhatIsMadeAnewIsGivenUpWhenItDoesNotGetOn) {
  OrderRebuild();
  for (int i = 0; i < 5; ++i) {
    Turn(700);
    GoesOn(number_);
  }
  EXPECT_FALSE(ended_);
  Turn(1100);
  ASSERT_TRUE(ended_);
  EXPECT_EQ(ended_->status.code(), absl::StatusCode::kDeadlineExceeded) << ended_->status;
}

TEST_F(AwayOrdersTest, TheWordOfAnotherOrderDoesNotKeepItAlive) {
  OrderRebuild();
  Turn(700);
  GoesOn(number_ + 1);
  Turn(400);
  EXPECT_TRUE(ended_);
}

TEST_F(AwayOrdersTest, AnAnswerThatComesTooLateCountsForNothing) {
  OrderRebuild();
  const std::uint64_t first = number_;
  Turn(1100);
  ASSERT_TRUE(ended_);
  ended_.reset();
  OrderRebuild();
  orders_.Answered(AwayOrders::Kind::kRebuild, kNode, kDataset, first, {});
  by_hand_.RunAll();
  EXPECT_FALSE(ended_);
  orders_.Answered(AwayOrders::Kind::kRebuild, kNode, kDataset, number_, {});
  by_hand_.RunAll();
  ASSERT_TRUE(ended_);
  EXPECT_OK(ended_->status);
}

}  // namespace
}  // namespace cairn
