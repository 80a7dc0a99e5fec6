// Members of a run find each other, agree on who coordinates, and know who there is: one rule after the other. Random
// histories are in model_test.cc.
#include "daemon/peers/membership.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/daemon/peers/membership_fixture.h"
#include "tests/daemon/peers/sim_cluster.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(MembershipTest, TheFirstMemberOfARunCoordinatesItAtOnce) {
  sim_.Start(1);
  EXPECT_EQ(sim_.at(1).table().epoch, 0U) << "not registered yet";
  EXPECT_LT(Took([this] { return sim_.IsSettled(); }), milliseconds(500));
  EXPECT_EQ(EpochAt(1), 1U);
  EXPECT_EQ(sim_.Leases(), std::vector<std::string>{"coordinator.1.lease"});
  ASSERT_FALSE(sim_.node(1).coordinators.empty());
  EXPECT_TRUE(sim_.node(1).coordinators.back().acting);
}

TEST_F(MembershipTest, ThoseWhoComeAreInEverybodysTable) {
  StartAll(5);
  const TableEntry entry = sim_.at(3).table().entries.at(SimCluster::IdOf(4));
  EXPECT_EQ(entry.member.host, "node4");
  EXPECT_EQ(entry.member.address, sim_.node(4).address);
  EXPECT_EQ(entry.member.since_us, 1);
  EXPECT_FALSE(entry.missing);
}

TEST_F(MembershipTest, WhatAMemberSaysOfItselfReachesAllAndNotTooOften) {
  StartAll(3);
  const std::uint64_t before = sim_.at(1).table().entries.at(SimCluster::IdOf(2)).member.revision;
  for (std::uint32_t i = 1; i <= 100; ++i) {
    sim_.node(2).loop->Run(
        [&] { sim_.at(2).UpdateSelf({.datasets = i, .bytes = i, .sessions = 1, .newest_dataset = i}); });
    sim_.RunFor(milliseconds(50));
  }
  sim_.RunFor(seconds(3));
  for (const std::uint32_t number : {1U, 2U, 3U}) {
    const Member& member = sim_.at(number).table().entries.at(SimCluster::IdOf(2)).member;
    EXPECT_EQ(member.summary.newest_dataset, 100U);
    EXPECT_LE(member.revision, before + 4) << "5 s, a change every 2 s";
  }
}

// --- Who goes, and who comes back ---

TEST_F(MembershipTest, AMemberThatDiesIsMissingFirstAndGoneAfterItsGrace) {
  StartAll(4);
  const std::uint32_t who = Top() == 4 ? 3 : 4, other = NotTop();
  sim_.Kill(who, /*silently=*/true);
  sim_.RunFor(term() / 2);
  EXPECT_FALSE(sim_.at(other).table().entries.at(SimCluster::IdOf(who)).missing);
  sim_.RunFor(term());
  EXPECT_TRUE(sim_.at(other).table().entries.at(SimCluster::IdOf(who)).missing);
  EXPECT_FALSE(GoneAt(other, who));
  sim_.RunFor(3 * term());
  EXPECT_EQ(GoneAt(other, who), GoneWhy::kLost);
  EXPECT_TRUE(sim_.IsSettled()) << sim_.Settled();
}

TEST_F(MembershipTest, AMemberThatStopsInGoodOrderIsGoneAtOnce) {
  StartAll(4);
  const std::uint32_t who = Top() == 4 ? 3 : 4, other = NotTop();
  sim_.StopInOrder(who);
  EXPECT_LT(Took([&] { return GoneAt(other, who) == GoneWhy::kLeft; }), seconds(2));
  EXPECT_TRUE(sim_.node(who).stopped);
}

