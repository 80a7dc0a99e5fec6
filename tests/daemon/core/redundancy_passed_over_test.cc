// A launch cannot restart from the newest dataset, and the one before it lacks parts that may be made anew: these are
// looked for first, and the launch restarts from that one (Ledger::PassOver). An older one is on the prefix: nothing
// would hold a launch up that went on from there.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "storage/io/disk.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/redundancy_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class PassedOverTest : public RedundancyTest {
 protected:
  static constexpr int kLost = 3;  // the node without its part of the one before the newest

  // Steps 4, on the prefix, and 5, redundant.
  void MakeTwo() {
    for (int i = 0; i < nodes.count(); ++i) nodes[i].config.cache.keep = 10;
    Start("xor");
    ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
    oldest_ = Redundant(4);
    ASSERT_SAYS(clients[0]->Wait(oldest_, local::PREFIX), local::OK, "");
    before_ = Redundant(5);
  }
  // The next launch's ranks have all been told of step 5.
  void MakeTwoAndAsk() {
    ASSERT_NO_FATAL_FAILURE(MakeTwo());
    Close();
    ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
    for (const auto& client : clients) ASSERT_EQ(client->Latest().latest().dataset(), before_);
  }
  // The same two, and 6, of which nobody keeps anything for others.
  void Make() {
    ASSERT_NO_FATAL_FAILURE(MakeTwo());
    const auto served = nodes.files.served;
    nodes.files.served.clear();
    newest_ = Checkpoint(6);
    ASSERT_SAYS(clients[0]->Wait(newest_, local::LOCAL), local::OK, "");
    nodes.Pass(std::chrono::seconds(5));
    ASSERT_FALSE(clients[0]->Test(newest_, local::REDUNDANT).test().reached());
    nodes.files.served = served;
  }
  // All daemons are started again: no image is left, and no part of `before_` on one of the nodes.
  void RestartAll() {
    for (int i = 0; i < nodes.count(); ++i) nodes[i].config.redundancy.scheme = "single";  // 6 stays as it is
    clients.clear();
    for (int i = 0; i < nodes.count(); ++i) nodes[i].Kill();
    for (int i = 0; i < nodes.count(); ++i) nodes[i].cache.Restart(3);
    ASSERT_OK(nodes[kLost].LoseParts(before_));
  }
  void StartAgain() {
    for (int i = 0; i < nodes.count(); ++i) nodes[i].Start();
    nodes.Pass(std::chrono::minutes(5));
    ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
    for (const auto& client : clients) ASSERT_EQ(client->Latest().latest().dataset(), newest_);
  }
  void ExpectBackFromTheOneBefore() {
    const Back back = RestoreLatest();
    EXPECT_EQ(back.id, before_);
    EXPECT_EQ(back.step, 5u);
    for (Rank rank = 0; rank < kMany; ++rank) {
      if (rank == kLost) {
        EXPECT_EQ(back.ranks[rank].tier, local::TIER_REBUILT);
      } else {
        EXPECT_LE(back.ranks[rank].tier, local::TIER_PARTNER) << "rank " << rank;
      }
    }
  }

  void ExpectBackByNumber(DatasetId id, std::uint64_t step) {
    std::vector<std::function<void()>> restores;
    for (Rank rank = 0; rank < kMany; ++rank) {
      restores.push_back([this, rank, id, step] {
        Memory memory = Blank(MemoryOf(rank, step));
        const FakeClient::Restored restored = clients[rank]->Restore(id, memory);
        EXPECT_EQ(restored.code, local::OK) << "rank " << rank << ": " << restored.message;
        EXPECT_EQ(memory[0].bytes, MemoryOf(rank, step)[0].bytes) << "rank " << rank;
      });
    }
    nodes.Together(std::move(restores));
  }

  DatasetId oldest_ = 0, before_ = 0, newest_ = 0;
};

TEST_F(PassedOverTest, ARestoreFindsTheNewestToBeDamaged) {
  ASSERT_NO_FATAL_FAILURE(Make());
  ASSERT_NO_FATAL_FAILURE(RestartAll());
  ASSERT_NO_FATAL_FAILURE(Damage(nodes[2], FindFile(nodes[2], newest_, fmt::format("Ckpt{}-Rank2.fti", newest_))));
  ASSERT_NO_FATAL_FAILURE(StartAgain());
  RestoreInVain(newest_, 6);
  ExpectBackFromTheOneBefore();
}

// Nothing is wrong with it but that a node does not give its part.
TEST_F(PassedOverTest, ARestoreDoesNotReachAPartOfTheNewest) {
  ASSERT_NO_FATAL_FAILURE(Make());
  ASSERT_NO_FATAL_FAILURE(RestartAll());
  moved_to[kLost] = 4;
  ASSERT_NO_FATAL_FAILURE(StartAgain());
  const auto served = nodes.files.served;
  nodes.files.served.erase(nodes[kLost].address());
  RestoreInVain(newest_, 6);
  ExpectBackFromTheOneBefore();
  nodes.files.served = served;
  ExpectBackByNumber(newest_, 6);
}

TEST_F(PassedOverTest, TheApplicationRejectsTheNewest) {
  ASSERT_NO_FATAL_FAILURE(Make());
  ASSERT_NO_FATAL_FAILURE(RestartAll());
  ASSERT_NO_FATAL_FAILURE(StartAgain());
  EXPECT_EQ(RestoreLatest().id, newest_);
  for (const auto& client : clients) EXPECT_SAYS(client->Reject(newest_), local::OK, "");
  ExpectBackFromTheOneBefore();
}

