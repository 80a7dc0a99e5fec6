// The home of a launch dies with its node and does not come back: the job is started again on a node that is left and
// on one that has never heard of the run.
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
  void Restart(bool survivor_first) {
    StartThree(flags_);
    Job job = Start("slurm:7.0.0", {1, 2}, 100'000, {"--redundant", "--mib", "2"});
    ASSERT_TRUE(AwaitPromises(PromisesOfRank(0), "redundant", 5));
    ASSERT_TRUE(AwaitPromises(PromisesOfRank(1), "redundant", 5));
    const int home = HomeOf(1), left = 3 - home;
    cluster_->PowerOff(home);
    ASSERT_TRUE(cluster_->node(left).WaitForLog("was lost"));
    for (const auto& rank : job.ranks) rank->Signal(SIGKILL);
    job.ranks.clear();
    const std::uint64_t promised = std::max(NewestOfRank(0, "redundant"), NewestOfRank(1, "redundant"));
    const std::vector<int> nodes = survivor_first ? std::vector{left, 3} : std::vector{3, left};
    for (const std::string& rank : Run("slurm:7.0.1", nodes, 0, {"--wait-busy", "--mib", "2"})) {
      EXPECT_GE(PointOf(rank).dataset, promised) << rank;
    }
  }
};

TEST_F(LostHomeTest, ItGoesOnWithTheNodeThatIsLeftFirst) {
  Restart(/*survivor_first=*/true);
}

TEST_F(LostHomeTest, ItGoesOnWithTheNewNodeFirst) {
  Restart(/*survivor_first=*/false);
}

}  // namespace
}  // namespace cairn::testing
