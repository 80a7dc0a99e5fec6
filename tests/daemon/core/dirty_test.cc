// Memory that holds part of a restore that did not succeed: nothing is started afresh with it, and no checkpoint has
// it, on whichever rank it is and whatever became of the daemon. design.md, "Restore".
#include <gtest/gtest.h>

#include "tests/daemon/core/fake_client.h"

namespace cairn {
namespace {

constexpr std::uint64_t kBytes = 6 << 20;

class DirtyTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(harness_.Start().ok()); }

  static std::vector<Memory> MemoryOf(std::uint64_t seed, std::uint32_t nranks = 2) {
    std::vector<Memory> memory;
    for (Rank rank = 0; rank < nranks; ++rank) {
      memory.push_back({PlainOf(1, RandomBytes(seed + rank, kBytes)), ValueOf(2, "step", seed)});
    }
    return memory;
  }
  static std::vector<Memory> BlankOf(std::vector<Memory> memory) {
    for (Memory& one : memory) one = Blank(std::move(one));
    return memory;
  }
  void ExpectWhole(Ranks& ranks, std::uint64_t step) {
    const DatasetId id = ranks.Checkpoint(step, MemoryOf(step, static_cast<std::uint32_t>(ranks.clients.size())));
    ASSERT_NE(id, 0u);
    EXPECT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  }
  // In the last MiB of the data.
  void HarmTheEnd(Disk& disk, const std::string& path) { harness_.Flip(disk, path, kBytes - 1000); }

  // A dataset of two ranks. Their restore of it is cut off after rank 1 was given bytes, which are in its memory; rank
  // 0 has written none.
  DatasetId SpoilRank1(Ranks& ranks) {
    const std::vector<Memory> memory = MemoryOf(1);
    const DatasetId id = ranks.Checkpoint(1, memory);
    EXPECT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
    Restoring restoring = BeginRestore(ranks, id, memory);
    local::Request wrong;
    wrong.mutable_copied()->set_pieces(1'000'000);
    wrong.mutable_copied()->set_round(1);
    ranks[0].Send(std::move(wrong));
    EXPECT_SAYS(LastOf(ranks[0], restoring.calls[0]), local::INVALID_ARGUMENT, "rank 0");
    EXPECT_SAYS(LastOf(ranks[1], restoring.calls[1]), local::INVALID_ARGUMENT, "rank 0");
    ranks[1].Spoil();
    return id;
  }
  struct Restoring {
    std::vector<std::uint64_t> calls;
  };
  // Until rank 1 has bytes.
  static Restoring BeginRestore(Ranks& ranks, DatasetId id, const std::vector<Memory>& memory) {
    Restoring restoring;
    for (Rank rank = 0; rank < 2; ++rank) restoring.calls.push_back(ranks[rank].SendRestore(id, memory[rank]));
    EXPECT_TRUE(ranks[0].Next(restoring.calls[0]).has_restore());
    EXPECT_TRUE(ranks[1].Next(restoring.calls[1]).has_restore());
    EXPECT_TRUE(ranks[1].Next(restoring.calls[1]).has_ready());
    return restoring;
  }
  static local::Reply LastOf(FakeClient& client, std::uint64_t call) {
    local::Reply reply = client.Next(call);
    while (reply.has_ready()) reply = client.Next(call);
    return reply;
  }
  // The same ranks come back to another incarnation of the daemon.
  void ComeBack(Ranks& ranks, Rank rank) {
    auto back = std::make_unique<FakeClient>(harness_);
    back->TakeOver(ranks[rank]);
    const LaunchId launch = ranks[rank].launch();
    const std::string token = ranks[rank].token();
    ranks.clients[rank] = std::move(back);
    ASSERT_SAYS(ranks[rank].Open({.rank = rank, .nranks = 2, .launch = launch, .token = token}), local::OK, "");
  }

  CoreHarness harness_;
};

