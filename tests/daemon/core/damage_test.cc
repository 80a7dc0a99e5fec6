// Copies found damaged: the next tier serves, the damaged one is set aside and remade, and when no tier is left all
// ranks are told to RETRY. design.md, "Restore".
#include <gtest/gtest.h>

#include <functional>
#include <future>

#include "tests/daemon/core/fake_client.h"

namespace cairn {
namespace {

class DamageTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(harness_.Start().ok()); }

  std::vector<Memory> MemoryOf(std::uint64_t seed) {
    return {{PlainOf(1, RandomBytes(seed, 3 << 20)), ValueOf(2, "step", seed)},
            {PlainOf(1, RandomBytes(seed + 1, 2 << 20)), ValueOf(2, "step", seed)}};
  }
  static std::vector<Memory> BlankOf(std::vector<Memory> memory) {
    for (Memory& one : memory) one = Blank(std::move(one));
    return memory;
  }
  DatasetId Make(Ranks& ranks, std::uint64_t step, local::Level level) {
    const DatasetId id = ranks.Checkpoint(step, MemoryOf(step));
    EXPECT_SAYS(ranks[0].Wait(id, level), local::OK, "");
    return id;
  }
  // All ranks get the memory of `step`; rank 1 from this tier.
  void ExpectRestores(Ranks& ranks, DatasetId id, std::uint64_t step, local::Tier tier_of_rank_1) {
    const std::vector<Memory> memory = MemoryOf(step);
    std::vector<Memory> back = BlankOf(memory);
    const std::vector<FakeClient::Restored> restored = ranks.Restore(id, back);
    for (Rank rank = 0; rank < 2; ++rank) {
      ASSERT_EQ(restored[rank].code, local::OK) << restored[rank].message;
      for (std::size_t i = 0; i < memory[rank].size(); ++i) {
        EXPECT_TRUE(back[rank][i].bytes == memory[rank][i].bytes) << "rank " << rank << ", variable " << i;
      }
    }
    EXPECT_EQ(restored[1].tier, tier_of_rank_1) << local::Tier_Name(restored[1].tier);
  }

  CoreHarness harness_;
};

TEST_F(DamageTest, AnImageThatItsClientScribbledInGivesWayToTheCache) {
  Ranks ranks(harness_, 2, "job.1");
  const DatasetId id = Make(ranks, 1, local::LOCAL);
  for (const auto& [image_id, image] : ranks[1].images()) image->bytes()[5000] ^= std::byte{1};
  ExpectRestores(ranks, id, 1, local::TIER_CACHE);
  EXPECT_TRUE(harness_.Warned("the copy of rank 1 in the image is bad"));
  EXPECT_TRUE(harness_.Row(id).in_cache());  // that one is whole
  ExpectRestores(ranks, id, 1, local::TIER_CACHE);
}

// The damaged copy goes before any whole one.
TEST_F(DamageTest, WhatLiesAsideCountsAndGivesItsRoomToTheNextCheckpoint) {
  harness_.Restart();
  harness_.config.cache.bytes_max = 18 << 20;  // three datasets of 5 MiB
  harness_.Restart();
  DatasetId first = 0;
  {
    Ranks ranks(harness_, 2, "job.1");
    first = Make(ranks, 1, local::PREFIX);
  }
  harness_.Restart();
  harness_.Flip(harness_.cache_disk(), harness_.CachedFile(first, 1), 1'000'000);
  Ranks ranks(harness_, 2, "job.2");
  ASSERT_EQ(ranks[0].Latest().latest().dataset(), first);
  ExpectRestores(ranks, first, 1, local::TIER_PREFIX);
  const std::string aside = harness_.CacheFolderPath() + "/damaged." + std::to_string(first) + ".1";
  const auto used = [this] { return harness_.Status().cache_bytes_used(); };
  ASSERT_TRUE(harness_.Eventually([&] { return harness_.Row(first).in_cache() && used() > 10 << 20; }));
  EXPECT_TRUE(harness_.IsThere(harness_.cache_disk(), aside));
  ASSERT_EQ(harness_.Status().runs().size(), 1);
  EXPECT_EQ(harness_.Status().runs(0).aside().damaged(), 1u);
  EXPECT_GT(harness_.Status().runs(0).aside().damaged_bytes(), 5u << 20);

  const DatasetId second = Make(ranks, 2, local::PREFIX), third = Make(ranks, 3, local::PREFIX);
  EXPECT_TRUE(harness_.Eventually([&] { return !harness_.IsThere(harness_.cache_disk(), aside); }));
  for (const DatasetId id : {first, second, third}) EXPECT_TRUE(harness_.Row(id).in_cache()) << id;
  EXPECT_FALSE(harness_.Status().runs(0).has_aside());
}

