// SCR's records: what is put is got, what is unknown is kept, what cannot be is refused.
#include "storage/format/scr/records.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <initializer_list>
#include <string>

namespace cairn::scr {
namespace {

using kvtree::Tree;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

Descriptor Full(DatasetId id) {
  Descriptor descriptor;
  descriptor.id = id;
  descriptor.name = "ckpt." + std::to_string(id);
  descriptor.output = true;
  descriptor.created_us = 1795160217882237;
  descriptor.user = "alice";
  descriptor.job_id = "4242";
  descriptor.job_name = "demo_job";
  descriptor.cluster = "here";
  descriptor.files = 3;
  descriptor.bytes = 5634;
  descriptor.complete = true;
  descriptor.launch = 2;
  descriptor.step = 0xffffffffffffffff;
  descriptor.ranks = 4;
  descriptor.own_files = true;
  descriptor.unverified_files = 2;
  return descriptor;
}

void ExpectSame(const Descriptor& a, const Descriptor& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.checkpoint, b.checkpoint);
  EXPECT_EQ(a.output, b.output);
  EXPECT_EQ(a.created_us, b.created_us);
  EXPECT_EQ(a.user, b.user);
  EXPECT_EQ(a.job_id, b.job_id);
  EXPECT_EQ(a.job_name, b.job_name);
  EXPECT_EQ(a.cluster, b.cluster);
  EXPECT_EQ(a.files, b.files);
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.complete, b.complete);
  EXPECT_EQ(a.launch, b.launch);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.ranks, b.ranks);
  EXPECT_EQ(a.own_files, b.own_files);
  EXPECT_EQ(a.unverified_files, b.unverified_files);
}

// --- Dataset descriptor ---

TEST(DescriptorTest, WhatIsPutIsGot) {
  Tree tree;
  PutDescriptor(Full(20), tree);
  const auto descriptor = GetDescriptor(tree);
  ASSERT_TRUE(descriptor.ok()) << descriptor.status();
  ExpectSame(*descriptor, Full(20));
  EXPECT_EQ(descriptor->checkpoint_id, 20u);
}

TEST(DescriptorTest, AnIncompleteOneHasNoCountsAndLosesOldOnes) {
  Tree tree;
  PutDescriptor(Full(20), tree);
  Descriptor begun;
  begun.id = 20;
  begun.checkpoint = false;
  PutDescriptor(begun, tree);
  tree.Sort();
  EXPECT_EQ(kvtree::Print(tree), "  CREATED\n    0\n  FLAG_CKPT\n    0\n  FLAG_OUTPUT\n    0\n  ID\n    20\n");
}

TEST(DescriptorTest, ACheckpointIdOfScrIsKept) {
  Tree tree;
  PutDescriptor(Full(20), tree);
  tree.Set("CKPT", "7");
  const auto descriptor = GetDescriptor(tree);
  ASSERT_TRUE(descriptor.ok());
  EXPECT_EQ(descriptor->checkpoint_id, 7u);
  PutDescriptor(*descriptor, tree);
  EXPECT_EQ(tree.Get("CKPT"), "7");
}

TEST(DescriptorTest, AbsentFieldsAreNoError) {
  const auto empty = GetDescriptor(Tree());
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(empty->id, 0u);
  EXPECT_FALSE(empty->checkpoint);
  EXPECT_FALSE(empty->complete.has_value());
  EXPECT_FALSE(empty->launch.has_value());
  Tree numbered;
  numbered.Set("CKPT", "3");
  EXPECT_TRUE(GetDescriptor(numbered)->checkpoint);
}

TEST(DescriptorTest, FieldsThatCannotBeAreDataLossAndNamed) {
  for (const char* key : {"ID", "CKPT", "FILES", "SIZE", "COMPLETE", "FLAG_CKPT", "FLAG_OUTPUT", "CREATED",
                          "CAIRN_LAUNCH", "CAIRN_STEP", "CAIRN_RANKS", "CAIRN_FILES", "CAIRN_UNVERIFIED"}) {
    Tree tree;
    PutDescriptor(Full(20), tree);
    tree.Set(key, "many");
    const absl::Status status = GetDescriptor(tree).status();
    EXPECT_EQ(status.code(), kDataLoss) << key;
    EXPECT_NE(status.ToString().find(std::string(key) + " is 'many'"), std::string::npos) << status;
  }
  Tree tree;
  tree.Set("ID", "2147483648");
  EXPECT_EQ(GetDescriptor(tree).status().code(), kDataLoss);
}

