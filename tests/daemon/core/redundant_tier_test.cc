// Datasets in a folder that is redundant itself, of ranks on one node and on several: README.md of daemon/core, "A
// folder that is redundant itself". Nothing is flushed by itself here: what comes back comes from there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "storage/base/status.h"
#include "storage/io/disk.h"
#include "storage/place/names.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/redundancy_fixture.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kRoot[] = "/burst";
constexpr std::uint64_t kForGood = std::uint64_t{1} << 40;

class RedundantTierTest : public RedundancyTest, public ::testing::WithParamInterface<int> {
 protected:
  RedundantTierTest() : RedundancyTest(GetParam()) { MountAt(kRoot); }
  void MountAt(const std::string& path) {
    EXPECT_OK(nodes.prefix.MakeDirectory(path, 0755));
    nodes.prefix.Mount(path);
  }
  void Start() {
    for (int i = 0; i < nodes.count(); ++i) nodes[i].config.redundant.path = kRoot;
    RedundancyTest::Start("single");
  }
  // With all that the disks of all nodes have; and new ones are started.
  void LoseAllCaches() {
    clients.clear();
    for (int i = 0; i < nodes.count(); ++i) nodes[i].Kill();
    for (int i = 0; i < nodes.count(); ++i) EXPECT_OK(RemoveTree(nodes[i].cache, nodes[i].config.cache.path));
    nodes.StartAll();
  }
  std::string RunFolder() {
    auto runs = nodes.prefix.List(std::string(kRoot) + "/tester");
    if (runs.ok()) std::erase(*runs, "folder.cairn");
    return runs.ok() && runs->size() == 1 ? std::string(kRoot) + "/tester/" + runs->front() : "";
  }
  std::string FolderThere(DatasetId id) { return RunFolder() + "/" + RecordsFolderName(id); }
  std::vector<std::string> NamesThere() {
    const std::string run = RunFolder();
    auto names =
        run.empty() ? std::vector<std::string>() : nodes.prefix.List(run).value_or(std::vector<std::string>{"?"});
    return names;
  }
  bool IsThere(DatasetId id) { return nodes.prefix.Info(FolderThere(id) + "/.scr/whole.cairn").ok(); }
  void ExpectBack(DatasetId id, std::uint64_t step, local::Tier tier) {
    const Back back = RestoreLatest();
    EXPECT_EQ(back.id, id);
    EXPECT_EQ(back.step, step);
    for (const auto& rank : back.ranks) EXPECT_EQ(rank.tier, tier);
  }
  void FlipThere(DatasetId id, Rank rank) {
    nodes.prefix.FlipBit(FolderThere(id) + "/Ckpt" + std::to_string(id) + "-Rank" + std::to_string(rank) + ".fti",
                         8 * 5000);
  }
  // While the daemons do not run; what they have noted stays.
  void LosePartsOfAll(DatasetId id) {
    clients.clear();
    for (int i = 0; i < nodes.count(); ++i) nodes[i].Kill();
    for (int i = 0; i < nodes.count(); ++i) EXPECT_OK(nodes[i].LoseParts(id));
    nodes.StartAll();
  }
  DatasetId Local(std::uint64_t step) {
    const DatasetId id = Checkpoint(step);
    for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::LOCAL), local::OK, "");
    return id;
  }
  bool IsRedundant(DatasetId id) { return clients[0]->Test(id, local::REDUNDANT).test().reached(); }
  // What is there of the datasets that are whole there, or were begun, besides what lies aside.
  std::vector<std::string> FoldersOf(const std::vector<DatasetId>& ids) {
    std::vector<std::string> names;
    for (const DatasetId id : ids) names.push_back(RecordsFolderName(id));
    return names;
  }
  void ExpectThereAreOnly(const std::vector<DatasetId>& ids) {
    nodes.Pass(std::chrono::seconds(1));
    EXPECT_EQ(NamesThere(), FoldersOf(ids));
  }
  // All that is done with the folder's files, and not with its directories.
  void FailThere(absl::Status status, FakeOp op = FakeOp::kAny) {
    nodes.prefix.FailOn({.op = op, .path_part = std::string(kRoot) + "/", .times = kForGood, .status = status});
  }
  void Eventually(const std::function<bool()>& holds) { EXPECT_TRUE(nodes.AdvanceUntil(holds)); }
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

