// The records of real SCR jobs through the typed getters, and back.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "storage/base/status.h"
#include "storage/format/scr/records.h"
#include "tests/storage/format/scr/scr_vectors.h"

namespace cairn::scr {
namespace {

using kvtree::Tree;
using testing::ScrVector;
using testing::ScrVectors;

// The bytes of every file, by its path in the vectors.
std::map<std::string, std::string> ByPath(const std::vector<ScrVector>& vectors) {
  std::map<std::string, std::string> bytes;
  for (const ScrVector& vector : vectors) bytes[vector.path] = vector.bytes;
  return bytes;
}

Tree TreeOf(const ScrVector& vector) {
  absl::StatusOr<Tree> tree = kvtree::Decode(vector.path, vector.bytes);
  EXPECT_TRUE(tree.ok()) << tree.status();
  return tree.ok() ? *std::move(tree) : Tree();
}

// The one file of a scenario with that role.
Tree OneTree(std::string_view role, std::string_view scenario) {
  const std::vector<ScrVector> vectors = ScrVectors(role, scenario);
  return vectors.empty() ? Tree() : TreeOf(vectors.front());
}

TEST(ScrVectorsTest, EveryFileOfAFilemapIsThereInItsSize) {
  for (const ScrVector& vector : ScrVectors("filemap of one rank")) {
    const std::size_t nodes = vector.path.find("/nodes/node");
    if (nodes == std::string::npos) continue;  // drained, or set aside: not where the filemap says
    static const auto files = ByPath(ScrVectors("application data file"));
    const auto filemap = GetFilemap(TreeOf(vector));
    ASSERT_TRUE(filemap.ok()) << vector.path << ": " << filemap.status();
    for (const auto& [path, meta] : filemap->files) {
      const std::string root = path.starts_with("/mnt/pfs") ? vector.scenario + "/pfs"
                                                            : vector.path.substr(0, vector.path.find('/', nodes + 7));
      const auto file = files.find(root + path.substr(8));
      ASSERT_NE(file, files.end()) << vector.path << ": " << path;
      EXPECT_EQ(file->second.size(), meta.bytes) << path;
      EXPECT_TRUE(meta.complete) << path;
      EXPECT_TRUE(path.ends_with(meta.name)) << path;
      EXPECT_TRUE(meta.directory.starts_with("/mnt/pfs/demo/")) << path;
      EXPECT_EQ(meta.mode, 0100640u) << path;
    }
  }
}

TEST(ScrVectorsTest, AFilemapPutAgainKeepsItsFieldsAndAddsTheOlderNames) {
  for (const ScrVector& vector : ScrVectors("filemap of one rank")) {
    const Tree before = TreeOf(vector);
    Tree after = ToTree(*GetFilemap(before));
    if (const Tree* files = after.Find("FILE"); files != nullptr) {
      for (const auto& [path, entry] : files->elements()) {
        Tree& meta = after.At("FILE").At(path).At("META");
        for (const char* key : {"FILE", "TYPE", "ORIGPATH", "ORIGNAME"}) EXPECT_TRUE(meta.Erase(key)) << vector.path;
      }
    }
    EXPECT_TRUE(after.SameAs(before)) << vector.path << "\n" << kvtree::Print(after);
  }
}

TEST(ScrVectorsTest, CacheIndexesAreReadAndPutAgainAreTheSame) {
  for (const ScrVector& vector : ScrVectors("cache index")) {
    const Tree before = TreeOf(vector);
    const auto entries = GetCacheEntries(before);
    ASSERT_TRUE(entries.ok()) << vector.path << ": " << entries.status();
    EXPECT_FALSE(entries->empty()) << vector.path;
    Tree after = before;
    Tree fresh;
    for (const auto& [id, entry] : *entries) {
      EXPECT_EQ(entry.path, "/mnt/ssd/alice/scr.4242/scr.dataset." + std::to_string(id)) << vector.path;
      EXPECT_EQ(entry.bypass, vector.scenario == "bypass_np3") << vector.path;
      EXPECT_EQ(entry.descriptor.complete, true) << vector.path;
      EXPECT_EQ(entry.descriptor.user, "alice");
      EXPECT_EQ(entry.descriptor.job_id, "4242");
      EXPECT_EQ(entry.descriptor.job_name, "demo_job");
      PutCacheEntry(entry, after);
      PutCacheEntry(entry, fresh);
    }
    EXPECT_TRUE(after.SameAs(before)) << vector.path << "\n" << kvtree::Print(after);
    EXPECT_TRUE(fresh.Find("DSET")->SameAs(*before.Find("DSET"))) << vector.path;
  }
}

TEST(ScrVectorsTest, FlushFilesAreReadAndPutAgainAreTheSame) {
  for (const ScrVector& vector : ScrVectors("flush file")) {
    const Tree before = TreeOf(vector);
    const auto entries = GetFlushEntries(before);
    ASSERT_TRUE(entries.ok()) << vector.path << ": " << entries.status();
    EXPECT_FALSE(entries->empty()) << vector.path;
    Tree after;
    for (const auto& [id, entry] : *entries) {
      EXPECT_TRUE(entry.in_cache) << vector.path;
      PutFlushEntry(id, entry, after);
    }
    EXPECT_TRUE(after.SameAs(before)) << vector.path << "\n" << kvtree::Print(after);
  }
}

TEST(ScrVectorsTest, AnInterruptedFlushIsFlushingAndIncomplete) {
  const std::vector<ScrVector> flush = ScrVectors("flush file", "inflight_async_flush");
  if (flush.empty()) return;
  const auto entries = GetFlushEntries(TreeOf(flush.front()));
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_TRUE(entries->at(1).flushing);
  EXPECT_FALSE(entries->at(1).in_prefix);
  EXPECT_TRUE(entries->at(1).checkpoint);
  const auto index = GetIndex(OneTree("prefix index", "inflight_async_flush"));
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_FALSE(index->datasets.at(1).complete);
  EXPECT_EQ(index->datasets.at(1).descriptor.bytes, 536870912u);
  EXPECT_EQ(index->current, "");
}

TEST(ScrVectorsTest, PrefixIndexesAreReadAndPutAgainAreTheSame) {
  for (const ScrVector& vector : ScrVectors("prefix index")) {
    const Tree before = TreeOf(vector);
    const auto index = GetIndex(before);
    ASSERT_TRUE(index.ok()) << vector.path << ": " << index.status();
    Tree after = before;
    for (const auto& [id, entry] : index->datasets) PutIndexEntry(entry, after);
    SetCurrent(index->current, after);
    EXPECT_TRUE(after.SameAs(before)) << vector.path << "\n" << kvtree::Print(after);
  }
}

TEST(ScrVectorsTest, TheLifeOfAPrefixIsReadAsItWas) {
  if (ScrVectors("prefix index", "prefix_lifecycle_np2").empty()) return;
  const Tree tree = OneTree("prefix index", "prefix_lifecycle_np2");
  const auto index = GetIndex(tree);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->current, "step_000010");
  ASSERT_EQ(index->datasets.size(), 4u);
  EXPECT_FALSE(index->datasets.at(2).descriptor.checkpoint);
  EXPECT_TRUE(index->datasets.at(2).descriptor.output);
  EXPECT_EQ(index->datasets.at(3).fetched, std::vector<std::string>{"2026-11-20T07:37:19"});
  EXPECT_EQ(index->datasets.at(4).descriptor.name, "step_000040");
  EXPECT_EQ(index->datasets.at(4).descriptor.checkpoint_id, 3u);
  // SCR reused id 4 and left the old name pointing at it.
  EXPECT_FALSE(FindByName("step_000030", tree));
  EXPECT_EQ(FindByName("step_000040", tree), 4u);
  EXPECT_EQ(FindByName("step_000010", tree), 1u);
}

TEST(ScrVectorsTest, AFailedRestartIsMarked) {
  if (ScrVectors("prefix index", "index_failed_np2").empty()) return;
  const auto index = GetIndex(OneTree("prefix index", "index_failed_np2"));
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->datasets.at(2).failed, "2026-11-20T07:46:45");
  EXPECT_EQ(index->datasets.at(1).failed, "");
  EXPECT_TRUE(index->datasets.at(2).complete);
}

