// How much of the members the table of one has: after a take-over above all. daemon/peers/membership.h (Knowledge),
// daemon/peers/README.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "storage/place/prefix/coordinator_lease.h"
#include "tests/daemon/peers/membership_fixture.h"
#include "tests/daemon/peers/sim_cluster.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Knowledge = Membership::Knowledge;
using KnowledgeTest = MembershipTest;

TEST_F(KnowledgeTest, TheFirstMemberAndWhoeverComesToACoordinatorKnowsAll) {
  sim_.Start(1);
  EXPECT_EQ(KnowledgeOf(1), Knowledge::kNothing);
  EXPECT_LT(Took([this] { return KnowledgeOf(1) == Knowledge::kAll; }), milliseconds(500));
  sim_.Start(2);
  EXPECT_LT(Took([this] { return KnowledgeOf(2) == Knowledge::kAll; }), milliseconds(500));
  EXPECT_TRUE(Knows(2, 1));
  sim_.StopInOrder(1);
  EXPECT_LT(Took([this] { return Attached(2); }), seconds(4));
  EXPECT_EQ(KnowledgeOf(2), Knowledge::kAll);
}

// Those who were below the one that is gone are still silent when a new member takes over: it has never heard of them.
// Who else is new does not count for them.
TEST_F(KnowledgeTest, ANewMemberThatTakesOverKnowsAllWhenThoseHaveComeWhomTheLeaseNames) {
  StartAll(4);
  sim_.RunFor(term());
  const std::uint32_t top = Top();
  sim_.Kill(top, /*silently=*/true);
  for (const std::uint32_t number : {9U, 8U, 7U}) {
    sim_.Start(number);
    EXPECT_TRUE(sim_.RunUntil([&] { return KnowledgeOf(number) == Knowledge::kSoon; }, milliseconds(100)));
  }
  EXPECT_GE(Took([&] { return Attached(9); }), 4 * term() / 5);
  const milliseconds took = KnowsAllWithoutGap({7, 8, 9}, {1, 2, 3, 4}, top);
  EXPECT_LT(took, term() / 3) << "it waits for nobody else";
}

TEST_F(KnowledgeTest, ThoseWhomTheLeaseNamesAndWhoDoNotComeMayBeThereUntilTheyAreGivenUp) {
  StartAll(4);
  sim_.RunFor(term());
  const std::uint32_t top = Top(), lost = NotTop();
  for (const std::uint32_t number : {top, lost}) sim_.Kill(number, /*silently=*/true);
  sim_.Start(9);
  EXPECT_GE(Took([&] { return Attached(9); }), 4 * term() / 5);
  EXPECT_EQ(KnowledgeOf(9), Knowledge::kSome);
  sim_.RunFor(3 * term() - milliseconds(200));
  EXPECT_EQ(KnowledgeOf(9), Knowledge::kSome);
  sim_.RunFor(milliseconds(400));
  EXPECT_EQ(KnowledgeOf(9), Knowledge::kAll);
}

// All leases are old then, and wall clocks differ by hours here: neither says that nobody is left.
TEST_F(KnowledgeTest, AfterALongOutageOfTheArbiterThoseWhoLiveAreWaitedFor) {
  StartAll(3);
  sim_.RunFor(term());
  const std::uint32_t top = Top();
  FailArbiter({1, 2, 3, 9});
  sim_.Kill(top, /*silently=*/true);
  sim_.RunFor(10 * term());
  FailArbiter({});
  sim_.Start(9);
  EXPECT_TRUE(sim_.RunUntil([&] { return KnowledgeOf(9) == Knowledge::kSoon; }, milliseconds(200)));
  KnowsAllWithoutGap({9}, {1, 2, 3}, top);
}

TEST_F(KnowledgeTest, ACoordinatorThatIsBackAtOnceWaitsForThoseWhomItKnew) {
  StartAll(4);
  sim_.RunFor(term());
  const std::uint32_t top = Top();
  sim_.Kill(top, /*silently=*/false);
  sim_.Start(top);
  const milliseconds took = KnowsAllWithoutGap({top}, {1, 2, 3, 4}, 0);
  EXPECT_EQ(Top(), top);
  EXPECT_LT(took, term() / 3);
}

// Its daemon and those of all others were killed, and are started again.
TEST_F(KnowledgeTest, ThoseWhoComeInAnotherLifeAreThose) {
  StartAll(3);
  sim_.RunFor(term());
  for (const std::uint32_t number : {1U, 2U, 3U}) sim_.Kill(number, /*silently=*/true);
  for (const std::uint32_t number : {1U, 2U, 3U}) sim_.Start(number);
  EXPECT_LT(KnowsAllWithoutGap({1, 2, 3}, {1, 2, 3}, 0), term() / 3);
}