// Whoever believes it makes room for so many.
TEST(DescriptorTest, MoreRanksThanALaunchCanHaveAreDataLoss) {
  Tree tree;
  tree.Set("CAIRN_RANKS", "1048576");
  EXPECT_TRUE(GetDescriptor(tree).ok());
  for (const char* ranks : {"1048577", "2147483647"}) {
    tree.Set("CAIRN_RANKS", ranks);
    EXPECT_EQ(GetDescriptor(tree).status().code(), kDataLoss) << ranks;
  }
}

TEST(DescriptorTest, SomeRanksOrAllOfThemAreHeld) {
  Tree tree;
  Descriptor descriptor = Full(20);
  descriptor.ranks = 4;
  PutDescriptor(descriptor, tree);
  EXPECT_EQ(tree.Get("CAIRN_HELD"), std::nullopt);
  EXPECT_EQ(RanksHeld(*GetDescriptor(tree)), (std::vector<Rank>{0, 1, 2, 3}));
  descriptor.held.emplace();
  descriptor.held->AddRange(1, 2);
  PutDescriptor(descriptor, tree);
  EXPECT_EQ(tree.Get("CAIRN_HELD"), "1-2");
  EXPECT_EQ(RanksHeld(*GetDescriptor(tree)), (std::vector<Rank>{1, 2}));
  for (const char* held : {"4", "2-4", "1,", "all"}) {
    tree.Set("CAIRN_HELD", held);
    EXPECT_EQ(GetDescriptor(tree).status().code(), kDataLoss) << held;
  }
  descriptor.held.reset();
  PutDescriptor(descriptor, tree);
  EXPECT_EQ(tree.Get("CAIRN_HELD"), std::nullopt);
}

// --- Cache index ---

TEST(CacheIndexTest, WhatIsPutIsGotAndErased) {
  Tree tree;
  tree.Set("CURRENT", "kept");
  PutCacheEntry({.descriptor = Full(3), .path = "/ssd/scr.dataset.3", .bypass = true}, tree);
  PutCacheEntry({.descriptor = Full(4), .path = "/ssd/scr.dataset.4"}, tree);
  tree.At("DSET").At("3").Set("UNKNOWN", "kept");
  PutCacheEntry({.descriptor = Full(3), .path = "/ssd/scr.dataset.3", .bypass = true}, tree);

  const auto entries = GetCacheEntries(tree);
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ(entries->at(3).path, "/ssd/scr.dataset.3");
  EXPECT_TRUE(entries->at(3).bypass);
  EXPECT_FALSE(entries->at(4).bypass);
  ExpectSame(entries->at(3).descriptor, Full(3));
  EXPECT_EQ(tree.FindPath({"DSET", "3"})->Get("UNKNOWN"), "kept");

  EraseCacheEntry(3, tree);
  EraseCacheEntry(17, tree);
  EXPECT_EQ(GetCacheEntries(tree)->size(), 1u);
  EXPECT_EQ(tree.Get("CURRENT"), "kept");
}

TEST(CacheIndexTest, AnEntryMayLackAnything) {
  EXPECT_TRUE(GetCacheEntries(Tree())->empty());
  Tree tree;
  tree.At("DSET").At("9");
  const auto entries = GetCacheEntries(tree);
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_EQ(entries->at(9).descriptor.id, 9u);
  EXPECT_FALSE(entries->at(9).descriptor.checkpoint);
  EXPECT_FALSE(entries->at(9).descriptor.complete.has_value());
  EXPECT_EQ(entries->at(9).path, "");
}

TEST(CacheIndexTest, WhatCannotBeIsDataLossAndNamed) {
  for (const char* id : {"", "0", "06", "-1", "x", "1x", "2147483648", "99999999999999999999"}) {
    Tree tree;
    tree.At("DSET").At(id);
    EXPECT_EQ(GetCacheEntries(tree).status().code(), kDataLoss) << id;
  }
  Tree tree;
  PutCacheEntry({.descriptor = Full(3), .path = "relative"}, tree);
  EXPECT_EQ(GetCacheEntries(tree).status().code(), kDataLoss);
  PutCacheEntry({.descriptor = Full(3), .path = "/ssd/../x"}, tree);
  EXPECT_EQ(GetCacheEntries(tree).status().code(), kDataLoss);
  PutCacheEntry({.descriptor = Full(3), .path = "/ssd"}, tree);
  tree.At("DSET").At("3").At("DSETDESC").Set("ID", "4");
  EXPECT_NE(GetCacheEntries(tree).status().ToString().find("dataset 3: its descriptor is that of dataset 4"),
            std::string::npos);
}

