// Committed datasets: the records in the prefix, and what counts when they disagree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/prefix/prefix.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/storage/place/prefix/site.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class CommitTest : public ::testing::Test, protected Site {};

TEST_F(CommitTest, ACommittedDatasetIsListedAndItsCataloguesAreRead) {
  ASSERT_OK(Commit(3));
  disk.Restart(1);
  Reopen();
  ASSERT_OK_AND_ASSIGN(const auto committed, prefix->Committed());
  ASSERT_EQ(committed.size(), 1u);
  const CommittedDataset& dataset = committed.at(3);
  EXPECT_TRUE(dataset.by_cairn);
  EXPECT_TRUE(dataset.current);
  EXPECT_EQ(dataset.descriptor.step, 30u);
  EXPECT_EQ(dataset.descriptor.ranks, kRanks);
  EXPECT_EQ(dataset.descriptor.files, 4u);
  ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix->Catalogues(3));
  ASSERT_EQ(catalogues.size(), kRanks);
  EXPECT_EQ(catalogues[1].SerializeAsString(), CataloguesOf(3)[1].SerializeAsString());
  EXPECT_STATUS(kNotFound, prefix->Catalogues(4), "");
}

// SCR specification, section 14, "restart from prefix", and 9.2.
TEST_F(CommitTest, WritesWhatScrNeedsForARestart) {
  ASSERT_OK(Commit(3));
  const kvtree::Tree index = Index();
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
    EXPECT_OK(disk.Info("/pfs/demo/ckpt.3/rank_" + rank + ".cat"));
  }
}

TEST_F(CommitTest, ASecondCommitIsRefusedAndARemovedDatasetStaysRemoved) {
  ASSERT_OK(Commit(3));
  EXPECT_STATUS(kAlreadyExists, Commit(3), "dataset 3");
  ASSERT_OK(prefix->Remove(3, CataloguesOf(3)));
  EXPECT_TRUE(CommittedIds().empty());
  EXPECT_STATUS(kFailedPrecondition, Commit(3), "removed");
  Reopen();
  EXPECT_TRUE(CommittedIds().empty());
  EXPECT_STATUS(kNotFound, prefix->Catalogues(3), "");
}

TEST_F(CommitTest, CataloguesThatDoNotFitAreRefused) {
  auto catalogues = CataloguesOf(3);
  EXPECT_STATUS(kInvalidArgument, prefix->Commit(TestDescriptor(4, kRanks), catalogues), "dataset 4");
  EXPECT_STATUS(kInvalidArgument, prefix->Commit(TestDescriptor(3, 3), catalogues), "2 catalogues");
  std::swap(catalogues[0], catalogues[1]);
  EXPECT_STATUS(kInvalidArgument, prefix->Commit(TestDescriptor(3, kRanks), catalogues), "rank 1 of 2");
  std::swap(catalogues[0], catalogues[1]);
  catalogues[1].set_run(TestRun(9).Hex());
  EXPECT_STATUS(kInvalidArgument, prefix->Commit(TestDescriptor(3, kRanks), catalogues), "run 0909");
  scr::Descriptor foreign = TestDescriptor(3, kRanks);
  foreign.launch.reset();
  EXPECT_STATUS(kInvalidArgument, prefix->Commit(foreign, CataloguesOf(3)), "launch");
}

TEST_F(CommitTest, RemoveTakesTheFilesAndNothingElse) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(WriteTestFile(disk, "/pfs/demo/ckpt.3/README", "the user's own"));
  // Another dataset's file on its way there, and somebody's folder that is called like a catalogue.
  ASSERT_OK(WriteTestFile(disk, "/pfs/demo/ckpt.3/rank_0.ckpt.cairn-work01234567", "half"));
  ASSERT_OK(MakeDirectories(disk, "/pfs/demo/ckpt.3/rank_9.cat"));
  ASSERT_OK(WriteTestFile(disk, "/pfs/demo/ckpt.3/rank_9.cat/notes", "the user's own"));
  ASSERT_OK(prefix->Remove(3, CataloguesOf(3)));
  ASSERT_OK_AND_ASSIGN(const auto names, disk.List("/pfs/demo/ckpt.3"));
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("README", "rank_0.ckpt.cairn-work01234567", "rank_9.cat"));
  ASSERT_OK_AND_ASSIGN(const auto records, disk.List("/pfs/demo/.scr/scr.dataset.3"));
  EXPECT_EQ(records, std::vector<std::string>({"removed.cairn"}));
  ASSERT_OK(prefix->Remove(3, CataloguesOf(3)));
  ASSERT_OK(Commit(4));
  ASSERT_OK(prefix->Remove(4, CataloguesOf(4)));
  EXPECT_STATUS(kNotFound, disk.Info("/pfs/demo/ckpt.4"), "");
}

