// Nodes of which nothing is heard when a launch begins: they are waited for within bounds, and a warning names them.
// README.md of daemon/core, "What only another node has".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "storage/place/prefix/lease.h"
#include "storage/place/prefix/prefix.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/simulated_nodes.h"
#include "tests/daemon/core/take_over_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

class UnheardNodesTest : public TakeOverTest {
 protected:
  // Of another job. One step is on the prefix, the newest one in the caches of nodes 1 and 2, in parts.
  void MakeStepsInParts() {
    for (int i = 0; i < nodes.count(); ++i) nodes[i].config.redundancy.scheme = "single";
    ASSERT_NO_FATAL_FAILURE(CoordinateAtZero());
    for (const int node : {1, 2}) nodes[node].Start();
    RanksAt(1, 2);
    ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
    ASSERT_NO_FATAL_FAILURE(MakeStepOnThePrefix(1));
    newest = Checkpoint(kNewest);
    for (const auto& client : clients) EXPECT_SAYS(client->Wait(newest, local::LOCAL), local::OK, "");
    Close();
  }
  // As if the daemon that wrote the newest launch's lease had written this.
  void ChangeLease(const std::function<void(LeaseRecord&)>& change) {
    ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::Open(nodes.prefix, SimulatedNodes::kPrefix));
    ASSERT_OK_AND_ASSIGN(const auto launch, prefix->NewestLaunch());
    ASSERT_TRUE(launch);
    ASSERT_OK_AND_ASSIGN(const auto seen, prefix->FindLease(launch->id));
    ASSERT_TRUE(seen && seen->record);
    LeaseRecord lease = *seen->record;
    change(lease);
    ASSERT_OK(prefix->WriteLease(lease));
  }
};

TEST_F(UnheardNodesTest, AMissingNodeThatDoesNotAnswerIsWaitedForInBoundsAndNamed) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
  nodes.network.Vanish(nodes[1].address());
  PassFor(kTerm);
  EXPECT_LE(OpenOnNewNodes("slurm:7.0.1", /*second=*/3), seconds(8));
  EXPECT_EQ(RestoreLatest().step, kOnThePrefix);
  EXPECT_THAT(nodes[3].Warnings(), HasSubstr("not heard of " + nodes[1].host() + " (" + nodes[1].address()));
}

// Only the coordinator does not reach it.
TEST_F(UnheardNodesTest, WhatAMissingNodeHasIsBroughtIfItAnswers) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
  CutOffFromTheCoordinator(1);
  EXPECT_LE(OpenOnNewNodes("slurm:7.0.1", /*second=*/3), seconds(8));
  EXPECT_EQ(RestoreLatest().step, kNewest);
  EXPECT_THAT(nodes[3].Warnings(), Not(HasSubstr("not heard of")));
}

TEST_F(UnheardNodesTest, PartsOfAMissingNodeAreReadIfItAnswers) {
  ASSERT_NO_FATAL_FAILURE(MakeSteps(1, 2));
  CutOffFromTheCoordinator(1);
  OpenOnNewNodes();
  const Back back = RestoreLatest();
  EXPECT_EQ(back.step, kNewest);
  for (Rank rank = 0; rank < kMany; ++rank) EXPECT_EQ(back.ranks[rank].tier, local::TIER_PARTNER) << rank;
}

// The node of the ranks whose parts are lost has not heard the missing node itself: it believes the home.
TEST_F(UnheardNodesTest, PartsAreMadeAnewOfWhatAMissingNodeKeepsIfItAnswers) {
  ASSERT_NO_FATAL_FAILURE(MakeSteps(1, 2));
  nodes[2].Kill();
  CutOffFromTheCoordinator(1);
  OpenOnNewNodes();
  const Back back = RestoreLatest();
  EXPECT_EQ(back.id, newest);
  EXPECT_EQ(back.step, kNewest);
  for (Rank rank = 0; rank < kMany; ++rank) {
    EXPECT_EQ(back.ranks[rank].tier, rank % 2 == 0 ? local::TIER_PARTNER : local::TIER_REBUILT) << rank;
  }
  EXPECT_NE(FindFile(nodes[4], newest, "-Rank1.fti"), "") << "it was made at the home";
}

