// A folder that is redundant itself under real daemons on three nodes: datasets that never were on the prefix come back
// from there when all caches are gone.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "client/cairn.h"
#include "tests/integration/launches_on_nodes.h"

namespace cairn::testing {
namespace {

class RedundantTierTest : public LaunchesOnNodes {
 protected:
  void SetUp() override {
    LaunchesOnNodes::SetUp();
    if (cluster_ == nullptr) return;
    folder_ = cluster_->folder() + "/burst";
    std::filesystem::create_directory(folder_);
  }
  std::vector<std::string> Flags() const {
    return {"--flush-every", "0", "--redundant-path", folder_, "--redundant-apart", "false", "--lease-term", "3s"};
  }
  // All nodes are as new.
  void LoseAllCaches() {
    for (int node = 1; node <= 3; ++node) {
      cluster_->node(node).KillDaemon();
      std::filesystem::remove_all(cluster_->node(node).cache());
    }
    StartThree(Flags());
  }
  bool PrefixHasNone() {
    for (const auto& entry : std::filesystem::directory_iterator(prefix())) {
      if (entry.path().filename().string().starts_with("ckpt.")) return false;
    }
    return true;
  }

  std::string folder_;
};

TEST_F(RedundantTierTest, WhatIsRedundantThereComesBackWhenAllCachesAreGone) {
  StartThree(Flags());
  std::uint64_t steps = 0;
  for (int round = 1; round <= 2; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Run("job." + std::to_string(round), {1, 2, 3}, steps += 3, {"--wait-busy", "--no-check", "--redundant"});
    const std::uint64_t newest = NewestOfRank(0, "redundant");
    for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(NewestOfRank(rank, "redundant"), newest) << rank;
    EXPECT_NE(Cairn(1, {"redundancy", prefix(), std::to_string(newest)}).find("it is in redundant.path"),
              std::string::npos);
    LoseAllCaches();
    EXPECT_TRUE(PrefixHasNone());
    for (const std::string& rank : Run("again." + std::to_string(round), {1, 2, 3}, 0, {"--wait-busy"})) {
      EXPECT_EQ(rank, Resumed(steps, newest, CAIRN_TIER_REDUNDANT));
    }
  }
  ExpectNothingLost(3);
}

}  // namespace
}  // namespace cairn::testing
