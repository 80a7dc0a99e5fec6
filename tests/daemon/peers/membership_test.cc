// Members of a run find each other, agree on who coordinates, and know who there is.
#include "daemon/peers/membership.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/daemon/peers/sim_cluster.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;

class MembershipTest : public ::testing::Test {
 protected:
  milliseconds term() const { return sim_.settings.term; }
  void StartAll(std::uint32_t count) {
    for (std::uint32_t number = 1; number <= count; ++number) sim_.Start(number);
    ASSERT_TRUE(Settles()) << sim_.Settled();
  }
  bool Settles(int terms = 6) {
    return sim_.RunUntil([this] { return sim_.IsSettled(); }, terms * term());
  }
  std::uint32_t Top() { return sim_.Acting().at(0); }

  SimCluster sim_{1};
};

TEST_F(MembershipTest, TheFirstMemberOfARunCoordinatesItAtOnce) {
  sim_.Start(1);
  EXPECT_TRUE(sim_.RunUntil([this] { return sim_.IsSettled(); }, milliseconds(500))) << sim_.Settled();
  EXPECT_EQ(sim_.at(1).coordinator().name.epoch, 1U);
  EXPECT_EQ(sim_.Leases(), std::vector<std::string>{"coordinator.1.lease"});
}

TEST_F(MembershipTest, ThoseWhoComeAreInEverybodysTable) {
  StartAll(5);
  EXPECT_EQ(sim_.at(3).table().entries.size(), 5U);
  EXPECT_EQ(sim_.at(3).table().entries.at(SimCluster::IdOf(4)).member.host, "node4");
}

}  // namespace
}  // namespace cairn