TEST_F(DamageTest, AfterARestartWhatLiesAsideCountsAgain) {
  DatasetId id = 0;
  {
    Ranks ranks(harness_, 2, "job.1");
    id = Make(ranks, 1, local::PREFIX);
  }
  const std::string folder = harness_.CacheFolderPath(), number = std::to_string(id);
  harness_.Stop();
  ASSERT_TRUE(
      harness_.cache_disk().Rename(folder + "/scr.dataset." + number, folder + "/damaged." + number + ".1").ok());
  ASSERT_TRUE(harness_.Start().ok());
  Ranks ranks(harness_, 2, "job.2");
  EXPECT_EQ(harness_.Status().runs(0).aside().damaged(), 1u);
  EXPECT_GT(harness_.Status().cache_bytes_used(), 5u << 20);
  // With another cache.keep_damaged, read anew, its time is over.
  harness_.config.cache.keep_damaged_ms = 1;
  harness_.core().Reload(harness_.config);
  EXPECT_TRUE(harness_.Eventually(
      [&] { return !harness_.IsThere(harness_.cache_disk(), folder + "/damaged." + number + ".1"); }));
}

TEST_F(DamageTest, WhatIsFoundDamagedByARestoreUnderWayCountsOnce) {
  DatasetId id = 0;
  {
    Ranks ranks(harness_, 2, "job.1");
    id = Make(ranks, 1, local::PREFIX);
  }
  harness_.Restart();
  const std::string file = harness_.CachedFile(id, 1);
  harness_.Flip(harness_.cache_disk(), file, harness_.cache_disk().Info(file)->bytes - 100);
  const std::uint64_t used = harness_.Status().cache_bytes_used();
  Ranks ranks(harness_, 2, "job.2");
  std::vector<Memory> back = BlankOf(MemoryOf(1));
  const std::uint64_t call = ranks[1].SendRestore(id, back[1]);  // which waits for rank 0
  ASSERT_TRUE(harness_.Eventually([&] { return harness_.Status().runs(0).aside().damaged() == 1; }));
  EXPECT_EQ(harness_.Status().cache_bytes_used(), used);
  auto other = std::async(std::launch::async, [&] { return ranks[0].Restore(id, back[0]); });
  EXPECT_EQ(ranks[1].TakeRestore(call, back[1]).code, local::OK);
  EXPECT_EQ(other.get().code, local::OK);
}

