// Launches that begin while the prefix hangs, with checkpoints that are not all on their node: what other nodes' caches
// have and keep, and what lies in the folder that is redundant itself. daemon/core/openings_offline.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "storage/io/disk.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/redundant_tier_fixture.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class OfflineOverNodesTest : public RedundantTierFixture {
 protected:
  OfflineOverNodesTest() : RedundantTierFixture(3) {}
  void TearDown() override {
    nodes.prefix.SetHook(nullptr);
    for (int node : {0, 1}) {
      if (nodes[node].running()) nodes[node].Hang("");
    }
    RedundancyTest::TearDown();
  }
  void AllRanksAt(int node) {
    for (Rank rank = 0; rank < kMany; ++rank) moved_to[rank] = node;
  }
  void Start(const std::string& scheme) {
    for (int i = 0; i < nodes.count(); ++i) {
      nodes[i].config.flush.every = 0;
      nodes[i].config.lease.term_ms = 60'000;
      nodes[i].config.redundancy.scheme = scheme;
    }
    nodes.StartAll();
  }
  // All ranks there, the first with take-over.
  void OpenAt(int node, const std::string& key) {
    clients.clear();
    AllRanksAt(node);
    for (Rank rank = 0; rank < kMany; ++rank) {
      clients.push_back(std::make_unique<FakeClient>(nodes[node]));
      const bool takeover = rank == 0;
      ASSERT_SAYS(clients.back()->Open({.rank = rank, .nranks = kMany, .key = key, .takeover = takeover}), local::OK,
                  "");
    }
  }
  // When the folder is looked at, once.
  void OnLook(std::function<void()> then) {
    const auto on_look = std::make_shared<std::function<void()>>(std::move(then));
    nodes.prefix.SetHook([on_look, folder = RunFolder()](FakeOp op, const std::string& path) {
      if (op != FakeOp::kList || path != folder) return;
      if (const auto once = std::exchange(*on_look, nullptr)) once();
    });
  }
  // A rank on another node would wait for the prefix.
  void OpenOffline(const std::string& key) {
    nodes[0].PrefixHangs(true);
    clients.clear();
    nodes.Pass(std::chrono::seconds(40));  // nobody comes back, and the lease holds
    AllRanksAt(0);
    ASSERT_NO_FATAL_FAILURE(OpenMany(key));
    ASSERT_THAT(nodes[0].Warnings(), HasSubstr("begins without it"));
  }
};

TEST_F(OfflineOverNodesTest, WhatWasLostWithANodeIsMadeAnew) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  nodes[1].Kill();
  ASSERT_NO_FATAL_FAILURE(OpenOffline("job.2"));
  const Back back = RestoreLatest();
  EXPECT_EQ(back.id, id);
  EXPECT_EQ(back.step, 5u);
  for (Rank rank = 0; rank < kMany; ++rank) {
    if (rank % 3 == 1) {
      EXPECT_EQ(back.ranks[rank].tier, local::TIER_REBUILT) << rank;
    } else {
      EXPECT_LE(back.ranks[rank].tier, local::TIER_PARTNER) << rank;
    }
  }
  const DatasetId next = Checkpoint(6);
  EXPECT_SAYS(clients[0]->Wait(next, local::LOCAL), local::OK, "");
  nodes[0].PrefixHangs(false);
  ASSERT_EQ(nodes[0].Flush(next).code(), local::OK);
  EXPECT_SAYS(clients[0]->Wait(next, local::PREFIX), local::OK, "");
}

// It was not mounted when the launch before this one began.
TEST_F(OfflineOverNodesTest, WhatIsOnlyInTheFolderIsTakenUp) {
  for (int i = 0; i < nodes.count(); ++i) nodes[i].config.redundant.path = "/burst";
  Start("single");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  clients.clear();
  for (int i = 0; i < nodes.count(); ++i) nodes[i].Kill();
  for (int i = 0; i < nodes.count(); ++i) EXPECT_OK(RemoveTree(nodes[i].cache, nodes[i].config.cache.path));
  ASSERT_OK(nodes.prefix.Rename("/burst", "/away"));
  nodes.StartAll();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  EXPECT_SAYS(clients[0]->Latest(), local::NOT_FOUND, "");
  ASSERT_OK(nodes.prefix.Rename("/away", "/burst"));
  ASSERT_NO_FATAL_FAILURE(OpenOffline("job.3"));
  const Back back = RestoreLatest();
  EXPECT_EQ(back.id, id);
  EXPECT_EQ(back.step, 5u);
  for (Rank rank = 0; rank < kMany; ++rank) EXPECT_EQ(back.ranks[rank].tier, local::TIER_REDUNDANT) << rank;
}

