// Datasets in a folder that is redundant itself, of ranks on one node and on several: README.md of daemon/core, "A
// folder that is redundant itself". Nothing is flushed by itself here: what comes back comes from there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/io/disk.h"
#include "storage/place/names.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/redundant_tier_fixture.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RedundantTierTest : public RedundantTierFixture, public ::testing::WithParamInterface<int> {
 protected:
  RedundantTierTest() : RedundantTierFixture(GetParam()) {}
};

INSTANTIATE_TEST_SUITE_P(Nodes, RedundantTierTest, ::testing::Values(1, 3));

TEST_P(RedundantTierTest, WhatIsRedundantThereOutlivesAllCaches) {
  Start();
  nodes.prefix.FailOn({.path_part = "/ckpt.", .times = kForGood});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  EXPECT_TRUE(IsThere(id));
  LoseAllCaches();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  ExpectBack(id, 5, local::TIER_REDUNDANT);
  // And goes on from there.
  const DatasetId next = Redundant(6);
  LoseAllCaches();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.3"));
  ExpectBack(next, 6, local::TIER_REDUNDANT);
  ExpectThereAreOnly({next});
}

TEST_P(RedundantTierTest, ItIsKnownAgainAndReadInCachesFirst) {
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  clients.clear();
  for (int i = 0; i < nodes.count(); ++i) nodes[i].Kill();
  nodes.prefix.SetHook([&](FakeOp op, const std::string& path) {
    EXPECT_FALSE(op == FakeOp::kWrite && path.starts_with(kRoot)) << path;
  });
  nodes.StartAll();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  EXPECT_TRUE(IsRedundant(id));
  const Back back = RestoreLatest();
  EXPECT_EQ(back.id, id);
  for (Rank rank = 0; rank < kMany; ++rank) {
    if (NodeOf(rank) != 0) continue;  // whether their caches still have it the home need not ask
    EXPECT_EQ(back.ranks[rank].tier, local::TIER_CACHE) << rank;
  }
  ExpectThereAreOnly({id});
}

TEST_P(RedundantTierTest, WhatOneNodeHasLostIsReadThere) {
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  const int lost = nodes.count() - 1;
  clients.clear();
  nodes[lost].Kill();
  EXPECT_OK(nodes[lost].LoseParts(id));
  nodes[lost].Start();
  nodes.Pass(std::chrono::minutes(5));
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  const Back back = RestoreLatest();
  EXPECT_EQ(back.id, id);
  for (Rank rank = 0; rank < kMany; ++rank) {
    if (NodeOf(rank) != lost) continue;
    EXPECT_EQ(back.ranks[rank].tier, local::TIER_REDUNDANT) << rank;
  }
}

TEST_P(RedundantTierTest, TheNewestIsThereUnlessOneIsPinnedAndNoneThatIsOnThePrefix) {
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId first = Redundant(5), second = Redundant(6);
  ExpectThereAreOnly({second});
  ASSERT_EQ(nodes[0].Pin(second).code(), local::OK);
  const DatasetId third = Redundant(7);
  ExpectThereAreOnly({second, third});
  ASSERT_EQ(nodes[0].Flush(third).code(), local::OK);
  ASSERT_SAYS(clients[0]->Wait(third, local::PREFIX), local::OK, "");
  ASSERT_SAYS(clients[0]->Wait(second, local::PREFIX), local::OK, "");  // what is pinned goes there, too
  ExpectThereAreOnly({second});
  ASSERT_EQ(nodes[0].Pin(second, false).code(), local::OK);
  ExpectThereAreOnly({});
  EXPECT_FALSE(IsThere(first));
}