// It gives the room for that itself, but not while somebody reads there.
TEST_F(DamageTest, ADamagedOneIsFetchedAnewOnceNobodyReadsIt) {
  harness_.config.cache.bytes_max = 12 << 20;  // two datasets of 5 MiB
  harness_.Restart();
  const auto memory_of = [](std::uint64_t seed) -> Memory {
    const std::string bytes = RandomBytes(seed, 5 << 20);
    return {ArrayOf(1, "u", {bytes.size()}, {0}, {bytes.size()}, bytes)};
  };
  DatasetId first = 0, second = 0;
  {
    Ranks ranks(harness_, 1, "job.1");
    first = ranks.Checkpoint(1, {memory_of(1)});
    ASSERT_SAYS(ranks[0].Wait(first, local::PREFIX), local::OK, "");
    second = ranks.Checkpoint(2, {memory_of(2)});
    ASSERT_SAYS(ranks[0].Wait(second, local::PREFIX), local::OK, "");
  }
  ASSERT_EQ(harness_.Pin(second, true).code(), local::OK);
  harness_.Restart();
  harness_.Flip(harness_.cache_disk(), harness_.CachedFile(first, 0), 1'000'000);

  FakeClient reader(harness_);
  ASSERT_SAYS(reader.Open({.observer = true}), local::OK, "");
  const std::uint64_t call = reader.SendRead(first, ArrayOf(1, "u", {5 << 20}, {5 << 19}, {10}, ""));
  ASSERT_TRUE(reader.Next(call).has_restore()) << "it is told where the bytes come, and copies none";
  Ranks ranks(harness_, 1, "job.2");
  Memory back = Blank(memory_of(1));
  const FakeClient::Restored restored = ranks[0].Restore(first, back);
  ASSERT_EQ(restored.code, local::OK) << restored.message;
  EXPECT_EQ(restored.tier, local::TIER_PREFIX);
  EXPECT_FALSE(harness_.Row(first).in_cache());
  reader.Drop();
  EXPECT_TRUE(harness_.Eventually([&] { return harness_.Row(first).in_cache(); }));
  EXPECT_TRUE(harness_.Row(second).in_cache());
  EXPECT_FALSE(harness_.Warned("could not be made anew"));
}

// What may happen to a file. Each is found, whatever part of it is hit.
struct Harm {
  std::string name;
  std::function<void(CoreHarness&, Disk&, const std::string&)> harm;
};

std::vector<Harm> Harms() {
  return {
      {"FlippedInTheData", [](CoreHarness& h, Disk& disk, const std::string& path) { h.Flip(disk, path, 1'000'000); }},
      {"FlippedInTheMetadata",
       [](CoreHarness& h, Disk& disk, const std::string& path) { h.Flip(disk, path, disk.Info(path)->bytes - 100); }},
      {"Truncated", [](CoreHarness& h, Disk& disk,
                       const std::string& path) { h.Truncate(disk, path, disk.Info(path)->bytes - 4096); }},
      {"Emptied", [](CoreHarness& h, Disk& disk, const std::string& path) { h.Truncate(disk, path, 0); }},
      {"Gone", [](CoreHarness&, Disk& disk, const std::string& path) { ASSERT_TRUE(disk.Remove(path).ok()); }},
  };
}

class HarmTest : public DamageTest, public ::testing::WithParamInterface<Harm> {};
INSTANTIATE_TEST_SUITE_P(Each, HarmTest, ::testing::ValuesIn(Harms()),
                         [](const auto& info) { return info.param.name; });

TEST_P(HarmTest, InTheCacheThePrefixServesAndTheCacheIsRemade) {
  DatasetId id = 0;
  {
    Ranks ranks(harness_, 2, "job.1");
    id = Make(ranks, 1, local::PREFIX);
  }
  harness_.Restart();  // no images any more
  const std::string file = harness_.CachedFile(id, 1);
  GetParam().harm(harness_, harness_.cache_disk(), file);
  {
    Ranks ranks(harness_, 2, "job.2");
    ASSERT_EQ(ranks[0].Latest().latest().dataset(), id);
    ExpectRestores(ranks, id, 1, local::TIER_PREFIX);
    EXPECT_TRUE(harness_.Warned("the copy of rank 1 in the cache is bad"));
    EXPECT_TRUE(harness_.Eventually([&] { return harness_.Row(id).in_cache(); })) << "it was not remade";
    EXPECT_TRUE(
        harness_.IsThere(harness_.cache_disk(), harness_.CacheFolderPath() + "/damaged." + std::to_string(id) + ".1"));
    ExpectRestores(ranks, id, 1, local::TIER_CACHE);
  }
  harness_.Restart();
  Ranks ranks(harness_, 2, "job.3");
  ExpectRestores(ranks, id, 1, local::TIER_CACHE);
}

