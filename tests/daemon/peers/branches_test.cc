#include "daemon/peers/branches.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/daemon/peers/sample.h"

namespace cairn {
namespace {

using frames::BelowChange;
using Members = std::vector<Member>;
using Gone = std::vector<GoneMember>;

GoneMember GoneOf(std::uint32_t number, std::uint64_t incarnation = 1, GoneWhy why = GoneWhy::kLost) {
  return {.node = NodeOf(number), .incarnation = incarnation, .why = why};
}

class BranchesTest : public ::testing::Test {
 protected:
  BelowChange Now(Branches::Id child, Members members) { return branches_.Apply(child, {std::move(members), {}}); }
  BelowChange Lost(Branches::Id child, Gone gone) { return branches_.Apply(child, {{}, std::move(gone)}); }
  Branches branches_{NodeOf(99)};
};

TEST_F(BranchesTest, WhatIsNewIsToldOnceAndWhatAChildHadGoesWithIt) {
  EXPECT_EQ(Now(1, {MemberOf(1), MemberOf(2)}).now, (Members{MemberOf(1), MemberOf(2)}));
  EXPECT_TRUE(Now(1, {MemberOf(2)}).empty());
  EXPECT_EQ(Now(1, {MemberOf(2, 1, 5)}).now, (Members{MemberOf(2, 1, 5)}));
  EXPECT_EQ(branches_.size(1), 2U);
  EXPECT_EQ(branches_.Remove(1).gone, (Gone{GoneOf(1), GoneOf(2)}));
  EXPECT_TRUE(branches_.all().empty());
  EXPECT_TRUE(branches_.Remove(1).empty());
}

// A branch that has moved is said to be lost by its former parent, before or after it is heard of elsewhere.
TEST_F(BranchesTest, WhoHasMovedIsNotLost) {
  Now(1, {MemberOf(1), MemberOf(2), MemberOf(3)});
  EXPECT_TRUE(Now(2, {MemberOf(4), MemberOf(2), MemberOf(3)}).now.size() == 1);
  EXPECT_TRUE(Lost(1, {GoneOf(2), GoneOf(3)}).empty());
  EXPECT_TRUE(branches_.all().contains(NodeOf(2)));
  EXPECT_EQ(branches_.Remove(1).gone, (Gone{GoneOf(1)}));
  EXPECT_EQ(branches_.all().size(), 3U);
}

TEST_F(BranchesTest, OfTwoLivesTheLaterOneCountsWhileBothAreThere) {
  Now(1, {MemberOf(1, 5)});
  EXPECT_TRUE(Now(2, {MemberOf(1, 4, 9)}).empty());
  EXPECT_EQ(Now(3, {MemberOf(1, 6)}).now, (Members{MemberOf(1, 6)}));
  EXPECT_EQ(branches_.Remove(3).now, (Members{MemberOf(1, 5)}));
  EXPECT_EQ(branches_.Remove(1).now, (Members{MemberOf(1, 4, 9)})) << "a clock was set back, and that is who is there";
}

TEST_F(BranchesTest, WhoHasLeftIsNowhereAnyMoreAndThatIsPassedOn) {
  Now(1, {MemberOf(1), MemberOf(2)});
  Now(2, {MemberOf(2)});
  EXPECT_EQ(Lost(1, {GoneOf(2, 1, GoneWhy::kLeft)}).gone, (Gone{GoneOf(2, 1, GoneWhy::kLeft)}));
  EXPECT_FALSE(branches_.Has(2, NodeOf(2)));
  EXPECT_EQ(Lost(1, {GoneOf(7, 1, GoneWhy::kLeft)}).gone, (Gone{GoneOf(7, 1, GoneWhy::kLeft)}))
      << "a former parent of those below, whom nobody had below him";
}

TEST_F(BranchesTest, AnEarlierLifeThatHasLeftTakesNobodyAway) {
  Now(1, {MemberOf(1)});
  Now(2, {MemberOf(2, 6)});
  EXPECT_TRUE(Lost(1, {GoneOf(2, 5, GoneWhy::kLeft)}).empty());
  EXPECT_TRUE(branches_.all().contains(NodeOf(2)));
}

TEST_F(BranchesTest, NobodyIsBelowItself) {
  EXPECT_TRUE(Now(1, {MemberOf(99)}).empty());
  EXPECT_TRUE(Lost(1, {GoneOf(99, 1, GoneWhy::kLeft)}).empty());
}

TEST_F(BranchesTest, AChildCannotTakeAwayWhatAnotherHasSaid) {
  Now(1, {MemberOf(1)});
  EXPECT_TRUE(Lost(2, {GoneOf(1)}).empty());
  EXPECT_TRUE(branches_.all().contains(NodeOf(1)));
}

}  // namespace
}  // namespace cairn
