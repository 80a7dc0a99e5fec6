// What people do with a prefix's index, and what restarts make of it.
#include "storage/place/prefix/index_tools.h"
#include "storage/base/path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/io/posix_disk.h"
#include "storage/place/prefix/prefix.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/storage/place/prefix/scr_data.h"
#include "tests/storage/place/prefix/site.h"
#include "tests/support/status_matchers.h"
#include "tests/support/vectors.h"

namespace cairn {
namespace {

class IndexToolsTest : public ::testing::Test, protected Site {};

// --- List ---

TEST_F(IndexToolsTest, AListIsNewestFirstAndSaysWhatIsWhat) {
  ASSERT_OK_AND_ASSIGN(const auto none, ListIndex(disk, kPath));
  EXPECT_TRUE(none.empty());
  PutScr(1);
  PutScr(2);
  ASSERT_OK(Commit(70));
  ASSERT_OK(prefix->MarkFailed(2));
  ASSERT_OK_AND_ASSIGN(const auto rows, ListIndex(disk, kPath));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].entry.descriptor.id, 70u);
  EXPECT_TRUE(rows[0].by_cairn && rows[0].current && rows[0].valid());
  EXPECT_EQ(rows[1].entry.descriptor.id, 2u);
  EXPECT_FALSE(rows[1].by_cairn || rows[1].current || rows[1].valid());
  EXPECT_EQ(rows[2].entry.descriptor.name, "step_1");
  EXPECT_TRUE(rows[2].valid());
}

TEST_F(IndexToolsTest, AListReadsTheIndexAndItsChangesAlone) {
  ASSERT_OK(Commit(3));
  PutScr(4);
  disk.SetHook([](FakeOp op, const std::string& path) {
    EXPECT_TRUE(path.starts_with(kIndex) || op == FakeOp::kList || path.find("/index.changes/") != std::string::npos)
        << path;
  });
  ASSERT_OK_AND_ASSIGN(const auto rows, ListIndex(disk, kPath));
  disk.SetHook(nullptr);
  EXPECT_EQ(rows.size(), 2u);
}

TEST_F(IndexToolsTest, ADamagedIndexIsSaidToBeSoByListAndLeftInItsPlace) {
  PutScr(1);
  const Pause none = [](std::chrono::milliseconds) {};
  const std::string whole = *ReadWhole(disk, kIndex, 1 << 20);
  for (std::size_t bytes = 1; bytes < whole.size(); ++bytes) {
    ASSERT_OK(ReplaceFile(disk, kIndex, whole.substr(0, bytes)));
    EXPECT_STATUS(kDataLoss, ListIndex(disk, kPath, none), "index.scr") << bytes;
  }
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    ASSERT_OK(ReplaceFile(disk, kIndex, whole));
    disk.FlipBit(kIndex, bit);
    const auto rows = ListIndex(disk, kPath, none);
    EXPECT_TRUE(absl::IsDataLoss(rows.status()) || (rows.ok() && rows->size() == 1)) << bit;
    ASSERT_OK_AND_ASSIGN(const auto reader, Prefix::OpenReadOnly(disk, kPath, {.pause = none}));
    EXPECT_OK(reader->Contents());
  }
  EXPECT_TRUE(disk.Info(kIndex).ok());
  kvtree::Tree other;
  other.Set("VERSION", "3");
  ASSERT_OK(ReplaceTree(disk, kIndex, other));
  EXPECT_STATUS(kFailedPrecondition, ListIndex(disk, kPath), "VERSION");
}

TEST_F(IndexToolsTest, AWriterMovesADamagedIndexAsideAndEntersAgainWhatSaysThatItIsWhole) {
  PutScr(1);
  PutScr(2);
  ASSERT_OK(Commit(70));
  disk.FlipBit(kIndex, 300);
  EXPECT_EQ(Restorable(), Ids({1, 2, 70}));
  EXPECT_TRUE(disk.Info(std::string(kIndex) + ".damaged.1").ok());
  const auto warnings = prefix->TakeWarnings();
  EXPECT_TRUE(std::any_of(warnings.begin(), warnings.end(),
                          [](const std::string& text) { return text.find("moved aside") != std::string::npos; }));
}

// --- Drop, add ---