TEST_F(DirtyTest, DamageAtTheEndOfAllCopiesIsNoFreshStartAndNoCheckpointUntilAllIsProtectedAnew) {
  DatasetId id = 0;
  {
    Ranks ranks(harness_, 1, "job.1");
    id = ranks.Checkpoint(1, MemoryOf(1, 1));
    ASSERT_SAYS(ranks[0].Wait(id, local::PREFIX), local::OK, "");
  }
  harness_.Restart();  // no images any more
  HarmTheEnd(harness_.cache_disk(), harness_.CachedFile(id, 0));
  HarmTheEnd(harness_.prefix_disk(), harness_.PrefixFile(id, 0));
  // A ring: what comes before the damage is delivered before the end is read.
  harness_.config.image.bytes_max = 4 << 20;
  harness_.Restart();
  Ranks ranks(harness_, 1, "job.2");
  ASSERT_EQ(ranks[0].Latest().latest().dataset(), id);
  std::vector<Memory> back = BlankOf(MemoryOf(1, 1));
  const FakeClient::Restored restored = ranks[0].Restore(id, back[0]);
  EXPECT_EQ(restored.code, local::RETRY) << restored.message;
  ASSERT_GT(restored.pieces_copied, 0u);
  EXPECT_NE(back[0][0].bytes, Blank(MemoryOf(1, 1)[0])[0].bytes);

  EXPECT_SAYS(ranks[0].Latest(), local::DIRTY, "no checkpoint to restart from, and the protected memory of rank 0");
  EXPECT_SAYS(ranks[0].Begin(2, back[0]), local::DIRTY, "rank 0");
  EXPECT_SAYS(ranks[0].OutputBegin(2), local::DIRTY, "protect all variables anew");
  ranks[0].ProtectAnew();
  EXPECT_SAYS(ranks[0].Latest(), local::NOT_FOUND, "no checkpoint to restart from");
  ExpectWhole(ranks, 3);
}

TEST_F(DirtyTest, TheSameCallGoesOnFromImageToCacheToPrefix) {
  Ranks ranks(harness_, 2, "job.1");
  const std::vector<Memory> memory = MemoryOf(1);
  const DatasetId id = ranks.Checkpoint(1, memory);
  ASSERT_SAYS(ranks[0].Wait(id, local::PREFIX), local::OK, "");
  for (const auto& [image_id, image] : ranks[1].images()) image->bytes()[kBytes - 1000] ^= std::byte{1};
  HarmTheEnd(harness_.cache_disk(), harness_.CachedFile(id, 1));
  std::vector<Memory> back = BlankOf(memory);
  const std::vector<FakeClient::Restored> restored = ranks.Restore(id, back);
  for (Rank rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(restored[rank].code, local::OK) << restored[rank].message;
    for (std::size_t i = 0; i < memory[rank].size(); ++i) EXPECT_TRUE(back[rank][i].bytes == memory[rank][i].bytes);
  }
  EXPECT_EQ(restored[0].tier, local::TIER_IMAGE);
  EXPECT_EQ(restored[1].tier, local::TIER_PREFIX);
  EXPECT_TRUE(harness_.Warned("the copy of rank 1 in the image is bad"));
  EXPECT_TRUE(harness_.Warned("the copy of rank 1 in the cache is bad"));
  EXPECT_TRUE(harness_.Eventually([&] { return harness_.Row(id).in_cache(); })) << "it was not remade";
  ExpectWhole(ranks, 2);  // nobody is dirty
}

TEST_F(DirtyTest, OneDirtyRankMakesItEveryRanksAnswer) {
  Ranks ranks(harness_, 2, "job.1");
  SpoilRank1(ranks);
  const std::vector<Memory> memory = MemoryOf(2);
  for (int times = 0; times < 2; ++times) {
    EXPECT_SAYS(ranks[0].Begin(2, memory[0]), local::DIRTY, "rank 1 may hold part of a restore");
    EXPECT_SAYS(ranks[1].Begin(2, memory[1]), local::DIRTY, "rank 1 may hold part of a restore");
  }
  EXPECT_SAYS(ranks[0].OutputBegin(3), local::DIRTY, "rank 1");
  EXPECT_SAYS(ranks[0].OutputBegin(3, /*checkpoint=*/false, /*output=*/true), local::OK, "");
  EXPECT_SAYS(ranks[0].Abort("enough"), local::OK, "");
  ranks[1].ProtectAnew();
  ASSERT_SAYS(ranks[1].Test(1, local::NONE), local::OK, "");  // it has been heard
  ExpectWhole(ranks, 4);
}

