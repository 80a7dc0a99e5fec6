// Committed datasets: the records in the prefix, and what counts when they disagree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/base/status.h"
#include "storage/cache/catalogue.h"
#include "storage/cache/tree_file.h"
#include "storage/prefix/prefix.h"
#include "tests/storage/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr auto kAlreadyExists = absl::StatusCode::kAlreadyExists;
constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;

constexpr char kPath[] = "/pfs/demo";
constexpr char kIndex[] = "/pfs/demo/.scr/index.scr";
constexpr std::uint32_t kRanks = 2;

using Ids = std::vector<DatasetId>;

class CommitTest : public ::testing::Test {
 protected:
  CommitTest() { Reopen(); }

  void Reopen() {
    auto opened = Prefix::Open(disk_, kPath);
    ASSERT_OK(opened.status());
    prefix_ = *std::move(opened);
  }

  std::vector<catalogue::Catalogue> Catalogues(DatasetId id) const {
    std::vector<catalogue::Catalogue> catalogues;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      catalogues.push_back(TestCatalogue(prefix_->run(), id, rank, kRanks, TestContent(id + rank, 100)));
    }
    return catalogues;
  }

  // The bytes, as a flush leaves them.
  absl::Status Arrive(DatasetId id) {
    CAIRN_RETURN_IF_ERROR(MakeDirectories(disk_, fmt::format("{}/ckpt.{}", kPath, id)));
    for (Rank rank = 0; rank < kRanks; ++rank) {
      const std::string path = prefix_->FilePath(fmt::format("ckpt.{}/{}", id, CheckpointFileName(id, rank)));
      CAIRN_RETURN_IF_ERROR(WriteTestFile(disk_, path, TestContent(id + rank, 100)));
      CAIRN_RETURN_IF_ERROR(disk_.SyncDirectory(ParentOf(path)));
    }
    return absl::OkStatus();
  }

  absl::Status Commit(DatasetId id) {
    CAIRN_RETURN_IF_ERROR(Arrive(id));
    return prefix_->Commit(TestDescriptor(id, kRanks), Catalogues(id));
  }

  Ids CommittedIds() {
    const auto committed = prefix_->Committed();
    EXPECT_OK(committed.status());
    Ids ids;
    if (!committed.ok()) return ids;
    for (const auto& [id, dataset] : *committed) ids.push_back(id);
    return ids;
  }

  kvtree::Tree TreeAt(const std::string& path) {
    const auto tree = ReadTree(disk_, path);
    EXPECT_OK(tree.status());
    return tree.ok() ? *tree : kvtree::Tree();
  }
  std::string Current() { return std::string(TreeAt(kIndex).Get("CURRENT").value_or("")); }

  // A dataset as SCR itself leaves it.
  void WriteScrDataset(DatasetId id, bool index_complete = true, bool summary_complete = true) {
    kvtree::Tree index = disk_.Info(kIndex).ok() ? TreeAt(kIndex) : kvtree::Tree();
    scr::IndexEntry entry;
    entry.descriptor.id = id;
    entry.descriptor.name = fmt::format("step_{}", id);
    entry.descriptor.complete = true;
    entry.complete = index_complete;
    scr::PutIndexEntry(entry, index);
    ASSERT_OK(ReplaceTree(disk_, kIndex, index));
    const std::string folder = fmt::format("{}/.scr/scr.dataset.{}", kPath, id);
    ASSERT_OK(MakeDirectories(disk_, folder));
    for (const auto& [suffix, tree] : scr::MakeRank2File({{}, {}})) {
      ASSERT_OK(ReplaceTree(disk_, folder + "/rank2file" + suffix, tree));
    }
    entry.descriptor.complete = summary_complete;
    ASSERT_OK(ReplaceTree(disk_, folder + "/summary.scr", scr::MakeSummary(entry.descriptor)));
  }

  // A dataset of Cairn's as a job of SCR's on the same cache, or SCR's drain, leaves it: there is no commit.cairn.
  void BringByScr(DatasetId id) {
    kvtree::Tree index = disk_.Info(kIndex).ok() ? TreeAt(kIndex) : kvtree::Tree();
    ASSERT_OK(Commit(id));
    ASSERT_OK(disk_.Remove(fmt::format("{}/.scr/scr.dataset.{}/commit.cairn", kPath, id)));
    scr::IndexEntry entry;
    entry.descriptor = TestDescriptor(id, kRanks);
    entry.descriptor.complete = true;
    entry.complete = true;
    scr::PutIndexEntry(entry, index);
    ASSERT_OK(ReplaceTree(disk_, kIndex, index));
  }

  FakeDisk disk_;
  std::unique_ptr<Prefix> prefix_;
};