TEST_P(RedundantTierTest, WhatNoCacheHasIsFlushedFromThere) {
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

// --- Its file system is not mounted: the place of the mount is a folder of this node's own disk ---

TEST_P(RedundantTierTest, AFolderOnTheDeviceOfTheRootIsNotUsedUnlessTheSiteSaysSo) {
  ASSERT_OK(nodes.prefix.MakeDirectory("/plain", 0755));
  for (int i = 0; i < nodes.count(); ++i) nodes[i].config.redundant.path = "/plain";
  RedundancyTest::Start("single");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Local(5);
  nodes.Pass(std::chrono::seconds(30));
  EXPECT_FALSE(IsRedundant(id));
  EXPECT_THAT(nodes[0].Warnings(),
              HasSubstr("/plain: is on the device of /, and protects from nothing; is it mounted?"));
  EXPECT_THAT(*nodes.prefix.List("/plain"), IsEmpty());
  clients.clear();
  for (int i = 0; i < nodes.count(); ++i) nodes[i].Kill();
  for (int i = 0; i < nodes.count(); ++i) nodes[i].config.redundant.apart = false;
  nodes.StartAll();
  nodes.Pass(std::chrono::minutes(1));
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  EXPECT_SAYS(clients[0]->Wait(id, local::REDUNDANT), local::OK, "");
}

TEST_P(RedundantTierTest, OnceUsedAnEmptyOneIsNotTakenForIt) {
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  ASSERT_OK(nodes.prefix.Rename(kRoot, "/away"));
  ASSERT_NO_FATAL_FAILURE(MountAt(kRoot));  // another file system has the place of the mount
  DatasetId next = Local(6);
  const auto expect_unused = [&] {
    nodes.Pass(std::chrono::seconds(30));
    EXPECT_FALSE(IsRedundant(next));
    EXPECT_THAT(nodes[0].Warnings(), HasSubstr("lacks the mark of the folder that this run has used"));
    EXPECT_THAT(*nodes.prefix.List(kRoot), IsEmpty());
  };
  expect_unused();
  EXPECT_TRUE(IsRedundant(id)) << "it is where it was";
  clients.clear();
  for (int i = 0; i < nodes.count(); ++i) nodes[i].Kill();
  nodes.StartAll();  // and know nothing of it
  nodes.Pass(std::chrono::minutes(1));
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  next = Local(7);
  expect_unused();
  ASSERT_OK(nodes.prefix.Remove(kRoot));
  ASSERT_OK(nodes.prefix.Rename("/away", kRoot));
  EXPECT_SAYS(clients[0]->Wait(next, local::REDUNDANT), local::OK, "");
  LoseAllCaches();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.3"));
  ExpectBack(next, 7, local::TIER_REDUNDANT);
}

// Another one is used when its user has taken the note away; or always, where each job has a new one.
TEST_P(RedundantTierTest, ANewOneIsUsedIfSomebodySaysSo) {
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  Redundant(5);
  ASSERT_OK(nodes.prefix.Rename(kRoot, "/away"));
  ASSERT_NO_FATAL_FAILURE(MountAt(kRoot));
  const DatasetId id = Local(6);
  nodes.Pass(std::chrono::seconds(30));
  ASSERT_FALSE(IsRedundant(id));
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, nodes.prefix.List("/pfs/run/.cairn"));
  for (const std::string& name : names) {
    if (!name.starts_with("redundant.")) continue;
    EXPECT_THAT(nodes[0].Warnings(), HasSubstr("noted in /pfs/run/.cairn/" + name));
    ASSERT_OK(nodes.prefix.Remove("/pfs/run/.cairn/" + name));
  }
  EXPECT_SAYS(clients[0]->Wait(id, local::REDUNDANT), local::OK, "");
  ASSERT_OK(nodes.prefix.Rename(kRoot, "/away.2"));
  ASSERT_NO_FATAL_FAILURE(MountAt(kRoot));
  clients.clear();
  for (int i = 0; i < nodes.count(); ++i) nodes[i].Kill();
  for (int i = 0; i < nodes.count(); ++i) nodes[i].config.redundant.marked = false;
  nodes.StartAll();
  nodes.Pass(std::chrono::minutes(1));
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  Redundant(7);
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
