// What is redundant and not on the prefix, when daemons are killed at any instant of making it so, of giving it back
// and of making anew what a node has lost, and when a node's cache is gone. Ranks log outside the daemons what they
// were promised. Instants are drawn from CAIRN_TEST_SEED; CAIRN_SOAK makes it long.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "client/cairn.h"
#include "tests/integration/launch_faults.h"

namespace cairn::testing {
namespace {

const std::vector<std::string> kWork = {"--wait-busy", "--no-check", "--redundant", "--mib", "2"};

class RedundancyFaultsTest : public LaunchFaultsTest, public ::testing::WithParamInterface<std::string> {
 protected:
  // Nothing ever comes to the prefix.
  std::vector<std::string> Flags() const {
    return {"--flush-every",          "0", "--cache-keep", "2", "--redundancy-scheme", GetParam(),
            "--redundancy-checksums", "1", "--lease-term", "3s"};
  }
  bool PrefixHasNone() {
    for (const auto& entry : std::filesystem::directory_iterator(prefix())) {
      if (entry.path().filename().string().starts_with("ckpt.")) return false;
    }
    return true;
  }
  // The launch of the next job finds what those who know of the run have.
  void StartAll() {
    for (const int node : know_) {
      if (cluster_->node(node).daemon() == nullptr) StartDaemon(node, Flags());
    }
    ASSERT_TRUE(AwaitLinked(know_));
    StartMissing(Flags());
  }
  // Its host does not come back as it was.
  void LoseNode(int node) {
    if (cluster_->node(node).daemon() != nullptr) cluster_->node(node).KillDaemon();
    std::filesystem::remove_all(cluster_->node(node).cache());
    know_.erase(node);
  }
  int AnyNode() { return 1 + static_cast<int>(Draw(3)); }

  const std::vector<int> nodes_ = {1, 2, 3};
  std::set<int> know_;
};

// Between two losses something new has become redundant, so that each time all members of its sets are there.
TEST_P(RedundancyFaultsTest, WhatIsRedundantComesBackWhoeverIsKilledAndWhateverNodeIsLost) {
  std::uint64_t steps = 0, promised = 0;
  int compared = 0;
  const int rounds = IsSoak() ? 100 : 5;
  for (int round = 1; round <= rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round) + ", CAIRN_TEST_SEED=" + std::to_string(seed_));
    ASSERT_NO_FATAL_FAILURE(StartAll());
    const Job job = Start("job." + std::to_string(round), nodes_, steps + 1'000, kWork);
    if (round % 2 == 1 || Draw(2) != 0) {  // else daemons are killed while it begins
      ASSERT_TRUE(AllBegun(job));
      know_ = {1, 2, 3};
    }
    LetItWorkFor(std::chrono::microseconds(Draw(800'000)));
    for (const int node : nodes_) {
      if (Draw(2) == 0) cluster_->node(node).KillDaemon();
    }
    for (const std::string& rank : Kill(job)) {
      if (WasKilledBefore(rank)) continue;
      const Point from = PointOf(rank);
      EXPECT_GE(from.dataset, promised) << rank;
      EXPECT_NE(from.tier, CAIRN_TIER_PREFIX) << rank;
      ++compared;
    }
    steps = std::max(steps, NewestStepCaptured());
    const std::uint64_t newest = NewestPromised("redundant");
    if (newest > promised) LoseNode(AnyNode());
    promised = newest;
  }
  EXPECT_GT(compared, rounds) << "hardly any launch came to its restart: this tests nothing";

  ASSERT_NO_FATAL_FAILURE(StartAll());
  Run("job.whole", nodes_, steps + 2, kWork);
  know_ = {1, 2, 3};
  promised = NewestPromised("redundant");
  const int lost = AnyNode();
  LoseNode(lost);
  ASSERT_NO_FATAL_FAILURE(StartAll());
  const std::vector<std::string> said = Run("job.last", nodes_, 0, kWork);
  for (const std::string& rank : said) EXPECT_EQ(PointOf(rank).dataset, promised) << rank;
  EXPECT_EQ(PointOf(said[static_cast<std::size_t>(lost - 1)]).tier, CAIRN_TIER_REBUILT);
  EXPECT_TRUE(PrefixHasNone());
}

INSTANTIATE_TEST_SUITE_P(Schemes, RedundancyFaultsTest, ::testing::Values("partner", "xor", "rs"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace cairn::testing