TEST_F(IndexToolsTest, WhatIsDroppedStaysOutAndItsFilesStay) {
  for (const DatasetId id : {3, 4, 5}) ASSERT_OK(Commit(id));
  ASSERT_OK(DropFromIndex(disk, kPath, "ckpt.5"));
  EXPECT_EQ(Current(), "ckpt.4");
  EXPECT_EQ(Restorable(), Ids({3, 4}));  // mends
  EXPECT_EQ(Contents().dropped, std::set<DatasetId>({5}));
  EXPECT_TRUE(IsThere("ckpt.5/" + CheckpointFileName(5, 0)));
  EXPECT_STATUS(kNotFound, DropFromIndex(disk, kPath, "ckpt.5"), "ckpt.5");
  EXPECT_STATUS(kAlreadyExists, Commit(5), "");
  EXPECT_EQ(Restorable(), Ids({3, 4}));
}

TEST_F(IndexToolsTest, WhatIsAddedIsBackAndCurrentAgain) {
  PutScr(2);
  for (const DatasetId id : {4, 5}) ASSERT_OK(Commit(id));
  ASSERT_OK(DropFromIndex(disk, kPath, "5"));
  ASSERT_OK(DropFromIndex(disk, kPath, "step_2"));
  ASSERT_OK_AND_ASSIGN(const DatasetId own, AddToIndex(disk, kPath, "ckpt.5"));
  EXPECT_EQ(own, 5u);
  EXPECT_EQ(Current(), "ckpt.5");
  EXPECT_EQ(Contents().bound, 0u);
  ASSERT_OK_AND_ASSIGN(const DatasetId scrs, AddToIndex(disk, kPath, "step_2"));
  EXPECT_EQ(scrs, 2u);
  EXPECT_EQ(Restorable(), Ids({2, 4, 5}));
  EXPECT_EQ(Current(), "ckpt.5");
  EXPECT_EQ(Index().FindPath({"DSET", "2", "DSET", "CAIRN_LAUNCH"}), nullptr);
}

TEST_F(IndexToolsTest, WhatIsAddedDoesNotLiftABound) {
  for (const DatasetId id : {3, 4, 5}) ASSERT_OK(Commit(id));
  ASSERT_OK(DropFromIndex(disk, kPath, "5"));
  ASSERT_OK(SetIndexCurrent(disk, kPath, "3"));
  ASSERT_OK(AddToIndex(disk, kPath, "5"));
  EXPECT_EQ(Contents().bound, 3u);
}

TEST_F(IndexToolsTest, WhatIsNotWholeIsNotAdded) {
  PutScr(2);
  ASSERT_OK(Commit(5));
  ASSERT_OK(DropFromIndex(disk, kPath, "2"));
  ASSERT_OK(DropFromIndex(disk, kPath, "5"));
  const std::string name = "ckpt.5/" + CheckpointFileName(5, 1);
  ASSERT_OK(disk.Remove(prefix->FilePath(name)));
  EXPECT_STATUS(kDataLoss, AddToIndex(disk, kPath, "5"), name);
  ASSERT_OK(WriteTestFile(disk, prefix->FilePath(ScrName(2, 1)), "short"));
  EXPECT_STATUS(kDataLoss, AddToIndex(disk, kPath, "2"), "dataset 2");
  ASSERT_OK(disk.Remove(prefix->FilePath(ScrName(2, 1))));
  EXPECT_STATUS(kDataLoss, AddToIndex(disk, kPath, "2"), ScrName(2, 1));
  EXPECT_STATUS(kNotFound, AddToIndex(disk, kPath, "ckpt.9"), "ckpt.9");
  EXPECT_TRUE(Restorable().empty());
}

TEST_F(IndexToolsTest, AFailedDatasetOfCairnsIsAddedOnlyIfEveryByteIsWhole) {
  for (const DatasetId id : {3, 4}) ASSERT_OK(Commit(id));
  const std::string path = prefix->FilePath("ckpt.4/" + CheckpointFileName(4, 1));
  disk.FlipBit(path, 77);
  ASSERT_OK(prefix->MarkFailed(4));
  EXPECT_STATUS(kDataLoss, AddToIndex(disk, kPath, "4"), "dataset 4 failed at 2");
  EXPECT_STATUS(kDataLoss, AddToIndex(disk, kPath, "4"), path);
  EXPECT_EQ(Current(), "");
  EXPECT_EQ(Restorable(), Ids({3}));
  disk.FlipBit(path, 77);
  ASSERT_OK(AddToIndex(disk, kPath, "4"));
  EXPECT_EQ(Current(), "ckpt.4");
  EXPECT_EQ(Restorable(), Ids({3, 4}));
  EXPECT_TRUE(Contents().failed.empty());
}