// On one node they come into its cache. Ranks on several nodes read their files on the prefix, where they go from
// there.
TEST_P(RedundantTierTest, TheApplicationsOwnFilesComeBackFromThere) {
  const bool one_node = nodes.count() == 1;
  const auto name = [](Rank rank) { return "out/rank" + std::to_string(rank) + ".dat"; };
  const auto bytes = [](Rank rank) { return RandomBytes(500 + rank, 30'000 + rank); };
  Start();
  if (one_node) nodes.prefix.FailOn({.path_part = std::string(SimulatedNodes::kPrefix) + "/out", .times = kForGood});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  DatasetId id = 0;
  for (const auto& client : clients) {
    const local::Reply begun = client->OutputBegin(5);
    ASSERT_SAYS(begun, local::OK, "");
    id = begun.output_begin().dataset();
  }
  for (Rank rank = 0; rank < kMany; ++rank) {
    const local::Reply routed = clients[rank]->RouteFile(name(rank));
    ASSERT_SAYS(routed, local::OK, "");
    const std::string& path = routed.route_file().path();
    ASSERT_OK(MakeDirectories(nodes[NodeOf(rank)].cache, ParentOf(path)));
    ASSERT_OK(ReplaceFile(nodes[NodeOf(rank)].cache, path, bytes(rank)));
  }
  for (const auto& client : clients) ASSERT_SAYS(client->OutputEnd(), local::OK, "");
  for (const auto& client : clients) ASSERT_SAYS(client->Wait(id, local::REDUNDANT), local::OK, "");
  LoseAllCaches();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  std::vector<FakeClient::Restored> restored(kMany);
  std::vector<std::function<void()>> restores;
  for (Rank rank = 0; rank < kMany; ++rank) {
    const local::Reply latest = clients[rank]->Latest();
    ASSERT_SAYS(latest, local::OK, "");
    EXPECT_EQ(latest.latest().dataset(), id);
    EXPECT_EQ(latest.latest().step(), 5u);
    EXPECT_TRUE(latest.latest().files());
    restores.push_back([&, rank] {
      Memory none;
      restored[rank] = clients[rank]->Restore(id, none);
    });
  }
  nodes.Together(std::move(restores));
  for (Rank rank = 0; rank < kMany; ++rank) {
    EXPECT_EQ(restored[rank].code, local::OK) << rank << ": " << restored[rank].message;
    EXPECT_EQ(restored[rank].tier, one_node ? local::TIER_REDUNDANT : local::TIER_PREFIX) << rank;
    const local::Reply path = clients[rank]->RestartFile(id, name(rank));
    ASSERT_SAYS(path, local::OK, "");
    const auto found = ReadWhole(one_node ? nodes[0].cache : nodes.prefix, path.restart_file().path(), 1 << 20);
    ASSERT_OK(found);
    EXPECT_TRUE(*found == bytes(rank)) << rank;
  }
}

TEST_P(RedundantTierTest, WhatNoCacheHasIsFlushedFromThere) {
  for (int i = 0; i < nodes.count(); ++i) nodes[i].config.image.read_ahead = false;  // it would be from the folder
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  LoseAllCaches();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  ASSERT_EQ(nodes[0].Flush(id).code(), local::OK);
  ASSERT_SAYS(clients[0]->Wait(id, local::PREFIX), local::OK, "");
  ExpectBack(id, 5, local::TIER_PREFIX);
  ExpectThereAreOnly({});
}

TEST_P(RedundantTierTest, ItLeavesTheCachesForRoomAndIsReadThere) {
  for (int i = 0; i < nodes.count(); ++i) nodes[i].config.cache.bytes_max = 130'000 / nodes.count();
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  DatasetId id = 0;
  for (std::uint64_t step = 1; step <= 4; ++step) id = Redundant(step);
  ASSERT_EQ(nodes[0].Pin(id).code(), local::OK);
  for (int i = 0; i < nodes.count(); ++i) EXPECT_LE(nodes[i].RanksInCache(id - 1).size(), kMany);
  LosePartsOfAll(id);
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  ExpectBack(id, 4, local::TIER_REDUNDANT);
}

TEST_P(RedundantTierTest, FullOrReadOnlyFailsNothingElseAndIsTriedAgain) {
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  DatasetId there = Redundant(1);
  std::uint64_t step = 1;
  for (const absl::Status& status : {ResourceExhausted("no space left"), Unavailable("read-only file system")}) {
    FailThere(status, FakeOp::kWrite);
    const DatasetId id = Local(++step);
    nodes.Pass(std::chrono::seconds(30));
    EXPECT_FALSE(IsRedundant(id));
    EXPECT_TRUE(IsThere(there)) << "what is whole there stays until something newer is";
    EXPECT_THAT(nodes[0].Warnings(), HasSubstr("does not become redundant"));
    EXPECT_THAT(nodes[0].Warnings(), HasSubstr(std::string(MessageOf(status))));
    ASSERT_EQ(nodes[0].Flush(id).code(), local::OK);
    EXPECT_SAYS(clients[0]->Wait(id, local::PREFIX), local::OK, "");
    const DatasetId next = Local(++step);
    nodes.prefix.ClearFaults();
    EXPECT_SAYS(clients[0]->Wait(next, local::REDUNDANT), local::OK, "");
    ExpectThereAreOnly({next});
    there = next;
  }
}

TEST_P(RedundantTierTest, OfADamagedCopyTheSameCallGoesOnToThePrefix) {
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  ASSERT_EQ(nodes[0].Pin(id).code(), local::OK);
  ASSERT_SAYS(clients[0]->Wait(id, local::PREFIX), local::OK, "");
  FlipThere(id, 2);
  LosePartsOfAll(id);
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  const Back back = RestoreLatest();
  EXPECT_EQ(back.id, id);
  EXPECT_EQ(back.ranks[2].tier, local::TIER_PREFIX);
  EXPECT_EQ(back.ranks[1].tier, local::TIER_REDUNDANT);
  nodes.Pass(std::chrono::seconds(1));
  EXPECT_EQ(NamesThere(), std::vector<std::string>{"damaged." + std::to_string(id) + ".1"});
}

TEST_P(RedundantTierTest, OfADamagedCopyThatIsTheLastAnOlderDatasetComesBack) {
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId old = Redundant(4);
  ASSERT_EQ(nodes[0].Flush(old).code(), local::OK);
  ASSERT_SAYS(clients[0]->Wait(old, local::PREFIX), local::OK, "");
  const DatasetId id = Redundant(5);
  FlipThere(id, 1);
  LoseAllCaches();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  RestoreInVain(id, 5);
  ExpectBack(old, 4, local::TIER_PREFIX);
  EXPECT_FALSE(IsThere(id));
  EXPECT_THAT(nodes[0].Warnings(), HasSubstr("is damaged, and goes aside"));
}

TEST_P(RedundantTierTest, WhatSomebodyHasRemovedThereIsBroughtAgain) {
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  ASSERT_OK(RemoveTree(nodes.prefix, RunFolder()));
  clients.clear();
  for (int i = 0; i < nodes.count(); ++i) nodes[i].Kill();
  nodes.StartAll();
  nodes.Pass(std::chrono::minutes(1));  // they find each other
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  EXPECT_SAYS(clients[0]->Wait(id, local::REDUNDANT), local::OK, "");
  EXPECT_TRUE(IsThere(id));
}

TEST_P(RedundantTierTest, OneThatCannotBeLookedAtHidesNoOther) {
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId older = Redundant(5);
  EXPECT_EQ(nodes[0].Pin(older).code(), local::OK);
  const DatasetId newest = Redundant(6);
  LoseAllCaches();
  nodes.prefix.FailOn({.path_part = FolderThere(older) + "/", .times = kForGood});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  ExpectBack(newest, 6, local::TIER_REDUNDANT);
  EXPECT_THAT(nodes[0].Warnings(), HasSubstr("cannot be looked at"));
}

// Files that are not seen from here, as on a file system that is mounted in part, are not taken for lost.
TEST_P(RedundantTierTest, WhatLooksDamagedAndIsTheLastCopyStays) {
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  LoseAllCaches();
  nodes.prefix.FailOn({.path_part = FolderThere(id) + "/Ckpt", .times = kForGood, .status = absl::NotFoundError("")});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  EXPECT_SAYS(clients[0]->Latest(), local::NOT_FOUND, "");
  EXPECT_THAT(nodes[0].Warnings(), HasSubstr("is damaged"));
  Close();
  nodes.prefix.ClearFaults();
  LoseAllCaches();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.3"));
  ExpectBack(id, 5, local::TIER_REDUNDANT);
}

TEST_P(RedundantTierTest, TreesThatWereCopiedOrRenamedAreNotBelieved) {
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  const std::string copy = RunFolder() + "/" + RecordsFolderName(id + 7);
  nodes.prefix.CopyTree(FolderThere(id), copy);
  nodes.prefix.CopyTree(FolderThere(id), RunFolder() + "/" + RecordsFolderName(id + 8));
  ASSERT_OK(nodes.prefix.Remove(RunFolder() + "/" + RecordsFolderName(id + 8) + "/.scr/whole.cairn"));
  LoseAllCaches();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  ExpectBack(id, 5, local::TIER_REDUNDANT);
  EXPECT_THAT(nodes[0].Warnings(), HasSubstr("is damaged"));
  for (const DatasetId other : {id + 7, id + 8}) EXPECT_FALSE(nodes[0].Lists(other));
  nodes.Pass(std::chrono::seconds(1));
  EXPECT_THAT(NamesThere(), ::testing::Contains(RecordsFolderName(id)));
  EXPECT_THAT(NamesThere(), ::testing::Not(::testing::Contains(RecordsFolderName(id + 8))));
}

TEST_P(RedundantTierTest, NoLinkLeadsOutAndNobodyElseWritesThere) {
  Start();
  ASSERT_OK(nodes.prefix.MakeDirectory("/elsewhere", 0700));
  ASSERT_OK(nodes.prefix.Symlink("/elsewhere", std::string(kRoot) + "/tester"));
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Local(5);
  nodes.Pass(std::chrono::seconds(30));
  EXPECT_FALSE(IsRedundant(id));
  EXPECT_THAT(*nodes.prefix.List("/elsewhere"), IsEmpty());
  EXPECT_THAT(nodes[0].Warnings(), HasSubstr("/burst/tester: is no directory"));
}

TEST_P(RedundantTierTest, AFolderThatIsNotThereIsNotMade) {
  for (int i = 0; i < nodes.count(); ++i) nodes[i].config.redundant.path = "/burst/mounted";
  RedundancyTest::Start("single");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Local(5);
  nodes.Pass(std::chrono::seconds(30));
  EXPECT_FALSE(IsRedundant(id));
  EXPECT_FALSE(nodes.prefix.Info("/burst/mounted").ok());
  EXPECT_THAT(nodes[0].Warnings(), HasSubstr("is it mounted?"));
  ASSERT_OK(nodes.prefix.MakeDirectory("/burst/mounted", 0755));
  EXPECT_SAYS(clients[0]->Wait(id, local::REDUNDANT), local::OK, "");
}

TEST_P(RedundantTierTest, WhatTheUserRemovesGoesThere) {
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  ASSERT_EQ(nodes[0].Remove(id).code(), local::OK);
  ExpectThereAreOnly({});
  LoseAllCaches();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  EXPECT_SAYS(clients[0]->Latest(), local::NOT_FOUND, "");
}

TEST_P(RedundantTierTest, WhatTheApplicationRejectsIsNotChosenAndGoes) {
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId old = Redundant(4), id = Redundant(5);
  ASSERT_SAYS(clients[0]->Reject(id), local::OK, "");
  nodes.Pass(std::chrono::minutes(1));
  EXPECT_FALSE(IsThere(id));
  EXPECT_TRUE(IsThere(old)) << "the caches have it still, and it is the newest now";
}

TEST_P(RedundantTierTest, ANodeThatLeavesMissesNothing) {
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  Close();
  nodes.prefix.FailOn({.path_part = "/ckpt.", .times = kForGood});
  for (int i = nodes.count(); i-- > 0;) {
    const admin::LeaveReply left = nodes[i].Leave(std::chrono::seconds(10));
    EXPECT_EQ(left.status().code(), local::OK) << left.status().message();
    EXPECT_THAT(left.only_here(), IsEmpty()) << i;
  }
  LoseAllCaches();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  ExpectBack(id, 5, local::TIER_REDUNDANT);
}

TEST_P(RedundantTierTest, AskedForByTheApplication) {
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  for (const auto& client : clients) client->AskFor(local::SCHEME_SINGLE);
  const DatasetId single = Local(4);
  EXPECT_SAYS(clients[0]->Wait(single, local::REDUNDANT), local::UNSUPPORTED, "asked for `single`");
  for (const auto& client : clients) client->AskFor(local::SCHEME_FOLDER);
  const DatasetId id = Redundant(5);
  ExpectThereAreOnly({id});
}

TEST_P(RedundantTierTest, AskedForWhereThereIsNone) {
  RedundancyTest::Start("single");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  for (const auto& client : clients) client->AskFor(local::SCHEME_FOLDER);
  const DatasetId id = Local(5);
  EXPECT_SAYS(clients[0]->Wait(id, local::REDUNDANT), local::UNSUPPORTED, "redundant.path is not set");
}

// Power fails for all, servers too, and what was not synced is gone by chance; then all caches are.
TEST_P(RedundantTierTest, WhatWasSaidHoldsOverAnyPowerFailure) {
  Start();
  std::uint64_t said = 0;
  for (std::uint64_t round = 1; round <= 24; ++round) {
    ASSERT_NO_FATAL_FAILURE(OpenMany("job." + std::to_string(round)));
    const local::Reply latest = clients[0]->Latest();
    const std::uint64_t back = CodeOfReply(latest) == local::OK ? latest.latest().step() : 0;
    ASSERT_GE(back, said) << "round " << round;
    if (back > 0) {
      const Back restored = RestoreLatest();
      ASSERT_EQ(restored.step, back);
      for (const auto& rank : restored.ranks) ASSERT_EQ(rank.tier, local::TIER_REDUNDANT);
    }
    const DatasetId whole = Redundant(10 * round);
    ASSERT_NE(whole, 0u);
    said = 10 * round;
    const DatasetId id = Checkpoint(10 * round + 1);
    for (std::uint64_t step = 0; step < 40 * (round - 1) && nodes.Advance(); ++step) {
    }
    if (IsThere(id) && IsRedundant(id)) said = 10 * round + 1;
    clients.clear();
    for (int i = 0; i < nodes.count(); ++i) nodes[i].Kill();
    nodes.prefix.Restart(round);
    for (int i = 0; i < nodes.count(); ++i) EXPECT_OK(RemoveTree(nodes[i].cache, nodes[i].config.cache.path));
    nodes.StartAll();
  }
}

class RedundantTierOfOneTest : public RedundantTierTest {};
INSTANTIATE_TEST_SUITE_P(Nodes, RedundantTierOfOneTest, ::testing::Values(3));

TEST_P(RedundantTierOfOneTest, ANodeWithoutTheFolderIsNamed) {
  for (int i = 0; i < 2; ++i) nodes[i].config.redundant.path = kRoot;
  RedundancyTest::Start("single");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Local(5);
  EXPECT_SAYS(clients[0]->Wait(id, local::REDUNDANT), local::UNSUPPORTED, "redundant.path is not set on n3");
}

TEST_P(RedundantTierOfOneTest, ANodeWithAnotherFolderIsNotBelieved) {
  ASSERT_NO_FATAL_FAILURE(MountAt("/other"));
  for (int i = 0; i < 3; ++i) {
    nodes[i].config.redundant = {.path = i == 2 ? "/other" : kRoot, .apart = true, .marked = false};
  }
  RedundancyTest::Start("single");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Local(5);
  nodes.Pass(std::chrono::seconds(30));
  EXPECT_FALSE(IsRedundant(id));
  EXPECT_THAT(nodes[0].Warnings(), HasSubstr("the same folder on all nodes?"));
  // With marks already who brings something there is told so.
  clients.clear();
  for (int i = 0; i < 3; ++i) nodes[i].Kill();
  for (int i = 0; i < 3; ++i) nodes[i].config.redundant.marked = true;
  nodes.StartAll();
  nodes.Pass(std::chrono::minutes(1));
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  const DatasetId next = Local(6);
  nodes.Pass(std::chrono::seconds(30));
  EXPECT_FALSE(IsRedundant(next));
  EXPECT_THAT(nodes[0].Warnings(), HasSubstr("/other/tester: lacks the mark of the folder that this run"));
}

TEST_P(RedundantTierOfOneTest, SetsAreMadeForWhoAsksForThem) {
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  for (const auto& client : clients) client->AskFor(local::SCHEME_PARTNER);
  const DatasetId id = Redundant(5);
  EXPECT_FALSE(IsThere(id));
  ExpectBackWithout({1}, id, 5);
}

// Its daemon alone is started again; what has left the caches meanwhile is taken up again.
TEST_P(RedundantTierOfOneTest, AHomeThatIsStartedAgainKnowsWhatIsOnlyThere) {
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  KillNode(0);
  EXPECT_OK(nodes[0].LoseParts(id));
  nodes[0].Start();
  for (Rank rank = 0; rank < kMany; ++rank) ComeAgain(rank);
  const Back back = RestoreLatest();
  EXPECT_EQ(back.id, id);
  EXPECT_EQ(back.ranks[0].tier, local::TIER_REDUNDANT);
  EXPECT_TRUE(IsRedundant(id));
}

}  // namespace
}  // namespace cairn