TEST_P(HarmTest, InTheOnlyCopyAllRanksRetryAndGetTheOlderOne) {
  DatasetId old = 0, young = 0;
  {
    Ranks ranks(harness_, 2, "job.1");
    old = Make(ranks, 1, local::LOCAL);
    young = Make(ranks, 2, local::LOCAL);
  }
  harness_.Restart();
  GetParam().harm(harness_, harness_.cache_disk(), harness_.CachedFile(young, 0));
  Ranks ranks(harness_, 2, "job.2");
  ASSERT_EQ(ranks[0].Latest().latest().dataset(), young);
  std::vector<Memory> back = BlankOf(MemoryOf(2));
  for (const FakeClient::Restored& one : ranks.Restore(young, back)) {
    EXPECT_EQ(one.code, local::RETRY) << one.message;
  }
  EXPECT_EQ(ranks[1].Latest().latest().dataset(), old);
  EXPECT_EQ(ranks[0].Latest().latest().dataset(), old);
  EXPECT_EQ(ranks[0].Restore(young, back[0]).code, local::RETRY);  // still, for who has not asked again
  EXPECT_SAYS(ranks[0].Test(young, local::LOCAL), local::DATA_LOSS, "damaged");
  EXPECT_EQ(harness_.Row(young).state(), "damaged");
  ExpectRestores(ranks, old, 1, local::TIER_CACHE);
  // The next launch is not held up by it.
  for (auto& client : ranks.clients) ASSERT_SAYS(client->Close(), local::OK, "");
  Ranks later(harness_, 2, "job.3");
  EXPECT_EQ(later[0].Latest().latest().dataset(), old);
}

TEST_P(HarmTest, InCacheAndPrefixAllRanksRetryAndGetTheOlderOne) {
  DatasetId old = 0, young = 0;
  {
    Ranks ranks(harness_, 2, "job.1");
    old = Make(ranks, 1, local::PREFIX);
    young = Make(ranks, 2, local::PREFIX);
  }
  harness_.Restart();
  GetParam().harm(harness_, harness_.cache_disk(), harness_.CachedFile(young, 1));
  GetParam().harm(harness_, harness_.prefix_disk(), harness_.PrefixFile(young, 1));
  {
    Ranks ranks(harness_, 2, "job.2");
    ASSERT_EQ(ranks[0].Latest().latest().dataset(), young);
    std::vector<Memory> back = BlankOf(MemoryOf(2));
    for (const FakeClient::Restored& one : ranks.Restore(young, back)) {
      EXPECT_EQ(one.code, local::RETRY) << one.message;
    }
    EXPECT_EQ(ranks[1].Latest().latest().dataset(), old);
    ExpectRestores(ranks, old, 1, local::TIER_CACHE);
  }
  // Another node never chooses it again: it is marked FAILED in the prefix.
  ASSERT_TRUE(harness_.Eventually([&] {
    return harness_.Read(harness_.prefix_disk(), harness_.prefix() + "/.scr/index.scr").find("FAILED") !=
           std::string::npos;
  }));
  harness_.Stop();
  harness_.config.cache.path = harness_.root() + "/another_node";
  ASSERT_TRUE(harness_.Start().ok());
  Ranks ranks(harness_, 2, "job.3");
  EXPECT_EQ(ranks[0].Latest().latest().dataset(), old);
  ExpectRestores(ranks, old, 1, local::TIER_PREFIX);
}

TEST_P(HarmTest, InThePrefixIsNotEvenSeenWhileTheCacheIsWhole) {
  DatasetId id = 0;
  {
    Ranks ranks(harness_, 2, "job.1");
    id = Make(ranks, 1, local::PREFIX);
  }
  harness_.Restart();
  GetParam().harm(harness_, harness_.prefix_disk(), harness_.PrefixFile(id, 1));
  Ranks ranks(harness_, 2, "job.2");
  ExpectRestores(ranks, id, 1, local::TIER_CACHE);
}

