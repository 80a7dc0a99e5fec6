// Images within the budget: rings, waits, refusals, and what is kept. design.md, "The image".
#include <gtest/gtest.h>

#include <future>

#include "tests/daemon/core/fake_client.h"

namespace cairn {
namespace {

class ImagesTest : public ::testing::Test {
 protected:
  void StartWith(std::uint64_t image_bytes) {
    harness_.config.image.bytes_max = image_bytes;
    ASSERT_TRUE(harness_.Start().ok());
  }

  CoreHarness harness_;
};

TEST_F(ImagesTest, AFileLargerThanTheBudgetGoesThroughARing) {
  StartWith(4 << 20);
  const Memory memory = {PlainOf(1, RandomBytes(1, 11 << 20)), ValueOf(2, "step", 3)};
  DatasetId id = 0;
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    const local::Reply begun = client.Begin(1, memory);
    ASSERT_SAYS(begun, local::OK, "");
    EXPECT_LE(begun.begin().image().bytes(), 4u << 20);
    EXPECT_EQ(client.plan().after_released_size(), client.plan().bytes_size());
    ASSERT_TRUE(client.Fill(memory));
    const local::Reply done = client.Commit();
    ASSERT_SAYS(done, local::OK, "");
    id = done.committed().dataset();
    ASSERT_SAYS(client.Wait(id, local::LOCAL), local::OK, "");
    Memory back = Blank(memory);
    const FakeClient::Restored restored = client.Restore(id, back);
    EXPECT_EQ(restored.code, local::OK) << restored.message;
    EXPECT_EQ(restored.tier, local::TIER_CACHE);  // a ring keeps nothing
    EXPECT_TRUE(back[0].bytes == memory[0].bytes);
    // Once more, in the same ring, by the same plan.
    ASSERT_SAYS(client.Checkpoint(2, memory), local::OK, "");
  }
  harness_.Restart();
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "job.2"}), local::OK, "");
  Memory back = Blank(memory);
  EXPECT_EQ(client.Restore(id, back).code, local::OK);
  EXPECT_TRUE(back[0].bytes == memory[0].bytes);
  EXPECT_EQ(NumberIn(back[1]), 3u);
}

