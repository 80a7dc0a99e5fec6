// Restores from whole copies: who gets what, when, and who is refused. design.md, "Restore".
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <future>

#include "tests/daemon/core/fake_client.h"

namespace cairn {
namespace {

class RestoreTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(harness_.Start().ok()); }

  static std::vector<Memory> MemoryOf(std::uint32_t nranks, std::size_t bytes = 3 << 20) {
    std::vector<Memory> memory;
    for (Rank rank = 0; rank < nranks; ++rank) {
      memory.push_back({PlainOf(1, RandomBytes(rank + 1, bytes + rank)), ValueOf(2, "step", 42),
                        ArrayOf(3, "u", {8 * nranks}, {8 * rank}, {8}, RandomBytes(100 + rank, 8))});
    }
    return memory;
  }
  static std::vector<Memory> BlankOf(std::vector<Memory> memory) {
    for (Memory& one : memory) one = Blank(std::move(one));
    return memory;
  }
  static void ExpectSame(const std::vector<Memory>& a, const std::vector<Memory>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t rank = 0; rank < a.size(); ++rank) {
      for (std::size_t i = 0; i < a[rank].size(); ++i) {
        EXPECT_TRUE(a[rank][i].bytes == b[rank][i].bytes) << "rank " << rank << ", variable " << i;
      }
    }
  }

  CoreHarness harness_;
};

TEST_F(RestoreTest, GivesEveryRankItsMemoryBackFromTheImages) {
  Ranks ranks(harness_, 2, "job.1");
  const std::vector<Memory> memory = MemoryOf(2);
  const DatasetId id = ranks.Checkpoint(1, memory);
  ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  std::vector<Memory> back = BlankOf(memory);
  for (const FakeClient::Restored& one : ranks.Restore(id, back)) {
    EXPECT_EQ(one.code, local::OK) << one.message;
    EXPECT_EQ(one.tier, local::TIER_IMAGE);
  }
  ExpectSame(back, memory);
}

TEST_F(RestoreTest, GivesItBackFromTheCacheAfterARestartOfTheDaemon) {
  const std::vector<Memory> memory = MemoryOf(2);
  DatasetId id = 0;
  {
    Ranks ranks(harness_, 2, "job.1");
    id = ranks.Checkpoint(1, memory);
    ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  }
  harness_.Restart();
  Ranks ranks(harness_, 2, "job.2");
  EXPECT_EQ(ranks[1].Latest().latest().dataset(), id);
  std::vector<Memory> back = BlankOf(memory);
  for (const FakeClient::Restored& one : ranks.Restore(id, back)) {
    EXPECT_EQ(one.code, local::OK) << one.message;
    EXPECT_EQ(one.tier, local::TIER_CACHE);
  }
  ExpectSame(back, memory);
}

TEST_F(RestoreTest, GivesItBackFromThePrefixWhenTheCacheIsGone) {
  const std::vector<Memory> memory = MemoryOf(2);
  DatasetId id = 0;
  {
    Ranks ranks(harness_, 2, "job.1");
    id = ranks.Checkpoint(1, memory);
    ASSERT_SAYS(ranks[0].Wait(id, local::PREFIX), local::OK, "");
  }
  harness_.Stop();
  harness_.config.cache.path = harness_.root() + "/another_node";
  ASSERT_TRUE(harness_.Start().ok());
  Ranks ranks(harness_, 2, "job.2");
  const local::Reply latest = ranks[0].Latest();
  ASSERT_SAYS(latest, local::OK, "");
  EXPECT_EQ(latest.latest().dataset(), id);
  std::vector<Memory> back = BlankOf(memory);
  for (const FakeClient::Restored& one : ranks.Restore(id, back)) {
    EXPECT_EQ(one.code, local::OK) << one.message;
    EXPECT_EQ(one.tier, local::TIER_PREFIX);
  }
  ExpectSame(back, memory);
}