TEST_F(MembershipTest, ANodeThatIsStartedAgainElsewhereTakesThePlaceOfItsFormerLife) {
  StartAll(4);
  const std::uint32_t who = Top() == 4 ? 3 : 4, other = NotTop();
  sim_.Kill(who, /*silently=*/true);
  sim_.Start(who, "10.9.9.9:17009");
  EXPECT_LT(Took([this] { return sim_.IsSettled(); }), term());
  EXPECT_EQ(sim_.at(other).table().entries.at(SimCluster::IdOf(who)).member.address, "10.9.9.9:17009");
  sim_.RunFor(5 * term());
  EXPECT_TRUE(sim_.IsSettled()) << "the end of the former life takes nobody away: " << sim_.Settled();
  EXPECT_FALSE(GoneAt(other, who));
}

TEST_F(MembershipTest, ALinkThatBreaksIsMadeAgainAndNobodyIsMissing) {
  StartAll(3);
  const std::uint32_t top = Top(), who = NotTop();
  sim_.network().BreakLinks(sim_.node(top).address, sim_.node(who).address);
  bool missing = false;
  sim_.after_step = [&] { missing = missing || sim_.at(top).table().entries.at(SimCluster::IdOf(who)).missing; };
  sim_.RunFor(2 * term());
  EXPECT_TRUE(sim_.IsSettled()) << sim_.Settled();
  EXPECT_FALSE(missing);
}

TEST_F(MembershipTest, ALinkThatIsOneWayIsGivenUpByBothAndAnotherWayIsFound) {
  sim_.settings.peers = {"10.0.0.1:17001", "10.0.0.2:17001", "10.0.0.3:17001"};
  StartAll(3);
  const std::uint32_t top = Top(), who = NotTop();
  sim_.network().Block(sim_.node(top).address, sim_.node(who).address);
  sim_.RunFor(term());
  EXPECT_TRUE(Settles()) << "below the third one: " << sim_.Settled();
  EXPECT_EQ(EpochAt(who), 1U) << "the lease is kept, so that nobody may take over";
}

// --- Take-over ---

TEST_F(MembershipTest, AfterTheCoordinatorsDeathAnotherCoordinatesWithinTwoTermsAndTheTableStays) {
  StartAll(6);
  const std::uint32_t top = Top();
  sim_.Kill(top, /*silently=*/true);
  std::set<std::uint32_t> gone;
  EXPECT_LT(Took([this] { return !sim_.Acting().empty(); }), 2 * term());
  EXPECT_EQ(EpochAt(Top()), 2U);
  sim_.RunFor(5 * term());
  EXPECT_TRUE(sim_.IsSettled()) << sim_.Settled();
  for (const std::uint32_t number : sim_.Up()) {
    ASSERT_EQ(sim_.node(number).gone.size(), 1U);
    EXPECT_EQ(GoneAt(number, top), GoneWhy::kLost);
  }
}

TEST_F(MembershipTest, ACoordinatorThatStopsInGoodOrderIsFollowedAtOnce) {
  StartAll(6);
  const std::uint32_t top = Top();
  sim_.StopInOrder(top);
  EXPECT_LT(Took([this, top] { return !sim_.Acting().empty() && Top() != top && sim_.IsSettled(); }), seconds(4));
  for (const std::uint32_t number : sim_.Up()) EXPECT_EQ(GoneAt(number, top), GoneWhy::kLeft);
}

TEST_F(MembershipTest, ALoneCoordinatorThatIsStartedAgainNeedNotWaitForItself) {
  StartAll(1);
  sim_.RunFor(term());
  sim_.Kill(1, /*silently=*/true);
  sim_.Start(1);
  EXPECT_LT(Took([this] { return sim_.IsSettled(); }), milliseconds(500));
  EXPECT_EQ(EpochAt(1), 2U);
}