TEST_F(CommitTest, ACommittedDatasetIsListedAndItsCataloguesAreRead) {
  ASSERT_OK(Commit(3));
  disk_.Restart(1);
  Reopen();
  ASSERT_OK_AND_ASSIGN(const auto committed, prefix_->Committed());
  ASSERT_EQ(committed.size(), 1u);
  const CommittedDataset& dataset = committed.at(3);
  EXPECT_TRUE(dataset.by_cairn);
  EXPECT_TRUE(dataset.current);
  EXPECT_EQ(dataset.descriptor.step, 30u);
  EXPECT_EQ(dataset.descriptor.ranks, kRanks);
  EXPECT_EQ(dataset.descriptor.files, 4u);
  ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix_->Catalogues(3));
  ASSERT_EQ(catalogues.size(), kRanks);
  EXPECT_EQ(catalogues[1].SerializeAsString(), Catalogues(3)[1].SerializeAsString());
  EXPECT_STATUS(kNotFound, prefix_->Catalogues(4), "");
}

// SCR specification, section 14, "restart from prefix", and 9.2.
TEST_F(CommitTest, WritesWhatScrNeedsForARestart) {
  ASSERT_OK(Commit(3));
  const kvtree::Tree index = TreeAt(kIndex);
  EXPECT_EQ(index.Get("VERSION"), "2");
  EXPECT_EQ(index.Get("CURRENT"), "ckpt.3");
  EXPECT_EQ(index.FindPath({"NAME", "ckpt.3"})->Get("DSET"), "3");
  EXPECT_EQ(index.FindPath({"DSET", "3"})->Get("COMPLETE"), "1");
  EXPECT_TRUE(index.FindPath({"DSET", "3"})->Get("FLUSHED").has_value());
  const kvtree::Tree summary = TreeAt("/pfs/demo/.scr/scr.dataset.3/summary.scr");
  EXPECT_EQ(summary.Get("VERSION"), "6");
  EXPECT_EQ(summary.Get("COMPLETE"), "1");
  for (const kvtree::Tree* descriptor : {index.FindPath({"DSET", "3", "DSET"}), summary.Find("DSET")}) {
    ASSERT_NE(descriptor, nullptr);
    EXPECT_EQ(descriptor->Get("NAME"), "ckpt.3");
    EXPECT_EQ(descriptor->Get("FLAG_CKPT"), "1");
    EXPECT_EQ(descriptor->Get("CKPT"), "3");
    EXPECT_EQ(descriptor->Get("COMPLETE"), "1");
  }
  const kvtree::Tree root = TreeAt("/pfs/demo/.scr/scr.dataset.3/rank2file");
  EXPECT_EQ(root.Get("RANKS"), "2");
  EXPECT_EQ(root.Get("LEVEL"), "1");
  EXPECT_EQ(root.FindPath({"RANK", "0"})->Get("FILE"), ".0.0");
  EXPECT_EQ(root.FindPath({"RANK", "0"})->Get("OFFSET"), "0");
  const kvtree::Tree part = TreeAt("/pfs/demo/.scr/scr.dataset.3/rank2file.0.0");
  EXPECT_EQ(part.Get("RANKS"), "2");
  EXPECT_EQ(part.Get("LEVEL"), "0");
  for (const std::string rank : {"0", "1"}) {
    const kvtree::Tree* files = part.FindPath({"RANK", rank, "FILE"});
    ASSERT_NE(files, nullptr);
    EXPECT_EQ(files->size(), 2u);
    EXPECT_NE(files->Find("ckpt.3/Ckpt3-Rank" + rank + ".fti"), nullptr);
    EXPECT_NE(files->Find("ckpt.3/rank_" + rank + ".cat"), nullptr);
    EXPECT_OK(disk_.Info("/pfs/demo/ckpt.3/rank_" + rank + ".cat"));
  }
}