TEST_F(RestoreTest, ADatasetThatOnlyThePrefixHasIsKnownAlsoIfAFlushOpenedItFirst) {
  const std::vector<Memory> memory = MemoryOf(1);
  DatasetId old = 0, young = 0;
  {
    Ranks ranks(harness_, 1, "job.1");
    old = ranks.Checkpoint(1, memory);
    ASSERT_SAYS(ranks[0].Wait(old, local::PREFIX), local::OK, "");
    young = ranks.Checkpoint(2, memory);
    ASSERT_SAYS(ranks[0].Wait(young, local::LOCAL), local::OK, "");
    ASSERT_EQ(harness_.Remove(old).code(), local::OK);  // also from the prefix
    old = ranks.Checkpoint(3, memory);
    ASSERT_SAYS(ranks[0].Wait(old, local::PREFIX), local::OK, "");
  }
  // The node loses the dataset that is on the prefix, and keeps an older one that is not.
  const std::string folder = harness_.CacheFolderPath() + "/scr.dataset." + std::to_string(old);
  harness_.Stop();
  ASSERT_TRUE(RemoveTree(harness_.cache_disk(), folder).ok());
  harness_.config.flush.every = 1;
  ASSERT_TRUE(harness_.Start().ok());
  ASSERT_EQ(harness_.Wait(young, local::PREFIX).status().code(), local::OK);  // flushed: nobody has opened the run
  Ranks ranks(harness_, 1, "job.2");
  EXPECT_EQ(ranks[0].Latest().latest().dataset(), old);
}

TEST_F(RestoreTest, GoesInPiecesToClientsWithoutSharedMemory) {
  Ranks ranks(harness_, 2, "job.1", {.shares_memory = false});
  const std::vector<Memory> memory = MemoryOf(2);
  const DatasetId id = ranks.Checkpoint(1, memory);
  ASSERT_NE(id, 0u);
  ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  std::vector<Memory> back = BlankOf(memory);
  for (const FakeClient::Restored& one : ranks.Restore(id, back)) EXPECT_EQ(one.code, local::OK) << one.message;
  ExpectSame(back, memory);
}

TEST_F(RestoreTest, ASubsetOfTheVariablesMayBeAskedFor) {
  Ranks ranks(harness_, 1, "job.1");
  const std::vector<Memory> memory = MemoryOf(1);
  const DatasetId id = ranks.Checkpoint(1, memory);
  ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  Memory one = {Blank(memory[0])[1]};
  EXPECT_EQ(ranks[0].Restore(id, one).code, local::OK);
  EXPECT_EQ(NumberIn(one[0]), 42u);
  Memory none;
  EXPECT_EQ(ranks[0].Restore(id, none).code, local::OK);
}

TEST_F(RestoreTest, AValueComesFromTheLowestRankOnAnyNumberOfRanks) {
  DatasetId id = 0;
  {
    Ranks writers(harness_, 3, "job.1");
    // Rank 0 does not store it; ranks 1 and 2 say different things.
    id = writers.Checkpoint(1, {{}, {ValueOf(2, "step", 101)}, {ValueOf(2, "step", 102)}});
    ASSERT_SAYS(writers[0].Wait(id, local::LOCAL), local::OK, "");
    for (auto& client : writers.clients) ASSERT_SAYS(client->Close(), local::OK, "");
  }
  Ranks readers(harness_, 2, "job.2");
  std::vector<Memory> memory(2, {ValueOf(2, "step", 0)});
  for (const FakeClient::Restored& one : readers.Restore(id, memory)) EXPECT_EQ(one.code, local::OK) << one.message;
  EXPECT_EQ(NumberIn(memory[0][0]), 101u);
  EXPECT_EQ(NumberIn(memory[1][0]), 101u);
}

TEST_F(RestoreTest, APlainVariableOnAnotherNumberOfRanksIsRefusedByName) {
  const std::vector<Memory> memory = MemoryOf(2);
  DatasetId id = 0;
  {
    Ranks writers(harness_, 2, "job.1");
    id = writers.Checkpoint(1, memory);
    ASSERT_SAYS(writers[0].Wait(id, local::LOCAL), local::OK, "");
    for (auto& client : writers.clients) ASSERT_SAYS(client->Close(), local::OK, "");
  }
  Ranks reader(harness_, 1, "job.2");
  EXPECT_EQ(reader[0].Latest().latest().dataset(), id);
  Memory blank = Blank(memory[0]);
  const FakeClient::Restored restored = reader[0].Restore(id, blank);
  EXPECT_EQ(restored.code, local::FAILED_PRECONDITION) << restored.message;
  EXPECT_NE(restored.message.find("variable 1 "), std::string::npos) << restored.message;
  EXPECT_EQ(reader[0].Latest().latest().dataset(), id);
}

// Each way in which a request may differ from what was stored. All ranks are refused before a byte is written, and the
// pin stays.
struct Mismatch {
  std::string name;
  std::function<void(Memory&)> change;
  local::Code code;
  std::string part;
};