TEST_F(IndexToolsTest, FlippedBytesAreNotAddedEvenIfNoRestartHasFailedOnThem) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(DropFromIndex(disk, kPath, "3"));
  const std::string path = prefix->FilePath("ckpt.3/" + CheckpointFileName(3, 0));
  disk.FlipBit(path, 77);
  EXPECT_STATUS(kDataLoss, AddToIndex(disk, kPath, "3"), path);
  EXPECT_TRUE(Restorable().empty());
}

TEST_F(IndexToolsTest, AFailedDatasetOfScrsIsAddedIfItsFilesHaveTheirSizes) {
  PutScr(2);
  ASSERT_OK(SetIndexCurrent(disk, kPath, "2"));
  ASSERT_OK(prefix->MarkFailed(2));
  ASSERT_OK(WriteTestFile(disk, prefix->FilePath(ScrName(2, 1)), "short"));
  EXPECT_STATUS(kDataLoss, AddToIndex(disk, kPath, "2"), "dataset 2 failed at 2");
  EXPECT_EQ(Current(), "");
  ASSERT_OK(WriteTestFile(disk, prefix->FilePath(ScrName(2, 1)), TestContent(2, 50)));
  ASSERT_OK(AddToIndex(disk, kPath, "2"));
  EXPECT_EQ(Restorable(), Ids({2}));
}

TEST_F(IndexToolsTest, DamagedListsOfCairnsDatasetsAreNamedAndWrittenAnewByAdd) {
  ASSERT_OK(Commit(3));
  EXPECT_OK(CheckRecords(disk, kPath, 3));
  const std::string folder = std::string(kPath) + "/.scr/scr.dataset.3/";
  for (const std::string name : {"summary.scr", "rank2file", "rank2file.0.0"}) {
    SCOPED_TRACE(name);
    const std::string whole = *ReadWhole(disk, folder + name, 1 << 20);
    for (const bool missing : {false, true}) {
      if (missing) {
        ASSERT_OK(disk.Remove(folder + name));
      } else {
        disk.FlipBit(folder + name, 8 * 40 + 3);
      }
      ASSERT_OK_AND_ASSIGN(const auto wrong, CheckRecords(disk, kPath, 3));
      ASSERT_EQ(wrong.size(), 1u);
      EXPECT_NE(wrong[0].find(folder + name), std::string::npos) << wrong[0];
      ASSERT_OK(AddToIndex(disk, kPath, "3"));
      EXPECT_EQ(*ReadWhole(disk, folder + name, 1 << 20), whole);
    }
  }
  PutScrRecords(scr::IndexEntry(), TestDescriptor(3, kRanks), {{"ckpt.3/another"}, {}});
  ASSERT_OK_AND_ASSIGN(const auto wrong, CheckRecords(disk, kPath, 3));
  ASSERT_EQ(wrong.size(), 2u);
  EXPECT_NE(wrong[0].find("commit.cairn says"), std::string::npos) << wrong[0];
  EXPECT_NE(wrong[1].find("rank 0 has other files than its catalogue"), std::string::npos) << wrong[1];
}

TEST_F(IndexToolsTest, SizesOfScrsFilesAreComparedWithoutReadingThem) {
  PutScr(2);
  scr::Descriptor descriptor = Contents().datasets.at(2).descriptor;
  ASSERT_OK_AND_ASSIGN(const ScrSizes sizes, CheckScrSizes(disk, kPath, descriptor));
  EXPECT_EQ(sizes.ranks, kRanks);
  EXPECT_EQ(sizes.files, 2u);
  EXPECT_EQ(sizes.bytes, 100u);
  ASSERT_OK(WriteTestFile(disk, prefix->FilePath(ScrName(2, 1)), "short"));
  EXPECT_STATUS(kDataLoss, CheckScrSizes(disk, kPath, descriptor), "dataset 2");
}