TEST_F(ImagesTest, ARingWorksForClientsWithoutSharedMemory) {
  StartWith(4 << 20);
  FakeClient client(harness_, {.shares_memory = false});
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const Memory memory = {PlainOf(1, RandomBytes(1, 11 << 20))};
  const local::Reply done = client.Checkpoint(1, memory);
  ASSERT_SAYS(done, local::OK, "");
  ASSERT_SAYS(client.Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
  Memory back = Blank(memory);
  EXPECT_EQ(client.Restore(done.committed().dataset(), back).code, local::OK);
  EXPECT_TRUE(back[0].bytes == memory[0].bytes);
}

TEST_F(ImagesTest, AClientThatFillsASlotBeforeItIsReleasedSpoilsItsDataset) {
  StartWith(2 << 20);
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const Memory memory = {PlainOf(1, RandomBytes(1, 11 << 20))};
  const local::Reply begun = client.Begin(1, memory);
  ASSERT_SAYS(begun, local::OK, "");
  client.Filled(static_cast<std::uint64_t>(client.plan().bytes_size()));
  const local::Reply waited = client.Wait(begun.begin().dataset(), local::CAPTURED);
  EXPECT_SAYS(waited, local::FAILED, "rank 0");
  EXPECT_SAYS(client.Commit(), local::FAILED, "rank 0");
  EXPECT_SAYS(client.Checkpoint(2, memory), local::OK, "");
}

TEST_F(ImagesTest, ABudgetBelowTheSmallestRingIsRefusedAtBegin) {
  StartWith(1 << 20);
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const local::Reply refused = client.Begin(1, {PlainOf(1, RandomBytes(1, 3 << 20))});
  EXPECT_SAYS(refused, local::RESOURCE_EXHAUSTED, "image.bytes_max");
  // The refusal has not left the session with a checkpoint that is begun.
  EXPECT_SAYS(client.Begin(2, {PlainOf(1, RandomBytes(1, 3 << 20))}), local::RESOURCE_EXHAUSTED, "image.bytes_max");
  EXPECT_SAYS(client.Checkpoint(3, {PlainOf(1, "")}), local::OK, "");  // no bytes, no image
}

TEST_F(ImagesTest, ABeginThatGetsNoImageInTimeSaysSoAndTheNextOneWorks) {
  StartWith(4 << 20);
  const Memory memory = {PlainOf(1, RandomBytes(1, 4 << 20))};
  Ranks ranks(harness_, 2, "job.1");
  const local::Reply first = ranks[0].Begin(1, memory);  // takes it all
  ASSERT_SAYS(first, local::OK, "");
  const local::Reply expired = ranks[1].TakeBegin(ranks[1].SendBegin(1, memory, /*deadline_ms=*/20));
  EXPECT_SAYS(expired, local::DEADLINE_EXCEEDED, "room for an image of 4194304 bytes");
  EXPECT_SAYS(expired, local::DEADLINE_EXCEEDED, "within 20 ms");
  EXPECT_SAYS(ranks[0].Test(first.begin().dataset(), local::CAPTURED), local::FAILED, "rank 1: no image in time");
  EXPECT_SAYS(ranks[0].Commit(), local::FAILED, "rank 1");
  EXPECT_NE(ranks.Checkpoint(2, {memory, memory}), 0u);
}

TEST_F(ImagesTest, AKeptImageGivesWayToADatasetThatWaits) {
  StartWith(4 << 20);
  const Memory memory = {PlainOf(1, RandomBytes(1, 4 << 20))};
  Ranks ranks(harness_, 2, "job.1");
  ASSERT_SAYS(ranks[0].Begin(1, memory), local::OK, "");
  const std::uint64_t begin = ranks[1].SendBegin(1, memory);  // waits: all is in use
  ranks[0].Fill(memory);
  const local::Reply done = ranks[0].Commit();
  ASSERT_SAYS(done, local::OK, "");
  ASSERT_SAYS(ranks[1].TakeBegin(begin), local::OK, "");  // rank 0's is on disk, its image gives way
  ranks[1].Fill(memory);
  ASSERT_SAYS(ranks[1].Commit(), local::OK, "");
  EXPECT_SAYS(ranks[0].Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
}

TEST_F(ImagesTest, ADatasetThatFailsEndsTheWaitForItsImageAtOnce) {
  StartWith(4 << 20);
  const Memory memory = {PlainOf(1, RandomBytes(1, 4 << 20))};
  Ranks ranks(harness_, 2, "job.1");
  ASSERT_SAYS(ranks[0].Begin(1, memory), local::OK, "");
  const std::uint64_t begin = ranks[1].SendBegin(1, memory);
  ASSERT_SAYS(ranks[0].Abort("changed its mind"), local::OK, "");
  EXPECT_SAYS(ranks[1].TakeBegin(begin), local::FAILED, "changed its mind");
  EXPECT_NE(ranks.Checkpoint(2, {memory, memory}), 0u);
}

TEST_F(ImagesTest, InSteadyStateTwoImagesOfASessionTakeTurns) {
  StartWith(64 << 20);
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const Memory memory = {PlainOf(1, RandomBytes(1, 3 << 20))};
  for (std::uint64_t step = 1; step <= 12; ++step) {
    const local::Reply done = client.Checkpoint(step, memory);
    ASSERT_SAYS(done, local::OK, "");
    ASSERT_SAYS(client.Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
  }
  EXPECT_LE(client.images().size(), 3u);
  EXPECT_LE(harness_.Status().image_bytes_used(), 12u << 20);
}

// As soon as the client has said how much it protects.
TEST_F(ImagesTest, ImagesAreMadeBeforeTheFirstCheckpoint) {
  StartWith(64 << 20);
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  client.Expect(1 << 20);
  client.Expect(3 << 20);  // the last word counts
  ASSERT_TRUE(harness_.Eventually([this] { return harness_.Status().image_bytes_used() == 8u << 20; }));
  const Memory memory = {PlainOf(1, RandomBytes(1, 3 << 20))};
  for (std::uint64_t step = 1; step <= 2; ++step) {  // back to back
    ASSERT_SAYS(client.Checkpoint(step, memory), local::OK, "");
    EXPECT_EQ(harness_.Status().image_bytes_used(), 8u << 20);
  }
  client.Expect(2 << 20);
  client.Expect(5 << 20);
  // Besides the kept one; the other, if it is idle by now, is too small and gives way.
  ASSERT_TRUE(harness_.Eventually([this] { return harness_.Status().image_bytes_used() >= 10u << 20; }));
  ASSERT_SAYS(client.Close(), local::OK, "");
}

TEST_F(ImagesTest, MoreSessionsThanThreadsAllGetTheirs) {
  StartWith(256 << 20);
  Ranks ranks(harness_, 7, "job.1");
  for (Rank rank = 0; rank < 7; ++rank) ranks[rank].Expect(6 << 20);
  const std::vector<Memory> memory(7, {PlainOf(1, RandomBytes(1, 6 << 20))});
  EXPECT_NE(ranks.Checkpoint(1, memory), 0u) << "those that are asked for are made first";
  ASSERT_TRUE(harness_.Eventually([this] { return harness_.Status().image_bytes_used() == 7 * (12u << 20); }));
  EXPECT_NE(ranks.Checkpoint(2, memory), 0u);
  EXPECT_EQ(harness_.Status().image_bytes_used(), 7 * (12u << 20));
}

TEST_F(ImagesTest, WhatIsMadeAheadGivesWayAndKeepsToTheBudget) {
  StartWith(12 << 20);
  Ranks ranks(harness_, 2, "job.1");
  ranks[0].Expect(4 << 20);
  ASSERT_TRUE(harness_.Eventually([this] { return harness_.Status().image_bytes_used() == 8u << 20; }));
  ranks[1].Expect(100 << 20);  // more than there is: nothing
  const Memory large = {PlainOf(1, RandomBytes(1, 8 << 20))};
  const Memory small = {PlainOf(1, RandomBytes(1, 4 << 20))};
  EXPECT_NE(ranks.Checkpoint(1, {small, large}), 0u);
  EXPECT_LE(harness_.Status().image_bytes_used(), 12u << 20);
  EXPECT_NE(ranks.Checkpoint(2, {small, large}), 0u);
}

// It is asked for while it is being made: one image, not two.
TEST_F(ImagesTest, ABeginWaitsForWhatIsBeingMadeForIt) {
  StartWith(256 << 20);
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const Memory memory = {PlainOf(1, RandomBytes(1, 40 << 20))};
  client.Expect(40 << 20);
  ASSERT_TRUE(harness_.Eventually([this] { return harness_.Status().image_bytes_used() > 0; }));
  ASSERT_SAYS(client.Checkpoint(1, memory), local::OK, "");
  EXPECT_LE(harness_.Status().image_bytes_used(), 80u << 20);
}

TEST_F(ImagesTest, WithoutSharedMemoryNoDescriptorGoesOut) {
  StartWith(64 << 20);
  FakeClient client(harness_, {.shares_memory = false});
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const local::Reply begun = client.Begin(1, {PlainOf(1, "abc")});
  ASSERT_SAYS(begun, local::OK, "");
  EXPECT_FALSE(begun.begin().has_image());
  EXPECT_TRUE(client.images().empty());
}

// It would wait for its own room.
TEST_F(ImagesTest, ARestoreWhoseKeptImageFillsTheBudgetReadsTheCache) {
  StartWith(4 << 20);
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const Memory memory = {PlainOf(1, RandomBytes(1, 3 << 20))};
  const local::Reply done = client.Checkpoint(1, memory);
  ASSERT_SAYS(client.Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
  Memory back = Blank(memory);
  const FakeClient::Restored restored = client.Restore(done.committed().dataset(), back);
  EXPECT_EQ(restored.code, local::OK) << restored.message;
  EXPECT_EQ(restored.tier, local::TIER_CACHE);
  EXPECT_TRUE(back[0].bytes == memory[0].bytes);
}

TEST_F(ImagesTest, RestoresOfSeveralRanksFitIntoASmallBudget) {
  StartWith(8 << 20);
  std::vector<Memory> memory;
  for (Rank rank = 0; rank < 3; ++rank) memory.push_back({PlainOf(1, RandomBytes(rank, 4 << 20))});
  DatasetId id = 0;
  {
    Ranks ranks(harness_, 3, "job.1");
    id = ranks.Checkpoint(1, memory);
    ASSERT_NE(id, 0u);
    ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  }
  harness_.Restart();
  Ranks ranks(harness_, 3, "job.2");
  std::vector<Memory> back;
  for (const Memory& one : memory) back.push_back(Blank(one));
  for (const FakeClient::Restored& one : ranks.Restore(id, back)) EXPECT_EQ(one.code, local::OK) << one.message;
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_TRUE(back[rank][0].bytes == memory[rank][0].bytes);
}

// --- gRPC's resume ---

TEST_F(ImagesTest, ABrokenStreamGoesOnWhereItWas) {
  StartWith(64 << 20);
  FakeClient client(harness_, {.shares_memory = false, .resumable = true});
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const Memory memory = {PlainOf(1, RandomBytes(1, 5 << 20))};
  const local::Reply begun = client.Begin(1, memory);
  ASSERT_SAYS(begun, local::OK, "");
  client.Fill(memory, 0, 2);
  client.Drop();

  FakeClient again(harness_, {.shares_memory = false, .resumable = true});
  ASSERT_SAYS(again.Open({.launch = client.launch(), .token = client.token()}), local::OK, "");
  local::Request resume;
  resume.mutable_resume()->set_dataset(begun.begin().dataset());
  const local::Reply resumed = again.Ask(resume);
  ASSERT_SAYS(resumed, local::OK, "");
  EXPECT_EQ(resumed.resume().pieces(), 2u);
  EXPECT_FALSE(resumed.resume().committed());
  again.TakeOver(client);
  ASSERT_TRUE(again.Fill(memory, 1));  // one again: it is passed over
  ASSERT_SAYS(again.Commit(), local::OK, "");
  resume.mutable_resume()->set_dataset(begun.begin().dataset());
  EXPECT_TRUE(again.Ask(resume).resume().committed());
  ASSERT_SAYS(again.Wait(begun.begin().dataset(), local::LOCAL), local::OK, "");
  Memory back = Blank(memory);
  EXPECT_EQ(again.Restore(begun.begin().dataset(), back).code, local::OK);
  EXPECT_TRUE(back[0].bytes == memory[0].bytes);
  resume.mutable_resume()->set_dataset(4711);
  EXPECT_SAYS(again.Ask(resume), local::NOT_FOUND, "4711");
}

TEST_F(ImagesTest, AStreamThatDoesNotComeBackInTimeIsLost) {
  harness_.config.ingest.resume_ms = 10;
  StartWith(64 << 20);
  FakeClient watcher(harness_), client(harness_, {.shares_memory = false, .resumable = true});
  ASSERT_SAYS(client.Open({.rank = 0, .nranks = 2}), local::OK, "");
  ASSERT_SAYS(watcher.Open({.rank = 1, .nranks = 2}), local::OK, "");
  const local::Reply begun = client.Begin(1, {PlainOf(1, "abc")});
  ASSERT_SAYS(begun, local::OK, "");
  const std::uint64_t waiting = watcher.SendWait(begun.begin().dataset(), local::LOCAL);
  client.Drop();
  EXPECT_SAYS(watcher.Next(waiting), local::FAILED, "rank 0 was lost");
}

}  // namespace
}  // namespace cairn