class MismatchTest : public RestoreTest, public ::testing::WithParamInterface<Mismatch> {};

TEST_P(MismatchTest, IsRefusedOnAllRanksAndMovesNoPin) {
  const std::vector<Memory> memory = MemoryOf(2);
  DatasetId id = 0;
  {
    Ranks writers(harness_, 2, "job.1");
    id = writers.Checkpoint(1, memory);
    ASSERT_SAYS(writers[0].Wait(id, local::LOCAL), local::OK, "");
  }
  Ranks ranks(harness_, 2, "job.2");
  ASSERT_EQ(ranks[0].Latest().latest().dataset(), id);
  std::vector<Memory> asked = BlankOf(memory);
  GetParam().change(asked[1]);
  const std::vector<Memory> before = asked;
  for (const FakeClient::Restored& one : ranks.Restore(id, asked)) {
    EXPECT_EQ(one.code, GetParam().code) << one.message;
    EXPECT_NE(one.message.find(GetParam().part), std::string::npos) << one.message;
    EXPECT_NE(one.message.find("rank 1"), std::string::npos) << one.message;
    EXPECT_EQ(one.pieces_copied, 0u);
  }
  ExpectSame(asked, before);
  // One after the other: who comes late is told the same.
  const FakeClient::Restored early = ranks[1].Restore(id, asked[1]);
  EXPECT_EQ(early.code, GetParam().code) << early.message;
  const FakeClient::Restored late = ranks[0].Restore(id, asked[0]);
  EXPECT_EQ(late.code, GetParam().code) << late.message;
  EXPECT_EQ(late.message, early.message);
  EXPECT_EQ(ranks[1].Latest().latest().dataset(), id);
  std::vector<Memory> back = BlankOf(memory);
  for (const FakeClient::Restored& one : ranks.Restore(id, back)) EXPECT_EQ(one.code, local::OK) << one.message;
  ExpectSame(back, memory);
}

INSTANTIATE_TEST_SUITE_P(
    Each, MismatchTest,
    ::testing::Values(
        Mismatch{"Missing", [](Memory& m) { m.push_back(PlainOf(77, "?")); }, local::NOT_FOUND, "variable 77"},
        Mismatch{"Count", [](Memory& m) { m[0] = PlainOf(1, "???"); }, local::FAILED_PRECONDITION, "variable 1"},
        Mismatch{"Type", [](Memory& m) { m[1].variable.set_type(4); }, local::FAILED_PRECONDITION, "variable 2"},
        Mismatch{"Kind", [](Memory& m) { m[1] = PlainOf(2, "????????"); }, local::FAILED_PRECONDITION, "variable 2"},
        Mismatch{"Name", [](Memory& m) { m[1] = ValueOf(2, "time", 0); }, local::FAILED_PRECONDITION, "variable 2"},
        Mismatch{"Shape", [](Memory& m) { m[2] = ArrayOf(3, "u", {32}, {8}, {8}, "????????"); },
                 local::FAILED_PRECONDITION, "shape"}),
    [](const auto& info) { return info.param.name; });

// --- All ranks or none ---

TEST_F(RestoreTest, WaitsForAllRanksAndSaysSoWhenTheyDoNotCome) {
  Ranks ranks(harness_, 2, "job.1");
  const std::vector<Memory> memory = MemoryOf(2);
  const DatasetId id = ranks.Checkpoint(1, memory);
  ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  Memory blank = Blank(memory[0]);
  const FakeClient::Restored restored =
      ranks[0].TakeRestore(ranks[0].SendRestore(id, blank, /*deadline_ms=*/20), blank);
  EXPECT_EQ(restored.code, local::DEADLINE_EXCEEDED);
  EXPECT_NE(restored.message.find("by all 2 ranks"), std::string::npos) << restored.message;
  EXPECT_EQ(restored.pieces_copied, 0u);
  std::vector<Memory> back = BlankOf(memory);
  for (const FakeClient::Restored& one : ranks.Restore(id, back)) EXPECT_EQ(one.code, local::OK) << one.message;
}