TEST_F(CommitTest, ASecondCommitIsRefusedAndARemovedDatasetStaysRemoved) {
  ASSERT_OK(Commit(3));
  EXPECT_STATUS(kAlreadyExists, Commit(3), "dataset 3");
  ASSERT_OK(prefix_->Remove(3, Catalogues(3)));
  EXPECT_TRUE(CommittedIds().empty());
  EXPECT_STATUS(kFailedPrecondition, Commit(3), "removed");
  Reopen();
  EXPECT_TRUE(CommittedIds().empty());
  EXPECT_STATUS(kNotFound, prefix_->Catalogues(3), "");
}

TEST_F(CommitTest, CataloguesThatDoNotFitAreRefused) {
  auto catalogues = Catalogues(3);
  EXPECT_STATUS(kInvalidArgument, prefix_->Commit(TestDescriptor(4, kRanks), catalogues), "dataset 4");
  EXPECT_STATUS(kInvalidArgument, prefix_->Commit(TestDescriptor(3, 3), catalogues), "2 catalogues");
  std::swap(catalogues[0], catalogues[1]);
  EXPECT_STATUS(kInvalidArgument, prefix_->Commit(TestDescriptor(3, kRanks), catalogues), "rank 1 of 2");
  std::swap(catalogues[0], catalogues[1]);
  catalogues[1].set_run(TestRun(9).Hex());
  EXPECT_STATUS(kInvalidArgument, prefix_->Commit(TestDescriptor(3, kRanks), catalogues), "run 0909");
  scr::Descriptor foreign = TestDescriptor(3, kRanks);
  foreign.launch.reset();
  EXPECT_STATUS(kInvalidArgument, prefix_->Commit(foreign, Catalogues(3)), "launch");
}

TEST_F(CommitTest, RemoveTakesTheFilesAndNothingElse) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(WriteTestFile(disk_, "/pfs/demo/ckpt.3/README", "the user's own"));
  ASSERT_OK(prefix_->Remove(3, Catalogues(3)));
  ASSERT_OK_AND_ASSIGN(const auto names, disk_.List("/pfs/demo/ckpt.3"));
  EXPECT_EQ(names, std::vector<std::string>({"README"}));
  ASSERT_OK_AND_ASSIGN(const auto records, disk_.List("/pfs/demo/.scr/scr.dataset.3"));
  EXPECT_EQ(records, std::vector<std::string>({"removed.cairn"}));
  ASSERT_OK(prefix_->Remove(3, Catalogues(3)));
  ASSERT_OK(Commit(4));
  ASSERT_OK(prefix_->Remove(4, Catalogues(4)));
  EXPECT_STATUS(kNotFound, disk_.Info("/pfs/demo/ckpt.4"), "");
}

TEST_F(CommitTest, AHalfFlushedDatasetIsRemovedWithItsWorkFiles) {
  ASSERT_OK(Arrive(3));
  ASSERT_OK(WriteTestFile(disk_, WorkName("/pfs/demo/ckpt.3/Ckpt3-Rank1.fti"), "half"));
  ASSERT_OK(prefix_->Remove(3, {}));
  EXPECT_STATUS(kNotFound, disk_.Info("/pfs/demo/ckpt.3"), "");
  EXPECT_STATUS(kFailedPrecondition, Commit(3), "removed");
}