TEST_F(MembershipTest, ACoordinatorThatStoodStillActsNoMoreAndBecomesAMember) {
  StartAll(4);
  const std::uint32_t top = Top();
  sim_.Pause(top, true);
  sim_.RunFor(term() / 2);
  EXPECT_TRUE(sim_.Acting().empty()) << "by its own clock, though nothing ran";
  EXPECT_TRUE(sim_.RunUntil([&] { return !sim_.Acting().empty(); }, 3 * term()));
  sim_.RunFor(term());
  sim_.Pause(top, false);
  EXPECT_TRUE(Settles()) << sim_.Settled();
  EXPECT_NE(Top(), top);
}

TEST_F(MembershipTest, ACoordinatorThatAloneCannotReachTheArbiterGivesWay) {
  StartAll(4);
  const std::uint32_t top = Top();
  FailArbiter({top});
  EXPECT_LE(Took([this] { return sim_.Acting().empty(); }), term() / 2 + milliseconds(1));
  EXPECT_LE(Took([this] { return !sim_.Acting().empty(); }), 3 * term());
  EXPECT_NE(Top(), top);
  FailArbiter({});
  EXPECT_TRUE(Settles()) << sim_.Settled();
  EXPECT_FALSE(sim_.node(top).warnings.empty());
}

TEST_F(MembershipTest, WithoutTheArbiterNobodyActsAndWithItSomebodyDoesAgain) {
  StartAll(4);
  FailArbiter({1, 2, 3, 4});
  sim_.RunFor(term() / 2);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(sim_.Acting().empty());
    sim_.RunFor(term());
  }
  EXPECT_EQ(sim_.at(1).table().entries.size(), 4U) << "nobody is said to have gone by somebody who does not know";
  FailArbiter({});
  EXPECT_TRUE(Settles()) << sim_.Settled();
}

TEST_F(MembershipTest, ACallThatHangsAtTheArbiterEndsTheActingAndHoldsUpNobodyElse) {
  StartAll(3);
  const std::uint32_t top = Top();
  sim_.Hang(top, true);
  EXPECT_TRUE(sim_.RunUntil([&] { return !sim_.Acting().empty() && Top() != top; }, 4 * term()));
  sim_.RunFor(3 * term());
  EXPECT_TRUE(sim_.at(top).coordinator().name.epoch <= 2);
  sim_.Hang(top, false);
  EXPECT_TRUE(Settles()) << sim_.Settled();
}

TEST_F(MembershipTest, AHolderWhoseLeaseWasRemovedMakesTheNextEpoch) {
  StartAll(3);
  const std::uint32_t top = Top();
  sim_.RemoveLeases();
  sim_.Start(7);  // it finds no lease
  EXPECT_TRUE(sim_.RunUntil([&] { return EpochAt(top) == 2; }, term()));
  EXPECT_TRUE(Settles()) << sim_.Settled();
  EXPECT_EQ(Top(), top);
  EXPECT_EQ(sim_.Leases(), std::vector<std::string>{"coordinator.2.lease"});
}

TEST_F(MembershipTest, AfterTheLeasesWereRemovedWithTheirHolderDeadEpochsGoOn) {
  StartAll(4);
  sim_.Kill(Top(), /*silently=*/true);
  ASSERT_TRUE(Settles());
  ASSERT_EQ(EpochAt(Top()), 2U);
  sim_.Kill(Top(), /*silently=*/true);
  sim_.RemoveLeases();
  ASSERT_TRUE(Settles()) << sim_.Settled();
  EXPECT_EQ(EpochAt(Top()), 3U);
}

// --- The tree ---

TEST_F(MembershipTest, NobodyHasMoreChildrenThanItsFanInAndTheTreeIsFlat) {
  sim_.settings.fan_in = 3;
  sim_.settings.depth_max = 4;
  StartAll(30);
  sim_.Kill(Top(), /*silently=*/true);
  EXPECT_TRUE(Settles(8)) << "after a take-over: " << sim_.Settled();
  sim_.Kill(Top(), /*silently=*/false);
  EXPECT_TRUE(Settles(8)) << sim_.Settled();
}