// A new member is faster than those who were told that it ends.
TEST_F(KnowledgeTest, WhoFollowsOneThatHasEndedAndKnowsNobodyWaitsForThoseWhomThatOneKnew) {
  StartAll(4);
  sim_.RunFor(term());
  const std::uint32_t top = Top();
  std::vector<std::uint32_t> others;
  for (const std::uint32_t number : {1U, 2U, 3U, 4U}) {
    if (number != top) others.push_back(number);
  }
  sim_.StopInOrder(top);
  EXPECT_TRUE(sim_.RunUntil([&] { return sim_.node(top).stopped; }, term()));
  for (const std::uint32_t number : others) sim_.Pause(number, true);
  sim_.Kill(top, /*silently=*/false);
  sim_.Start(9);
  EXPECT_TRUE(sim_.RunUntil([&] { return Attached(9); }, term() / 10));
  EXPECT_EQ(KnowledgeOf(9), Knowledge::kSome);
  for (const std::uint32_t number : others) sim_.Pause(number, false);
  EXPECT_LT(KnowsAllWithoutGap({9}, {1, 2, 3, 4}, top), term() / 4);
}

TEST_F(KnowledgeTest, ThoseWhoHaveEndedTogetherWithTheirCoordinatorAreWaitedForAQuarterOfATerm) {
  StartAll(4);
  sim_.RunFor(term());
  const std::uint32_t top = Top();
  for (const std::uint32_t number : {1U, 2U, 3U, 4U}) {
    if (number != top) sim_.Kill(number, /*silently=*/false);
  }
  sim_.StopInOrder(top);
  EXPECT_TRUE(sim_.RunUntil([&] { return sim_.node(top).stopped; }, term()));
  sim_.Kill(top, /*silently=*/false);
  sim_.Start(9);
  Took([&] { return Attached(9); });
  EXPECT_EQ(KnowledgeOf(9), Knowledge::kSome);
  sim_.RunFor(term() / 4 - milliseconds(200));
  EXPECT_EQ(KnowledgeOf(9), Knowledge::kSome);
  sim_.RunFor(milliseconds(400));
  EXPECT_EQ(KnowledgeOf(9), Knowledge::kAll);
}

// It has had a table, but not one with all members.
TEST_F(KnowledgeTest, WhoHasJoinedOneThatKnewNobodyKnowsNoMoreThanThatOne) {
  StartAll(4);
  sim_.RunFor(term());
  const std::uint32_t top = Top();
  sim_.Kill(top, /*silently=*/true);
  for (const std::uint32_t number : {1U, 2U, 3U, 4U}) {
    if (number != top) sim_.Pause(number, true);
  }
  sim_.Start(9);
  Took([&] { return Attached(9); });
  sim_.Start(8);
  EXPECT_TRUE(sim_.RunUntil([&] { return KnowledgeOf(8) == Knowledge::kSome; }, term() / 4));
  sim_.RunFor(milliseconds(600));  // the lease names it, too
  sim_.Kill(9, /*silently=*/false);
  EXPECT_TRUE(sim_.RunUntil([&] { return KnowledgeOf(8) == Knowledge::kSoon; }, term() / 4));
  sim_.RunFor(term() / 2);
  EXPECT_EQ(KnowledgeOf(8), Knowledge::kSoon);
  Took([&] { return Attached(8); });
  EXPECT_EQ(KnowledgeOf(8), Knowledge::kSome);
  for (const std::uint32_t number : {1U, 2U, 3U, 4U}) sim_.Pause(number, false);
  KnowsAllWithoutGap({8}, {1, 2, 3, 4}, top);
}

// It was cut off from the others, and its table is of an epoch that is long over.
TEST_F(KnowledgeTest, WhoHasTheTableOfAnEarlierEpochDoesNotKnowTheMembersOfALaterOne) {
  StartAll(2);
  sim_.RunFor(term());
  const std::uint32_t top = Top(), cut_off = NotTop();
  for (std::uint32_t other = 1; other <= 9; ++other) {
    for (const auto& [from, to] : {std::pair(other, cut_off), std::pair(cut_off, other)}) {
      sim_.network().Block(fmt::format("10.0.0.{}:17001", from), fmt::format("10.0.0.{}:17001", to));
    }
  }
  sim_.Kill(top, /*silently=*/true);
  FailArbiter({cut_off});
  sim_.Start(8);
  Took([&] { return KnowledgeOf(8) == Knowledge::kAll; });
  sim_.Start(9);
  Took([&] { return KnowledgeOf(9) == Knowledge::kAll; });
  sim_.RunFor(term() / 6);
  sim_.Kill(8, /*silently=*/true);
  sim_.Pause(9, true);
  FailArbiter({});
  sim_.network().UnblockAll();
  EXPECT_TRUE(sim_.RunUntil([&] { return KnowledgeOf(cut_off) == Knowledge::kSoon; }, term() / 4));
  Took([&] { return Attached(cut_off); });
  EXPECT_EQ(KnowledgeOf(cut_off), Knowledge::kSome);
  sim_.Pause(9, false);
  KnowsAllWithoutGap({cut_off}, {9}, 0);
}