TEST_F(CommitTest, AHalfFlushedDatasetIsRemovedWithItsWorkFiles) {
  ASSERT_OK(Arrive(3));
  ASSERT_OK(WriteTestFile(disk, WorkName("/pfs/demo/ckpt.3/Ckpt3-Rank1.fti"), "half"));
  ASSERT_OK(prefix->Remove(3, {}));
  EXPECT_STATUS(kNotFound, disk.Info("/pfs/demo/ckpt.3"), "");
  EXPECT_STATUS(kFailedPrecondition, Commit(3), "removed");
}

TEST_F(CommitTest, ARemovalThatACrashCutShortIsFinished) {
  ASSERT_OK(Commit(3));
  disk.SetHook([&](FakeOp op, const std::string& path) {
    if (op == FakeOp::kRemove && path.ends_with("Ckpt3-Rank1.fti")) disk.CrashAt(1);
  });
  EXPECT_FALSE(prefix->Remove(3, CataloguesOf(3)).ok());
  disk.SetHook(nullptr);
  disk.Restart(1);
  Reopen();
  EXPECT_TRUE(CommittedIds().empty());
  EXPECT_STATUS(kNotFound, disk.Info("/pfs/demo/ckpt.3"), "");
  ASSERT_OK_AND_ASSIGN(const auto records, disk.List("/pfs/demo/.scr/scr.dataset.3"));
  EXPECT_EQ(records, std::vector<std::string>({"removed.cairn"}));
}

TEST_F(CommitTest, ARemovedEntryThatAnothersChangeBroughtBackGoesAgain) {
  ASSERT_OK(Commit(3));
  const kvtree::Tree before = Index();
  ASSERT_OK(prefix->Remove(3, CataloguesOf(3)));
  ASSERT_OK(ReplaceTree(disk, kIndex, before));
  EXPECT_TRUE(CommittedIds().empty());
  EXPECT_EQ(Index().FindPath({"DSET", "3"}), nullptr);
}

TEST_F(CommitTest, ARemovalThatMeetsALateCommitWins) {
  ASSERT_OK(Arrive(3));
  bool removed = false;
  disk.SetHook([&](FakeOp op, const std::string& path) {
    if (op != FakeOp::kLink || removed || path.find("commit.cairn") == std::string::npos) return;
    removed = true;
    ASSERT_OK(prefix->Remove(3, CataloguesOf(3)));
  });
  EXPECT_STATUS(kFailedPrecondition, prefix->Commit(TestDescriptor(3, kRanks), CataloguesOf(3)), "removed");
  EXPECT_TRUE(removed);
  EXPECT_TRUE(CommittedIds().empty());
  Reopen();
  EXPECT_TRUE(CommittedIds().empty());
}

TEST_F(CommitTest, FoldersOfTheApplicationsFilesGoWithTheLastFileInThem) {
  scr::Descriptor descriptor = TestDescriptor(1, 1);
  descriptor.own_files = descriptor.output = true;
  catalogue::Catalogue catalogue = EmptyCatalogue(prefix->run(), 1, 0, 1);
  catalogue.set_files(true);
  for (const char* name : {"a/b/1.dat", "a/b/2.dat", "mine/3.dat", "ckpt.7/rank_0.ckpt"}) {
    *catalogue.add_file() = TestEntry(name, name, "content");
    ASSERT_OK(MakeDirectories(disk, ParentOf(prefix->FilePath(name))));
    ASSERT_OK(WriteTestFile(disk, prefix->FilePath(name), "content"));
  }
  ASSERT_OK(WriteTestFile(disk, "/pfs/demo/mine/notes", "the user's own"));
  ASSERT_OK(prefix->Commit(descriptor, {catalogue}));
  ASSERT_OK(prefix->Remove(1, {catalogue}));
  ASSERT_OK_AND_ASSIGN(const auto names, disk.List("/pfs/demo"));
  EXPECT_THAT(names, ::testing::UnorderedElementsAre(".cairn", ".scr", "mine"));
  EXPECT_OK(disk.Info("/pfs/demo/mine/notes"));
}

