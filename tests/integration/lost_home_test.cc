// The home of a launch dies with its node and does not come back: the job is started again on a node that is left and
// on one that has never heard of the run, or on two such.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "client/cairn.h"
#include "tests/integration/launches_on_nodes.h"

namespace cairn::testing {
namespace {

class LostHomeTest : public LaunchesOnNodes {
 protected:
  const std::vector<std::string> flags_ = {"--flush-every", "0", "--redundancy-scheme", "partner"};
  enum class On { kSurvivorAndNew, kNewAndSurvivor, kNewAndNew };
  void SetUp() override { CAIRN_START_CLUSTER_OR_SKIP(cluster_, {.nodes = 4}); }
  void Restart(On on) {
    StartThree(flags_);
    StartDaemon(4, flags_);
    Job job = Start("slurm:7.0.0", {1, 2}, 100'000, {"--redundant", "--mib", "2"});
    ASSERT_TRUE(AwaitPromises(PromisesOfRank(0), "redundant", 5));
    ASSERT_TRUE(AwaitPromises(PromisesOfRank(1), "redundant", 5));
    const int home = HomeOf(1), left = 3 - home;
    cluster_->PowerOff(home);
    ASSERT_TRUE(cluster_->node(left).WaitForLog("was lost"));
    for (const auto& rank : job.ranks) rank->Signal(SIGKILL);
    job.ranks.clear();
    const std::uint64_t promised = std::max(NewestOfRank(0, "redundant"), NewestOfRank(1, "redundant"));
    const std::vector<int> nodes = on == On::kSurvivorAndNew   ? std::vector{left, 3}
                                   : on == On::kNewAndSurvivor ? std::vector{3, left}
                                                               : std::vector{3, 4};
    for (const std::string& rank : Run("slurm:7.0.1", nodes, 0, {"--wait-busy", "--mib", "2"})) {
      EXPECT_GE(PointOf(rank).dataset, promised) << rank;
    }
  }
};

TEST_F(LostHomeTest, ItGoesOnWithTheNodeThatIsLeftFirst) {
  Restart(On::kSurvivorAndNew);
}

TEST_F(LostHomeTest, ItGoesOnWithTheNewNodeFirst) {
  Restart(On::kNewAndSurvivor);
}

// As an epilog orders it, of a job that has lost a node.
TEST_F(LostHomeTest, TheHomeGoesOnThoughAFlushWaitsForANodeThatIsLost) {
  StartThree(flags_);
  Job job = Start("slurm:7.0.0", {1, 2}, 100'000, {"--redundant", "--mib", "2"});
  ASSERT_TRUE(AwaitPromises(PromisesOfRank(0), "redundant", 5));
  ASSERT_TRUE(AwaitPromises(PromisesOfRank(1), "redundant", 5));
  const int home = HomeOf(1), lost = 3 - home;
  cluster_->PowerOff(lost);
  ASSERT_TRUE(cluster_->node(home).WaitForLog("was lost"));
  for (const auto& rank : job.ranks) rank->Signal(SIGKILL);
  job.ranks.clear();
  const std::uint64_t promised = std::max(NewestOfRank(0, "redundant"), NewestOfRank(1, "redundant"));
  Cairn(home, {"flush", prefix()});
  ASSERT_TRUE(cluster_->node(home).WaitForLog("which has parts of it, is not there"));
  for (const std::string& rank : Run("slurm:7.0.1", {home, 3}, 0, {"--wait-busy", "--mib", "2"})) {
    EXPECT_GE(PointOf(rank).dataset, promised) << rank;
  }
}

// As a scheduler does whose node that is left has another job by then, or is not free yet.
TEST_F(LostHomeTest, ItGoesOnOnNewNodesOnly) {
  Restart(On::kNewAndNew);
}

}  // namespace
}  // namespace cairn::testing
