// A job that comes back on new nodes just after the node was lost that coordinated those of the run: until another one
// coordinates, the new nodes do not know who has what. daemon/core/nodes.h (WhenAllKnown), daemon/peers/README.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/redundancy_fixture.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr seconds kTerm(12), kSoon(4);  // sooner than a table is waited for
constexpr std::uint64_t kOnThePrefix = 3, kNewest = 5;

// Node 0 coordinates. Nodes 1 and 2 have the ranks of the job; nodes 3 and 4 are for the next one.
class TakeOverTest : public RedundancyTest {
 protected:
  TakeOverTest() : RedundancyTest(5) {}
  void SetUp() override {
    for (int i = 0; i < nodes.count(); ++i) {
      nodes[i].config.flush.every = 0;
      nodes[i].config.lease.term_ms = 10'000;
      nodes[i].config.peers.term_ms = static_cast<std::uint64_t>(milliseconds(kTerm).count());
      nodes[i].config.redundancy.scheme = "partner";
    }
  }
  void TearDown() override {
    if (nodes[3].running()) nodes[3].PrefixHangs(false);
    RedundancyTest::TearDown();
  }
  void RanksAt(int first, int second) {
    for (Rank rank = 0; rank < kMany; ++rank) moved_to[rank] = rank % 2 == 0 ? first : second;
  }
  void CoordinateAtZero() {
    nodes[0].Start();
    FakeClient before(nodes[0]);
    ASSERT_SAYS(before.Open({.key = "job.0"}), local::OK, "");
    ASSERT_SAYS(before.Close(), local::OK, "");
    nodes.Pass(seconds(1));
  }
  // One step is on the prefix, the newest one in the caches of the job's nodes only.
  void MakeSteps(int first, int second) {
    ASSERT_NO_FATAL_FAILURE(CoordinateAtZero());
    for (const int node : {1, 2}) nodes[node].Start();
    RanksAt(first, second);
    ASSERT_NO_FATAL_FAILURE(OpenMany("slurm:7.0.0"));
    const DatasetId old = Redundant(kOnThePrefix);
    ASSERT_EQ(nodes[first].Flush(old).code(), local::OK);
    EXPECT_SAYS(clients[0]->Wait(old, local::PREFIX), local::OK, "");
    newest = Redundant(kNewest);
    nodes.Pass(seconds(3));
    clients.clear();
  }
  // The same, and one node has all of it.
  void MakeStepsOnNode(int node) {
    for (int i = 0; i < nodes.count(); ++i) nodes[i].config.redundancy.scheme = "single";
    ASSERT_NO_FATAL_FAILURE(CoordinateAtZero());
    nodes[node].Start();
    RanksAt(node, node);
    ASSERT_NO_FATAL_FAILURE(OpenMany("slurm:7.0.0"));
    const DatasetId old = Checkpoint(kOnThePrefix);
    ASSERT_EQ(nodes[node].Flush(old).code(), local::OK);
    EXPECT_SAYS(clients[0]->Wait(old, local::PREFIX), local::OK, "");
    newest = Checkpoint(kNewest);
    EXPECT_SAYS(clients[0]->Wait(newest, local::LOCAL), local::OK, "");
    nodes.Pass(seconds(3));
    clients.clear();
  }
  void CutOffFromTheCoordinator(int node) {
    nodes.network.Block(nodes[0].address(), nodes[node].address());
    nodes.network.Block(nodes[node].address(), nodes[0].address());
    PassFor(kTerm);
  }
  void EndInGoodOrder(int node) {
    const auto ended = nodes[node].Quiesce();
    ASSERT_TRUE(nodes.AdvanceUntil([&] { return ended->has_value(); }));
    PassFor(milliseconds(500));  // then the others know it
    nodes[node].Kill();
  }
  void GoesOnAfterSilences(int count) {
    ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
    nodes[0].Kill();
    nodes[3].Start();
    RanksAt(3, 3);
    const std::uint64_t call = SendOpen(180'000);
    nodes.Pass(seconds(3));
    for (int i = 0; i < count; ++i) {
      for (const int node : {1, 3}) nodes[node].PrefixHangs(true);
      nodes.Pass(seconds(20));
      EXPECT_FALSE(clients[0]->HasReply(call));
      for (const int node : {1, 3}) nodes[node].PrefixHangs(false);
      nodes.Pass(milliseconds(500));
    }
    ASSERT_SAYS(clients[0]->Next(call), local::OK, "");
    for (Rank rank = 1; rank < kMany; ++rank) {
      clients.push_back(std::make_unique<FakeClient>(nodes[3]));
      ASSERT_SAYS(clients.back()->Open({.rank = rank, .nranks = kMany, .key = "slurm:7.0.1"}), local::OK, "");
    }
    EXPECT_EQ(RestoreLatest().step, kNewest);
  }
  void PassFor(milliseconds time) {
    nodes.loop().After(time, [] {});  // else it goes on to a daemon's next timer, or stands still
    nodes.Pass(time);
  }
  // What a run on one node has left, whose daemon lives, coordinates, and cannot be reached.
  void LeaveStepOnThePrefix() {
    nodes[0].Start();
    RanksAt(0, 0);
    ASSERT_NO_FATAL_FAILURE(OpenMany("slurm:7.0.0"));
    const DatasetId old = Checkpoint(kOnThePrefix);
    ASSERT_EQ(nodes[0].Flush(old).code(), local::OK);
    EXPECT_SAYS(clients[0]->Wait(old, local::PREFIX), local::OK, "");
    nodes.Pass(seconds(1));
    clients.clear();
    nodes.network.Vanish(nodes[0].address());
    nodes[3].Start();
  }
  // The prefix answers node 3 only every so often, but then all that was asked.
  milliseconds OpenWherePrefixAnswersEvery(milliseconds pause, std::uint32_t deadline_ms) {
    const auto began = nodes.now();
    nodes[3].PrefixHangs(true);
    const std::uint64_t call = SendOpen(deadline_ms);
    while (!clients[0]->HasReply(call)) {
      PassFor(pause);
      nodes[3].PrefixHangs(false);
      PassFor(milliseconds(1));
      nodes[3].PrefixHangs(true);
    }
    EXPECT_SAYS(clients[0]->Next(call), local::OK, "");
    return std::chrono::duration_cast<milliseconds>(nodes.now() - began);
  }
  // On nodes 3 and 4, whose daemons are new.
  milliseconds OpenOnNewNodes(const std::string& key = "slurm:7.0.1", int second = 4) {
    const auto began = nodes.now();
    for (const int node : {3, 4}) {
      if (!nodes[node].running()) nodes[node].Start();
    }
    RanksAt(3, second);
    OpenMany(key);
    return std::chrono::duration_cast<milliseconds>(nodes.now() - began);
  }
  // The first rank.
  std::uint64_t SendOpen(std::uint32_t deadline_ms, int node = 3) {
    clients.push_back(std::make_unique<FakeClient>(nodes[node]));
    local::Request request;
    request.set_deadline_ms(deadline_ms);
    request.mutable_open()->set_prefix(nodes[node].prefix());
    request.mutable_open()->set_nranks(kMany);
    request.mutable_open()->set_launch_key("slurm:7.0.1");
    return clients[0]->Send(std::move(request));
  }

  DatasetId newest = 0;
};

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

// --- Nodes that are not heard, though a coordinator is there ---

TEST_F(TakeOverTest, AMissingNodeThatDoesNotAnswerIsWaitedForInBoundsAndNamed) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
  nodes.network.Vanish(nodes[1].address());
  PassFor(kTerm);
  EXPECT_LE(OpenOnNewNodes("slurm:7.0.1", /*second=*/3), seconds(8));
  EXPECT_EQ(RestoreLatest().step, kOnThePrefix);
  EXPECT_THAT(nodes[3].Warnings(), HasSubstr("not heard of " + nodes[1].host() + " (" + nodes[1].address()));
}

