// Launches whose ranks run on several nodes, each with the daemon of its own node. What was promised is logged by the
// ranks, and compared after a kill; a restart says the step that it goes on with, and what served each rank.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "client/cairn.h"
#include "tests/integration/launches_on_nodes.h"

namespace cairn::testing {
namespace {

// Steps fail at once while a daemon is away: fewer would be over before it is back.
constexpr std::uint64_t kLong = 300;

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class LaunchOverNodesTest : public LaunchesOnNodes {
 protected:
  // Those of which any rank was told that they are local: the files of all ranks, within a minute.
  void ExpectOutputsOnPrefix(std::size_t ranks) {
    std::set<std::uint64_t> steps;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      Promises promises = ReadPromises(PromisesOfRank(rank));
      for (const auto& [dataset, step] : promises.by_kind["output"]) steps.insert(step);
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (const std::uint64_t step : steps) {
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const std::string path = fmt::format("{}/out/{}.{}", cluster_->prefix(), step, rank);
        std::string wanted;
        for (int i = 0; i < 20'000; ++i) wanted += fmt::format("step {} rank {}\n", step, rank);
        while (!std::filesystem::exists(path) && std::chrono::steady_clock::now() < end) ::poll(nullptr, 0, 20);
        std::ostringstream found;
        found << std::ifstream(path).rdbuf();
        EXPECT_TRUE(found.str() == wanted) << path;
      }
    }
  }
};

TEST_F(LaunchOverNodesTest, EachNodeKeepsItsRanksPartsAndGivesThemBack) {
  StartThree();
  const std::vector<int> nodes = {1, 2, 3, 1, 2, 3};
  EXPECT_THAT(Run("a", nodes, 3), Each(StartsWith("fresh")));
  const std::uint64_t newest = NewestOfRank(0);
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) EXPECT_EQ(NewestOfRank(rank), newest) << rank;
  for (int node = 1; node <= 3; ++node) EXPECT_EQ(FilesOf(node, newest), 2) << node;
  EXPECT_FALSE(std::filesystem::exists(cluster_->prefix() + "/ckpt." + std::to_string(newest)));
  // The step is a value, which comes from rank 0's file; the rest of each rank's from its own.
  const std::vector<std::string> said = Run("b", nodes, 4);
  int near = 0;
  for (const std::string& rank : said) {
    EXPECT_THAT(rank, AnyOf(Resumed(3, newest, CAIRN_TIER_IMAGE), Resumed(3, newest, CAIRN_TIER_CACHE),
                            Resumed(3, newest, CAIRN_TIER_PARTNER)));
    near += rank == Resumed(3, newest, CAIRN_TIER_PARTNER) ? 0 : 1;
  }
  EXPECT_EQ(near, 2) << "those on the node of rank 0";
  ExpectNothingLost(nodes.size());
}

TEST_F(LaunchOverNodesTest, WhatIsOnThePrefixIsOneDatasetOfAllRanks) {
  StartThree();
  const std::vector<int> nodes = {1, 2, 3};
  Run("a", nodes, 2, {"--flush-every", "2"});
  const std::uint64_t newest = NewestOfRank(1, "prefix");
  ASSERT_NE(newest, 0u);
  EXPECT_THAT(Cairn(2, {"verify", cluster_->prefix()}), HasSubstr("ok"));
  for (int node = 1; node <= 3; ++node) {
    EXPECT_EQ(cluster_->node(node).StopDaemon().exit_code, 0);
    cluster_->node(node).DeleteCache();
  }
  StartThree();
  EXPECT_THAT(Run("b", nodes, 2), Each(StartsWith(Resumed(2, newest, CAIRN_TIER_PREFIX))));
}

// The new launch's home is another node, and what a rank's new node does not have is read where it is.
TEST_F(LaunchOverNodesTest, RanksThatComeBackOnOtherNodesReadTheirPartsThere) {
  StartThree();
  Run("a", {1, 2}, 3);
  const std::uint64_t newest = NewestOfRank(0);
  EXPECT_THAT(Run("b", {3, 2}, 3), Each(StartsWith(Resumed(3, newest, CAIRN_TIER_PARTNER))));
  // And to the prefix, from both.
  Cairn(HomeOf(2), {"flush", cluster_->prefix(), std::to_string(newest), "--wait"});
  cluster_->PowerOff(1);
  cluster_->PowerOff(2);
  EXPECT_EQ(cluster_->node(3).StopDaemon().exit_code, 0);
  cluster_->node(3).DeleteCache();
  StartDaemon(3);
  EXPECT_THAT(Run("c", {3, 3}, 3), Each(StartsWith(Resumed(3, newest, CAIRN_TIER_PREFIX))));
}

// Each node's part takes many times as long as a copy may stand still.
TEST_F(LaunchOverNodesTest, ACopyThatGetsOnSlowlyIsWaitedFor) {
  std::vector<std::string> slow = kKeepAll;
  for (const char* flag : {"--flush-bandwidth", "2MiB/s", "--flush-stalled", "600ms"}) slow.emplace_back(flag);
  StartThree(slow);
  Run("a", {1, 2, 3}, 1);
  const std::uint64_t newest = NewestOfRank(0);
  ASSERT_NE(newest, 0u);
  Cairn(HomeOf(1), {"flush", cluster_->prefix(), std::to_string(newest), "--wait"});
  EXPECT_TRUE(std::filesystem::exists(cluster_->prefix() + "/ckpt." + std::to_string(newest)));
  for (int node = 1; node <= 3; ++node) {
    EXPECT_THAT(cluster_->node(node).DaemonLog(), Not(HasSubstr("has not got on"))) << node;
    EXPECT_THAT(cluster_->node(node).DaemonLog(), Not(HasSubstr("next try in"))) << node;
  }
}

TEST_F(LaunchOverNodesTest, OutputsOfFilesComeToThePrefixFromAllNodes) {
  StartThree();
  const std::vector<int> nodes = {1, 2, 3, 1};
  Run("a", nodes, 3, {"--outputs"});
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    EXPECT_EQ(ReadPromises(PromisesOfRank(rank)).by_kind["output"].size(), 3u) << rank;
  }
  ExpectOutputsOnPrefix(nodes.size());
  EXPECT_THAT(Cairn(2, {"verify", cluster_->prefix()}), HasSubstr("ok"));
}

