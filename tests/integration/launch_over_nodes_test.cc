// Launches whose ranks run on several nodes, each with the daemon of its own node. What was promised is logged by the
// ranks, and compared after a kill; a restart says the step that it goes on with, and what served each rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "client/cairn.h"
#include "tests/integration/jobs_on_nodes.h"

namespace cairn::testing {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

const std::vector<std::string> kKeepAll = {"--flush-every", "0", "--cache-keep", "1000"};

class LaunchOverNodesTest : public JobsOnNodes {
 protected:
  struct Job {
    std::vector<std::unique_ptr<Process>> ranks;
  };
  std::string PromisesOfRank(std::size_t rank) { return cluster_->folder() + "/promises-" + std::to_string(rank); }
  // Rank r on nodes[r].
  Job Start(const std::string& key, const std::vector<int>& nodes, std::uint64_t steps,
            const std::vector<std::string>& more = {}) {
    Job job;
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
      Process::Options client = Client(nodes[rank], steps, more);
      client.arguments[2] = PromisesOfRank(rank);  // of `--promises`
      client.environment["CAIRN_RANK"] = std::to_string(rank);
      client.environment["CAIRN_NRANKS"] = std::to_string(nodes.size());
      client.environment["CAIRN_LAUNCH"] = key;
      job.ranks.push_back(cluster_->StartProgram(nodes[rank], client));
    }
    return job;
  }
  // What each rank said.
  std::vector<std::string> End(Job job) {
    std::vector<std::string> said;
    for (const auto& rank : job.ranks) {
      const Ending ending = rank->Wait(std::chrono::seconds(180));
      EXPECT_EQ(ending.exit_code, 0) << ending.output;
      said.push_back(ending.output.substr(0, ending.output.find('\n')));
    }
    return said;
  }
  std::vector<std::string> Run(const std::string& key, const std::vector<int>& nodes, std::uint64_t steps,
                               const std::vector<std::string>& more = {"--wait-busy"}) {
    return End(Start(key, nodes, steps, more));
  }
  std::uint64_t NewestOfRank(std::size_t rank, const std::string& kind = "local") {
    const auto promised = ReadPromises(PromisesOfRank(rank)).by_kind[kind];
    return promised.empty() ? 0 : promised.rbegin()->first;
  }
  void ExpectNothingLost(std::size_t ranks) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      EXPECT_THAT(ReadPromises(PromisesOfRank(rank)).lost, IsEmpty()) << rank;
    }
  }
  // Parts of a dataset in a node's cache.
  int FilesOf(int node, std::uint64_t dataset) {
    int files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(cluster_->node(node).cache())) {
      files += entry.path().filename().string().starts_with("Ckpt" + std::to_string(dataset) + "-Rank") ? 1 : 0;
    }
    return files;
  }
  // The node whose daemon has made the launch, which has begun.
  int HomeOf(int launch) {
    const std::string made = "launch " + std::to_string(launch) + " with";
    int home = 1;
    while (home < 3 && cluster_->node(home).DaemonLog().find(made) == std::string::npos) ++home;
    return home;
  }
  void StartThree(const std::vector<std::string>& flags = kKeepAll) {
    for (int node = 1; node <= 3; ++node) StartDaemon(node, flags);
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

TEST_F(LaunchOverNodesTest, TheLaunchGoesOnWhenADaemonThatFollowsIsKilled) {
  StartThree();
  const std::vector<int> nodes = {1, 2, 3};
  Job job = Start("a", nodes, 40);
  ASSERT_TRUE(AwaitPromises(PromisesOfRank(1), "local", 3));
  const int killed = HomeOf(1) == 1 ? 2 : 1;
  cluster_->node(killed).KillDaemon();
  StartDaemon(killed, kKeepAll);
  End(std::move(job));
  ExpectNothingLost(nodes.size());
  EXPECT_GT(ReadPromises(PromisesOfRank(0)).by_kind["local"].size(), 10u);
  const std::uint64_t newest = NewestOfRank(0);
  EXPECT_THAT(Run("b", nodes, 40), Each(HasSubstr(" " + std::to_string(newest) + " ")));
}

TEST_F(LaunchOverNodesTest, TheLaunchGoesOnWhenItsHomeIsKilled) {
  StartThree();
  const std::vector<int> nodes = {1, 2, 3};
  Job job = Start("a", nodes, 40);
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