TEST_F(RestoreTest, ARankThatIsLostMakesItUnavailableForTheOthers) {
  Ranks ranks(harness_, 3, "job.1");
  const std::vector<Memory> memory = MemoryOf(3);
  const DatasetId id = ranks.Checkpoint(1, memory);
  ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  const std::uint64_t first = ranks[0].SendRestore(id, memory[0]);
  const std::uint64_t second = ranks[1].SendRestore(id, memory[1]);
  ranks[2].Drop();
  // Rank 2 was no part of it yet; its loss cannot be missed all the same.
  Memory blank = Blank(memory[0]);
  const FakeClient::Restored one = ranks[0].TakeRestore(first, blank);
  EXPECT_EQ(one.code, local::UNAVAILABLE) << one.message;
  EXPECT_NE(one.message.find("rank 2"), std::string::npos) << one.message;
  EXPECT_EQ(ranks[1].TakeRestore(second, blank).code, local::UNAVAILABLE);
}

TEST_F(RestoreTest, ARankThatIsLostWhileItCopiesMakesItUnavailableForTheOthers) {
  Ranks ranks(harness_, 2, "job.1");
  const std::vector<Memory> memory = MemoryOf(2);
  const DatasetId id = ranks.Checkpoint(1, memory);
  ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  const std::uint64_t lost = ranks[0].SendRestore(id, memory[0]);
  const std::uint64_t other = ranks[1].SendRestore(id, memory[1]);
  ASSERT_TRUE(ranks[0].Next(lost).has_restore());
  ranks[0].Drop();
  Memory blank = Blank(memory[1]);
  const FakeClient::Restored one = ranks[1].TakeRestore(other, blank);
  EXPECT_EQ(one.code, local::UNAVAILABLE) << one.message;
  EXPECT_NE(one.message.find("rank 0"), std::string::npos) << one.message;
}

TEST_F(RestoreTest, AnotherDatasetMeanwhileOrTheSameRankTwiceIsRefused) {
  Ranks ranks(harness_, 2, "job.1");
  const std::vector<Memory> memory = MemoryOf(2);
  const DatasetId first = ranks.Checkpoint(1, memory), second = ranks.Checkpoint(2, memory);
  ASSERT_SAYS(ranks[0].Wait(first, local::LOCAL), local::OK, "");
  ASSERT_SAYS(ranks[0].Wait(second, local::LOCAL), local::OK, "");
  const std::uint64_t going = ranks[0].SendRestore(first, memory[0]);
  Memory blank = Blank(memory[1]);
  EXPECT_EQ(ranks[1].Restore(second, blank).code, local::FAILED_PRECONDITION);
  EXPECT_EQ(ranks[0].Restore(first, blank).code, local::FAILED_PRECONDITION);
  const std::uint64_t joined = ranks[1].SendRestore(first, memory[1]);
  Memory back = Blank(memory[0]);
  auto other = std::async(std::launch::async, [&] { return ranks[1].TakeRestore(joined, blank); });
  EXPECT_EQ(ranks[0].TakeRestore(going, back).code, local::OK);
  EXPECT_EQ(other.get().code, local::OK);
}

TEST_F(RestoreTest, IsRefusedWhileACheckpointOfTheSessionIsOpen) {
  Ranks ranks(harness_, 1, "job.1");
  const std::vector<Memory> memory = MemoryOf(1);
  const DatasetId id = ranks.Checkpoint(1, memory);
  ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  const local::Reply begun = ranks[0].Begin(2, memory[0]);
  ASSERT_SAYS(begun, local::OK, "");
  Memory blank = Blank(memory[0]);
  EXPECT_EQ(ranks[0].Restore(id, blank).code, local::FAILED_PRECONDITION);
  EXPECT_EQ(ranks[0].Restore(begun.begin().dataset(), blank).code, local::FAILED_PRECONDITION);
  ASSERT_SAYS(ranks[0].Abort("for a restore"), local::OK, "");
  EXPECT_EQ(ranks[0].Restore(begun.begin().dataset(), blank).code, local::NOT_FOUND);
  EXPECT_EQ(ranks[0].Restore(id, blank).code, local::OK);
}

TEST_F(RestoreTest, OfADatasetThatIsStillBeingWrittenIsNotFound) {
  Ranks ranks(harness_, 2, "job.1");
  const std::vector<Memory> memory = MemoryOf(2);
  const local::Reply half = ranks[0].Checkpoint(1, memory[0]);
  ASSERT_SAYS(half, local::OK, "");
  Memory blank = Blank(memory[0]);
  EXPECT_EQ(ranks[0].Restore(half.committed().dataset(), blank).code, local::NOT_FOUND);
}

}  // namespace
}  // namespace cairn