TEST_F(CommitTest, ARemovalThatACrashCutShortIsFinished) {
  ASSERT_OK(Commit(3));
  disk_.SetHook([&](FakeOp op, const std::string& path) {
    if (op == FakeOp::kRemove && path.ends_with("Ckpt3-Rank1.fti")) disk_.CrashAt(1);
  });
  EXPECT_FALSE(prefix_->Remove(3, Catalogues(3)).ok());
  disk_.SetHook(nullptr);
  disk_.Restart(1);
  Reopen();
  EXPECT_TRUE(CommittedIds().empty());
  EXPECT_STATUS(kNotFound, disk_.Info("/pfs/demo/ckpt.3"), "");
  ASSERT_OK_AND_ASSIGN(const auto records, disk_.List("/pfs/demo/.scr/scr.dataset.3"));
  EXPECT_EQ(records, std::vector<std::string>({"removed.cairn"}));
}

TEST_F(CommitTest, ARemovedEntryThatAnothersChangeBroughtBackGoesAgain) {
  ASSERT_OK(Commit(3));
  const kvtree::Tree before = TreeAt(kIndex);
  ASSERT_OK(prefix_->Remove(3, Catalogues(3)));
  ASSERT_OK(ReplaceTree(disk_, kIndex, before));
  EXPECT_TRUE(CommittedIds().empty());
  EXPECT_EQ(TreeAt(kIndex).FindPath({"DSET", "3"}), nullptr);
}

TEST_F(CommitTest, ARemovalThatMeetsALateCommitWins) {
  ASSERT_OK(Arrive(3));
  bool removed = false;
  disk_.SetHook([&](FakeOp op, const std::string& path) {
    if (op != FakeOp::kLink || removed || path.find("commit.cairn") == std::string::npos) return;
    removed = true;
    ASSERT_OK(prefix_->Remove(3, Catalogues(3)));
  });
  EXPECT_STATUS(kFailedPrecondition, prefix_->Commit(TestDescriptor(3, kRanks), Catalogues(3)), "removed");
  EXPECT_TRUE(removed);
  EXPECT_TRUE(CommittedIds().empty());
  Reopen();
  EXPECT_TRUE(CommittedIds().empty());
}

TEST_F(CommitTest, FilesThatAnotherOutputTookOverStay) {
  const auto commit = [&](DatasetId id, const std::vector<std::string>& names) {
    scr::Descriptor descriptor = TestDescriptor(id, 1);
    descriptor.own_files = descriptor.output = true;
    catalogue::Catalogue catalogue = EmptyCatalogue(prefix_->run(), id, 0, 1);
    catalogue.set_files(true);
    for (const std::string& name : names) *catalogue.add_file() = TestEntry(name, name, "content");
    EXPECT_OK(prefix_->Commit(descriptor, {catalogue}));
    return catalogue;
  };
  ASSERT_OK(WriteTestFile(disk_, "/pfs/demo/latest.dat", "content"));
  ASSERT_OK(WriteTestFile(disk_, "/pfs/demo/step_1.dat", "content"));
  const auto first = commit(1, {"latest.dat", "step_1.dat"});
  commit(2, {"latest.dat"});
  ASSERT_OK(prefix_->Remove(1, {first}));
  EXPECT_OK(disk_.Info("/pfs/demo/latest.dat"));
  EXPECT_STATUS(kNotFound, disk_.Info("/pfs/demo/step_1.dat"), "");
}

TEST_F(CommitTest, RemovalOfTheCurrentDatasetMovesCurrentToTheNextOlder) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(Commit(5));
  EXPECT_EQ(Current(), "ckpt.5");
  ASSERT_OK(prefix_->Remove(5, Catalogues(5)));
  EXPECT_EQ(Current(), "ckpt.3");
}