// Only the coordinator does not reach it.
TEST_F(TakeOverTest, WhatAMissingNodeHasIsBroughtIfItAnswers) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
  CutOffFromTheCoordinator(1);
  EXPECT_LE(OpenOnNewNodes("slurm:7.0.1", /*second=*/3), seconds(8));
  EXPECT_EQ(RestoreLatest().step, kNewest);
  EXPECT_THAT(nodes[3].Warnings(), Not(HasSubstr("not heard of")));
}

TEST_F(TakeOverTest, PartsOfAMissingNodeAreReadIfItAnswers) {
  ASSERT_NO_FATAL_FAILURE(MakeSteps(1, 2));
  CutOffFromTheCoordinator(1);
  OpenOnNewNodes();
  const Back back = RestoreLatest();
  EXPECT_EQ(back.step, kNewest);
  for (Rank rank = 0; rank < kMany; ++rank) EXPECT_EQ(back.ranks[rank].tier, local::TIER_PARTNER) << rank;
}

// Nobody knows its node any more.
TEST_F(TakeOverTest, TheNodeThatMadeTheNewestLaunchAndHasLeftSomethingBehindIsNamed) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
  ASSERT_NO_FATAL_FAILURE(EndInGoodOrder(1));
  EXPECT_LE(OpenOnNewNodes("slurm:7.0.1", /*second=*/3), kSoon);
  EXPECT_EQ(RestoreLatest().step, kOnThePrefix);
  EXPECT_THAT(nodes[3].Warnings(), HasSubstr("not heard of " + nodes[1].host() + " (process "));
}