TEST_F(CommitTest, FilesThatAnotherOutputTookOverStay) {
  const auto commit = [&](DatasetId id, const std::vector<std::string>& names) {
    scr::Descriptor descriptor = TestDescriptor(id, 1);
    descriptor.own_files = descriptor.output = true;
    catalogue::Catalogue catalogue = EmptyCatalogue(prefix->run(), id, 0, 1);
    catalogue.set_files(true);
    for (const std::string& name : names) *catalogue.add_file() = TestEntry(name, name, "content");
    EXPECT_OK(prefix->Commit(descriptor, {catalogue}));
    return catalogue;
  };
  ASSERT_OK(WriteTestFile(disk, "/pfs/demo/latest.dat", "content"));
  ASSERT_OK(WriteTestFile(disk, "/pfs/demo/step_1.dat", "content"));
  const auto first = commit(1, {"latest.dat", "step_1.dat"});
  commit(2, {"latest.dat"});
  ASSERT_OK(prefix->Remove(1, {first}));
  EXPECT_OK(disk.Info("/pfs/demo/latest.dat"));
  EXPECT_STATUS(kNotFound, disk.Info("/pfs/demo/step_1.dat"), "");
}

TEST_F(CommitTest, RemovalOfTheCurrentDatasetMovesCurrentToTheNextOlder) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(Commit(5));
  EXPECT_EQ(Current(), "ckpt.5");
  ASSERT_OK(prefix->Remove(5, CataloguesOf(5)));
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
  ASSERT_OK(prefix->Commit(output, CataloguesOf(7)));
  EXPECT_EQ(Current(), "ckpt.5");
}

TEST_F(CommitTest, CurrentSetByHandBoundsUntilTheNextCommit) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(Commit(5));
  kvtree::Tree index = Index();
  scr::SetCurrent("ckpt.3", index);
  ASSERT_OK(ReplaceTree(disk, kIndex, index));
  Reopen();
  ASSERT_OK_AND_ASSIGN(const auto committed, prefix->Committed());
  EXPECT_TRUE(committed.at(3).current);
  EXPECT_FALSE(committed.at(5).current);
  ASSERT_OK(Commit(6));
  EXPECT_EQ(Current(), "ckpt.6");
}

TEST_F(CommitTest, AFailedDatasetIsNotChosenAgainAndNoLongerCurrent) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(prefix->MarkFailed(3));
  EXPECT_TRUE(CommittedIds().empty());
  EXPECT_EQ(Current(), "");
  EXPECT_TRUE(Index().FindPath({"DSET", "3"})->Get("FAILED").has_value());
  EXPECT_STATUS(kNotFound, prefix->MarkFailed(4), "dataset 4");
  Reopen();
  EXPECT_TRUE(CommittedIds().empty());
}

TEST_F(CommitTest, AnEntryThatACrashLeftOutIsMerged) {
  ASSERT_OK(Commit(3));
  const kvtree::Tree before = Index();
  ASSERT_OK(Commit(4));
  ASSERT_OK(ReplaceTree(disk, kIndex, before));
  ASSERT_OK_AND_ASSIGN(const auto reader, Prefix::OpenReadOnly(disk, kPath));
  EXPECT_TRUE(reader->Committed()->contains(4));
  EXPECT_EQ(Index().FindPath({"DSET", "4"}), nullptr);
  EXPECT_EQ(CommittedIds(), Ids({3, 4}));
  EXPECT_NE(Index().FindPath({"DSET", "4"}), nullptr);
  EXPECT_EQ(Current(), "ckpt.4");
}

TEST_F(CommitTest, AnEntryOfOursWithoutCommitDoesNotCount) {
  kvtree::Tree index;
  scr::IndexEntry entry;
  entry.descriptor = TestDescriptor(3, kRanks);
  entry.complete = true;
  scr::PutIndexEntry(entry, index);
  ASSERT_OK(ReplaceTree(disk, kIndex, index));
  EXPECT_TRUE(CommittedIds().empty());
}