TEST_F(CommitTest, CurrentFollowsCommitsUpwardsAndOnlyCheckpoints) {
  ASSERT_OK(Commit(5));
  ASSERT_OK(Commit(3));  // its flush took longer
  EXPECT_EQ(Current(), "ckpt.5");
  ASSERT_OK(Arrive(7));
  scr::Descriptor output = TestDescriptor(7, kRanks);
  output.checkpoint = false;
  output.output = true;
  ASSERT_OK(prefix_->Commit(output, Catalogues(7)));
  EXPECT_EQ(Current(), "ckpt.5");
}

TEST_F(CommitTest, CurrentSetByHandBoundsUntilTheNextCommit) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(Commit(5));
  kvtree::Tree index = TreeAt(kIndex);
  scr::SetCurrent("ckpt.3", index);
  ASSERT_OK(ReplaceTree(disk_, kIndex, index));
  Reopen();
  ASSERT_OK_AND_ASSIGN(const auto committed, prefix_->Committed());
  EXPECT_TRUE(committed.at(3).current);
  EXPECT_FALSE(committed.at(5).current);
  ASSERT_OK(Commit(6));
  EXPECT_EQ(Current(), "ckpt.6");
}

TEST_F(CommitTest, AFailedDatasetIsNotChosenAgainAndNoLongerCurrent) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(prefix_->MarkFailed(3));
  EXPECT_TRUE(CommittedIds().empty());
  EXPECT_EQ(Current(), "");
  EXPECT_TRUE(TreeAt(kIndex).FindPath({"DSET", "3"})->Get("FAILED").has_value());
  EXPECT_STATUS(kNotFound, prefix_->MarkFailed(4), "dataset 4");
  Reopen();
  EXPECT_TRUE(CommittedIds().empty());
}

TEST_F(CommitTest, AFailureThatScrHasMarkedIsToldFromDamageThatWasFoundHere) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(Commit(4));
  ASSERT_OK(prefix_->MarkFailed(3));
  kvtree::Tree index = TreeAt(kIndex);
  index.At("DSET").At("4").Set("FAILED", "2026-01-02T03:04:05");
  ASSERT_OK(ReplaceTree(disk_, kIndex, index));
  ASSERT_OK_AND_ASSIGN(const PrefixContents contents, prefix_->Contents());
  EXPECT_EQ(contents.failed, std::set<DatasetId>({3, 4}));
  EXPECT_EQ(contents.refused, std::set<DatasetId>({4}));
  index.At("DSET").At("3").Set("FAILED", "2026-01-02T03:04:05");  // marked again, by SCR
  ASSERT_OK(ReplaceTree(disk_, kIndex, index));
  ASSERT_OK_AND_ASSIGN(const PrefixContents again, prefix_->Contents());
  EXPECT_EQ(again.refused, std::set<DatasetId>({3, 4}));
}

TEST_F(CommitTest, AnEntryThatACrashLeftOutIsMerged) {
  ASSERT_OK(Commit(3));
  const kvtree::Tree before = TreeAt(kIndex);
  ASSERT_OK(Commit(4));
  ASSERT_OK(ReplaceTree(disk_, kIndex, before));
  ASSERT_OK_AND_ASSIGN(const auto reader, Prefix::OpenReadOnly(disk_, kPath));
  EXPECT_TRUE(reader->Committed()->contains(4));
  EXPECT_EQ(TreeAt(kIndex).FindPath({"DSET", "4"}), nullptr);
  EXPECT_EQ(CommittedIds(), Ids({3, 4}));
  EXPECT_NE(TreeAt(kIndex).FindPath({"DSET", "4"}), nullptr);
  EXPECT_EQ(Current(), "ckpt.4");
}