TEST_F(MembershipTest, ABranchWhoseRootDiesComesBackAndNobodyOfItIsMissing) {
  sim_.settings.fan_in = 2;
  StartAll(12);
  const std::uint32_t top = Top();
  // One with children.
  std::string parent;
  for (const auto& [child, of] : sim_.network().links()) {
    if (of != sim_.node(top).address) parent = of;
  }
  ASSERT_FALSE(parent.empty());
  std::uint32_t who = 0;
  for (const std::uint32_t number : sim_.Up()) who = sim_.node(number).address == parent ? number : who;
  sim_.Kill(who, /*silently=*/false);
  std::set<NodeId> missing;
  sim_.after_step = [&] {
    for (const auto& [node, entry] : sim_.at(top).table().entries) {
      if (entry.missing) missing.insert(node);
    }
  };
  sim_.RunFor(5 * term());
  EXPECT_TRUE(sim_.IsSettled()) << sim_.Settled();
  EXPECT_EQ(missing, std::set<NodeId>{SimCluster::IdOf(who)});
}

TEST_F(MembershipTest, NoMoreMembersThanThereCanBe) {
  sim_.settings.members_max = 4;
  for (std::uint32_t number = 1; number <= 6; ++number) sim_.Start(number);
  sim_.RunFor(4 * term());
  EXPECT_EQ(sim_.at(Top()).table().entries.size(), 4U);
}

// --- Without the lease ---

TEST_F(MembershipTest, WhoCannotReadTheLeaseIsLetInByThoseWhoAreNamed) {
  StartAll(3);
  FailArbiter({9});
  sim_.settings.peers = {"10.7.7.7:1", sim_.node(NotTop()).address};
  sim_.Start(9);
  EXPECT_TRUE(Settles()) << sim_.Settled();
  EXPECT_FALSE(sim_.node(9).warnings.empty());
}

TEST_F(MembershipTest, WhoCannotReadTheLeaseAndKnowsNobodyWaitsAndActsNever) {
  FailArbiter({1, 2});
  sim_.settings.peers = {"10.0.0.1:17001", "10.0.0.2:17001"};
  sim_.Start(1);
  sim_.Start(2);
  sim_.RunFor(10 * term());
  EXPECT_TRUE(sim_.Acting().empty());
  EXPECT_FALSE(sim_.at(1).coordinator().attached);
  EXPECT_EQ(sim_.node(1).warnings.size(), 1U) << "the same trouble once";
}

// --- Ends ---

TEST_F(MembershipTest, AStopEndsThoughTheArbiterHangs) {
  StartAll(2);
  const std::uint32_t top = Top();
  sim_.Hang(top, true);
  sim_.RunFor(term() / 3);
  sim_.StopInOrder(top);
  EXPECT_LE(Took([&] { return sim_.node(top).stopped; }), term() / 2 + milliseconds(1));
}

TEST_F(MembershipTest, AStopThatIsNotInGoodOrderSaysNothing) {
  StartAll(3);
  const std::uint32_t top = Top(), other = NotTop();
  bool done = false;
  const std::uint64_t frames = sim_.network().traffic(sim_.node(top).address).frames_out;
  sim_.node(top).stopping = true;
  sim_.node(top).loop->Run([&] { sim_.at(top).Stop(/*orderly=*/false, [&] { done = true; }); });
  EXPECT_FALSE(done) << "not inside the call";
  EXPECT_TRUE(sim_.RunUntil([&] { return done; }, milliseconds(10)));
  EXPECT_EQ(sim_.network().traffic(sim_.node(top).address).frames_out, frames);
  EXPECT_FALSE(sim_.at(top).coordinator().acting);
  sim_.RunFor(term() / 2);
  EXPECT_TRUE(sim_.Acting().empty()) << "its lease has not ended";
  EXPECT_TRUE(Settles()) << sim_.Settled();
  EXPECT_FALSE(GoneAt(other, top) == GoneWhy::kLeft);
}

}  // namespace
}  // namespace cairn
