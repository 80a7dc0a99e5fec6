// Room in the cache: who leaves it, in which order, who stays, and what a full one says. design.md, "The daemon".
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/gate.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class EvictionTest : public ::testing::Test {
 protected:
  void StartWith(std::uint64_t cache_bytes) {
    harness_.config.cache.bytes_max = cache_bytes;
    ASSERT_TRUE(harness_.Start().ok());
    client_ = std::make_unique<FakeClient>(harness_);
    ASSERT_SAYS(client_->Open({}), local::OK, "");
  }
  void TearDown() override { client_ = nullptr; }
  // A little over two MiB, at `local`.
  DatasetId Make(std::uint64_t step) {
    const local::Reply done = client_->Checkpoint(step, memory_);
    EXPECT_SAYS(done, local::OK, "");
    EXPECT_SAYS(client_->Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
    return done.committed().dataset();
  }
  bool HasFolder(DatasetId id) {
    return harness_.IsThere(harness_.cache_disk(), harness_.CacheFolderPath() + "/scr.dataset." + std::to_string(id));
  }
  bool LosesFolder(DatasetId id) {
    return harness_.Eventually([&] { return !HasFolder(id); });
  }

  const Memory memory_ = {PlainOf(1, RandomBytes(1, 2 * kMiB))};
  CoreHarness harness_;
  std::unique_ptr<FakeClient> client_;
};

TEST_F(EvictionTest, TakesTheOldestSupersededOnesWhenRoomIsNeeded) {
  StartWith(7 * kMiB);  // three of them
  const DatasetId first = Make(1), second = Make(2), third = Make(3), fourth = Make(4);
  EXPECT_TRUE(LosesFolder(first));
  for (DatasetId id : {second, third, fourth}) EXPECT_TRUE(HasFolder(id)) << id;
  EXPECT_SAYS(client_->Test(first, local::LOCAL), local::SUPERSEDED, "superseded by dataset");
  EXPECT_SAYS(client_->Wait(first, local::PREFIX), local::SUPERSEDED, "");
  EXPECT_LE(harness_.Status().cache_bytes_used(), 7 * kMiB);
}

TEST_F(EvictionTest, TakesThoseOnThePrefixFirst) {
  StartWith(7 * kMiB);
  const DatasetId first = Make(1), second = Make(2), third = Make(3);
  ASSERT_SAYS(client_->Wait(second, local::PREFIX), local::OK, "");
  Make(4);
  EXPECT_TRUE(LosesFolder(second));
  EXPECT_TRUE(HasFolder(first));
  EXPECT_TRUE(HasFolder(third));
  EXPECT_SAYS(client_->Test(second, local::PREFIX), local::OK, "");  // a stronger copy is there
  EXPECT_SAYS(client_->Test(second, local::LOCAL), local::OK, "");
  Memory back = Blank(memory_);
  const FakeClient::Restored restored = client_->Restore(second, back);
  EXPECT_EQ(restored.code, local::OK) << restored.message;
  EXPECT_EQ(restored.tier, local::TIER_PREFIX);
  EXPECT_TRUE(back[0].bytes == memory_[0].bytes);
}

TEST_F(EvictionTest, APinnedOneStays) {
  StartWith(7 * kMiB);
  const DatasetId first = Make(1);
  ASSERT_EQ(harness_.Pin(first, true).code(), local::OK);
  ASSERT_SAYS(client_->Wait(first, local::PREFIX), local::OK, "");
  const DatasetId second = Make(2);
  Make(3);
  Make(4);
  EXPECT_TRUE(LosesFolder(second));
  EXPECT_TRUE(HasFolder(first));
  ASSERT_EQ(harness_.Pin(first, false).code(), local::OK);
  Make(5);
  EXPECT_TRUE(LosesFolder(first));
}

TEST_F(EvictionTest, AFullCacheRefusesAtBeginAndTheNewestStays) {
  harness_.config.cache.bypass = false;
  StartWith(3 * kMiB);
  const DatasetId first = Make(1);
  const local::Reply refused = client_->Begin(2, memory_);
  EXPECT_SAYS(refused, local::RESOURCE_EXHAUSTED, "the cache");
  EXPECT_SAYS(refused, local::RESOURCE_EXHAUSTED, "is full");
  EXPECT_SAYS(refused, local::RESOURCE_EXHAUSTED, "dataset " + std::to_string(first) + " of run ");
  EXPECT_SAYS(refused, local::RESOURCE_EXHAUSTED, "goes once it is on the prefix");
  EXPECT_TRUE(HasFolder(first));
  EXPECT_SAYS(client_->Test(first, local::LOCAL), local::OK, "");
  EXPECT_SAYS(client_->Checkpoint(3, {PlainOf(1, "small")}), local::OK, "");
}

// It is whole, and perhaps the only copy: nobody but a person may remove it.
TEST_F(EvictionTest, AFullCacheTellsOfWholeDatasetsThatLieAside) {
  harness_.config.cache.bypass = false;
  StartWith(3 * kMiB);
  Make(1);
  const std::string aside = harness_.CacheFolderPath() + "/taken.9.1";
  client_ = nullptr;
  harness_.Stop();
  ASSERT_TRUE(harness_.cache_disk().MakeDirectory(aside, 0700).ok());
  ASSERT_TRUE(ReplaceFile(harness_.cache_disk(), aside + "/file", std::string(kMiB / 2, 'x'), 0600).ok());
  StartWith(3 * kMiB);
  const local::Reply refused = client_->Begin(2, memory_);
  EXPECT_SAYS(refused, local::RESOURCE_EXHAUSTED,
              aside +
                  ", 524288 bytes: is whole, but another dataset has its number; stays until it is removed "
                  "(`cairn rm prefix --set-aside all`)");
}

// Without a way past the cache the next one waits until the one before is safe, within the call's deadline.
class RoomToComeTest : public EvictionTest {
 protected:
  // The flush of step 1 is held up by `gate_`, and the cache holds one dataset.
  void HoldUpTheFirst() {
    prefix_disk_.SetHook(gate_.hook());
    daemon_.config.cache.bypass = false;
    daemon_.config.cache.bytes_max = 3 * kMiB;
    daemon_.config.flush.every = 1;
    ASSERT_TRUE(daemon_.Start().ok());
    one_ = std::make_unique<FakeClient>(daemon_);
    ASSERT_SAYS(one_->Open({}), local::OK, "");
    const local::Reply done = one_->Checkpoint(1, memory_);
    ASSERT_SAYS(done, local::OK, "");
    first_ = done.committed().dataset();
    gate_.AwaitArrival();
  }
  FakeDisk prefix_disk_;
  Gate gate_{FakeOp::kWrite, "/ckpt."};
  CoreHarness daemon_{nullptr, &prefix_disk_};
  std::unique_ptr<FakeClient> one_;
  DatasetId first_ = 0;
};

TEST_F(RoomToComeTest, ABeginWaitsForTheFlushThatMakesRoom) {
  HoldUpTheFirst();
  const std::uint64_t waiting = one_->SendBegin(2, memory_);
  FakeClient other(daemon_);  // of another run: its begin waits, too, and what is small does not
  ASSERT_SAYS(other.Open({.prefix = daemon_.root() + "/other"}), local::OK, "");
  EXPECT_SAYS(other.Checkpoint(1, {PlainOf(1, "small")}), local::OK, "");
  EXPECT_FALSE(one_->HasReply(waiting));
  gate_.Open();
  EXPECT_SAYS(one_->TakeBegin(waiting), local::OK, "");
  EXPECT_SAYS(one_->Test(first_, local::PREFIX), local::OK, "");
}

TEST_F(RoomToComeTest, AtItsDeadlineItSaysWhatHoldsTheRoom) {
  HoldUpTheFirst();
  const local::Reply late = one_->TakeBegin(one_->SendBegin(2, memory_, 50));
  EXPECT_SAYS(late, local::DEADLINE_EXCEEDED, "room (the cache");
  EXPECT_SAYS(late, local::DEADLINE_EXCEEDED, "dataset " + std::to_string(first_) + " of run ");
  EXPECT_SAYS(late, local::DEADLINE_EXCEEDED, "goes once it is on the prefix");
  gate_.Open();
  EXPECT_SAYS(one_->Checkpoint(2, memory_), local::OK, "");  // the session goes on
}

TEST_F(RoomToComeTest, WhatWillNeverFitIsRefusedAtOnce) {
  HoldUpTheFirst();
  EXPECT_SAYS(one_->Begin(2, {PlainOf(1, RandomBytes(1, 4 * kMiB))}), local::RESOURCE_EXHAUSTED, "is full");
  gate_.Open();
}

TEST_F(RoomToComeTest, WhoGoesMeanwhileLeavesNothing) {
  HoldUpTheFirst();
  FakeClient two(daemon_);
  ASSERT_SAYS(two.Open({.prefix = daemon_.root() + "/other"}), local::OK, "");
  two.SendBegin(1, memory_);
  two.Drop();
  gate_.Open();
  EXPECT_TRUE(daemon_.Eventually([&] { return CodeOfReply(one_->Test(first_, local::PREFIX)) == local::OK; }));
  EXPECT_SAYS(one_->Checkpoint(2, memory_), local::OK, "");
}

// A cache that holds one dataset but not two works: what is safe on the prefix gives way, what is not is passed by.
TEST_F(EvictionTest, EachSizeOfACacheTakesOneCheckpointAfterTheOther) {
  for (const double datasets : {0.5, 1.2, 1.9, 2.5}) {
    SCOPED_TRACE(datasets);
    for (const std::uint32_t every : {0u, 1u}) {
      CoreHarness harness;
      harness.config.cache.bytes_max = static_cast<std::uint64_t>(datasets * 2 * kMiB);
      harness.config.flush.every = every;
      ASSERT_TRUE(harness.Start().ok());
      FakeClient client(harness), other(harness);
      ASSERT_SAYS(client.Open({}), local::OK, "");
      ASSERT_SAYS(other.Open({.prefix = harness.root() + "/other"}), local::OK, "");
      for (std::uint64_t step = 1; step <= 5; ++step) {
        for (FakeClient* one : {&client, &other}) {
          const local::Reply done = one->Checkpoint(step, memory_);
          ASSERT_SAYS(done, local::OK, "");
          ASSERT_SAYS(one->Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
        }
        EXPECT_LE(harness.Status().cache_bytes_used(), harness.config.cache.bytes_max);
      }
      FakeClient next(harness);
      ASSERT_SAYS(next.Open({.key = "job.2", .takeover = true}), local::OK, "");
      const local::Reply latest = next.Latest();
      ASSERT_SAYS(latest, local::OK, "");
      EXPECT_EQ(latest.latest().step(), 5u);
      Memory back = Blank(memory_);
      EXPECT_EQ(next.Restore(latest.latest().dataset(), back).code, local::OK);
      EXPECT_EQ(back[0].bytes, memory_[0].bytes);
    }
  }
}

TEST_F(EvictionTest, ForWhatCanNeverFitNothingIsEvicted) {
  harness_.config.cache.bypass = false;
  StartWith(5 * kMiB);
  const DatasetId first = Make(1), second = Make(2);
  EXPECT_SAYS(client_->Begin(3, {PlainOf(1, RandomBytes(1, 6 * kMiB))}), local::RESOURCE_EXHAUSTED, "is full");
  EXPECT_SAYS(client_->Begin(3, {PlainOf(1, RandomBytes(1, 4 * kMiB))}), local::RESOURCE_EXHAUSTED, "is full");
  EXPECT_TRUE(HasFolder(first));
  EXPECT_TRUE(HasFolder(second));
}

TEST_F(EvictionTest, ASecondRankThatDoesNotFitFailsTheDatasetForAll) {
  StartWith(5 * kMiB);
  client_ = nullptr;
  Ranks ranks(harness_, 2, "job.2");
  const local::Reply begun = ranks[0].Checkpoint(1, memory_);
  ASSERT_SAYS(begun, local::OK, "");
  const std::uint64_t waiting = ranks[0].SendWait(begun.committed().dataset(), local::LOCAL);
  EXPECT_SAYS(ranks[1].Begin(1, {PlainOf(1, RandomBytes(1, 4 * kMiB))}), local::RESOURCE_EXHAUSTED, "is full");
  EXPECT_SAYS(ranks[0].Next(waiting), local::FAILED, "rank 1");
}

TEST_F(EvictionTest, AnUnflushedOutputStays) {
  StartWith(7 * kMiB);
  harness_.config.flush.every = 0;
  const local::Reply begun = client_->OutputBegin(1, /*checkpoint=*/false, /*output=*/true);
  ASSERT_SAYS(begun, local::OK, "");
  const local::Reply routed = client_->RouteFile("plot.dat");
  ASSERT_SAYS(routed, local::OK, "");
  harness_.Write(harness_.cache_disk(), routed.route_file().path(), RandomBytes(9, 2 * kMiB));
  ASSERT_SAYS(client_->OutputEnd(), local::OK, "");
  const DatasetId output = begun.output_begin().dataset();
  ASSERT_SAYS(client_->Wait(output, local::LOCAL), local::OK, "");
  for (std::uint64_t step = 2; step <= 5; ++step) Make(step);
  // It goes to the prefix by itself; only then may it leave.
  EXPECT_TRUE(HasFolder(output) || harness_.Row(output).in_prefix());
  ASSERT_SAYS(client_->Wait(output, local::PREFIX), local::OK, "");
  EXPECT_EQ(harness_.Read(harness_.prefix_disk(), harness_.prefix() + "/plot.dat"), RandomBytes(9, 2 * kMiB));
}

TEST_F(EvictionTest, KeepTakesWholeOnesBeyondTheNewest) {
  harness_.config.cache.keep = 1;
  StartWith(1 << 30);
  const DatasetId first = Make(1), second = Make(2), third = Make(3), fourth = Make(4);
  EXPECT_TRUE(LosesFolder(first));
  EXPECT_TRUE(LosesFolder(second));
  EXPECT_TRUE(HasFolder(third));
  EXPECT_TRUE(HasFolder(fourth));
}

TEST_F(EvictionTest, LingerTakesWhatIsOnThePrefixWhenTheApplicationIsGone) {
  harness_.config.cache.linger_ms = 1;
  StartWith(1 << 30);
  const DatasetId first = Make(1), second = Make(2);
  ASSERT_SAYS(client_->Wait(second, local::PREFIX), local::OK, "");
  EXPECT_TRUE(HasFolder(second));
  ASSERT_SAYS(client_->Close(), local::OK, "");
  EXPECT_TRUE(LosesFolder(second));
  EXPECT_TRUE(HasFolder(first));  // not on the prefix
}

TEST_F(EvictionTest, OneThatIsPinnedByLatestStaysUntilItIsRestored) {
  harness_.config.cache.bypass = false;
  StartWith(7 * kMiB);
  const DatasetId first = Make(1);
  ASSERT_SAYS(client_->Wait(first, local::PREFIX), local::OK, "");
  ASSERT_SAYS(client_->Close(), local::OK, "");
  FakeClient other(harness_), third(harness_);
  ASSERT_SAYS(other.Open({.key = "job.2"}), local::OK, "");
  ASSERT_EQ(other.Latest().latest().dataset(), first);
  // Another run wants all the room.
  ASSERT_SAYS(third.Open({.key = "other", .prefix = harness_.prefix() + "2"}), local::OK, "");
  EXPECT_SAYS(third.Begin(1, {PlainOf(1, RandomBytes(1, 6 * kMiB))}), local::RESOURCE_EXHAUSTED, "");
  EXPECT_TRUE(HasFolder(first));
  EXPECT_EQ(harness_.Remove(first).code(), local::FAILED_PRECONDITION);
}

TEST_F(EvictionTest, TheRunThatWantsRoomGivesWayFirst) {
  StartWith(9 * kMiB);  // four of them
  const DatasetId mine = Make(1);
  Make(2);
  FakeClient other(harness_);
  ASSERT_SAYS(other.Open({.key = "other", .prefix = harness_.prefix() + "2"}), local::OK, "");
  for (std::uint64_t step = 1; step <= 3; ++step) {
    const local::Reply done = other.Checkpoint(step, memory_);
    ASSERT_SAYS(done, local::OK, "");
    ASSERT_SAYS(other.Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
  }
  EXPECT_TRUE(HasFolder(mine));
}

TEST_F(EvictionTest, ARunGivesItsNewestOnceItIsOnThePrefixAndIsRestoredFromThere) {
  harness_.config.cache.bypass = false;
  StartWith(3 * kMiB);
  const DatasetId first = Make(1);
  FakeClient other(harness_);
  ASSERT_SAYS(other.Open({.key = "other", .prefix = harness_.prefix() + "2"}), local::OK, "");
  EXPECT_SAYS(other.Begin(1, memory_), local::RESOURCE_EXHAUSTED, "is full");  // it is nowhere else
  EXPECT_TRUE(HasFolder(first));
  ASSERT_SAYS(client_->Wait(first, local::PREFIX), local::OK, "");
  const local::Reply done = other.Checkpoint(2, memory_);
  ASSERT_SAYS(done, local::OK, "");
  ASSERT_SAYS(other.Wait(done.committed().dataset(), local::PREFIX), local::OK, "");
  EXPECT_TRUE(LosesFolder(first));
  ASSERT_SAYS(client_->Close(), local::OK, "");
  ASSERT_SAYS(other.Close(), local::OK, "");

  FakeClient again(harness_);
  ASSERT_SAYS(again.Open({.key = "job.2"}), local::OK, "");
  ASSERT_EQ(again.Latest().latest().dataset(), first);
  Memory back = Blank(memory_);
  const FakeClient::Restored restored = again.Restore(first, back);
  EXPECT_EQ(restored.code, local::OK) << restored.message;
  EXPECT_EQ(restored.tier, local::TIER_PREFIX);
  EXPECT_TRUE(back[0].bytes == memory_[0].bytes);
}

TEST_F(EvictionTest, ARunThatIsOverKeepsItsNewestIfItIsNowhereElse) {
  harness_.config.flush.every = 0;
  harness_.config.cache.bypass = false;
  StartWith(3 * kMiB);
  const DatasetId first = Make(1);
  ASSERT_SAYS(client_->Close(), local::OK, "");
  FakeClient other(harness_);
  ASSERT_SAYS(other.Open({.key = "other", .prefix = harness_.prefix() + "2"}), local::OK, "");
  EXPECT_SAYS(other.Begin(1, memory_), local::RESOURCE_EXHAUSTED, "is full");
  EXPECT_TRUE(HasFolder(first));
}

// --- What the user removes ---

TEST_F(EvictionTest, RemoveTakesItEverywhere) {
  StartWith(1 << 30);
  const DatasetId first = Make(1), second = Make(2);
  ASSERT_SAYS(client_->Wait(first, local::PREFIX), local::OK, "");
  ASSERT_EQ(harness_.Pin(first, true).code(), local::OK);
  EXPECT_EQ(harness_.Remove(first).code(), local::FAILED_PRECONDITION);  // pinned
  ASSERT_EQ(harness_.Pin(first, false).code(), local::OK);
  EXPECT_EQ(harness_.Remove(first).code(), local::OK);
  EXPECT_TRUE(LosesFolder(first));
  EXPECT_FALSE(harness_.IsThere(harness_.prefix_disk(), harness_.PrefixFile(first, 0)));
  EXPECT_SAYS(client_->Test(first, local::LOCAL), local::NOT_FOUND, "removed");
  EXPECT_EQ(harness_.Remove(first).code(), local::NOT_FOUND);
  EXPECT_EQ(harness_.Remove(second).code(), local::OK);
  EXPECT_SAYS(client_->Test(second, local::LOCAL), local::NOT_FOUND, "removed");
  client_ = nullptr;
  harness_.Restart();
  EXPECT_TRUE(harness_.List().empty());
}

}  // namespace
}  // namespace cairn
