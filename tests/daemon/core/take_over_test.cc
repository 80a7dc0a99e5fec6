// A job that comes back on new nodes just after the node was lost that coordinated those of the run: until another one
// coordinates, the new nodes do not know who has what. daemon/core/nodes.h (WhenAllKnown), daemon/peers/README.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/take_over_fixture.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

class LostCoordinatorTest : public TakeOverTest, public ::testing::WithParamInterface<bool> {};

// Its process dies, or its node falls silent, so that the others notice half a term later.
TEST_P(LostCoordinatorTest, TheNewNodesGoOnFromTheNewestStepThatLives) {
  ASSERT_NO_FATAL_FAILURE(MakeSteps(1, 2));
  if (GetParam()) nodes.network.Vanish(nodes[0].address());
  nodes[0].Kill();
  const milliseconds took = OpenOnNewNodes();
  EXPECT_GE(took, kTerm) << "it was not waited for a take-over";
  EXPECT_LE(took, 2 * kTerm);
  const Back back = RestoreLatest();
  EXPECT_EQ(back.id, newest);
  EXPECT_EQ(back.step, kNewest);
  for (Rank rank = 0; rank < kMany; ++rank) EXPECT_EQ(back.ranks[rank].tier, local::TIER_PARTNER) << rank;
}

// Half of the ranks were on it: theirs are made of what the other node keeps.
TEST_P(LostCoordinatorTest, WhatWasOnItIsMadeAnewThere) {
  ASSERT_NO_FATAL_FAILURE(MakeSteps(1, 0));
  if (GetParam()) nodes.network.Vanish(nodes[0].address());
  nodes[0].Kill();
  OpenOnNewNodes();
  const Back back = RestoreLatest();
  EXPECT_EQ(back.id, newest);
  EXPECT_EQ(back.step, kNewest);
  for (Rank rank = 0; rank < kMany; ++rank) {
    EXPECT_EQ(back.ranks[rank].tier, rank % 2 == 0 ? local::TIER_PARTNER : local::TIER_REBUILT) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(WithOrWithoutAWord, LostCoordinatorTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "ItVanishes" : "ItDies"; });

// The nodes of the job have known each other: they wait as always.
TEST_F(TakeOverTest, WhoHasATableWaitsForNobody) {
  ASSERT_NO_FATAL_FAILURE(MakeSteps(1, 2));
  nodes[0].Kill();
  const auto began = nodes.now();
  RanksAt(1, 2);
  ASSERT_NO_FATAL_FAILURE(OpenMany("slurm:7.0.1"));
  EXPECT_LE(nodes.now() - began, seconds(9));
  const Back back = RestoreLatest();
  EXPECT_EQ(back.step, kNewest);
  for (Rank rank = 0; rank < kMany; ++rank) EXPECT_LE(back.ranks[rank].tier, local::TIER_PARTNER) << rank;
}

TEST_F(TakeOverTest, ACoordinatorThatIsThereOrHasEndedOrNeverWasCostsNothing) {
  EXPECT_LE(OpenOnNewNodes("job.1", /*second=*/3), kSoon) << "the first node of the run";
  Close();
  nodes.Pass(seconds(3));
  for (const int node : {3, 4}) nodes[node].Kill();
  EXPECT_LE(OpenOnNewNodes("job.2", /*second=*/3), kSoon) << "it finds itself";
  Close();
  for (const int node : {1, 2}) nodes[node].Start();
  nodes.Pass(seconds(1));
  RanksAt(1, 2);
  const auto began = nodes.now();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.3"));
  EXPECT_LE(nodes.now() - began, kSoon) << "it is there";
  Close();
  for (const int node : {1, 2, 3, 4}) ASSERT_NO_FATAL_FAILURE(EndInGoodOrder(node));
  nodes[0].Start();
  for (Rank rank = 0; rank < kMany; ++rank) moved_to[rank] = 0;
  const auto later = nodes.now();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.4"));
  EXPECT_LE(nodes.now() - later, kSoon) << "it has ended; the node that made the launch is looked for";
  EXPECT_THAT(nodes[0].Warnings(), Not(HasSubstr("not heard of")));
}

// Its daemons were killed with the job, long ago. That cannot be told from an outage of the prefix: they are waited
// for, and then the launch begins.
TEST_F(TakeOverTest, WhereAllOfSeveralNodesAreGoneTheyAreWaitedForInBounds) {
  ASSERT_NO_FATAL_FAILURE(MakeSteps(1, 2));
  for (const int node : {0, 1, 2}) nodes[node].Kill();
  PassFor(4 * kTerm);
  const milliseconds took = OpenOnNewNodes("slurm:7.0.1", /*second=*/3);
  EXPECT_GE(took, kTerm);
  EXPECT_LE(took, 2 * kTerm);
  EXPECT_EQ(RestoreLatest().step, kOnThePrefix);
  EXPECT_THAT(nodes[3].Warnings(), HasSubstr("have not come"));
}

// It lives, and cannot read who coordinates: nobody asks it.
TEST_F(TakeOverTest, ANodeThatDoesNotReachThePrefixIsNotPassedOverInSilence) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
  nodes[0].Kill();
  nodes[1].PrefixHangs(true);
  EXPECT_LE(OpenOnNewNodes("slurm:7.0.1", /*second=*/3), 2 * kTerm);
  EXPECT_EQ(RestoreLatest().step, kOnThePrefix);
  EXPECT_THAT(nodes[3].Warnings(), HasSubstr("have not come"));
  nodes[1].PrefixHangs(false);
}

