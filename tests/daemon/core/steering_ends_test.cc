// Steering over breaks, restarts and ends of a launch, and what it leaves on the prefix. daemon/core/steering.cc.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

#include "storage/format/kvtree/tree.h"
#include "tests/daemon/core/gate.h"
#include "tests/daemon/core/steering_fixture.h"

namespace cairn {
namespace {

using namespace std::chrono_literals;

TEST_F(SteeringTest, AskedAgainOverTheNextStreamTheAnswerIsTheSame) {
  FakeClient client(harness_, {.resumable = true});
  ASSERT_SAYS(client.Open({}), local::OK, "");
  EXPECT_FALSE(ExitSays(client, 1));
  client.Drop();
  Halt([](scr::Halt& halt) { halt.reason = "enough"; });
  FakeClient again(harness_, {.resumable = true});
  ASSERT_SAYS(again.Open({.launch = client.launch(), .token = client.token()}), local::OK, "");
  EXPECT_FALSE(ExitSays(again, 1));
  EXPECT_TRUE(ExitSays(again, 2));
}

TEST_F(SteeringTest, GoesOnAfterARestartOfTheDaemon) {
  harness_.config.checkpoint.every = 4;
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  EXPECT_FALSE(ExitSays(client, 1));
  Halt([](scr::Halt& halt) { halt.checkpoints_left = 1; });
  harness_.Restart();
  FakeClient again(harness_);
  ASSERT_SAYS(again.Open({.launch = client.launch(), .token = client.token()}), local::OK, "");
  EXPECT_TRUE(NeedSays(again, 8));
  EXPECT_FALSE(ExitSays(again, 2));
  ASSERT_NE(CheckpointFor(again, 1, 1s), 0u);
  EXPECT_TRUE(ExitSays(again, 3));
}

TEST_F(SteeringTest, ACleanEndOfAllRanksIsNoted) {
  ASSERT_TRUE(MakeDirectories(prefix_disk_, harness_.prefix() + "/.scr", 0755).ok());
  Ranks ranks(harness_, 2, "job.1");
  ASSERT_SAYS(ranks[0].Close(), local::OK, "");
  EXPECT_EQ(Found().reason, "");
  ASSERT_SAYS(ranks[1].Close(), local::OK, "");
  EXPECT_EQ(Found().reason, scr::kFinalizeCalled);
}

TEST_F(SteeringTest, AnEndWithALostRankIsNotClean) {
  ASSERT_TRUE(MakeDirectories(prefix_disk_, harness_.prefix() + "/.scr", 0755).ok());
  Ranks ranks(harness_, 2, "job.1");
  ranks[0].Drop();
  ASSERT_TRUE(harness_.Eventually([&] { return harness_.Status().runs(0).sessions() == 1; }));
  ASSERT_SAYS(ranks[1].Close(), local::OK, "");
  EXPECT_EQ(Found().reason, "");
}

TEST_F(SteeringTest, ACleanEndLeavesTheUsersReasonAndAPrefixWithoutRecords) {
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    ASSERT_TRUE(harness_.Eventually([&] { return prefix_disk_.Remove(harness_.prefix() + "/.scr/nodes.scr").ok(); }));
    ASSERT_TRUE(prefix_disk_.Remove(harness_.prefix() + "/.scr").ok());
    ASSERT_SAYS(client.Close(), local::OK, "");
    EXPECT_FALSE(harness_.IsThere(prefix_disk_, harness_.prefix() + "/.scr"));
  }
  Halt([](scr::Halt& halt) { halt.reason = "mine"; });
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "job.2"}), local::OK, "");
  ASSERT_SAYS(client.Close(), local::OK, "");
  EXPECT_EQ(Found().reason, "mine");
}

TEST_F(SteeringTest, AHangingPrefixDoesNotKeepTheLastRankFromClosing) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  Gate gate(FakeOp::kAny, "/.scr");
  prefix_disk_.SetHook(gate.hook());
  EXPECT_SAYS(client.Close(), local::OK, "");
  prefix_disk_.SetHook(nullptr);
  gate.Open();
}

TEST_F(SteeringTest, TheNodesFileHasTheNumberOfHosts) {
  FakeClient one(harness_, On("node1")), two(harness_, On("node2")), three(harness_, On("node1"));
  ASSERT_SAYS(one.Open({.rank = 0, .nranks = 3}), local::OK, "");
  ASSERT_SAYS(two.Open({.rank = 1, .nranks = 3}), local::OK, "");
  const std::string path = harness_.prefix() + "/.scr/nodes.scr";
  EXPECT_FALSE(harness_.IsThere(prefix_disk_, path));
  ASSERT_SAYS(three.Open({.rank = 2, .nranks = 3}), local::OK, "");
  ASSERT_TRUE(harness_.Eventually([&] { return harness_.IsThere(prefix_disk_, path); }));
  const auto tree = kvtree::Decode(path, harness_.Read(prefix_disk_, path));
  ASSERT_TRUE(tree.ok()) << tree.status();
  const auto nodes = scr::GetNodes(*tree);
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_EQ(*nodes, 2u);
}

TEST_F(SteeringTest, StatusShowsTheConditions) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  EXPECT_FALSE(harness_.Status().runs(0).has_halt());
  Halt([](scr::Halt& halt) {
    halt.checkpoints_left = 4;
    halt.exit_before_s = kNowS + 5000;
    halt.halt_seconds = 60;
  });
  EXPECT_FALSE(ExitSays(client, 1));
  const admin::HaltStatus halt = harness_.Status().runs(0).halt();
  EXPECT_EQ(halt.why(), "");
  EXPECT_TRUE(halt.counts_checkpoints());
  EXPECT_EQ(halt.checkpoints_left(), 4u);
  EXPECT_EQ(halt.exit_before_s(), kNowS + 5000);
  EXPECT_EQ(halt.halt_seconds(), 60u);
  Pass(5000s);
  EXPECT_NE(harness_.Status().runs(0).halt().why().find("EXIT_BEFORE_TIME"), std::string::npos);
}

}  // namespace
}  // namespace cairn