// It began while another was made elsewhere, and by then had something in the folder. Its own daemon does not come to
// remove that.
TEST_F(OfflineOverNodesTest, WhatALaunchThatDoesNotCountHasInTheFolderIsNotChosenAndGoes) {
  for (int i = 0; i < nodes.count(); ++i) nodes[i].config.redundant.path = kRoot;
  Start("single");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId first = Redundant(5);
  ASSERT_NO_FATAL_FAILURE(OpenOffline("job.2"));
  const DatasetId id = Redundant(6);
  ASSERT_TRUE(IsThere(id));
  ASSERT_NO_FATAL_FAILURE(OpenAt(1, "job.3"));
  EXPECT_EQ(clients[0]->Latest().latest().step(), 5u);
  nodes[0].Hang(std::string(kRoot) + " (redundant.path), changes of run run");
  nodes.Pass(std::chrono::minutes(1));  // the prefix answers, and it finds out
  EXPECT_THAT(nodes[0].Warnings(), HasSubstr("another one was made elsewhere meanwhile"));
  nodes[0].Kill();
  ASSERT_TRUE(IsThere(id));
  ASSERT_NO_FATAL_FAILURE(OpenAt(1, "job.4"));
  EXPECT_EQ(RestoreLatest().id, first);
  nodes.Pass(std::chrono::seconds(10));
  EXPECT_FALSE(IsThere(id));
  EXPECT_TRUE(IsThere(first));
}

// What is there is looked up before a launch is made with the prefix, which then says what of it counts. Here it falls
// silent in between, and the launch begins without it.
TEST_F(OfflineOverNodesTest, WhatALookWithThePrefixHasFoundIsNotChosenWithoutItIfItMayNotCount) {
  for (int i = 0; i < nodes.count(); ++i) nodes[i].config.redundant.path = kRoot;
  Start("single");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId first = Redundant(5);
  ASSERT_NO_FATAL_FAILURE(OpenOffline("job.2"));
  auto at_zero = std::move(clients);
  ASSERT_NO_FATAL_FAILURE(OpenAt(1, "job.3"));  // by which job.2 does not count
  std::swap(clients, at_zero);
  const DatasetId id = Redundant(6);
  ASSERT_TRUE(IsThere(id));
  std::swap(clients, at_zero);
  bool looked = false;
  OnLook([&] {
    looked = true;
    nodes[1].PrefixHangs(true);
  });
  ASSERT_NO_FATAL_FAILURE(OpenAt(1, "job.4"));
  EXPECT_TRUE(looked);
  ASSERT_THAT(nodes[1].Warnings(), HasSubstr("begins without it"));
  EXPECT_EQ(clients[0]->Latest().latest().step(), 5u);
  EXPECT_EQ(RestoreLatest().id, first);
  EXPECT_TRUE(IsThere(first)) << "nothing has superseded it";
  EXPECT_TRUE(IsThere(id));
}

// What another daemon's launch has there cannot be known to count while the prefix is silent. Here it answers just when
// that has been asked.
TEST_F(OfflineOverNodesTest, WhatWasAskedWithoutThePrefixIsAskedAgainWithIt) {
  for (int i = 0; i < nodes.count(); ++i) nodes[i].config.redundant.path = kRoot;
  Start("single");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  Redundant(5);
  nodes[0].PrefixHangs(true);
  ASSERT_NO_FATAL_FAILURE(OpenAt(1, "job.2"));
  const DatasetId id = Redundant(6);
  ASSERT_TRUE(IsThere(id));
  clients.clear();
  nodes[1].Kill();  // only the folder has it
  bool looked = false;
  OnLook([&] {
    looked = true;
    nodes[0].PrefixHangs(false);
  });
  ASSERT_NO_FATAL_FAILURE(OpenAt(0, "job.3"));
  EXPECT_TRUE(looked);
  EXPECT_THAT(nodes[0].Warnings(), Not(HasSubstr("begins without it")));
  const Back back = RestoreLatest();
  EXPECT_EQ(back.id, id);
  EXPECT_EQ(back.step, 6u);
}

// A launch may begin without the prefix as long as the lease of the one before holds: what an opening asks before does
// not take longer.
TEST_F(OfflineOverNodesTest, WhatDoesNotAnswerIsNotWaitedForUntilTheLeaseEnds) {
  constexpr std::chrono::seconds kTerm(60);
  for (int i = 0; i < nodes.count(); ++i) nodes[i].config.redundant.path = kRoot;
  Start("single");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId first = Redundant(5);
  auto renewed = nodes.now();
  nodes.prefix.SetHook([&](FakeOp op, const std::string& path) {
    if (op == FakeOp::kWrite && path.find(".lease") != std::string::npos) renewed = nodes.now();
  });
  nodes.Pass(kTerm);
  clients.clear();
  nodes[0].PrefixHangs(true);
  nodes[0].HangToo(std::string(kRoot) + " (redundant.path), looks of run run");
  const auto left = [&] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(renewed + kTerm - nodes.now());
  };
  nodes.Pass(left() - std::chrono::seconds(9));
  AllRanksAt(0);
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  EXPECT_GT(left().count(), 0);
  EXPECT_THAT(nodes[0].Warnings(), HasSubstr("begins without it"));
  EXPECT_EQ(clients[0]->Latest().latest().dataset(), first);
}

}  // namespace
}  // namespace cairn
