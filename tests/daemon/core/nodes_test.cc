// When this daemon is among those that serve a run, and when not: daemon/core/nodes.h.
#include "daemon/core/nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "storage/base/status.h"
#include "tests/daemon/core/nodes_fixture.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

TEST_F(NodesTest, ItIsAMemberOnceThePrefixWasReached) {
  EXPECT_TRUE(nodes_->out());
  nodes_->Update();
  EXPECT_THAT(nodes_->Describe().alone(), HasSubstr("not reached yet"));
  Pass(std::chrono::seconds(1));
  EXPECT_TRUE(access_.member);
  EXPECT_EQ(access_.entered_at, kPath);
  EXPECT_EQ(access_.bulk().served, kFolder);
  ASSERT_TRUE(Coordinates()) << nodes_->Describe().DebugString();
  const admin::NodeRow row = nodes_->Describe().nodes(0);
  EXPECT_TRUE(row.here());
  EXPECT_EQ(row.host(), "node");
  EXPECT_EQ(row.address(), "10.0.0.1:17600");
  nodes_->Update();
  Pass(std::chrono::seconds(30));
  EXPECT_EQ(access_.entered, 1);
}

TEST_F(NodesTest, WhatKeepsItOutIsToldOnceAndTriedAgain) {
  access_.refuse = DataLoss("/prefix/.cairn/authority: damaged");
  nodes_->Update();
  Pass(std::chrono::seconds(10));
  EXPECT_GT(access_.entered, 2);
  EXPECT_LT(access_.entered, 6) << "the pauses do not grow";
  EXPECT_EQ(Warned("no links to its other nodes: /prefix/.cairn/authority: damaged"), 1);
  EXPECT_EQ(nodes_->Describe().alone(), "/prefix/.cairn/authority: damaged");
  EXPECT_TRUE(nodes_->out()) << "a stop would wait for it";
  access_.refuse = absl::OkStatus();
  Pass(std::chrono::seconds(20));
  EXPECT_TRUE(Coordinates());
}

TEST_F(NodesTest, WhoLeavesSaysWhenItHasAndADaemonThatGoesAwayDoesNotComeBack) {
  nodes_->Update();
  Pass(std::chrono::seconds(1));
  ASSERT_TRUE(Coordinates());
  by_hand_.context.phase = Phase::kQuiescing;
  nodes_->Leave();
  EXPECT_FALSE(nodes_->out());
  Pass(std::chrono::seconds(1));
  EXPECT_TRUE(nodes_->out());
  EXPECT_EQ(left_, 1);
  EXPECT_FALSE(access_.member);
  EXPECT_EQ(access_.bulk().served, "");
  nodes_->Update();
  Pass(std::chrono::seconds(10));
  EXPECT_TRUE(nodes_->out());
  EXPECT_EQ(access_.entered, 1);
}

TEST_F(NodesTest, AStopWhileItEntersWaitsForNoPrefix) {
  nodes_->Update();
  by_hand_.context.phase = Phase::kQuiescing;
  nodes_->Leave();
  EXPECT_TRUE(nodes_->out()) << "the prefix may hang";
  by_hand_.RunAll();
  EXPECT_TRUE(nodes_->out());
  EXPECT_FALSE(access_.member);
}

// A stop that is not waited for: what was left to be said to the others is not said by somebody who is no more.
TEST_F(NodesTest, WhoLeavesMayBeGoneBeforeItHasLeft) {
  StartBoth();
  for (Nodes* nodes : {&other_->nodes, nodes_.get()}) {
    nodes->Leave();
    nodes->Stop();
    EXPECT_TRUE(nodes->out());
  }
  Pass(std::chrono::seconds(10));
  EXPECT_EQ(left_, 0);
}

TEST_F(NodesTest, ARunThatLivesThereNoMoreHasNoNodes) {
  nodes_->Update();
  Pass(std::chrono::seconds(1));
  ASSERT_TRUE(Coordinates());
  gate_->Replaced(RunId::Random());
  Pass(std::chrono::seconds(1));
  EXPECT_FALSE(access_.member);
  EXPECT_THAT(nodes_->Describe().alone(), HasSubstr("another run"));
  nodes_->Update();
  Pass(std::chrono::seconds(10));
  EXPECT_EQ(access_.entered, 1);
  gate_->LivesHere();
  nodes_->Update();
  Pass(std::chrono::seconds(30));
  EXPECT_TRUE(Coordinates());
}

}  // namespace
}  // namespace cairn
