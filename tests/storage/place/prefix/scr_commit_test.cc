// What SCR itself, its tools and jobs of SCR on Cairn's cache have left in the prefix.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/prefix/prefix.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/storage/place/prefix/site.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class ScrCommitTest : public ::testing::Test, protected Site {
 protected:
  // A dataset as SCR itself leaves it, of ranks without files.
  void WriteScrDataset(DatasetId id, bool index_complete = true, bool summary_complete = true) {
    scr::IndexEntry entry;
    entry.descriptor.id = id;
    entry.descriptor.name = fmt::format("step_{}", id);
    entry.descriptor.complete = true;
    entry.complete = index_complete;
    scr::Descriptor summary = entry.descriptor;
    summary.complete = summary_complete;
    PutScrRecords(entry, summary, {{}, {}});
  }

  // A dataset of Cairn's as a job of SCR's on the same cache, or SCR's drain, leaves it: there is no commit.cairn.
  void BringByScr(DatasetId id) {
    kvtree::Tree index = disk.Info(kIndex).ok() ? Index() : kvtree::Tree();
    ASSERT_OK(Commit(id));
    ASSERT_OK(disk.Remove(fmt::format("{}/.scr/scr.dataset.{}/commit.cairn", kPath, id)));
    ASSERT_OK(RemoveTree(disk, fmt::format("{}/.scr/index.changes", kPath)));
    scr::IndexEntry entry;
    entry.descriptor = TestDescriptor(id, kRanks);
    entry.descriptor.complete = true;
    entry.complete = true;
    scr::PutIndexEntry(entry, index);
    ASSERT_OK(ReplaceTree(disk, kIndex, index));
  }
};

TEST_F(ScrCommitTest, AFailureThatScrHasMarkedIsToldFromDamageThatWasFoundHere) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(Commit(4));
  ASSERT_OK(prefix->MarkFailed(3));
  kvtree::Tree index = Index();
  index.At("DSET").At("4").Set("FAILED", "2026-01-02T03:04:05");
  ASSERT_OK(ReplaceTree(disk, kIndex, index));
  ASSERT_OK_AND_ASSIGN(const PrefixContents contents, prefix->Contents());
  EXPECT_EQ(contents.failed, std::set<DatasetId>({3, 4}));
  EXPECT_EQ(contents.refused, std::set<DatasetId>({4}));
  index.At("DSET").At("3").Set("FAILED", "2026-01-02T03:04:05");  // marked again, by SCR
  ASSERT_OK(ReplaceTree(disk, kIndex, index));
  ASSERT_OK_AND_ASSIGN(const PrefixContents again, prefix->Contents());
  EXPECT_EQ(again.refused, std::set<DatasetId>({3, 4}));
}

TEST_F(ScrCommitTest, AnEntryThatScrsToolsRemovedStaysOut) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(Commit(4));
  kvtree::Tree index = Index();
  scr::EraseIndexEntry(4, index);
  ASSERT_OK(ReplaceTree(disk, kIndex, index));
  EXPECT_EQ(CommittedIds(), Ids({3}));
  Reopen();
  EXPECT_EQ(CommittedIds(), Ids({3}));
  ASSERT_OK(prefix->Remove(4, CataloguesOf(4)));
  EXPECT_STATUS(kNotFound, disk.Info("/pfs/demo/ckpt.4"), "");
}

TEST_F(ScrCommitTest, ForeignEntriesAndUnknownKeysStay) {
  WriteScrDataset(2);
  kvtree::Tree index = Index();
  index.Set("SITE", "note");
  index.Find("DSET")->Find("2")->At("FETCHED").At("2026-01-01T00:00:00");
  ASSERT_OK(ReplaceTree(disk, kIndex, index));
  ASSERT_OK(Commit(3));
  ASSERT_OK(prefix->MarkFailed(2));
  const kvtree::Tree after = Index();
  EXPECT_EQ(after.Get("SITE"), "note");
  EXPECT_EQ(after.FindPath({"DSET", "2"})->Get("FETCHED"), "2026-01-01T00:00:00");
  EXPECT_EQ(after.FindPath({"NAME", "step_2"})->Get("DSET"), "2");
}