TEST_F(LaunchOverNodesTest, OutputsThatWereLocalComeToThePrefixThoughDaemonsAreKilled) {
  StartThree();
  const std::vector<int> nodes = {1, 2, 3};
  Job job = Start("a", nodes, 30, {"--outputs"});
  ASSERT_TRUE(AwaitPromises(PromisesOfRank(1), "output", 3));
  const int home = HomeOf(1);
  cluster_->node(home).KillDaemon();
  StartDaemon(home, kKeepAll);
  const int follows = home == 1 ? 2 : 1;
  ASSERT_TRUE(AwaitPromises(PromisesOfRank(1), "output", 8));
  cluster_->node(follows).KillDaemon();
  StartDaemon(follows, kKeepAll);
  End(std::move(job));
  EXPECT_GT(ReadPromises(PromisesOfRank(0)).by_kind["output"].size(), 10u);
  ExpectOutputsOnPrefix(nodes.size());
}

TEST_F(LaunchOverNodesTest, TheLaunchGoesOnWhenADaemonThatFollowsIsKilled) {
  StartThree();
  const std::vector<int> nodes = {1, 2, 3};
  Job job = Start("a", nodes, kLong);
  ASSERT_TRUE(AwaitPromises(PromisesOfRank(1), "local", 3));
  const int killed = HomeOf(1) == 1 ? 2 : 1;
  cluster_->node(killed).KillDaemon();
  StartDaemon(killed, kKeepAll);
  End(std::move(job));
  ExpectNothingLost(nodes.size());
  EXPECT_GT(ReadPromises(PromisesOfRank(0)).by_kind["local"].size(), 10u);
  const std::uint64_t newest = NewestOfRank(0);
  EXPECT_THAT(Run("b", nodes, kLong), Each(HasSubstr(" " + std::to_string(newest) + " ")));
}

TEST_F(LaunchOverNodesTest, TheLaunchGoesOnWhenItsHomeIsKilled) {
  StartThree();
  const std::vector<int> nodes = {1, 2, 3};
  Job job = Start("a", nodes, kLong);
  ASSERT_TRUE(AwaitPromises(PromisesOfRank(1), "local", 3));
  const int home = HomeOf(1);
  cluster_->node(home).KillDaemon();
  StartDaemon(home, kKeepAll);
  End(std::move(job));
  ExpectNothingLost(nodes.size());
  EXPECT_GT(ReadPromises(PromisesOfRank(0)).by_kind["local"].size(), 10u);
}

}  // namespace
}  // namespace cairn::testing