TEST_F(TakeOverTest, ARunOnOneNodeThatGoesOnOnAnotherWaitsForNobody) {
  ASSERT_NO_FATAL_FAILURE(MakeStepOnOneNode());
  nodes[0].Kill();
  EXPECT_LE(OpenOnNewNodes("slurm:7.0.1", /*second=*/3), seconds(8)) << "the dead node, and nobody else";
  EXPECT_EQ(RestoreLatest().step, kOnThePrefix);
  EXPECT_THAT(nodes[3].Warnings(), HasSubstr("no coordinator of its nodes was found"));
}

// The nodes that have the newest step live, and could not reach the prefix for long.
TEST_F(TakeOverTest, AfterALongOutageOfThePrefixTheNewNodesGoOnFromTheNewestStepThatLives) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
  nodes[0].Kill();
  nodes[1].PrefixHangs(true);
  nodes.Pass(4 * kTerm);
  nodes[1].PrefixHangs(false);
  OpenOnNewNodes("slurm:7.0.1", /*second=*/3);
  EXPECT_EQ(RestoreLatest().step, kNewest);
}

// Its daemon coordinates again at once, and has forgotten everybody.
TEST_F(TakeOverTest, ACoordinatorThatIsBackAtOnceGoesOnFromWhatOthersHave) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
  nodes[0].Kill();
  nodes[0].cache.Restart(3);
  nodes[0].Start();
  RanksAt(0, 0);
  const auto began = nodes.now();
  ASSERT_NO_FATAL_FAILURE(OpenMany("slurm:7.0.1"));
  EXPECT_LE(nodes.now() - began, seconds(9));
  EXPECT_EQ(RestoreLatest().step, kNewest);
}