TEST_F(TakeOverTest, ANodeThatHasEndedAndLeftNothingBehindIsNotNamed) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
  ASSERT_EQ(nodes[1].Flush(newest).code(), local::OK);
  ASSERT_TRUE(nodes.AdvanceUntil([this] { return nodes[1].Status().runs(0).only_here() == 0; }));
  nodes.Pass(seconds(1));
  ASSERT_NO_FATAL_FAILURE(EndInGoodOrder(1));
  EXPECT_LE(OpenOnNewNodes("slurm:7.0.1", /*second=*/3), kSoon);
  EXPECT_EQ(RestoreLatest().step, kNewest);
  EXPECT_THAT(nodes[3].Warnings(), Not(HasSubstr("not heard of")));
}

TEST_F(TakeOverTest, ANodeWhoseLaunchIsOverIsNamedIfItsCacheAloneHasTheNewestStep) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
  PassFor(seconds(30));  // its ranks do not come again
  ASSERT_NO_FATAL_FAILURE(EndInGoodOrder(1));
  EXPECT_LE(OpenOnNewNodes("slurm:7.0.1", /*second=*/3), kSoon);
  EXPECT_EQ(RestoreLatest().step, kOnThePrefix);
  EXPECT_THAT(nodes[3].Warnings(), HasSubstr("not heard of " + nodes[1].host() + " (process "));
}

TEST_F(TakeOverTest, ANodeWhoseLastStepWasRemovedWhenItsLaunchWasOverIsNotNamed) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
  PassFor(seconds(30));
  ASSERT_EQ(nodes[1].Remove(newest).code(), local::OK);
  PassFor(seconds(1));
  ASSERT_NO_FATAL_FAILURE(EndInGoodOrder(1));
  EXPECT_LE(OpenOnNewNodes("slurm:7.0.1", /*second=*/3), kSoon);
  EXPECT_EQ(RestoreLatest().step, kOnThePrefix);
  EXPECT_THAT(nodes[3].Warnings(), Not(HasSubstr("not heard of")));
}

// Its launch is over, and its daemon was started again; the node that has the other parts was not.
TEST_F(TakeOverTest, ANodeThatDoesNotKnowWhereAllPartsOfItsNewestStepAreIsNamed) {
  ASSERT_NO_FATAL_FAILURE(MakeSteps(1, 2));
  PassFor(seconds(30));  // its ranks do not come again
  for (const int node : {1, 2}) nodes[node].Kill();
  nodes[1].cache.Restart(3);
  nodes[1].Start();
  PassFor(4 * kTerm);
  ASSERT_NO_FATAL_FAILURE(EndInGoodOrder(1));
  EXPECT_LE(OpenOnNewNodes("slurm:7.0.1", /*second=*/3), kSoon);
  EXPECT_EQ(RestoreLatest().step, kOnThePrefix);
  EXPECT_THAT(nodes[3].Warnings(), HasSubstr("not heard of " + nodes[1].host() + " (process "));
}

// Its launch has not ended.
TEST_F(TakeOverTest, TheNodeThatMadeTheNewestLaunchAndWasLostLongAgoIsNamed) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
  RanksAt(1, 1);
  ASSERT_NO_FATAL_FAILURE(OpenMany("slurm:7.0.1"));
  nodes.network.Vanish(nodes[1].address());
  nodes[1].Kill();
  clients.clear();
  PassFor(5 * kTerm);
  OpenOnNewNodes("slurm:7.0.2", /*second=*/3);
  EXPECT_EQ(RestoreLatest().step, kOnThePrefix);
  EXPECT_THAT(nodes[3].Warnings(), HasSubstr("not heard of " + nodes[1].host() + " (process "));
}