// --- Flush file ---

TEST(FlushFileTest, WhatIsPutIsGotAndErased) {
  Tree tree;
  FlushEntry entry{.name = "ckpt.5", .in_cache = true, .flushing = true, .checkpoint = true, .descriptor = Full(5)};
  PutFlushEntry(5, entry, tree);
  tree.At("DATASET").At("5").At("LOCATION").At("ELSEWHERE");
  auto entries = GetFlushEntries(tree);
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_EQ(entries->at(5).name, "ckpt.5");
  EXPECT_TRUE(entries->at(5).in_cache);
  EXPECT_TRUE(entries->at(5).flushing);
  EXPECT_FALSE(entries->at(5).in_prefix);
  EXPECT_FALSE(entries->at(5).sync_flushing);
  EXPECT_TRUE(entries->at(5).checkpoint);
  EXPECT_FALSE(entries->at(5).output);
  ExpectSame(*entries->at(5).descriptor, Full(5));

  FlushEntry done;
  done.in_cache = done.in_prefix = done.output = true;
  PutFlushEntry(5, done, tree);
  entries = GetFlushEntries(tree);
  EXPECT_TRUE(entries->at(5).in_prefix);
  EXPECT_FALSE(entries->at(5).flushing);
  EXPECT_FALSE(entries->at(5).checkpoint);
  EXPECT_TRUE(entries->at(5).output);
  EXPECT_EQ(entries->at(5).name, "");
  EXPECT_FALSE(entries->at(5).descriptor.has_value());
  EXPECT_NE(tree.FindPath({"DATASET", "5", "LOCATION", "ELSEWHERE"}), nullptr);

  EraseFlushEntry(5, tree);
  EXPECT_TRUE(GetFlushEntries(tree)->empty());
}

TEST(FlushFileTest, WhatCannotBeIsDataLossAndNamed) {
  Tree tree;
  tree.At("DATASET").At("none");
  EXPECT_EQ(GetFlushEntries(tree).status().code(), kDataLoss);
  Tree bad;
  FlushEntry other;
  other.descriptor = Full(6);
  PutFlushEntry(5, other, bad);
  EXPECT_NE(GetFlushEntries(bad).status().ToString().find("dataset 5"), std::string::npos);
}

// --- Prefix index ---

IndexEntry Indexed(DatasetId id) {
  return {.descriptor = Full(id), .complete = true, .flushed = "2026-11-20T07:36:59", .fetched = {}, .failed = ""};
}

TEST(PrefixIndexTest, WhatIsPutIsGot) {
  Tree tree;
  tree.Set("CURRENT", "ckpt.2");
  IndexEntry entry = Indexed(2);
  entry.fetched = {"2026-11-20T07:37:19", "2026-11-20T07:37:23"};
  entry.failed = "2026-11-20T07:37:24";
  PutIndexEntry(entry, tree);
  tree.At("DSET").At("2").Set("UNKNOWN", "kept");
  PutIndexEntry(Indexed(3), tree);
  PutIndexEntry(entry, tree);

  const auto index = GetIndex(tree);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->current, "ckpt.2");
  ASSERT_EQ(index->datasets.size(), 2u);
  EXPECT_EQ(index->datasets.at(2).fetched, entry.fetched);
  EXPECT_EQ(index->datasets.at(2).failed, entry.failed);
  EXPECT_EQ(index->datasets.at(2).flushed, entry.flushed);
  EXPECT_TRUE(index->datasets.at(2).complete);
  ExpectSame(index->datasets.at(2).descriptor, Full(2));
  EXPECT_EQ(tree.FindPath({"DSET", "2"})->Get("UNKNOWN"), "kept");
  EXPECT_EQ(tree.Get("VERSION"), "2");
  EXPECT_EQ(FindByName("ckpt.3", tree), 3u);
}