TEST_F(CommitTest, AnEntryThatScrsToolsRemovedStaysOut) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(Commit(4));
  kvtree::Tree index = TreeAt(kIndex);
  scr::EraseIndexEntry(4, index);
  ASSERT_OK(ReplaceTree(disk_, kIndex, index));
  EXPECT_EQ(CommittedIds(), Ids({3}));
  Reopen();
  EXPECT_EQ(CommittedIds(), Ids({3}));
  ASSERT_OK(prefix_->Remove(4, Catalogues(4)));
  EXPECT_STATUS(kNotFound, disk_.Info("/pfs/demo/ckpt.4"), "");
}

TEST_F(CommitTest, ForeignEntriesAndUnknownKeysStay) {
  WriteScrDataset(2);
  kvtree::Tree index = TreeAt(kIndex);
  index.Set("SITE", "note");
  index.Find("DSET")->Find("2")->At("FETCHED").At("2026-01-01T00:00:00");
  ASSERT_OK(ReplaceTree(disk_, kIndex, index));
  ASSERT_OK(Commit(3));
  ASSERT_OK(prefix_->MarkFailed(2));
  const kvtree::Tree after = TreeAt(kIndex);
  EXPECT_EQ(after.Get("SITE"), "note");
  EXPECT_EQ(after.FindPath({"DSET", "2"})->Get("FETCHED"), "2026-01-01T00:00:00");
  EXPECT_EQ(after.FindPath({"NAME", "step_2"})->Get("DSET"), "2");
}

TEST_F(CommitTest, ScrsOwnDatasetsCountIfIndexAndSummaryAreComplete) {
  WriteScrDataset(2);
  WriteScrDataset(3, /*index_complete=*/false);
  WriteScrDataset(4, true, /*summary_complete=*/false);
  ASSERT_OK_AND_ASSIGN(const auto committed, prefix_->Committed());
  ASSERT_EQ(CommittedIds(), Ids({2}));
  EXPECT_FALSE(committed.at(2).by_cairn);
  EXPECT_EQ(committed.at(2).descriptor.name, "step_2");
  ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix_->Catalogues(2));
  EXPECT_EQ(catalogues.size(), 2u);
  EXPECT_STATUS(kFailedPrecondition, prefix_->Remove(2, {}), "SCR");
  ASSERT_OK_AND_ASSIGN(const auto reader, Prefix::OpenReadOnly(disk_, kPath));
  EXPECT_TRUE(reader->Committed()->contains(2));
}

TEST_F(CommitTest, AnEntryOfOursWithoutCommitDoesNotCount) {
  kvtree::Tree index;
  scr::IndexEntry entry;
  entry.descriptor = TestDescriptor(3, kRanks);
  entry.complete = true;
  scr::PutIndexEntry(entry, index);
  ASSERT_OK(ReplaceTree(disk_, kIndex, index));
  EXPECT_TRUE(CommittedIds().empty());
}

TEST_F(CommitTest, ADatasetOfOursThatScrBroughtIsCommitted) {
  ASSERT_OK(Commit(3));
  BringByScr(4);
  ASSERT_OK_AND_ASSIGN(const auto reader, Prefix::OpenReadOnly(disk_, kPath));
  EXPECT_FALSE(reader->Committed()->contains(4));
  EXPECT_EQ(CommittedIds(), Ids({3, 4}));
  ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix_->Catalogues(4));
  EXPECT_EQ(catalogues.size(), kRanks);
  disk_.Restart(1);
  Reopen();
  EXPECT_EQ(CommittedIds(), Ids({3, 4}));
  EXPECT_TRUE(reader->Committed()->contains(4));
}

TEST_F(CommitTest, WhatScrHasMadeCurrentStaysSoWhenItsDatasetsAreCommitted) {
  ASSERT_OK(Commit(3));
  BringByScr(4);
  EXPECT_EQ(Current(), "ckpt.3");
  EXPECT_EQ(CommittedIds(), Ids({3, 4}));
  EXPECT_EQ(Current(), "ckpt.3");
  BringByScr(5);
  kvtree::Tree index = TreeAt(kIndex);
  index.Erase("CURRENT");
  ASSERT_OK(ReplaceTree(disk_, kIndex, index));
  EXPECT_EQ(CommittedIds(), Ids({3, 4, 5}));
  EXPECT_EQ(Current(), "");
}