TEST_F(IndexToolsTest, AllThatAreNewerAreDropped) {
  PutScr(2);
  for (const DatasetId id : {3, 4, 5}) ASSERT_OK(Commit(id));
  ASSERT_OK_AND_ASSIGN(const Ids dropped, DropAfter(disk, kPath, "ckpt.3"));
  EXPECT_EQ(dropped, Ids({4, 5}));
  EXPECT_EQ(Current(), "ckpt.3");
  EXPECT_EQ(Contents().bound, 0u);
  EXPECT_EQ(Restorable(), Ids({2, 3}));
  EXPECT_STATUS(kNotFound, DropAfter(disk, kPath, "9"), "9");
}

// --- Remove ---

TEST_F(IndexToolsTest, RemovalTakesEntryRecordsAndBytes) {
  for (const DatasetId id : {3, 4}) ASSERT_OK(Commit(id));
  ASSERT_OK(RemoveFromIndex(disk, kPath, "ckpt.4"));
  EXPECT_EQ(Current(), "ckpt.3");
  EXPECT_FALSE(IsThere("ckpt.4"));
  EXPECT_EQ(Restorable(), Ids({3}));
  EXPECT_EQ(Contents().removed, std::set<DatasetId>({4}));
  EXPECT_STATUS(kNotFound, RemoveFromIndex(disk, kPath, "ckpt.4"), "ckpt.4");
  EXPECT_STATUS(kNotFound, RemoveFromIndex(disk, kPath, "4"), "");
  EXPECT_STATUS(kNotFound, AddToIndex(disk, kPath, "4"), "");
}

TEST_F(IndexToolsTest, AFullPrefixIsNoHindrance) {
  content_bytes = scr_bytes = 4000;
  PutScr(2);
  for (const DatasetId id : {3, 4, 5}) ASSERT_OK(Commit(id));
  FillUp(0);
  EXPECT_TRUE(absl::IsResourceExhausted(DropFromIndex(disk, kPath, "3"))) << "it is full";
  // Not even for the change of the index, or for that and not for the index.
  for (const auto& [name, bytes] : {std::pair("5", 0), std::pair("2", 0), std::pair("ckpt.4", 300)}) {
    FillUp(bytes);
    EXPECT_OK(RemoveFromIndex(disk, kPath, name)) << name;
  }
  EXPECT_EQ(Restorable(), Ids({3}));
  EXPECT_EQ(Current(), "ckpt.3");
  for (const char* gone : {"ckpt.4", "ckpt.5", "step_2/rank_0.ckpt"}) EXPECT_FALSE(IsThere(gone)) << gone;
  ASSERT_OK_AND_ASSIGN(const auto rows, ListIndex(disk, kPath));
  EXPECT_EQ(rows.size(), 1u);
}

TEST_F(IndexToolsTest, TheDaemonsRemovalWorksOnAFullPrefixToo) {
  content_bytes = 4000;
  for (const DatasetId id : {3, 4}) ASSERT_OK(Commit(id));
  FillUp(300);
  ASSERT_OK(prefix->Remove(4, CataloguesOf(4)));
  EXPECT_FALSE(IsThere("ckpt.4"));
  EXPECT_EQ(Restorable(), Ids({3}));
  ASSERT_OK_AND_ASSIGN(const auto rows, ListIndex(disk, kPath));
  EXPECT_EQ(rows.size(), 1u);
}

TEST_F(IndexToolsTest, OfScrsDatasetsOnlyFilesThatNoOtherEntryHasAreRemoved) {
  PutScr(1, "shared/common.dat");
  PutScr(2, "shared/common.dat");
  ASSERT_OK(RemoveFromIndex(disk, kPath, "step_2"));
  EXPECT_FALSE(IsThere(ParentOf(ScrName(2, 0))));
  EXPECT_FALSE(IsThere(".scr/scr.dataset.2"));
  EXPECT_TRUE(IsThere("shared/common.dat"));
  EXPECT_TRUE(IsThere(ScrName(1, 0)));
  ASSERT_OK(RemoveFromIndex(disk, kPath, "1"));
  EXPECT_FALSE(IsThere("shared"));
}

