// What is damaged, lost or refused in a run's folder: it goes aside or fails alone, and the rest is kept.
#include <gtest/gtest.h>

#include "storage/base/path.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/format/scr/records.h"
#include "storage/place/cache/cache_folder.h"
#include "tests/storage/place/cache/cache_folder_fixture.h"

namespace cairn {
namespace {

TEST_F(CacheFolderTest, ADamagedFileKeepsItsBytesAndTheDatasetIsNeverUsedAgain) {
  auto folder = Open();
  ASSERT_OK(WriteDataset(*folder, 1));
  ASSERT_OK(WriteDataset(*folder, 2));
  const std::string file = folder->DatasetPath(2) + "/Ckpt2-Rank0.fti";
  ASSERT_OK(folder->SetAside(2, "Ckpt2-Rank0.fti", "offset 0"));
  EXPECT_STATUS(absl::StatusCode::kNotFound, disk_.Info(file), "");
  EXPECT_STATUS(absl::StatusCode::kNotFound, disk_.Info(folder->DatasetPath(2) + "/.scr/reddesc.er.er"), "");
  ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadWhole(disk_, file + ".damaged.1", 1 << 20));
  EXPECT_EQ(bytes, ContentOf(2, 0));
  EXPECT_STATUS(kInvalidArgument, folder->SetAside(2, "../scr.dataset.1/Ckpt1-Rank0.fti", ""), "");
  EXPECT_STATUS(absl::StatusCode::kNotFound, folder->SetAside(9, "Ckpt9-Rank0.fti", ""), "");

  ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
  EXPECT_EQ(WholeIds(load), Ids({1}));
  EXPECT_TRUE(load.removed.empty());
  EXPECT_TRUE(Warned(load, "damaged.2.1"));
  EXPECT_OK(disk_.Info(folder->path() + "/damaged.2.1/Ckpt2-Rank0.fti.damaged.1"));
  ASSERT_OK_AND_ASSIGN(const CacheLoad again, Open()->Load());
  EXPECT_TRUE(Warned(again, "damaged.2.1"));
  EXPECT_EQ(again.highest_id, 2u);
}

TEST_F(CacheFolderTest, ADatasetSetAsideKeepsAllBytesAndMayBeMadeAnew) {
  auto folder = Open();
  ASSERT_OK(WriteDataset(*folder, 1));
  EXPECT_STATUS(kAlreadyExists, folder->Begin(TestDescriptor(1, 2)), "");
  ASSERT_OK(folder->SetDatasetAside(1));
  EXPECT_OK(disk_.Info(folder->path() + "/damaged.1.1/Ckpt1-Rank0.fti"));
  ASSERT_OK(WriteDataset(*folder, 1));
  EXPECT_OK(folder->SetDatasetAside(7));
  disk_.Restart(1);
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
  EXPECT_EQ(WholeIds(load), Ids({1}));
  EXPECT_TRUE(Warned(load, "damaged.1.1"));
}

// Each catalogue of a dataset, truncated and with a bit flipped: the dataset is not whole, its bytes are kept. (What
// becomes of the other records: cache_repair_test.cc.)
TEST_F(CacheFolderTest, AnyDamagedCatalogueMovesTheDatasetAside) {
  const std::vector<std::string> records = {"rank_0.cat", "rank_1.cat"};
  for (const std::string& record : records) {
    for (const bool flip : {true, false}) {
      FakeDisk fresh;
      SCOPED_TRACE(record + (flip ? ", flipped" : ", cut"));
      ASSERT_OK_AND_ASSIGN(auto folder, CacheFolder::Open(fresh, "/ssd", "alice", "demo", TestRun(), "/pfs/demo"));
      ASSERT_OK(folder->Begin(TestDescriptor(1, 2)));
      for (Rank rank = 0; rank < 2; ++rank) {
        const std::string work = folder->WorkPath(1, rank);
        ASSERT_OK(WriteTestFile(fresh, work, "content"));
        ASSERT_OK(folder->CommitRank(TestCatalogue(TestRun(), 1, rank, 2, "content"), work));
      }
      ASSERT_OK(folder->Complete(TestDescriptor(1, 2)));
      const std::string path = folder->DatasetPath(1) + "/" + record;
      if (flip) {
        fresh.FlipBit(path, 8 * 30);
      } else {
        ASSERT_OK_AND_ASSIGN(auto file, fresh.Open(path, {.writable = true}));
        ASSERT_OK(file->Truncate(25));
      }
      ASSERT_OK_AND_ASSIGN(auto reopened, CacheFolder::Open(fresh, "/ssd", "alice", "demo", TestRun(), "/pfs/demo"));
      ASSERT_OK_AND_ASSIGN(const CacheLoad load, reopened->Load());
      EXPECT_TRUE(load.whole.empty());
      EXPECT_TRUE(load.removed.empty());
      EXPECT_TRUE(Warned(load, BaseOf(record)));
      EXPECT_OK(fresh.Info(folder->path() + "/damaged.1.1/Ckpt1-Rank0.fti"));
      EXPECT_OK(reopened->Begin(TestDescriptor(2, 1)));
    }
  }
}

TEST_F(CacheFolderTest, AFileOfAnotherSizeOrNoneMovesTheDatasetAside) {
  auto folder = Open();
  ASSERT_OK(WriteDataset(*folder, 1));
  ASSERT_OK(WriteDataset(*folder, 2));
  ASSERT_OK(WriteDataset(*folder, 3));
  ASSERT_OK(WriteTestFile(disk_, folder->DatasetPath(1) + "/Ckpt1-Rank1.fti", "short"));
  ASSERT_OK(disk_.Remove(folder->DatasetPath(2) + "/Ckpt2-Rank0.fti"));
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
  EXPECT_EQ(WholeIds(load), Ids({3}));
  EXPECT_TRUE(Warned(load, "Ckpt1-Rank1.fti: 5 bytes instead of 5001"));
  EXPECT_TRUE(Warned(load, "Ckpt2-Rank0.fti: missing"));
}

TEST_F(CacheFolderTest, RecordsThatLeadElsewhereAreNotFollowed) {
  auto folder = Open();
  ASSERT_OK(WriteDataset(*folder, 1));
  const std::string index = folder->path() + "/cindex.scrinfo";
  kvtree::Tree tree = TreeAt(index);
  tree.Find("DSET")->Find("1")->Set("PATH", "/home/alice");
  ASSERT_OK(ReplaceTree(disk_, index, tree));
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
  EXPECT_EQ(WholeIds(load), Ids({1}));  // of its own folder
  EXPECT_TRUE(Warned(load, "PATH /home/alice"));
  EXPECT_EQ(TreeAt(index).FindPath({"DSET", "1"})->Get("PATH"), folder->DatasetPath(1));
}

TEST_F(CacheFolderTest, AnotherRunsOrRanksCatalogueDoesNotCount) {
  auto folder = Open();
  ASSERT_OK(WriteDataset(*folder, 1));
  const std::string path = folder->DatasetPath(1) + "/rank_1.cat";
  ASSERT_OK(WriteTestFile(disk_, path, EncodeCatalogue(TestCatalogue(TestRun(3), 1, 1, 2, ContentOf(1, 1)))));
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
  EXPECT_TRUE(load.whole.empty());
  EXPECT_TRUE(Warned(load, "03030303"));
}

TEST_F(CacheFolderTest, WhatScrWroteIntoTheFolderIsLeftAlone) {
  auto folder = Open();
  ASSERT_OK(WriteDataset(*folder, 1));
  const std::string index = folder->path() + "/cindex.scrinfo";
  kvtree::Tree tree = TreeAt(index);
  scr::CacheEntry entry{.descriptor = TestDescriptor(7, 2), .path = folder->DatasetPath(7), .bypass = false};
  entry.descriptor.launch.reset();
  entry.descriptor.ranks.reset();
  scr::PutCacheEntry(entry, tree);
  ASSERT_OK(ReplaceTree(disk_, index, tree));
  ASSERT_OK(disk_.MakeDirectory(folder->DatasetPath(7), 0700));
  folder = Open();
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
  EXPECT_EQ(WholeIds(load), Ids({1}));
  EXPECT_EQ(load.highest_id, 7u);
  EXPECT_OK(disk_.Info(folder->DatasetPath(7)));
  ASSERT_OK(WriteDataset(*folder, 8));
  EXPECT_NE(TreeAt(index).FindPath({"DSET", "7"}), nullptr);
}

TEST_F(CacheFolderTest, NamesThatNoRecordCanHoldAreRefused) {
  auto folder = Open();
  scr::Descriptor descriptor = TestDescriptor(1, 1);
  descriptor.job_name = std::string("a\0b", 3);
  EXPECT_STATUS(kInvalidArgument, folder->Begin(descriptor), "NUL");
  descriptor.job_name = "fine";
  ASSERT_OK(folder->Begin(descriptor));
  catalogue::Catalogue catalogue = EmptyCatalogue(TestRun(), 1, 0, 1);
  catalogue.set_files(true);
  *catalogue.add_file() = TestEntry("a", "a", "content");
  catalogue.mutable_file(0)->set_original(std::string("a\0b", 3));
  EXPECT_STATUS(kInvalidArgument, folder->CommitRankFiles(catalogue), "file[0].original");
}

TEST_F(CacheFolderTest, ADiskThatCannotBeReadNowLosesNothing) {
  auto folder = Open();
  ASSERT_OK(WriteDataset(*folder, 1));
  FakeFault fault;
  fault.op = FakeOp::kOpen;
  fault.path_part = "rank_0.cat";
  disk_.FailOn(fault);
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
  EXPECT_TRUE(load.whole.empty());
  EXPECT_TRUE(Warned(load, "cannot be read now"));
  ASSERT_OK_AND_ASSIGN(const CacheLoad again, Open()->Load());
  EXPECT_EQ(WholeIds(again), Ids({1}));
}

TEST_F(CacheFolderTest, AFullDiskFailsTheDatasetAndNotTheFolder) {
  auto folder = Open();
  ASSERT_OK(WriteDataset(*folder, 1));
  ASSERT_OK(folder->Begin(TestDescriptor(2, 1)));
  disk_.SetCapacity(1);
  EXPECT_STATUS(kResourceExhausted, folder->CommitRank(EmptyCatalogue(TestRun(), 2, 0, 1), ""), "rank_0.cat");
  EXPECT_OK(folder->Remove(2));
  disk_.SetCapacity(UINT64_MAX);
  EXPECT_OK(WriteDataset(*folder, 3));
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
  EXPECT_EQ(WholeIds(load), Ids({1, 3}));
}

// What is whole is served, and what is not goes, though nothing can be written.
TEST_F(CacheFolderTest, AFullDiskKeepsNothingFromBeingLoaded) {
  auto folder = Open();
  for (const DatasetId id : {1, 2}) ASSERT_OK(WriteDataset(*folder, id));
  ASSERT_OK(folder->Begin(TestDescriptor(3, 2)));
  ASSERT_OK(CommitRank(*folder, 3, 0, 2));
  ASSERT_OK(disk_.Remove(folder->DatasetPath(1) + "/rank_0.cat"));
  const FakeFault full{.op = FakeOp::kWrite, .times = 1000, .status = ResourceExhausted("no space left on device")};
  disk_.FailOn(full);
  folder = Open();
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
  EXPECT_EQ(WholeIds(load), Ids({2}));
  EXPECT_EQ(load.removed, Ids({3}));
  EXPECT_EQ(load.asides.size(), 1u);
  EXPECT_TRUE(Warned(load, "cindex.scrinfo names datasets that are gone"));
  disk_.ClearFaults();
  // And may be had anew, as soon as there is room.
  ASSERT_OK(WriteDataset(*folder, 1));
  ASSERT_OK_AND_ASSIGN(const CacheLoad again, Open()->Load());
  EXPECT_EQ(WholeIds(again), Ids({1, 2}));
}

// The entry may have reached the disk, or not: whoever removes the dataset then takes it away for certain.
TEST_F(CacheFolderTest, AnEntryThatFailedIsNotLeftBehind) {
  for (const FakeOp op : {FakeOp::kRename, FakeOp::kSyncDirectory}) {
    FakeDisk fresh;
    ASSERT_OK_AND_ASSIGN(auto folder, CacheFolder::Open(fresh, "/ssd", "alice", "demo", TestRun(), "/pfs/demo"));
    ASSERT_OK(folder->Begin(TestDescriptor(1, 1)));
    ASSERT_OK(folder->CommitRank(EmptyCatalogue(TestRun(), 1, 0, 1), ""));
    FakeFault fault;
    fault.op = op;
    fault.nth = op == FakeOp::kRename ? 1 : 4;  // after the lists, the folder's name and the encode states
    fresh.FailOn(fault);
    EXPECT_STATUS(absl::StatusCode::kUnavailable, folder->Complete(TestDescriptor(1, 1)), "injected");
    EXPECT_OK(folder->Remove(1));
    ASSERT_OK_AND_ASSIGN(const kvtree::Tree index, ReadTree(fresh, folder->path() + "/cindex.scrinfo"));
    EXPECT_EQ(index.FindPath({"DSET", "1"}), nullptr);
    ASSERT_OK_AND_ASSIGN(folder, CacheFolder::Open(fresh, "/ssd", "alice", "demo", TestRun(), "/pfs/demo"));
    ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
    EXPECT_TRUE(load.whole.empty());
    EXPECT_TRUE(load.warnings.empty());
  }
}

TEST_F(CacheFolderTest, AFailedSyncFailsTheRankAndTheNextDatasetWorks) {
  for (const char* part : {"rank_0.cat", "filemap_0", "reddesc.er.0", "/.scr"}) {
    SCOPED_TRACE(part);
    FakeDisk fresh;
    ASSERT_OK_AND_ASSIGN(auto folder, CacheFolder::Open(fresh, "/ssd", "alice", "demo", TestRun(), "/pfs/demo"));
    ASSERT_OK(folder->Begin(TestDescriptor(1, 1)));
    FakeFault fault;
    fault.op = std::string_view(part) == "/.scr" ? FakeOp::kSyncDirectory : FakeOp::kSync;
    fault.path_part = part;
    fresh.FailOn(fault);
    EXPECT_FALSE(folder->CommitRank(EmptyCatalogue(TestRun(), 1, 0, 1), "").ok());
    EXPECT_STATUS(kFailedPrecondition, folder->Complete(TestDescriptor(1, 1)), "0 of 1");
    EXPECT_OK(folder->Remove(1));
    ASSERT_OK(folder->Begin(TestDescriptor(2, 1)));
    ASSERT_OK(folder->CommitRank(EmptyCatalogue(TestRun(), 2, 0, 1), ""));
    EXPECT_OK(folder->Complete(TestDescriptor(2, 1)));
  }
}

}  // namespace
}  // namespace cairn