TEST_P(HarmTest, FoundByTheFlushIsSetAsideAndNeverCommitted) {
  harness_.config.flush.every = 0;
  harness_.Restart();
  DatasetId old = 0, id = 0;
  Ranks ranks(harness_, 2, "job.1");
  old = Make(ranks, 1, local::LOCAL);
  id = Make(ranks, 2, local::LOCAL);
  GetParam().harm(harness_, harness_.cache_disk(), harness_.CachedFile(id, 1));
  EXPECT_SAYS(ranks[0].Wait(id, local::PREFIX), local::DATA_LOSS, "damaged");
  EXPECT_FALSE(harness_.Row(id).in_prefix());
  EXPECT_SAYS(ranks[0].Wait(old, local::PREFIX), local::OK, "");
  EXPECT_EQ(ranks[0].Latest().latest().dataset(), old);
}

TEST_F(DamageTest, WithNothingOlderThereIsNothingToRestartFrom) {
  DatasetId id = 0;
  {
    Ranks ranks(harness_, 2, "job.1");
    id = Make(ranks, 1, local::LOCAL);
  }
  harness_.Restart();
  harness_.Flip(harness_.cache_disk(), harness_.CachedFile(id, 0), 77);
  Ranks ranks(harness_, 2, "job.2");
  ASSERT_EQ(ranks[0].Latest().latest().dataset(), id);
  std::vector<Memory> back = BlankOf(MemoryOf(1));
  for (const FakeClient::Restored& one : ranks.Restore(id, back)) EXPECT_EQ(one.code, local::RETRY) << one.message;
  for (const auto& client : ranks.clients) client->ProtectAnew();
  EXPECT_SAYS(ranks[0].Latest(), local::NOT_FOUND, "");
  EXPECT_SAYS(ranks[1].Latest(), local::NOT_FOUND, "");
}

TEST_F(DamageTest, AValueOfADamagedRankIsMissedByAll) {
  // Rank 0's file holds the value that both want; rank 1 stores nothing else.
  std::vector<Memory> memory(2, {ValueOf(2, "step", 5)});
  DatasetId id = 0;
  {
    Ranks ranks(harness_, 2, "job.1");
    id = ranks.Checkpoint(1, memory);
    ASSERT_SAYS(ranks[0].Wait(id, local::PREFIX), local::OK, "");
  }
  harness_.Restart();
  harness_.Flip(harness_.cache_disk(), harness_.CachedFile(id, 0), 2);
  Ranks ranks(harness_, 2, "job.2");
  std::vector<Memory> back(2, {ValueOf(2, "step", 0)});
  for (const FakeClient::Restored& one : ranks.Restore(id, back)) {
    EXPECT_EQ(one.code, local::OK) << one.message;
    EXPECT_EQ(one.tier, local::TIER_PREFIX);
  }
  EXPECT_EQ(NumberIn(back[0][0]), 5u);
  EXPECT_EQ(NumberIn(back[1][0]), 5u);
}

TEST_F(DamageTest, ADamagedCatalogueInTheCacheIsFoundAtTheStart) {
  DatasetId old = 0, young = 0;
  {
    Ranks ranks(harness_, 2, "job.1");
    old = Make(ranks, 1, local::LOCAL);
    young = Make(ranks, 2, local::PREFIX);
  }
  const std::string catalogue = harness_.CacheFolderPath() + "/scr.dataset." + std::to_string(young) + "/rank_1.cat";
  harness_.Stop();
  harness_.Flip(harness_.cache_disk(), catalogue, 40);
  ASSERT_TRUE(harness_.Start().ok());
  EXPECT_TRUE(harness_.Warned("rank_1.cat"));
  Ranks ranks(harness_, 2, "job.2");
  EXPECT_EQ(ranks[0].Latest().latest().dataset(), young);
  ExpectRestores(ranks, young, 2, local::TIER_PREFIX);
  ExpectRestores(ranks, old, 1, local::TIER_CACHE);
}

}  // namespace
}  // namespace cairn
