// SCR's records: what is put is got, what is unknown is kept, what cannot be is refused.
#include "storage/scr/records.h"

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
}

Meta FullMeta() {
  Meta meta;
  meta.original = "step_000020/sub1/a.dat";
  meta.directory = "/mnt/pfs/demo/step_000020/sub1";
  meta.name = "a.dat";
  meta.ranks = 2;
  meta.complete = true;
  meta.bytes = 5'000'000'000;
  meta.mode = 0100640;
  meta.uid = 4294967294;
  meta.gid = 7;
  meta.atime = {1795160217, 901615760};
  meta.mtime = {-1, 999999999};
  meta.ctime = {1795160219, 0};
  meta.crc32 = 0x1b39e4e4;
  meta.dataset = 20;
  return meta;
}

void ExpectSame(const Meta& a, const Meta& b) {
  EXPECT_EQ(a.original, b.original);
  EXPECT_EQ(a.directory, b.directory);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.ranks, b.ranks);
  EXPECT_EQ(a.complete, b.complete);
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.mode, b.mode);
  EXPECT_EQ(a.uid, b.uid);
  EXPECT_EQ(a.gid, b.gid);
  for (auto member : {&Meta::atime, &Meta::mtime, &Meta::ctime}) {
    EXPECT_EQ((a.*member).tv_sec, (b.*member).tv_sec);
    EXPECT_EQ((a.*member).tv_nsec, (b.*member).tv_nsec);
  }
  EXPECT_EQ(a.crc32, b.crc32);
  EXPECT_EQ(a.dataset, b.dataset);
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
                          "CAIRN_LAUNCH", "CAIRN_STEP", "CAIRN_RANKS", "CAIRN_FILES"}) {
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

// --- Filemap and META ---

TEST(MetaTest, WhatIsPutIsGot) {
  Tree tree;
  PutMeta(FullMeta(), tree);
  const auto meta = GetMeta(tree);
  ASSERT_TRUE(meta.ok()) << meta.status();
  ExpectSame(*meta, FullMeta());
}

TEST(MetaTest, BothNamingsAreWritten) {
  Tree tree;
  PutMeta(FullMeta(), tree);
  EXPECT_EQ(tree.Get("PATH"), "/mnt/pfs/demo/step_000020/sub1");
  EXPECT_EQ(tree.Get("ORIGPATH"), tree.Get("PATH"));
  EXPECT_EQ(tree.Get("NAME"), "a.dat");
  EXPECT_EQ(tree.Get("ORIGNAME"), tree.Get("NAME"));
  EXPECT_EQ(tree.Get("TYPE"), "FULL");
  EXPECT_EQ(tree.Get("MODE"), "33184");
  EXPECT_EQ(tree.Get("CKPT"), "20");
  EXPECT_EQ(tree.Get("CRC"), "0x1b39e4e4");
}

TEST(MetaTest, OlderNamesAreRead) {
  Tree tree;
  tree.Set("FILE", "a.dat");
  tree.Set("ORIGPATH", "/old");
  tree.Set("ORIGNAME", "b.dat");
  const auto meta = GetMeta(tree);
  ASSERT_TRUE(meta.ok()) << meta.status();
  EXPECT_EQ(meta->directory, "/old");
  EXPECT_EQ(meta->name, "b.dat");
  tree.Set("PATH", "/new");
  EXPECT_EQ(GetMeta(tree)->directory, "/new");
}

TEST(MetaTest, AbsentFieldsAreNoErrorAndAreRemovedWhenPut) {
  const auto empty = GetMeta(Tree());
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_FALSE(empty->complete);
  EXPECT_FALSE(empty->crc32.has_value());
  Tree tree;
  tree.Set("UNKNOWN", "kept");
  PutMeta(FullMeta(), tree);
  PutMeta(Meta(), tree);
  for (const char* key : {"CRC", "CKPT", "PATH", "NAME", "ORIG", "ORIGPATH", "ORIGNAME"}) {
    EXPECT_EQ(tree.Find(key), nullptr) << key;
  }
  EXPECT_EQ(tree.Get("UNKNOWN"), "kept");
}

TEST(MetaTest, FieldsThatCannotBeAreDataLoss) {
  const std::pair<const char*, const char*> bad[] = {
      {"PATH", "relative"},
      {"PATH", "/a/../b"},
      {"PATH", "/.."},
      {"NAME", "a/b"},
      {"NAME", ".."},
      {"SIZE", "-1"},
      {"MODE", "4294967296"},
      {"UID", "4294967296"},
      {"COMPLETE", "2"},
      {"CRC", "x"},
      {"ATIME_NSECS", "1000000000"},
      {"MTIME_SECS", "soon"},
      {"RANKS", "2147483648"},
      {"CKPT", "-5"},
  };
  for (const auto& [key, value] : bad) {
    Tree tree;
    PutMeta(FullMeta(), tree);
    tree.Set(key, value);
    EXPECT_EQ(GetMeta(tree).status().code(), kDataLoss) << key << " " << value;
  }
}

TEST(FilemapTest, WhatIsPutIsGot) {
  Filemap filemap;
  filemap.files["/ssd/a.dat"] = FullMeta();
  filemap.files["/ssd/b.dat"] = Meta();
  const auto again = GetFilemap(ToTree(filemap));
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(again->files.size(), 2u);
  ExpectSame(again->files.at("/ssd/a.dat"), FullMeta());
}

TEST(FilemapTest, ARankWithoutFilesHasAnEmptyTree) {
  EXPECT_TRUE(ToTree(Filemap()).empty());
  EXPECT_TRUE(GetFilemap(Tree())->files.empty());
}

TEST(FilemapTest, ChangingAFileKeepsWhatIsUnknown) {
  Tree tree;
  tree.At("DSETDESC").Set("ID", "1");
  tree.At("FILE").At("/ssd/a.dat").Set("NOTE", "kept");
  PutFile("/ssd/a.dat", FullMeta(), tree);
  EXPECT_EQ(tree.FindPath({"FILE", "/ssd/a.dat"})->Get("NOTE"), "kept");
  EXPECT_NE(tree.Find("DSETDESC"), nullptr);
  ExpectSame(GetFilemap(tree)->files.at("/ssd/a.dat"), FullMeta());
}

TEST(FilemapTest, RedundancyDataOfOlderVersionsIsLeftOut) {
  Tree tree;
  PutFile("/ssd/a.dat", FullMeta(), tree);
  PutFile("/ssd/a.xor", FullMeta(), tree);
  tree.At("FILE").At("/ssd/a.xor").At("META").Set("TYPE", "XOR");
  EXPECT_EQ(GetFilemap(tree)->files.size(), 1u);
}

TEST(FilemapTest, PathsThatLeadElsewhereAreDataLossAndNamed) {
  for (const char* path : {"", "a.dat", "/ssd/../etc/passwd", "/ssd/.."}) {
    Tree tree;
    PutFile(path, FullMeta(), tree);
    const absl::Status status = GetFilemap(tree).status();
    EXPECT_EQ(status.code(), kDataLoss) << path;
    EXPECT_NE(status.ToString().find("'" + std::string(path) + "'"), std::string::npos) << status;
  }
  Tree dots;
  PutFile("/ssd/..a/b..", FullMeta(), dots);
  EXPECT_TRUE(GetFilemap(dots).ok());
  Tree bad;
  PutFile("/ssd/a.dat", FullMeta(), bad);
  bad.At("FILE").At("/ssd/a.dat").At("META").Set("SIZE", "x");
  EXPECT_NE(GetFilemap(bad).status().ToString().find("file '/ssd/a.dat': SIZE is 'x'"), std::string::npos);
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