TEST_F(IndexToolsTest, NothingOutsideOfThePrefixIsRemoved) {
  PutScr(1);
  ASSERT_OK(MakeDirectories(disk, "/home/alice"));
  ASSERT_OK(WriteTestFile(disk, "/home/alice/rank_0.ckpt", TestContent(1, 50)));
  ASSERT_OK(RemoveTree(disk, "/pfs/demo/step_1"));
  ASSERT_OK(disk.Symlink("/home/alice", "/pfs/demo/step_1"));
  ASSERT_OK_AND_ASSIGN(const auto contents, prefix->Contents());
  EXPECT_TRUE(contents.datasets.empty());
  EXPECT_NE(contents.bad.at(1).find("step_1"), std::string::npos);
  EXPECT_STATUS(kDataLoss, prefix->Catalogues(1), "leads out");
  ASSERT_OK(RemoveFromIndex(disk, kPath, "1"));
  EXPECT_OK(disk.Info("/home/alice/rank_0.ckpt"));
}

TEST_F(IndexToolsTest, WhatWasRemovedCannotBeAddedAndIsSaidToBe) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(RemoveFromIndex(disk, kPath, "3"));
  EXPECT_STATUS(kNotFound, AddToIndex(disk, kPath, "3"), "dataset 3 was removed");
}

TEST_F(IndexToolsTest, ADamagedDatasetOfCairnsCanBeRemoved) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(WriteTestFile(disk, prefix->CataloguePath(3, 0), "no catalogue"));
  ASSERT_OK(RemoveFromIndex(disk, kPath, "3"));
  EXPECT_FALSE(IsThere("ckpt.3"));
}

// --- SCR's own datasets ---

TEST_F(IndexToolsTest, ASharedFileIsListedOnceAndAFileOfAnotherSizeIsSeen) {
  PutScr(1, "shared/common.dat");
  ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix->Catalogues(1));
  EXPECT_EQ(catalogues[0].file_size() + catalogues[1].file_size(), 3);
  ASSERT_OK(WriteTestFile(disk, prefix->FilePath(ScrName(1, 0)), "x"));
  EXPECT_STATUS(kDataLoss, prefix->Catalogues(1), "dataset 1");
  EXPECT_TRUE(Restorable().empty());
}

TEST_F(IndexToolsTest, NamesThatLeadUpwardsAreNeverFollowed) {
  PutScr(1);
  for (const char* name : {"../alice/secret", ".cairn/run", "/etc/passwd"}) {
    for (const auto& [suffix, tree] : scr::MakeRank2File({{name}, {}})) {
      ASSERT_OK(ReplaceTree(disk, "/pfs/demo/.scr/scr.dataset.1/rank2file" + suffix, tree));
    }
    EXPECT_STATUS(kDataLoss, prefix->Catalogues(1), "rank2file") << name;
    EXPECT_TRUE(Restorable().empty());
  }
}

TEST_F(IndexToolsTest, ARemovalThatACrashCutShortIsNotFinishedOverWhatScrHasPutThereSince) {
  ASSERT_OK(Commit(4));
  ASSERT_OK(RemoveFromIndex(disk, kPath, "4"));
  PutScr(4);
  EXPECT_EQ(Restorable(), Ids({4}));
  EXPECT_TRUE(IsThere(".scr/scr.dataset.4/summary.scr"));
  EXPECT_OK(prefix->Catalogues(4));
}

// --- Build ---

