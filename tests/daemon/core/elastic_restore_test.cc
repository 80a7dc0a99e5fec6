// Restores in other boxes and on other numbers of ranks than were stored, whichever copies there are.
#include <algorithm>

#include "tests/daemon/core/elastic_fixture.h"

namespace cairn {
namespace {

using Tiers = std::vector<local::Tier>;

class ElasticRestoreTest : public ElasticFixture {};

TEST_F(ElasticRestoreTest, FromTheImagesOnFewerAndOnMoreRanks) {
  const DatasetId id = Store(MemoryOf(Strips(4, false)), local::LOCAL);
  int job = 2;
  for (const std::uint32_t nranks : {2u, 3u, 7u, 1u}) {
    SCOPED_TRACE(nranks);
    const Tiers tiers = ExpectRestores(id, MemoryOf(Strips(nranks, nranks % 2 == 1)), "job." + std::to_string(job++));
    EXPECT_EQ(tiers, Tiers(nranks, local::TIER_IMAGE));
  }
}

TEST_F(ElasticRestoreTest, FromTheCacheAfterARestartOfTheDaemon) {
  const DatasetId id = Store(MemoryOf(Strips(3, true)), local::LOCAL);
  harness_.Restart();
  EXPECT_EQ(ExpectRestores(id, MemoryOf(Strips(5, false)), "job.2"), Tiers(5, local::TIER_CACHE));
}

TEST_F(ElasticRestoreTest, FromThePrefixWhenTheCacheIsGone) {
  const DatasetId id = Store(MemoryOf(Strips(2, false)), local::PREFIX);
  LoseCache();
  EXPECT_EQ(ExpectRestores(id, MemoryOf(Strips(3, true)), "job.2"), Tiers(3, local::TIER_PREFIX));
}

TEST_F(ElasticRestoreTest, TheSameNumberOfRanksMayHaveOtherBoxes) {
  const DatasetId id = Store(MemoryOf(Strips(2, false)), local::LOCAL);
  EXPECT_EQ(ExpectRestores(id, MemoryOf(Strips(2, true)), "job.2"), Tiers(2, local::TIER_IMAGE));
}

TEST_F(ElasticRestoreTest, InPiecesToClientsWithoutSharedMemory) {
  const DatasetId id = Store(MemoryOf(Strips(2, false)), local::LOCAL);
  ExpectRestores(id, MemoryOf(Strips(3, true)), "job.2", {.shares_memory = false});
}

TEST_F(ElasticRestoreTest, GhostCellsThatSeveralStoredAreTheHighestRanks) {
  // Both ranks store rows 500 to 699; rank 1 has other bytes there.
  std::vector<Memory> memory = MemoryOf({{0, 0, 700, kColumns}, {500, 0, kRows - 500, kColumns}});
  std::string& shared = memory[1][1].bytes;
  const std::string other = RandomBytes(77, 200 * kColumns);
  shared.replace(0, other.size(), other);
  const DatasetId id = Store(memory, local::LOCAL);
  global_.replace(500 * kColumns, other.size(), other);
  ExpectRestores(id, MemoryOf(Strips(3, false)), "job.2");
  // The very boxes come back as they were, on as many ranks.
  ExpectRestores(id, memory, "job.3");
}

TEST_F(ElasticRestoreTest, HolesAreRefusedAndNothingIsCopiedUnlessTheyAreTheClients) {
  std::vector<Field> boxes = Strips(3, false);
  boxes.erase(boxes.begin() + 1);
  const DatasetId id = Store(MemoryOf(boxes), local::LOCAL);
  const std::vector<Memory> wanted = MemoryOf(Strips(1, false));
  Ranks ranks(harness_, 1, "job.2");
  std::vector<Memory> back = BlankOf(wanted);
  const FakeClient::Restored refused = ranks.Restore(id, back)[0];
  EXPECT_EQ(refused.code, local::FAILED_PRECONDITION);
  EXPECT_NE(refused.message.find("\"u\""), std::string::npos) << refused.message;
  EXPECT_NE(refused.message.find("(400, 0)"), std::string::npos) << refused.message;
  EXPECT_EQ(refused.pieces_copied, 0u);
  back = BlankOf(wanted);
  back[0][1].variable.set_holes(true);
  const std::string blank = back[0][1].bytes;
  ASSERT_EQ(ranks.Restore(id, back)[0].code, local::OK);
  std::string expected = wanted[0][1].bytes;
  const std::uint64_t from = boxes[0].rows * kColumns, to = boxes[1].row * kColumns;
  expected.replace(from, to - from, blank, from, to - from);
  EXPECT_TRUE(back[0][1].bytes == expected);
}

TEST_F(ElasticRestoreTest, PlainVariablesAreRefusedNamingTheFirst) {
  std::vector<Memory> memory = MemoryOf(Strips(2, false));
  for (Memory& one : memory) {
    one.push_back(PlainOf(7, RandomBytes(1, 100)));
    one.push_back(PlainOf(8, RandomBytes(1, 100)));
  }
  const DatasetId id = Store(memory, local::LOCAL);
  Ranks ranks(harness_, 3, "job.2");
  std::vector<Memory> back = MemoryOf(Strips(3, false));
  for (Memory& one : back) {
    one.push_back(PlainOf(7, std::string(100, 0)));
    one.push_back(PlainOf(8, std::string(100, 0)));
  }
  for (const FakeClient::Restored& one : ranks.Restore(id, back)) {
    EXPECT_EQ(one.code, local::FAILED_PRECONDITION);
    EXPECT_NE(one.message.find("variable 7"), std::string::npos) << one.message;
    EXPECT_NE(one.message.find("stored by 2 ranks, this launch has 3"), std::string::npos) << one.message;
  }
  // It stays the latest: without those variables it can be had.
  EXPECT_EQ(ranks[0].Latest().latest().dataset(), id);
}

TEST_F(ElasticRestoreTest, OneDamagedSourceOfManyGivesWayToTheNextTierAndIsRemade) {
  const DatasetId id = Store(MemoryOf(Strips(4, false)), local::PREFIX);
  harness_.Restart();
  harness_.Flip(harness_.cache_disk(), harness_.CachedFile(id, 2), 100000);
  const Tiers tiers = ExpectRestores(id, MemoryOf(Strips(2, false)), "job.2");
  EXPECT_EQ(tiers[0], local::TIER_CACHE);
  EXPECT_EQ(tiers[1], local::TIER_PREFIX);
  EXPECT_TRUE(harness_.Warned("the copy of rank 2 in the cache is bad"));
  EXPECT_TRUE(harness_.Eventually([&] { return harness_.Row(id).in_cache(); }));
  harness_.Restart();
  EXPECT_EQ(ExpectRestores(id, MemoryOf(Strips(2, true)), "job.3"), Tiers(2, local::TIER_CACHE));
}

TEST_F(ElasticRestoreTest, WithoutAWholeCopyOfOneSourceAllGoBackToTheOlderDataset) {
  const std::vector<Memory> memory = MemoryOf(Strips(3, false));
  const DatasetId older = Store(memory, local::LOCAL, "job.1", 1);
  const DatasetId newer = Store(memory, local::LOCAL, "job.2", 2);
  harness_.Restart();
  harness_.Flip(harness_.cache_disk(), harness_.CachedFile(newer, 0), 1000);
  Ranks ranks(harness_, 2, "job.3");
  const std::vector<Memory> wanted = MemoryOf(Strips(2, true));
  std::vector<Memory> back = BlankOf(wanted);
  EXPECT_EQ(ranks[0].Latest().latest().dataset(), newer);
  for (const FakeClient::Restored& one : ranks.Restore(newer, back)) EXPECT_EQ(one.code, local::RETRY) << one.message;
  for (Rank rank : {0, 1}) EXPECT_EQ(ranks[rank].Latest().latest().dataset(), older);
  for (const FakeClient::Restored& one : ranks.Restore(older, back)) EXPECT_EQ(one.code, local::OK) << one.message;
  for (Rank rank : {0, 1}) EXPECT_TRUE(back[rank][1].bytes == wanted[rank][1].bytes);
}

TEST_F(ElasticRestoreTest, ARankThatIsLostInTheMiddleEndsItForAll) {
  const DatasetId id = Store(MemoryOf(Strips(2, false)), local::LOCAL);
  Ranks ranks(harness_, 3, "job.2");
  std::vector<Memory> back = MemoryOf(Strips(3, true));
  const std::uint64_t first = ranks[0].SendRestore(id, back[0]);
  const std::uint64_t second = ranks[1].SendRestore(id, back[1]);
  const std::uint64_t third = ranks[2].SendRestore(id, back[2]);
  EXPECT_TRUE(ranks[2].Next(third).has_restore());  // its plan: all have matched
  ranks[2].Drop();
  EXPECT_EQ(ranks[0].TakeRestore(first, back[0]).code, local::UNAVAILABLE);
  EXPECT_EQ(ranks[1].TakeRestore(second, back[1]).code, local::UNAVAILABLE);
}

TEST_F(ElasticRestoreTest, CheckpointsAfterItAreOfTheNewDecomposition) {
  const DatasetId id = Store(MemoryOf(Strips(4, false)), local::LOCAL);
  const std::vector<Memory> memory = MemoryOf(Strips(3, true));
  DatasetId next = 0;
  {
    Ranks ranks(harness_, 3, "job.2");
    std::vector<Memory> back = BlankOf(memory);
    for (const FakeClient::Restored& one : ranks.Restore(id, back)) ASSERT_EQ(one.code, local::OK) << one.message;
    next = ranks.Checkpoint(2, memory);
    ASSERT_SAYS(ranks[0].Wait(next, local::PREFIX), local::OK, "");
    // Its files are as large as fresh ones: the containers of other ranks' files are none of theirs.
    EXPECT_LT(harness_.Row(next).bytes(), kRows * kColumns + 3 * (1 << 20));
  }
  harness_.Restart();
  EXPECT_EQ(ExpectRestores(next, memory, "job.3"), Tiers(3, local::TIER_CACHE));
  EXPECT_EQ(ExpectRestores(next, MemoryOf(Strips(4, false)), "job.4"), Tiers(4, local::TIER_CACHE));
}

TEST_F(ElasticRestoreTest, RanksWithoutElementsTakePart) {
  const DatasetId id = Store(MemoryOf(Strips(2, false)), local::LOCAL);
  std::vector<Field> boxes = Strips(2, true);
  boxes.push_back({0, kColumns, kRows, 0});
  ExpectRestores(id, MemoryOf(boxes), "job.2");
}

}  // namespace
}  // namespace cairn