TEST_F(ScrCommitTest, ScrsOwnDatasetsCountIfIndexAndSummaryAreComplete) {
  WriteScrDataset(2);
  WriteScrDataset(3, /*index_complete=*/false);
  WriteScrDataset(4, true, /*summary_complete=*/false);
  ASSERT_OK_AND_ASSIGN(const auto committed, prefix->Committed());
  ASSERT_EQ(CommittedIds(), Ids({2}));
  EXPECT_FALSE(committed.at(2).by_cairn);
  EXPECT_EQ(committed.at(2).descriptor.name, "step_2");
  ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix->Catalogues(2));
  EXPECT_EQ(catalogues.size(), 2u);
  EXPECT_STATUS(kFailedPrecondition, prefix->Remove(2, {}), "SCR");
  ASSERT_OK_AND_ASSIGN(const auto reader, Prefix::OpenReadOnly(disk, kPath));
  EXPECT_TRUE(reader->Committed()->contains(2));
}

TEST_F(ScrCommitTest, ADatasetOfOursThatScrBroughtIsCommitted) {
  ASSERT_OK(Commit(3));
  BringByScr(4);
  ASSERT_OK_AND_ASSIGN(const auto reader, Prefix::OpenReadOnly(disk, kPath));
  EXPECT_FALSE(reader->Committed()->contains(4));
  EXPECT_EQ(CommittedIds(), Ids({3, 4}));
  ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix->Catalogues(4));
  EXPECT_EQ(catalogues.size(), kRanks);
  disk.Restart(1);
  Reopen();
  EXPECT_EQ(CommittedIds(), Ids({3, 4}));
  EXPECT_TRUE(reader->Committed()->contains(4));
}

TEST_F(ScrCommitTest, WhatScrHasMadeCurrentStaysSoWhenItsDatasetsAreCommitted) {
  ASSERT_OK(Commit(3));
  BringByScr(4);
  EXPECT_EQ(Current(), "ckpt.3");
  EXPECT_EQ(CommittedIds(), Ids({3, 4}));
  EXPECT_EQ(Current(), "ckpt.3");
  BringByScr(5);
  kvtree::Tree index = Index();
  index.Erase("CURRENT");
  ASSERT_OK(ReplaceTree(disk, kIndex, index));
  EXPECT_EQ(CommittedIds(), Ids({3, 4, 5}));
  EXPECT_EQ(Current(), "");
}

TEST_F(ScrCommitTest, WhatScrBroughtOnlyInPartDoesNotCountAndIsReported) {
  BringByScr(3);
  ASSERT_OK(disk.Remove("/pfs/demo/ckpt.3/rank_1.cat"));
  EXPECT_TRUE(CommittedIds().empty());
  const auto warnings = prefix->TakeWarnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], ::testing::HasSubstr("rank_1.cat"));
  BringByScr(4);
  const std::string file = "ckpt.4/" + CheckpointFileName(4, 1);
  ASSERT_OK(WriteTestFile(disk, prefix->FilePath(file), TestContent(5, 99)));
  EXPECT_TRUE(CommittedIds().empty());
  EXPECT_THAT(prefix->TakeWarnings(), ::testing::Contains(::testing::HasSubstr(file + ": 99 bytes instead of 100")));
}

TEST_F(ScrCommitTest, WhatWasRemovedHereDoesNotComeBackByScr) {
  BringByScr(3);
  const kvtree::Tree index = Index();
  const kvtree::Tree summary = TreeAt("/pfs/demo/.scr/scr.dataset.3/summary.scr");
  ASSERT_OK(prefix->Remove(3, CataloguesOf(3)));
  ASSERT_OK(Arrive(3));
  for (const catalogue::Catalogue& catalogue : CataloguesOf(3)) ASSERT_OK(prefix->StoreCatalogue(catalogue));
  ASSERT_OK(ReplaceTree(disk, kIndex, index));
  ASSERT_OK(ReplaceTree(disk, "/pfs/demo/.scr/scr.dataset.3/summary.scr", summary));
  EXPECT_TRUE(CommittedIds().empty());
}

TEST_F(ScrCommitTest, WhatHasFailedIsNotCommittedForScr) {
  BringByScr(3);
  ASSERT_OK(prefix->MarkFailed(3));
  EXPECT_TRUE(CommittedIds().empty());
  EXPECT_STATUS(kNotFound, disk.Info("/pfs/demo/.scr/scr.dataset.3/commit.cairn"), "");
}

TEST_F(ScrCommitTest, AnIdThatScrGaveOutAgainIsScrs) {
  ASSERT_OK(Commit(3));
  kvtree::Tree index = Index();
  index.Find("DSET")->Erase("3");
  ASSERT_OK(ReplaceTree(disk, kIndex, index));
  WriteScrDataset(3);
  ASSERT_OK_AND_ASSIGN(const auto committed, prefix->Committed());
  ASSERT_TRUE(committed.contains(3));
  EXPECT_FALSE(committed.at(3).by_cairn);
}

}  // namespace
}  // namespace cairn