TEST_F(DirtyTest, ALatestThatFindsSomethingSaysSoAndItsRestoreCleans) {
  Ranks ranks(harness_, 2, "job.1");
  const DatasetId id = SpoilRank1(ranks);
  EXPECT_EQ(ranks[0].Latest().latest().dataset(), id);
  EXPECT_EQ(ranks[1].Latest().latest().dataset(), id);
  std::vector<Memory> back = BlankOf(MemoryOf(1));
  for (const FakeClient::Restored& one : ranks.Restore(id, back)) EXPECT_EQ(one.code, local::OK) << one.message;
  EXPECT_FALSE(ranks[1].spoiled());
  ExpectWhole(ranks, 2);
}

TEST_F(DirtyTest, WhatWasRefusedBeforeAByteWasWrittenLeavesNobodyDirty) {
  Ranks ranks(harness_, 2, "job.1");
  const DatasetId id = ranks.Checkpoint(1, MemoryOf(1));
  ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  std::vector<Memory> other(2, {PlainOf(1, RandomBytes(1, 100))});
  for (const FakeClient::Restored& one : ranks.Restore(id, other)) EXPECT_NE(one.code, local::OK);
  ExpectWhole(ranks, 2);
}

TEST_F(DirtyTest, TheMarkSurvivesTheDaemon) {
  Ranks ranks(harness_, 2, "job.1");
  SpoilRank1(ranks);
  harness_.Restart();
  ComeBack(ranks, 1);
  ComeBack(ranks, 0);
  const std::vector<Memory> memory = MemoryOf(2);
  EXPECT_SAYS(ranks[0].Begin(2, memory[0]), local::DIRTY, "rank 1");
  EXPECT_SAYS(ranks[1].Begin(2, memory[1]), local::DIRTY, "rank 1");
  ranks[1].ProtectAnew();
  ASSERT_SAYS(ranks[1].Test(1, local::NONE), local::OK, "");
  ExpectWhole(ranks, 3);
}

TEST_F(DirtyTest, WhatOthersHaveBegunFailsWhenTheDirtyRankComesBack) {
  Ranks ranks(harness_, 2, "job.1");
  SpoilRank1(ranks);
  harness_.Restart();
  ComeBack(ranks, 0);
  const local::Reply half = ranks[0].Checkpoint(2, MemoryOf(2)[0]);  // this daemon has not heard of it
  ASSERT_SAYS(half, local::OK, "");
  ComeBack(ranks, 1);
  EXPECT_SAYS(ranks[0].Wait(half.committed().dataset(), local::LOCAL), local::FAILED, "the memory of rank 1");
  EXPECT_SAYS(ranks[1].Begin(2, MemoryOf(2)[1]), local::DIRTY, "rank 1");
}

TEST_F(DirtyTest, ARankThatSaysItInTheMiddleOfItsCheckpointSpoilsThatOnly) {
  Ranks ranks(harness_, 1, "job.1");
  const std::vector<Memory> memory = MemoryOf(1, 1);
  const local::Reply begun = ranks[0].Begin(1, memory[0]);
  ASSERT_SAYS(begun, local::OK, "");
  ranks[0].Fill(memory[0]);
  ranks[0].Spoil();  // as by a read into protected memory
  EXPECT_SAYS(ranks[0].Commit(), local::FAILED, "the memory of rank 0");
  ranks[0].ProtectAnew();
  ExpectWhole(ranks, 2);
}

TEST_F(DirtyTest, NothingIsBegunInTheMiddleOfARestore) {
  Ranks ranks(harness_, 2, "job.1");
  const std::vector<Memory> memory = MemoryOf(1);
  const DatasetId id = ranks.Checkpoint(1, memory);
  ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  BeginRestore(ranks, id, memory);
  EXPECT_SAYS(ranks[1].Begin(2, memory[1]), local::FAILED_PRECONDITION, "is restoring");
  EXPECT_SAYS(ranks[1].OutputBegin(2), local::FAILED_PRECONDITION, "is restoring");
}

TEST_F(DirtyTest, ADirtyRankThatHasGoneIsNoLongerWaitedFor) {
  Ranks ranks(harness_, 2, "job.1");
  SpoilRank1(ranks);
  ASSERT_SAYS(ranks[1].Close(), local::OK, "");
  EXPECT_SAYS(ranks[0].Begin(2, MemoryOf(2)[0]), local::FAILED, "rank 1 is gone");
}

}  // namespace
}  // namespace cairn