TEST_F(CommitTest, WhatScrBroughtOnlyInPartDoesNotCountAndIsReported) {
  BringByScr(3);
  ASSERT_OK(disk_.Remove("/pfs/demo/ckpt.3/rank_1.cat"));
  EXPECT_TRUE(CommittedIds().empty());
  const auto warnings = prefix_->TakeWarnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], ::testing::HasSubstr("rank_1.cat"));
  BringByScr(4);
  const std::string file = "ckpt.4/" + CheckpointFileName(4, 1);
  ASSERT_OK(WriteTestFile(disk_, prefix_->FilePath(file), TestContent(5, 99)));
  EXPECT_TRUE(CommittedIds().empty());
  EXPECT_THAT(prefix_->TakeWarnings(), ::testing::Contains(::testing::HasSubstr(file + ": 99 bytes instead of 100")));
}

TEST_F(CommitTest, WhatWasRemovedHereDoesNotComeBackByScr) {
  BringByScr(3);
  const kvtree::Tree index = TreeAt(kIndex);
  const kvtree::Tree summary = TreeAt("/pfs/demo/.scr/scr.dataset.3/summary.scr");
  ASSERT_OK(prefix_->Remove(3, Catalogues(3)));
  ASSERT_OK(Arrive(3));
  for (const catalogue::Catalogue& catalogue : Catalogues(3)) ASSERT_OK(prefix_->StoreCatalogue(catalogue));
  ASSERT_OK(ReplaceTree(disk_, kIndex, index));
  ASSERT_OK(ReplaceTree(disk_, "/pfs/demo/.scr/scr.dataset.3/summary.scr", summary));
  EXPECT_TRUE(CommittedIds().empty());
}

TEST_F(CommitTest, WhatHasFailedIsNotCommittedForScr) {
  BringByScr(3);
  ASSERT_OK(prefix_->MarkFailed(3));
  EXPECT_TRUE(CommittedIds().empty());
  EXPECT_STATUS(kNotFound, disk_.Info("/pfs/demo/.scr/scr.dataset.3/commit.cairn"), "");
}

TEST_F(CommitTest, AnIdThatScrGaveOutAgainIsScrs) {
  ASSERT_OK(Commit(3));
  kvtree::Tree index = TreeAt(kIndex);
  index.Find("DSET")->Erase("3");
  ASSERT_OK(ReplaceTree(disk_, kIndex, index));
  WriteScrDataset(3);
  ASSERT_OK_AND_ASSIGN(const auto committed, prefix_->Committed());
  ASSERT_TRUE(committed.contains(3));
  EXPECT_FALSE(committed.at(3).by_cairn);
}

TEST_F(CommitTest, ADamagedIndexIsMovedAsideAndMergedAnew) {
  ASSERT_OK(Commit(3));
  disk_.FlipBit(kIndex, 300);
  ASSERT_OK_AND_ASSIGN(const auto reader, Prefix::OpenReadOnly(disk_, kPath));
  EXPECT_TRUE(reader->Committed()->contains(3));
  EXPECT_FALSE(reader->TakeWarnings().empty());
  EXPECT_EQ(CommittedIds(), Ids({3}));
  EXPECT_OK(disk_.Info(std::string(kIndex) + ".damaged.1"));
  const auto warnings = prefix_->TakeWarnings();
  ASSERT_FALSE(warnings.empty());
  EXPECT_NE(warnings[0].find("index.scr.damaged.1"), std::string::npos);
  EXPECT_TRUE(prefix_->TakeWarnings().empty());
  EXPECT_EQ(Current(), "ckpt.3");
}

