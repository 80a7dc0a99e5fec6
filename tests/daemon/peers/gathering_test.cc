// Whom a new coordinator waits for, by the lease of the one before it: daemon/peers/gathering.h.
#include "daemon/peers/gathering.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/daemon/peers/sample.h"

namespace cairn {
namespace {

using std::chrono::seconds;
using State = CoordinatorRecord::State;

const RunId kRun = *RunId::Parse("00112233445566778899aabbccddeeff");
const RunId kOtherRun = *RunId::Parse("ff112233445566778899aabbccddeeff");

std::string ShortOf(std::uint32_t number) {
  return coordinator_lease::ShortNode(NodeOf(number));
}

CoordinatorRecord LeaseOf(std::uint32_t node, const KnownMembers& members, State state = State::kLive) {
  CoordinatorRecord record;
  record.run = kRun;
  record.epoch = 3;
  record.node = NodeOf(node);
  record.term_ms = 12'000;
  record.state = state;
  record.members = members;
  return record;
}

// For node 1.
Awaited After(const CoordinatorRecord& record, bool lapsed) {
  coordinator_lease::Found found{.seen = lease_series::Seen{.epoch = record.epoch, .bytes = {}}, .record = record};
  return AwaitedAfter(found, lapsed, LeaseOf(1, {}));
}

TEST(GatheringTest, WhoWasAloneLeavesNobody) {
  for (const State state : {State::kLive, State::kTaking, State::kEnded}) {
    for (const bool lapsed : {false, true}) {
      EXPECT_FALSE(After(LeaseOf(2, {.count = 1, .others = {}}, state), lapsed).anybody);
    }
  }
}

TEST(GatheringTest, OthersAreAwaitedHoweverTheLeaseIsOver) {
  const KnownMembers four{.count = 4, .others = {ShortOf(1), ShortOf(3), ShortOf(4)}};
  const std::set<std::string> others{ShortOf(3), ShortOf(4)};
  const Awaited lapsed = After(LeaseOf(2, four), true), ended = After(LeaseOf(2, four, State::kEnded), false);
  EXPECT_TRUE(lapsed.anybody);
  EXPECT_EQ(lapsed.nodes, others) << "without itself";
  EXPECT_EQ(lapsed.count, 2U);
  EXPECT_EQ(lapsed.within, seconds(6));
  EXPECT_TRUE(ended.anybody);
  EXPECT_EQ(ended.nodes, others);
  EXPECT_EQ(ended.within, seconds(3)) << "they were told";
  const Awaited own = After(LeaseOf(1, {.count = 3, .others = others}), false);
  EXPECT_TRUE(own.anybody) << "its earlier life has coordinated";
  EXPECT_EQ(own.nodes, others);
  EXPECT_EQ(own.within, seconds(6));
  EXPECT_FALSE(After(LeaseOf(2, {.count = 2, .others = {ShortOf(1)}}), true).anybody) << "there was nobody but itself";
}

TEST(GatheringTest, WhoIsNotNamedIsAwaitedByTimeAndByCount) {
  const Awaited many = After(LeaseOf(2, {.count = 500, .others = {}}), false);
  EXPECT_TRUE(many.anybody);
  EXPECT_EQ(many.count, 499U);
  const auto at = [](int second) { return Gathering::Time(seconds(second)); };
  Gathering all(many, at(100), seconds(36)), one_too_few(many, at(100), seconds(36));
  for (std::uint32_t i = 2; i < 501; ++i) all.Came(NodeOf(i));
  for (std::uint32_t i = 2; i < 500; ++i) {
    for (int time = 0; time < 2; ++time) one_too_few.Came(NodeOf(i));
  }
  EXPECT_FALSE(all.IsOver(at(105)));
  EXPECT_EQ(all.until(), at(106));
  EXPECT_TRUE(all.IsOver(at(106)));
  EXPECT_FALSE(one_too_few.IsOver(at(135)));
  EXPECT_EQ(one_too_few.until(), at(136));
  EXPECT_TRUE(one_too_few.IsOver(at(136)));
}

// They may live, and not reach the arbiter.
TEST(GatheringTest, WhoIsNamedAndDoesNotComeIsGivenUpAsAnyMemberIsUnlessItWasTold) {
  const auto at = [](int second) { return Gathering::Time(seconds(second)); };
  const KnownMembers two{.count = 2, .others = {ShortOf(3)}};
  const Gathering lost(After(LeaseOf(2, two), true), at(100), seconds(36));
  EXPECT_FALSE(lost.IsOver(at(135)));
  EXPECT_TRUE(lost.IsOver(at(136)));
  const Gathering told(After(LeaseOf(2, two, State::kEnded), false), at(100), seconds(36));
  EXPECT_FALSE(told.IsOver(at(102)));
  EXPECT_TRUE(told.IsOver(at(103)));
}

TEST(GatheringTest, WhomTheTableHasIsNotAwaitedAndWhomTheLeaseNamesBesidesIs) {
  const Awaited named = After(LeaseOf(2, {.count = 4, .others = {ShortOf(1), ShortOf(3), ShortOf(4)}}), true);
  const Awaited besides = Besides(named, {NodeOf(1), NodeOf(2), NodeOf(3)});
  EXPECT_TRUE(besides.anybody);
  EXPECT_EQ(besides.nodes, std::set<std::string>{ShortOf(4)});
  EXPECT_EQ(besides.count, 1U);
  EXPECT_FALSE(Besides(named, {NodeOf(3), NodeOf(4)}).anybody);
  const Awaited counted = After(LeaseOf(2, {.count = 40, .others = {}}), true);
  EXPECT_TRUE(Besides(counted, std::vector<NodeId>(38)).anybody);
  EXPECT_FALSE(Besides(counted, std::vector<NodeId>(39)).anybody);
  EXPECT_FALSE(Besides(After(LeaseOf(2, {}), true), {}).anybody) << "it does not say more than the table";
}

// As releases before.
TEST(GatheringTest, ALeaseThatDoesNotSayIsFollowedByAGatheringOnlyIfItWasNotRenewed) {
  EXPECT_TRUE(After(LeaseOf(2, {}), true).anybody);
  EXPECT_FALSE(After(LeaseOf(2, {}, State::kEnded), false).anybody);
  EXPECT_FALSE(After(LeaseOf(1, {}), false).anybody);
  EXPECT_TRUE(AwaitedAfter({}, true, LeaseOf(1, {})).anybody) << "it was removed";
  EXPECT_FALSE(AwaitedAfter({}, false, LeaseOf(1, {})).anybody) << "the first of all";
}

TEST(GatheringTest, ALeaseThatWasCopiedWithItsDirectoryMeansNothing) {
  CoordinatorRecord record = LeaseOf(2, {.count = 4, .others = {}});
  record.run = kOtherRun;
  for (const bool lapsed : {false, true}) EXPECT_FALSE(After(record, lapsed).anybody);
}

TEST(GatheringTest, WhatALeaseTellsIsNeverLessThanThere) {
  EXPECT_EQ(MembersToTell(NodeOf(1), {}, {}), (KnownMembers{.count = 1, .others = {}}));
  EXPECT_EQ(MembersToTell(NodeOf(1), {NodeOf(1), NodeOf(2)}, {}), (KnownMembers{.count = 2, .others = {ShortOf(2)}}));
  const Awaited named{.anybody = true, .count = 2, .nodes = {ShortOf(2), ShortOf(3)}, .within = seconds(6)};
  EXPECT_EQ(MembersToTell(NodeOf(1), {NodeOf(2), NodeOf(4)}, named),
            (KnownMembers{.count = 4, .others = {ShortOf(2), ShortOf(3), ShortOf(4)}}));
  const Awaited counted{.anybody = true, .count = 7, .nodes = {}, .within = seconds(6)};
  EXPECT_EQ(MembersToTell(NodeOf(1), {NodeOf(1)}, counted), (KnownMembers{.count = 8, .others = {}}));
  const Awaited any{.anybody = true, .count = 0, .nodes = {}, .within = seconds(6)};
  EXPECT_EQ(MembersToTell(NodeOf(1), {NodeOf(1), NodeOf(2)}, any), KnownMembers());
  const Awaited most{.anybody = true, .count = coordinator_lease::kMembersMax, .nodes = {}, .within = seconds(6)};
  EXPECT_EQ(MembersToTell(NodeOf(1), {NodeOf(2)}, most).count, coordinator_lease::kMembersMax);
}

}  // namespace
}  // namespace cairn