// Its table is of the newest epoch, and older than the lease: it was cut off before another one came.
TEST_F(KnowledgeTest, WhoHasAnOldTableOfTheSameEpochDoesNotKnowWhomTheLeaseNamesBesides) {
  StartAll(2);
  sim_.RunFor(term());
  const std::uint32_t top = Top(), cut_off = NotTop();
  for (const auto& [from, to] : {std::pair(top, cut_off), std::pair(cut_off, top)}) {
    sim_.network().Block(fmt::format("10.0.0.{}:17001", from), fmt::format("10.0.0.{}:17001", to));
  }
  sim_.RunFor(term());
  sim_.Start(9);
  Took([&] { return KnowledgeOf(9) == Knowledge::kAll; });
  sim_.RunFor(term() / 6);
  sim_.Pause(9, true);
  sim_.Kill(top, /*silently=*/true);
  Took([&] { return Attached(cut_off); });
  EXPECT_EQ(KnowledgeOf(cut_off), Knowledge::kSome);
  sim_.Pause(9, false);
  KnowsAllWithoutGap({cut_off}, {9}, 0);
}

TEST_F(KnowledgeTest, TheLeaseSaysSoonWhoHasCome) {
  StartAll(1);
  for (std::uint32_t number = 2; number <= 6; ++number) {
    sim_.Start(number);
    ASSERT_TRUE(sim_.RunUntil([&] { return Knows(1, number); }, term()));
    sim_.RunFor(term() / 20);
    const auto found = coordinator_lease::Look(sim_.arbiter());
    ASSERT_TRUE(found.ok() && found->record);
    EXPECT_EQ(found->record->members.count, number);
    EXPECT_TRUE(found->record->members.others.contains(coordinator_lease::ShortNode(SimCluster::IdOf(number))));
  }
}

TEST_F(KnowledgeTest, AMemberThatTakesOverKnowsAllAndWhoeverComesToIt) {
  StartAll(4);
  sim_.RunFor(term());
  const std::uint32_t top = Top();
  sim_.Kill(top, /*silently=*/false);
  sim_.RunFor(seconds(2));
  sim_.Start(9);
  EXPECT_TRUE(sim_.RunUntil([this] { return Attached(9); }, 2 * term()));
  EXPECT_NE(Top(), 9U) << "the others began to look before";
  EXPECT_TRUE(sim_.RunUntil([this] { return KnowledgeOf(9) == Knowledge::kAll; }, milliseconds(100)));
  for (std::uint32_t who = 1; who <= 4; ++who) {
    if (who != top) {
      EXPECT_TRUE(Knows(9, who)) << who;
    }
  }
}

TEST_F(KnowledgeTest, WithoutAnArbiterThatAnswersNoCoordinatorIsExpected) {
  StartAll(2);
  sim_.RunFor(term());
  sim_.Kill(Top(), /*silently=*/true);
  sim_.Start(8);
  FailArbiter({9});
  sim_.Start(9);
  sim_.RunFor(seconds(3));
  EXPECT_EQ(KnowledgeOf(8), Knowledge::kSoon);
  EXPECT_EQ(KnowledgeOf(9), Knowledge::kNothing);
  sim_.Hang(8, true);
  sim_.RunFor(term() / 2 + milliseconds(100));
  EXPECT_EQ(KnowledgeOf(8), Knowledge::kNothing);
  sim_.Hang(8, false);
  EXPECT_TRUE(sim_.RunUntil([this] { return KnowledgeOf(8) == Knowledge::kSoon; }, term()));
}

TEST_F(KnowledgeTest, ACoordinatorThatLivesAndCannotBeReachedIsNotWaitedFor) {
  StartAll(2);
  for (const char* other : {"10.0.0.1:17001", "10.0.0.2:17001"}) {
    sim_.network().Block(other, "10.0.0.9:17001");
    sim_.network().Block("10.0.0.9:17001", other);
  }
  sim_.Start(9);
  sim_.RunFor(seconds(4));
  for (int i = 0; i < 20; ++i) {
    sim_.RunFor(seconds(1));
    EXPECT_EQ(KnowledgeOf(9), Knowledge::kNothing) << i;
  }
  sim_.network().UnblockAll();
  EXPECT_TRUE(sim_.RunUntil([this] { return KnowledgeOf(9) == Knowledge::kAll; }, term()));
}

// Nor is anybody waited for afterwards.
TEST_F(KnowledgeTest, WhoCoordinatedAloneLeavesNobodyToBeWaitedFor) {
  StartAll(1);
  sim_.RunFor(term());
  sim_.Kill(1, /*silently=*/true);
  sim_.Start(9);
  for (int i = 0; i < 11; ++i) {
    sim_.RunFor(seconds(1));
    EXPECT_EQ(KnowledgeOf(9), Knowledge::kNothing) << i;
  }
  EXPECT_TRUE(sim_.RunUntil([this] { return Attached(9); }, term()));
  EXPECT_EQ(KnowledgeOf(9), Knowledge::kAll);
}

}  // namespace
}  // namespace cairn