// Nobody knows its node any more.
TEST_F(UnheardNodesTest, TheNodeThatMadeTheNewestLaunchAndHasLeftSomethingBehindIsNamed) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
  EXPECT_EQ(GoOnAfterTheEndOf(1), kOnThePrefix);
  EXPECT_THAT(nodes[3].Warnings(), HasSubstr(UnheardMaker(1)));
}

TEST_F(UnheardNodesTest, ANodeThatHasEndedAndLeftNothingBehindIsNotNamed) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
  ASSERT_EQ(nodes[1].Flush(newest).code(), local::OK);
  ASSERT_TRUE(nodes.AdvanceUntil([this] { return nodes[1].Status().runs(0).only_here() == 0; }));
  nodes.Pass(seconds(1));
  EXPECT_EQ(GoOnAfterTheEndOf(1), kNewest);
  EXPECT_THAT(nodes[3].Warnings(), Not(HasSubstr("not heard of")));
}

// What it says of the caches counts once it has ended: until then the launch may make the next step.
TEST_F(UnheardNodesTest, ANodeWhoseLeaseHasNotEndedIsNamedWhateverThatSays) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
  EndInGoodOrder(1);
  ASSERT_NO_FATAL_FAILURE(ChangeLease([](LeaseRecord& lease) {
    lease.state = LeaseRecord::State::kLive;
    lease.what = lease::kLeftNothing;
  }));
  OpenOnNewNodes("slurm:7.0.1", /*second=*/3);
  EXPECT_EQ(RestoreLatest().step, kOnThePrefix);
  EXPECT_THAT(nodes[3].Warnings(), HasSubstr(UnheardMaker(1)));
}

TEST_F(UnheardNodesTest, ANodeWhoseLaunchIsOverIsNamedIfItsCacheAloneHasTheNewestStep) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
  PassFor(seconds(30));  // its ranks do not come again
  EXPECT_EQ(GoOnAfterTheEndOf(1), kOnThePrefix);
  EXPECT_THAT(nodes[3].Warnings(), HasSubstr(UnheardMaker(1)));
}

TEST_F(UnheardNodesTest, ANodeWhoseLastStepWasRemovedWhenItsLaunchWasOverIsNotNamed) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
  PassFor(seconds(30));
  ASSERT_EQ(nodes[1].Remove(newest).code(), local::OK);
  PassFor(seconds(1));
  EXPECT_EQ(GoOnAfterTheEndOf(1), kOnThePrefix);
  EXPECT_THAT(nodes[3].Warnings(), Not(HasSubstr("not heard of")));
}

// Of an older release, or of a step that has left the cache since.
TEST_F(UnheardNodesTest, ADaemonThatIsStartedAgainSaysThatNothingIsLeftIfItsLeaseDoesNot) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
  ASSERT_EQ(nodes[1].Flush(newest).code(), local::OK);
  PassFor(seconds(30));
  for (const char* before : {"", "dataset 2 (step 5) is in caches of nodes only"}) {
    nodes[1].Kill();
    nodes[1].cache.Restart(3);
    ASSERT_NO_FATAL_FAILURE(ChangeLease([before](LeaseRecord& lease) {
      EXPECT_EQ(lease.what, lease::kLeftNothing);
      lease.what = before;
    })) << before;
    nodes[1].Start();
    PassFor(kTerm);
  }
  EXPECT_EQ(GoOnAfterTheEndOf(1), kNewest);
  EXPECT_THAT(nodes[3].Warnings(), Not(HasSubstr("not heard of")));
}