// Its daemon died together with the coordinator. What an older launch has left in parts is looked for until the other
// nodes are known, and that takes longer than a look does as a rule.
TEST_F(TakeOverTest, AHomeThatIsStartedAgainMeanwhileLooksForPartsUntilTheOthersAreKnown) {
  for (int i = 0; i < nodes.count(); ++i) nodes[i].config.redundancy.scheme = "single";
  ASSERT_NO_FATAL_FAILURE(CoordinateAtZero());
  for (const int node : {1, 2}) nodes[node].Start();
  RanksAt(1, 2);
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  ASSERT_NO_FATAL_FAILURE(MakeStepOnThePrefix(1));
  newest = Checkpoint(kNewest);
  EXPECT_SAYS(clients[0]->Wait(newest, local::LOCAL), local::OK, "");
  Close();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  nodes[0].Kill();
  ASSERT_NO_FATAL_FAILURE(KillNode(1));
  nodes[1].Start();
  const auto began = nodes.now();
  ASSERT_NO_FATAL_FAILURE(ComeAgain(0));
  EXPECT_EQ(clients[0]->Latest(60'000).latest().step(), kNewest);
  EXPECT_GT(nodes.now() - began, seconds(10)) << "a look would have ended by then";
}

// The wait for a take-over ends with the arbiter's word. The opening needs the prefix; when that is back, so is the
// word.
TEST_F(TakeOverTest, APrefixThatHangsMeanwhileIsWaitedForAndThenTheOthersAreAskedOnceMore) {
  ASSERT_NO_FATAL_FAILURE(MakeSteps(1, 2));
  nodes[0].Kill();
  for (const int node : {3, 4}) nodes[node].Start();
  RanksAt(3, 4);
  const std::uint64_t call = SendOpen(120'000);
  nodes.Pass(seconds(3));
  nodes[3].PrefixHangs(true);
  nodes.Pass(seconds(20));
  EXPECT_FALSE(clients[0]->HasReply(call));
  nodes[3].PrefixHangs(false);
  const auto back_at = nodes.now();
  ASSERT_SAYS(clients[0]->Next(call), local::OK, "");
  EXPECT_LE(nodes.now() - back_at, 2 * kTerm);
  ASSERT_NO_FATAL_FAILURE(OpenOtherRanks());
  const Back back = RestoreLatest();
  EXPECT_EQ(back.id, newest);
  EXPECT_EQ(back.step, kNewest);
}

// What one node has whole is brought before the launch begins, or never.
TEST_F(TakeOverTest, AfterASilenceOfTheArbiterTheOthersAreAskedAgain) {
  ASSERT_NO_FATAL_FAILURE(GoesOnAfterSilences(1));
}

TEST_F(TakeOverTest, AfterEachSilenceOfTheArbiterTheOthersAreAskedAgain) {
  ASSERT_NO_FATAL_FAILURE(GoesOnAfterSilences(2));
}

// Each look takes longer than an opening is patient, and none is a silence.
TEST_F(TakeOverTest, WhereThePrefixIsSlowTheOthersAreNotAskedForEver) {
  ASSERT_NO_FATAL_FAILURE(LeaveStepOnThePrefix());
  EXPECT_LE(OpenWherePrefixAnswersEvery(seconds(8), 180'000), seconds(45));
  EXPECT_THAT(nodes[3].Warnings(), HasSubstr("no coordinator of its nodes was found"));
}

// There the launch begins in time, and at once.
TEST_F(TakeOverTest, WhereThePrefixFallsSilentAgainAndAgainTheOthersAreAskedUntilTheLaunchMustBegin) {
  ASSERT_NO_FATAL_FAILURE(LeaveStepOnThePrefix());
  EXPECT_LE(OpenWherePrefixAnswersEvery(seconds(19), 60'000), seconds(60));
  EXPECT_THAT(nodes[3].Warnings(), HasSubstr("no coordinator of its nodes was found"));
}

TEST_F(TakeOverTest, APrefixThatHangsForGoodEndsTheOpeningAtItsDeadline) {
  ASSERT_NO_FATAL_FAILURE(MakeSteps(1, 2));
  nodes[0].Kill();
  nodes[3].Start();
  const std::uint64_t call = SendOpen(30'000);
  nodes.Pass(seconds(3));
  nodes[3].PrefixHangs(true);
  nodes.Pass(seconds(26));
  EXPECT_FALSE(clients[0]->HasReply(call));
  nodes.Pass(seconds(2));
  ASSERT_TRUE(clients[0]->HasReply(call));
  EXPECT_SAYS(clients[0]->Next(call), local::DEADLINE_EXCEEDED, "");
}

// A node that has served the run may begin without the prefix: no sooner and no later than with a coordinator.
TEST_F(TakeOverTest, WithoutThePrefixALaunchBeginsAsAlways) {
  ASSERT_NO_FATAL_FAILURE(MakeSteps(1, 2));
  nodes[0].Kill();
  nodes[1].PrefixHangs(true);
  const auto began = nodes.now();
  RanksAt(1, 1);
  ASSERT_NO_FATAL_FAILURE(OpenMany("slurm:7.0.1"));
  EXPECT_LE(nodes.now() - began, seconds(10));
  EXPECT_THAT(nodes[1].Warnings(), HasSubstr("begins without it"));
  EXPECT_EQ(clients[0]->Latest().latest().step(), kNewest);
  nodes[1].PrefixHangs(false);
}

}  // namespace
}  // namespace cairn