TEST_F(TakeOverTest, ARunOnOneNodeThatGoesOnOnAnotherWaitsForNobody) {
  nodes[0].Start();
  RanksAt(0, 0);
  ASSERT_NO_FATAL_FAILURE(OpenMany("slurm:7.0.0"));
  const DatasetId old = Checkpoint(kOnThePrefix);
  ASSERT_EQ(nodes[0].Flush(old).code(), local::OK);
  EXPECT_SAYS(clients[0]->Wait(old, local::PREFIX), local::OK, "");
  nodes.Pass(seconds(1));
  clients.clear();
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
  const DatasetId old = Checkpoint(kOnThePrefix);
  ASSERT_EQ(nodes[1].Flush(old).code(), local::OK);
  EXPECT_SAYS(clients[0]->Wait(old, local::PREFIX), local::OK, "");
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
  for (Rank rank = 1; rank < kMany; ++rank) {
    clients.push_back(std::make_unique<FakeClient>(nodes[NodeOf(rank)]));
    ASSERT_SAYS(clients.back()->Open({.rank = rank, .nranks = kMany, .key = "slurm:7.0.1"}), local::OK, "");
  }
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

TEST_F(TakeOverTest, AnOpeningThatCannotWaitSoLongSaysThatItsStepMayBeOlder) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
  nodes[0].Kill();
  nodes[3].Start();
  RanksAt(3, 3);
  const std::uint64_t call = SendOpen(10'000);
  ASSERT_SAYS(clients[0]->Next(call), local::OK, "");
  EXPECT_THAT(nodes[3].Warnings(), HasSubstr("begins before all was heard"));
}

// It would have begun without the prefix before the others were heard. Then the prefix answered, and they are asked
// again.
TEST_F(TakeOverTest, WhatWasNotHeardInTimeAndWasThenIsNotTold) {
  for (int i = 0; i < nodes.count(); ++i) nodes[i].config.lease.term_ms = 9'000;
  ASSERT_NO_FATAL_FAILURE(MakeSteps(1, 2));
  nodes.network.Block(nodes[1].address(), nodes[2].address());
  nodes[1].PrefixHangs(true);
  const std::uint64_t call = SendOpen(60'000, /*node=*/1);
  PassFor(milliseconds(2200));  // others are being asked, for 2 s; the lease holds for 7.5 s to 9 s
  nodes[1].PrefixHangs(false);
  ASSERT_SAYS(clients[0]->Next(call), local::OK, "");
  EXPECT_THAT(nodes[1].Warnings(), HasSubstr("not heard of " + nodes[2].host()));
  EXPECT_THAT(nodes[1].Warnings(), Not(HasSubstr("begins before all was heard")));
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

TEST_F(TakeOverTest, ALaunchThatBeginsWithoutThePrefixNamesWhoWasNotHeard) {
  ASSERT_NO_FATAL_FAILURE(MakeSteps(1, 2));
  nodes.network.Vanish(nodes[2].address());
  nodes[1].PrefixHangs(true);
  RanksAt(1, 1);
  ASSERT_NO_FATAL_FAILURE(OpenMany("slurm:7.0.1"));
  EXPECT_THAT(nodes[1].Warnings(), HasSubstr("begins without it"));
  EXPECT_THAT(nodes[1].Warnings(), HasSubstr("not heard of " + nodes[2].host()));
  nodes[1].PrefixHangs(false);
}

TEST_F(TakeOverTest, ALaunchThatMustBeginWithoutThePrefixBeforeAllWereHeardSaysSo) {
  for (int i = 0; i < nodes.count(); ++i) nodes[i].config.lease.term_ms = 9'000;
  ASSERT_NO_FATAL_FAILURE(MakeSteps(1, 2));
  nodes.network.Block(nodes[1].address(), nodes[2].address());
  nodes[1].PrefixHangs(true);
  RanksAt(1, 1);
  ASSERT_NO_FATAL_FAILURE(OpenMany("slurm:7.0.1"));
  EXPECT_THAT(nodes[1].Warnings(), HasSubstr("begins without it"));
  EXPECT_THAT(nodes[1].Warnings(), HasSubstr("begins before all was heard"));
  nodes[1].PrefixHangs(false);
}

}  // namespace
}  // namespace cairn