TEST_F(CommitTest, ADamagedIndexIsMovedAsideAndMergedAnew) {
  ASSERT_OK(Commit(3));
  disk.FlipBit(kIndex, 300);
  ASSERT_OK_AND_ASSIGN(const auto reader, Prefix::OpenReadOnly(disk, kPath));
  EXPECT_TRUE(reader->Committed()->contains(3));
  EXPECT_FALSE(reader->TakeWarnings().empty());
  EXPECT_EQ(CommittedIds(), Ids({3}));
  EXPECT_OK(disk.Info(std::string(kIndex) + ".damaged.1"));
  const auto warnings = prefix->TakeWarnings();
  ASSERT_FALSE(warnings.empty());
  EXPECT_NE(warnings[0].find("index.scr.damaged.1"), std::string::npos);
  EXPECT_TRUE(prefix->TakeWarnings().empty());
  EXPECT_EQ(Current(), "ckpt.3");
}

TEST_F(CommitTest, AnIndexOfAnotherVersionIsRefusedAndNotTouched) {
  kvtree::Tree index;
  index.Set("VERSION", "3");
  ASSERT_OK(ReplaceTree(disk, kIndex, index));
  EXPECT_STATUS(kFailedPrecondition, prefix->Committed(), "VERSION");
  EXPECT_STATUS(kFailedPrecondition, Commit(3), "VERSION");
  EXPECT_EQ(Index().Get("VERSION"), "3");
}

TEST_F(CommitTest, ADamagedCommitRecordDoesNotCountAndIsReported) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(Commit(4));
  disk.FlipBit("/pfs/demo/.scr/scr.dataset.4/commit.cairn", 400);
  EXPECT_EQ(CommittedIds(), Ids({3}));
  const auto warnings = prefix->TakeWarnings();
  ASSERT_FALSE(warnings.empty());
  EXPECT_NE(warnings[0].find("commit.cairn"), std::string::npos);
}

TEST_F(CommitTest, AnotherRunsCommitDoesNotCount) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(RemoveTree(disk, "/pfs/demo/.cairn"));
  Reopen();
  EXPECT_TRUE(CommittedIds().empty());
}

TEST_F(CommitTest, DamagedMissingAndForeignCataloguesAreDataLoss) {
  ASSERT_OK(Commit(3));
  const std::string path = prefix->CataloguePath(3, 1);
  ASSERT_OK_AND_ASSIGN(const std::string good, ReadWhole(disk, path, 1 << 20));
  disk.FlipBit(path, 333);
  EXPECT_STATUS(kDataLoss, prefix->Catalogues(3), path);
  ASSERT_OK(disk.Remove(path));
  EXPECT_STATUS(kDataLoss, prefix->Catalogues(3), path);
  ASSERT_OK(WriteTestFile(disk, path, EncodeCatalogue(CataloguesOf(3)[0])));
  EXPECT_STATUS(kDataLoss, prefix->Catalogues(3), path);
  ASSERT_OK(WriteTestFile(disk, path, good));
  EXPECT_OK(prefix->Catalogues(3));
}

TEST_F(CommitTest, CataloguesInPlaceAreNotWrittenAgain) {
  for (const auto& catalogue : CataloguesOf(3)) ASSERT_OK(prefix->StoreCatalogue(catalogue));
  int written = 0;
  disk.SetHook([&](FakeOp op, const std::string& path) {
    written += op == FakeOp::kWrite && path.find(".cat") != std::string::npos;
  });
  ASSERT_OK(Commit(3));
  EXPECT_EQ(written, 0);
  EXPECT_OK(prefix->Catalogues(3));
}

TEST_F(CommitTest, TheFlushFileSaysWhereDatasetsAre) {
  scr::FlushEntry entry;
  entry.name = "ckpt.3";
  entry.checkpoint = entry.in_cache = entry.flushing = true;
  ASSERT_OK(prefix->PutFlush(3, entry));
  ASSERT_OK(prefix->PutFlush(4, entry));
  entry.flushing = false;
  entry.in_prefix = true;
  ASSERT_OK(prefix->PutFlush(3, entry));
  ASSERT_OK(prefix->EraseFlush(4));
  const std::string path = "/pfs/demo/.scr/flush.scr";
  ASSERT_OK_AND_ASSIGN(const auto entries, scr::GetFlushEntries(TreeAt(path)));
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_TRUE(entries.at(3).in_prefix);
  EXPECT_FALSE(entries.at(3).flushing);
  disk.FlipBit(path, 200);
  ASSERT_OK(prefix->PutFlush(5, entry));
  EXPECT_OK(disk.Info(path + ".damaged.1"));
}

}  // namespace
}  // namespace cairn