TEST(ScrVectorsTest, SummariesAreReadAlsoWithWhatADrainLeavesInThem) {
  for (const ScrVector& vector : ScrVectors("dataset summary")) {
    const Tree before = TreeOf(vector);
    const auto descriptor = GetSummary(before);
    ASSERT_TRUE(descriptor.ok()) << vector.path << ": " << descriptor.status();
    EXPECT_EQ(descriptor->complete, true) << vector.path;
    EXPECT_NE(vector.path.find("scr.dataset." + std::to_string(descriptor->id) + "/"), std::string::npos);
    if (vector.scenario.starts_with("scavenge")) continue;
    EXPECT_TRUE(MakeSummary(*descriptor).SameAs(before)) << vector.path;
  }
}

// The trees of one rank2file by suffix, from the paths of the vectors.
std::map<std::string, Tree> PartsOf(const std::string& root) {
  std::map<std::string, Tree> trees;
  for (const ScrVector& vector : ScrVectors("rank2file")) {
    if (vector.path.starts_with(root)) trees[vector.path.substr(root.size())] = TreeOf(vector);
  }
  return trees;
}

absl::StatusOr<Rank2File> ReadParts(const std::map<std::string, Tree>& trees) {
  return GetRank2File([&trees](const std::string& suffix) -> absl::StatusOr<Tree> {
    const auto at = trees.find(suffix);
    if (at == trees.end()) return NotFound("rank2file{}", suffix);
    return at->second;
  });
}