TEST_F(CommitTest, AnIndexOfAnotherVersionIsRefusedAndNotTouched) {
  kvtree::Tree index;
  index.Set("VERSION", "3");
  ASSERT_OK(ReplaceTree(disk_, kIndex, index));
  EXPECT_STATUS(kFailedPrecondition, prefix_->Committed(), "VERSION");
  EXPECT_STATUS(kFailedPrecondition, Commit(3), "VERSION");
  EXPECT_EQ(TreeAt(kIndex).Get("VERSION"), "3");
}

TEST_F(CommitTest, ADamagedCommitRecordDoesNotCountAndIsReported) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(Commit(4));
  disk_.FlipBit("/pfs/demo/.scr/scr.dataset.4/commit.cairn", 400);
  EXPECT_EQ(CommittedIds(), Ids({3}));
  const auto warnings = prefix_->TakeWarnings();
  ASSERT_FALSE(warnings.empty());
  EXPECT_NE(warnings[0].find("commit.cairn"), std::string::npos);
}

TEST_F(CommitTest, AnotherRunsCommitDoesNotCount) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(RemoveTree(disk_, "/pfs/demo/.cairn"));
  Reopen();
  EXPECT_TRUE(CommittedIds().empty());
}

TEST_F(CommitTest, DamagedMissingAndForeignCataloguesAreDataLoss) {
  ASSERT_OK(Commit(3));
  const std::string path = prefix_->CataloguePath(3, 1);
  ASSERT_OK_AND_ASSIGN(const std::string good, ReadWhole(disk_, path, 1 << 20));
  disk_.FlipBit(path, 333);
  EXPECT_STATUS(kDataLoss, prefix_->Catalogues(3), path);
  ASSERT_OK(disk_.Remove(path));
  EXPECT_STATUS(kDataLoss, prefix_->Catalogues(3), path);
  ASSERT_OK(WriteTestFile(disk_, path, EncodeCatalogue(Catalogues(3)[0])));
  EXPECT_STATUS(kDataLoss, prefix_->Catalogues(3), path);
  ASSERT_OK(WriteTestFile(disk_, path, good));
  EXPECT_OK(prefix_->Catalogues(3));
}

TEST_F(CommitTest, CataloguesInPlaceAreNotWrittenAgain) {
  for (const auto& catalogue : Catalogues(3)) ASSERT_OK(prefix_->StoreCatalogue(catalogue));
  int written = 0;
  disk_.SetHook([&](FakeOp op, const std::string& path) {
    written += op == FakeOp::kWrite && path.find(".cat") != std::string::npos;
  });
  ASSERT_OK(Commit(3));
  EXPECT_EQ(written, 0);
  EXPECT_OK(prefix_->Catalogues(3));
}

TEST_F(CommitTest, TheFlushFileSaysWhereDatasetsAre) {
  scr::FlushEntry entry;
  entry.name = "ckpt.3";
  entry.checkpoint = entry.in_cache = entry.flushing = true;
  ASSERT_OK(prefix_->PutFlush(3, entry));
  ASSERT_OK(prefix_->PutFlush(4, entry));
  entry.flushing = false;
  entry.in_prefix = true;
  ASSERT_OK(prefix_->PutFlush(3, entry));
  ASSERT_OK(prefix_->EraseFlush(4));
  const std::string path = "/pfs/demo/.scr/flush.scr";
  ASSERT_OK_AND_ASSIGN(const auto entries, scr::GetFlushEntries(TreeAt(path)));
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_TRUE(entries.at(3).in_prefix);
  EXPECT_FALSE(entries.at(3).flushing);
  disk_.FlipBit(path, 200);
  ASSERT_OK(prefix_->PutFlush(5, entry));
  EXPECT_OK(disk_.Info(path + ".damaged.1"));
}

}  // namespace
}  // namespace cairn