// Its launch is over, and its daemon was started again; the node that has the other parts was not.
TEST_F(UnheardNodesTest, ANodeThatDoesNotKnowWhereAllPartsOfItsNewestStepAreIsNamed) {
  ASSERT_NO_FATAL_FAILURE(MakeSteps(1, 2));
  PassFor(seconds(30));  // its ranks do not come again
  for (const int node : {1, 2}) nodes[node].Kill();
  nodes[1].cache.Restart(3);
  nodes[1].Start();
  PassFor(4 * kTerm);
  EXPECT_EQ(GoOnAfterTheEndOf(1), kOnThePrefix);
  EXPECT_THAT(nodes[3].Warnings(), HasSubstr(UnheardMaker(1)));
}

// The node that made the newest launch answers, and so nobody misses the node that has the rest.
TEST_F(UnheardNodesTest, ANewerStepOfWhichNobodyHasSomePartsIsNotPassedOverInSilence) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsInParts());
  ASSERT_NO_FATAL_FAILURE(EndInGoodOrder(2));
  OpenOnNewNodes("slurm:7.0.1", /*second=*/3);
  EXPECT_EQ(RestoreLatest().step, kOnThePrefix);
  EXPECT_THAT(nodes[3].Warnings(), HasSubstr("no node that was heard has the parts of 3 of the 6 ranks of dataset " +
                                             std::to_string(newest) + " (step 5)"));
}

// The node that made the newest launch reaches the other one, and flushes all parts.
TEST_F(UnheardNodesTest, AFlushOfAStepOfWhichPartsWereNotHeardIsWaitedFor) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsInParts());
  nodes[2].PrefixHangs(true);
  ASSERT_EQ(nodes[1].Flush(newest).code(), local::OK);
  nodes.network.Block(nodes[2].address(), nodes[3].address());
  nodes.network.Block(nodes[3].address(), nodes[2].address());
  nodes[3].Start();
  RanksAt(3, 3);
  const std::uint64_t call = SendOpen(180'000);
  PassFor(seconds(30));
  EXPECT_FALSE(clients[0]->HasReply(call));
  nodes[2].PrefixHangs(false);
  ASSERT_SAYS(clients[0]->Next(call), local::OK, "");
  ASSERT_NO_FATAL_FAILURE(OpenOtherRanks());
  EXPECT_EQ(RestoreLatest().step, kNewest);
}

// Its launch has not ended.
TEST_F(UnheardNodesTest, TheNodeThatMadeTheNewestLaunchAndWasLostLongAgoIsNamed) {
  ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
  RanksAt(1, 1);
  ASSERT_NO_FATAL_FAILURE(OpenMany("slurm:7.0.1"));
  nodes.network.Vanish(nodes[1].address());
  nodes[1].Kill();
  clients.clear();
  PassFor(5 * kTerm);
  OpenOnNewNodes("slurm:7.0.2", /*second=*/3);
  EXPECT_EQ(RestoreLatest().step, kOnThePrefix);
  EXPECT_THAT(nodes[3].Warnings(), HasSubstr(UnheardMaker(1)));
}

TEST_F(UnheardNodesTest, AnOpeningThatCannotWaitSoLongSaysThatItsStepMayBeOlder) {
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
TEST_F(UnheardNodesTest, WhatWasNotHeardInTimeAndWasThenIsNotTold) {
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

TEST_F(UnheardNodesTest, ALaunchThatBeginsWithoutThePrefixNamesWhoWasNotHeard) {
  ASSERT_NO_FATAL_FAILURE(MakeSteps(1, 2));
  nodes.network.Vanish(nodes[2].address());
  nodes[1].PrefixHangs(true);
  RanksAt(1, 1);
  ASSERT_NO_FATAL_FAILURE(OpenMany("slurm:7.0.1"));
  EXPECT_THAT(nodes[1].Warnings(), HasSubstr("begins without it"));
  EXPECT_THAT(nodes[1].Warnings(), HasSubstr("not heard of " + nodes[2].host()));
  nodes[1].PrefixHangs(false);
}

TEST_F(UnheardNodesTest, ALaunchThatMustBeginWithoutThePrefixBeforeAllWereHeardSaysSo) {
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