TEST(ScrVectorsTest, EveryFileOfARank2FileIsInThePrefix) {
  for (const ScrVector& root : ScrVectors("rank2file root")) {
    if (root.scenario == "kvtree") continue;  // made without files
    static const auto files = ByPath(ScrVectors("application data file"));
    const auto trees = PartsOf(root.path);
    const auto read = ReadParts(trees);
    ASSERT_TRUE(read.ok()) << root.path << ": " << read.status();
    EXPECT_EQ(read->files.size(), read->ranks) << root.path;
    for (const auto& [rank, names] : read->files) {
      for (const std::string& name : names) {
        // Later runs took over the prefix of this scenario, and old data files stay.
        EXPECT_TRUE(files.contains(root.scenario + "/pfs/demo/" + name)) << root.path << ": " << name;
      }
    }
  }
}

TEST(ScrVectorsTest, ARank2FileIsMadeAsScrMakesIt) {
  for (const ScrVector& root : ScrVectors("rank2file root")) {
    const auto trees = PartsOf(root.path);
    const auto read = ReadParts(trees);
    ASSERT_TRUE(read.ok()) << root.path << ": " << read.status();
    std::vector<std::vector<std::string>> files(read->ranks);
    for (const auto& [rank, names] : read->files) files[rank] = names;
    if (root.scenario == "kvtree") {
      // Three parts of two ranks each were asked for; as data, five ranks fit into one.
      EXPECT_EQ(trees.size(), 4u);
      EXPECT_EQ(read->ranks, 5u);
      EXPECT_EQ(files[3], (std::vector<std::string>{"ckpt.7/rank_3_0.dat", "ckpt.7/rank_3_1.dat"}));
      EXPECT_EQ(files[4], (std::vector<std::string>{"ckpt.7/rank_4_0.dat"}));
      continue;
    }
    if (root.scenario.starts_with("scavenge")) continue;  // a drain adds FILES
    const auto made = MakeRank2File(files);
    ASSERT_EQ(made.size(), trees.size()) << root.path;
    for (const auto& [suffix, tree] : trees) {
      ASSERT_TRUE(made.contains(suffix)) << root.path << suffix;
      EXPECT_EQ(kvtree::Print(made.at(suffix)), kvtree::Print(tree)) << root.path << suffix;
    }
  }
}

}  // namespace
}  // namespace cairn::scr