TEST_F(IndexToolsTest, BuildMakesADatasetOfWhatAScavengeHasLeft) {
  ASSERT_OK(Commit(3));
  for (const catalogue::Catalogue& catalogue : CataloguesOf(7)) {
    const std::string path = prefix->FilePath(catalogue.file(0).prefix_name());
    ASSERT_OK(MakeDirectories(disk, ParentOf(path)));
    if (catalogue.rank() == 1) {
      ASSERT_OK_AND_ASSIGN(const IndexBuilt lacking, BuildIndex(disk, kPath, 7));
      EXPECT_EQ(lacking.missing, std::vector<Rank>({1}));
      EXPECT_FALSE(lacking.reasons.empty());
      EXPECT_EQ(Restorable(), Ids({3}));
    }
    ASSERT_OK(WriteTestFile(disk, path, TestContent(7 + catalogue.rank(), 100)));
    ASSERT_OK(prefix->StoreCatalogue(catalogue));
  }
  ASSERT_OK(WriteTestFile(disk, prefix->FilePath("ckpt.7/" + CheckpointFileName(7, 1)), "cut"));
  ASSERT_OK_AND_ASSIGN(const IndexBuilt cut, BuildIndex(disk, kPath, 7));
  EXPECT_EQ(cut.missing, std::vector<Rank>({1}));
  ASSERT_OK(WriteTestFile(disk, prefix->FilePath("ckpt.7/" + CheckpointFileName(7, 1)), TestContent(8, 100)));
  ASSERT_OK_AND_ASSIGN(const IndexBuilt built, BuildIndex(disk, kPath, 7));
  EXPECT_EQ(built.ranks, kRanks);
  EXPECT_TRUE(built.missing.empty());
  EXPECT_EQ(Restorable(), Ids({3, 7}));
  EXPECT_STATUS(kAlreadyExists, BuildIndex(disk, kPath, 7), "7");
  EXPECT_STATUS(kNotFound, BuildIndex(disk, kPath, 8), "8");
}

TEST_F(IndexToolsTest, BuildEntersWhatScrHasFlushedWhole) {
  PutScr(1);
  PutScr(2);
  ASSERT_OK(DropFromIndex(disk, kPath, "2"));
  EXPECT_EQ(Restorable(), Ids({1}));
  ASSERT_OK_AND_ASSIGN(const IndexBuilt built, BuildIndex(disk, kPath, 2));
  EXPECT_EQ(built.ranks, kRanks);
  EXPECT_TRUE(built.missing.empty());
  EXPECT_EQ(Restorable(), Ids({1, 2}));
  ASSERT_OK(DropFromIndex(disk, kPath, "2"));
  ASSERT_OK(disk.Remove(prefix->FilePath(ScrName(2, 1))));
  EXPECT_STATUS(kDataLoss, BuildIndex(disk, kPath, 2), ScrName(2, 1));
  EXPECT_EQ(Restorable(), Ids({1}));
}

TEST(IndexBuildVectorsTest, ADrainedDatasetOfScrsIsEnteredAgain) {
  const auto folder = testing::VectorsPath("scr/scavenge_xor_np4");
  if (!folder) return;
  const auto disk = MakePosixDisk();
  const std::string path = ::testing::TempDir() + "/index_build_test";
  std::filesystem::remove_all(path);
  testing::CopyWritable(*folder + "/pfs/demo", path);
  const std::string records = path + "/.scr/scr.dataset.1";
  for (const char* name : {"summary.scr", "rank2file", "rank2file.0.0"}) std::filesystem::remove(records + "/" + name);
  std::filesystem::remove(path + "/.scr/index.scr");
  std::filesystem::rename(path + "/step_000010/rank_2.ckpt", path + "/elsewhere");
  ASSERT_OK_AND_ASSIGN(const IndexBuilt lacking, BuildIndex(*disk, path, 1));
  EXPECT_EQ(lacking.missing, std::vector<Rank>({2}));
  EXPECT_FALSE(std::filesystem::exists(records + "/summary.scr"));
  std::filesystem::rename(path + "/elsewhere", path + "/step_000010/rank_2.ckpt");
  // A daemon that has fetched it has noted it as its own.
  ASSERT_OK_AND_ASSIGN(kvtree::Tree flush, ReadTree(*disk, path + "/.scr/flush.scr"));
  flush.At("DATASET").At("1").At("DSETDESC").Set("CAIRN_LAUNCH", "0");
  ASSERT_OK(ReplaceTree(*disk, path + "/.scr/flush.scr", flush));
  ASSERT_OK_AND_ASSIGN(const IndexBuilt built, BuildIndex(*disk, path, 1));
  EXPECT_TRUE(built.missing.empty());
  EXPECT_EQ(built.ranks, 4u);
  ASSERT_OK_AND_ASSIGN(const auto rows, ListIndex(*disk, path));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_FALSE(rows[0].by_cairn);
  ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::OpenReadOnly(*disk, path));
  ASSERT_OK_AND_ASSIGN(const auto committed, prefix->Committed());
  EXPECT_EQ(committed.at(1).descriptor.name, "step_000010");
  EXPECT_OK(prefix->Catalogues(1));
  std::filesystem::remove_all(path);
}

}  // namespace
}  // namespace cairn