TEST_F(PassedOverTest, TheNewestIsOnThePrefixOnlyAndACatalogueIsBad) {
  ASSERT_NO_FATAL_FAILURE(Make());
  ASSERT_SAYS(clients[0]->Wait(newest_, local::PREFIX), local::OK, "");
  ASSERT_NO_FATAL_FAILURE(RestartAll());
  for (int i = 0; i < nodes.count(); ++i) ASSERT_OK(nodes[i].LoseParts(newest_));
  const std::string catalogue = fmt::format("{}/ckpt.{}/rank_2.cat", SimulatedNodes::kPrefix, newest_);
  ASSERT_OK(ReplaceFile(nodes.prefix, catalogue, "none"));
  ASSERT_NO_FATAL_FAILURE(StartAgain());
  RestoreInVain(newest_, 6);
  ExpectBackFromTheOneBefore();
}

// A flush has found a part of what is pinned to be damaged. It is made anew in a moment, which the ranks wait for.
TEST_F(PassedOverTest, WhatIsPinnedIsMadeAnewWhileARankAsks) {
  ASSERT_NO_FATAL_FAILURE(MakeTwoAndAsk());
  ASSERT_NO_FATAL_FAILURE(Damage(nodes[2], FindFile(nodes[2], before_, fmt::format("Ckpt{}-Rank2.fti", before_))));
  const std::uint64_t flushed = clients[1]->SendWait(before_, local::PREFIX);
  while (!clients[1]->HasReply(flushed)) {
    ASSERT_EQ(clients[0]->Latest().latest().dataset(), before_);
    ASSERT_TRUE(nodes.Advance());
  }
  EXPECT_THAT(nodes[0].Warnings(), ::testing::HasSubstr("rank 2's part is bad"));
  EXPECT_SAYS(clients[1]->Next(flushed), local::OK, "");
  EXPECT_EQ(RestoreLatest().id, before_);
}

// One has come to restore it already: it would keep it from being made anew, and wait in vain for the others.
TEST_F(PassedOverTest, WhatIsPinnedIsMadeAnewThoughARankHasComeToRestoreIt) {
  ASSERT_NO_FATAL_FAILURE(MakeTwoAndAsk());
  Memory memory = Blank(MemoryOf(0, 5));
  const std::uint64_t restored = clients[0]->SendRestore(before_, memory);
  nodes.Pass(std::chrono::seconds(1));
  ASSERT_FALSE(clients[0]->HasReply(restored));
  ASSERT_NO_FATAL_FAILURE(Damage(nodes[2], FindFile(nodes[2], before_, fmt::format("Ckpt{}-Rank2.fti", before_))));
  const std::uint64_t flushed = clients[1]->SendWait(before_, local::PREFIX);
  while (!clients[1]->HasReply(flushed)) {
    ASSERT_EQ(clients[3]->Latest().latest().dataset(), before_);
    ASSERT_TRUE(nodes.Advance());
  }
  EXPECT_SAYS(clients[1]->Next(flushed), local::OK, "");
  EXPECT_EQ(clients[0]->TakeRestore(restored, memory).code, local::RETRY);
  EXPECT_EQ(RestoreLatest().id, before_);
}

// The same of what cannot be made anew: then it is the one before that is waited for.
TEST_F(PassedOverTest, WhatIsPinnedIsGivenUpWhileARankAsks) {
  ASSERT_NO_FATAL_FAILURE(Make());
  ASSERT_NO_FATAL_FAILURE(RestartAll());
  ASSERT_NO_FATAL_FAILURE(Damage(nodes[2], FindFile(nodes[2], newest_, fmt::format("Ckpt{}-Rank2.fti", newest_))));
  ASSERT_NO_FATAL_FAILURE(StartAgain());
  EXPECT_NE(CodeOfReply(clients[1]->Wait(newest_, local::PREFIX)), local::OK);
  ExpectBackFromTheOneBefore();
}

// Nobody waits for long for what cannot be had.
TEST_F(PassedOverTest, TheOldestIsTakenIfTheOneBeforeCannotBeMadeAnew) {
  ASSERT_NO_FATAL_FAILURE(Make());
  ASSERT_NO_FATAL_FAILURE(RestartAll());
  ASSERT_OK(nodes[1].LoseParts(before_));
  ASSERT_NO_FATAL_FAILURE(StartAgain());
  EXPECT_EQ(RestoreLatest().id, newest_);
  for (const auto& client : clients) EXPECT_SAYS(client->Reject(newest_), local::OK, "");
  const auto rejected = nodes.now();
  const Back back = RestoreLatest();
  EXPECT_LT(nodes.now() - rejected, std::chrono::seconds(15));
  EXPECT_EQ(back.id, oldest_);
  EXPECT_EQ(back.step, 4u);
  EXPECT_EQ(back.ranks[0].tier, local::TIER_CACHE);  // of the others' caches the home does not know
  for (Rank rank = 1; rank < kMany; ++rank) EXPECT_EQ(back.ranks[rank].tier, local::TIER_PREFIX) << "rank " << rank;
}

}  // namespace
}  // namespace cairn