TEST(PrefixIndexTest, AnotherVersionOrNoneIsRefused) {
  EXPECT_EQ(GetIndex(Tree()).status().code(), absl::StatusCode::kFailedPrecondition);
  Tree tree;
  PutIndexEntry(Indexed(2), tree);
  tree.Set("VERSION", "3");
  EXPECT_EQ(GetIndex(tree).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(PrefixIndexTest, WhatCannotBeIsDataLossAndNamed) {
  Tree tree;
  PutIndexEntry(Indexed(2), tree);
  tree.At("DSET").At("2").Set("COMPLETE", "perhaps");
  EXPECT_NE(GetIndex(tree).status().ToString().find("prefix index: dataset 2: COMPLETE is 'perhaps'"),
            std::string::npos);
  tree.At("DSET").At("..");
  EXPECT_EQ(GetIndex(tree).status().code(), kDataLoss);
}

TEST(PrefixIndexTest, AStaleNameLeadsNowhere) {
  Tree tree;
  PutIndexEntry(Indexed(4), tree);
  tree.At("NAME").At("old").Set("DSET", "4");
  tree.At("NAME").At("gone").Set("DSET", "5");
  tree.At("NAME").At("empty");
  EXPECT_EQ(FindByName("ckpt.4", tree), 4u);
  for (const char* name : {"old", "gone", "empty", "unknown"}) EXPECT_FALSE(FindByName(name, tree)) << name;
}

TEST(PrefixIndexTest, ErasingTheCurrentOneMovesCurrentToTheNewestOlderThatCanBeRestarted) {
  Tree tree;
  PutIndexEntry(Indexed(1), tree);
  PutIndexEntry(Indexed(2), tree);
  IndexEntry failed = Indexed(3), incomplete = Indexed(4), output = Indexed(5);
  failed.failed = "2026-11-20T07:37:24";
  incomplete.complete = false;
  output.descriptor.checkpoint = false;
  PutIndexEntry(failed, tree);
  PutIndexEntry(incomplete, tree);
  PutIndexEntry(output, tree);
  PutIndexEntry(Indexed(6), tree);
  PutIndexEntry(Indexed(7), tree);
  SetCurrent("ckpt.6", tree);

  EraseIndexEntry(7, tree);  // not the current one
  EXPECT_EQ(tree.Get("CURRENT"), "ckpt.6");
  EraseIndexEntry(6, tree);
  EXPECT_EQ(tree.Get("CURRENT"), "ckpt.2");
  EXPECT_FALSE(FindByName("ckpt.6", tree));
  EXPECT_EQ(tree.FindPath({"NAME", "ckpt.6"}), nullptr);
  EXPECT_EQ(GetIndex(tree)->datasets.count(6), 0u);
  EraseIndexEntry(2, tree);
  EraseIndexEntry(1, tree);
  EXPECT_EQ(tree.Find("CURRENT"), nullptr);
}

TEST(PrefixIndexTest, ErasingAnOldHolderOfANameLeavesTheNewOne) {
  Tree tree;
  IndexEntry old = Indexed(1);
  old.descriptor.name = "same";
  IndexEntry fresh = Indexed(2);
  fresh.descriptor.name = "same";
  PutIndexEntry(old, tree);
  PutIndexEntry(fresh, tree);
  SetCurrent("same", tree);
  EraseIndexEntry(1, tree);
  EXPECT_EQ(tree.Get("CURRENT"), "same");
  EXPECT_EQ(FindByName("same", tree), 2u);
}

IndexEntry Named(DatasetId id, const std::string& name) {
  IndexEntry entry = Indexed(id);
  entry.descriptor.name = name;
  return entry;
}

TEST(PrefixIndexTest, ANameLeadsToTheNewestCompleteDatasetThatHasIt) {
  Tree tree;
  IndexEntry begun = Named(3, "same");
  begun.complete = false;
  PutIndexEntry(begun, tree);
  EXPECT_EQ(FindByName("same", tree), 3u) << "there is no other";
  PutIndexEntry(Named(2, "same"), tree);
  EXPECT_EQ(FindByName("same", tree), 2u);
  PutIndexEntry(begun, tree);
  EXPECT_EQ(FindByName("same", tree), 2u) << "3 is not complete";
  PutIndexEntry(Named(3, "same"), tree);
  EXPECT_EQ(FindByName("same", tree), 3u);
  PutIndexEntry(Named(2, "same"), tree);
  EXPECT_EQ(FindByName("same", tree), 3u) << "2 is older";
}

TEST(PrefixIndexTest, ANameThatIsCurrentStaysWhereItIsUntilItIsMoved) {
  Tree tree;
  PutIndexEntry(Named(2, "same"), tree);
  SetCurrent("same", tree);
  PutIndexEntry(Named(3, "same"), tree);
  EXPECT_EQ(FindByName("same", tree), 2u);
  PutName(3, "same", tree);
  EXPECT_EQ(FindByName("same", tree), 3u);
}

TEST(PrefixIndexTest, ANameGoesToTheNewestOtherHolderWhenItsDatasetIsErased) {
  Tree tree;
  for (const DatasetId id : {1, 2, 4}) PutIndexEntry(Named(id, "same"), tree);
  IndexEntry begun = Named(3, "same");
  begun.complete = false;
  PutIndexEntry(begun, tree);
  SetCurrent("same", tree);
  EraseIndexEntry(4, tree);
  EXPECT_EQ(FindByName("same", tree), 2u);
  EXPECT_EQ(tree.Get("CURRENT"), "same");
  EraseIndexEntry(2, tree);
  EraseIndexEntry(1, tree);
  EXPECT_EQ(FindByName("same", tree), 3u);
  EraseIndexEntry(3, tree);
  EXPECT_EQ(tree.FindPath({"NAME", "same"}), nullptr);
}

TEST(PrefixIndexTest, CurrentIsSetAndUnset) {
  Tree tree;
  PutIndexEntry(Indexed(2), tree);
  SetCurrent("ckpt.2", tree);
  EXPECT_EQ(GetIndex(tree)->current, "ckpt.2");
  SetCurrent("", tree);
  EXPECT_EQ(GetIndex(tree)->current, "");
}

class LocalTimeTest : public ::testing::Test {
 protected:
  void SetUp() override { Zone("CET-1CEST,M3.5.0,M10.5.0/3"); }
  void TearDown() override { Zone("UTC0"); }

 private:
  static void Zone(const char* zone) {
    ::setenv("TZ", zone, 1);
    ::tzset();
  }
};

TEST_F(LocalTimeTest, IsTheTimeOfTheZoneWithoutNamingIt) {
  EXPECT_EQ(LocalTime(0), "1970-01-01T01:00:00");
  EXPECT_EQ(LocalTime(1795160219'999999), "2026-11-20T08:36:59");
  EXPECT_EQ(LocalTime(1780000000'000000), "2026-05-28T22:26:40");  // summer
  EXPECT_EQ(LocalTime(-1), "1970-01-01T00:59:59");
}

// --- Summary ---

TEST(SummaryTest, WhatIsPutIsGot) {
  const auto descriptor = GetSummary(MakeSummary(Full(8)));
  ASSERT_TRUE(descriptor.ok()) << descriptor.status();
  ExpectSame(*descriptor, Full(8));
  EXPECT_EQ(MakeSummary(Full(8)).Get("VERSION"), "6");
}

TEST(SummaryTest, IsCompleteOnlyIfSummaryAndDescriptorSaySo) {
  Tree tree = MakeSummary(Full(8));
  tree.Set("COMPLETE", "0");
  EXPECT_FALSE(*GetSummary(tree)->complete);
  tree.Erase("COMPLETE");
  EXPECT_FALSE(*GetSummary(tree)->complete);
  tree.Set("COMPLETE", "1");
  EXPECT_TRUE(*GetSummary(tree)->complete);
  tree.At("DSET").Erase("COMPLETE");
  EXPECT_FALSE(*GetSummary(tree)->complete);
}

TEST(SummaryTest, WhatCannotBeIsRefused) {
  Tree tree = MakeSummary(Full(8));
  tree.Set("VERSION", "5");
  EXPECT_EQ(GetSummary(tree).status().code(), absl::StatusCode::kFailedPrecondition);
  tree.Erase("VERSION");
  EXPECT_EQ(GetSummary(tree).status().code(), absl::StatusCode::kFailedPrecondition);
  tree.Set("VERSION", "6");
  tree.At("DSET").Set("SIZE", "x");
  EXPECT_EQ(GetSummary(tree).status().code(), kDataLoss);
  tree.Erase("DSET");
  EXPECT_EQ(GetSummary(tree).status().code(), kDataLoss);
}

}  // namespace
}  // namespace cairn::scr
