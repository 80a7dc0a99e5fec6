#include "storage/cache/cache_folder.h"

#include <gtest/gtest.h>

#include <thread>

#include "storage/base/status.h"
#include "storage/cache/catalogue.h"
#include "storage/cache/tree_file.h"
#include "storage/scr/records.h"
#include "storage/transfer/transfer.h"
#include "tests/storage/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr auto kAlreadyExists = absl::StatusCode::kAlreadyExists;
constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr auto kPermissionDenied = absl::StatusCode::kPermissionDenied;
constexpr auto kResourceExhausted = absl::StatusCode::kResourceExhausted;

class CacheFolderTest : public ::testing::Test {
 protected:
  std::unique_ptr<CacheFolder> Open(const RunId& run = TestRun()) {
    auto folder = CacheFolder::Open(disk_, "/ssd", "alice", "demo", run, "/pfs/demo");
    EXPECT_OK(folder.status());
    return folder.ok() ? *std::move(folder) : nullptr;
  }

  static std::string ContentOf(DatasetId id, Rank rank) { return TestContent(100 * id + rank, 5000 + rank); }

  absl::Status CommitRank(CacheFolder& folder, DatasetId id, Rank rank, std::uint32_t nranks) {
    const std::string content = ContentOf(id, rank);
    const std::string work = folder.WorkPath(id, rank);
    CAIRN_RETURN_IF_ERROR(WriteTestFile(disk_, work, content));
    return folder.CommitRank(TestCatalogue(TestRun(), id, rank, nranks, content), work);
  }

  absl::Status WriteDataset(CacheFolder& folder, DatasetId id, std::uint32_t nranks = 2) {
    CAIRN_RETURN_IF_ERROR(folder.Begin(TestDescriptor(id, nranks)));
    for (Rank rank = 0; rank < nranks; ++rank) CAIRN_RETURN_IF_ERROR(CommitRank(folder, id, rank, nranks));
    return folder.Complete(TestDescriptor(id, nranks));
  }

  std::vector<DatasetId> WholeIds(const CacheLoad& load) {
    std::vector<DatasetId> ids;
    for (const auto& [id, dataset] : load.whole) ids.push_back(id);
    return ids;
  }

  bool Warned(const CacheLoad& load, std::string_view part) {
    for (const std::string& warning : load.warnings) {
      if (warning.find(part) != std::string::npos) return true;
    }
    return false;
  }

  kvtree::Tree TreeAt(const std::string& path) {
    const auto tree = ReadTree(disk_, path);
    EXPECT_OK(tree.status());
    return tree.ok() ? *tree : kvtree::Tree();
  }

  FakeDisk disk_;
};

using Ids = std::vector<DatasetId>;

TEST_F(CacheFolderTest, IsFoundAgainByItsIdentityAndNotByItsName) {
  const std::string path = Open()->path();
  EXPECT_EQ(path, "/ssd/alice/scr.demo-01010101");
  ASSERT_OK(disk_.Rename(path, "/ssd/alice/scr.other"));
  EXPECT_EQ(Open()->path(), "/ssd/alice/scr.other");
  ASSERT_OK_AND_ASSIGN(const auto found, CacheFolder::Find(disk_, "/ssd", "alice"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].run, TestRun());
  EXPECT_EQ(found[0].prefix, "/pfs/demo");
  EXPECT_EQ(found[0].run_name, "demo");
}

TEST_F(CacheFolderTest, AnotherRunOfTheSameNameAndDigitsGetsAFolderOfItsOwn) {
  RunId twin = TestRun();
  twin.bytes[15] = std::byte{9};
  EXPECT_EQ(Open()->path(), "/ssd/alice/scr.demo-01010101");
  EXPECT_EQ(Open(twin)->path(), "/ssd/alice/scr.demo-01010101-2");
  EXPECT_EQ(Open()->path(), "/ssd/alice/scr.demo-01010101");
}

TEST_F(CacheFolderTest, ADamagedIdentityIsMovedAsideAndTheDatasetsAreKept) {
  auto folder = Open();
  ASSERT_OK(WriteDataset(*folder, 1));
  disk_.FlipBit(folder->path() + "/run.cairn", 200);
  folder = Open();
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
  EXPECT_EQ(WholeIds(load), Ids({1}));
  EXPECT_TRUE(Warned(load, "run.cairn"));
}

TEST_F(CacheFolderTest, AMovedPrefixIsRemembered) {
  Open();
  ASSERT_OK(CacheFolder::Open(disk_, "/ssd", "alice", "demo", TestRun(), "/lustre/demo").status());
  ASSERT_OK_AND_ASSIGN(const auto found, CacheFolder::Find(disk_, "/ssd", "alice"));
  EXPECT_EQ(found.at(0).prefix, "/lustre/demo");
}

TEST_F(CacheFolderTest, AFolderThatOthersMayWriteToIsRefused) {
  const std::string path = Open()->path();
  ASSERT_OK(disk_.SetModeAndTimes(path, 0720, {}, {}));
  EXPECT_STATUS(kPermissionDenied, CacheFolder::Open(disk_, "/ssd", "alice", "demo", TestRun(), "/pfs/demo"), path);
}

TEST_F(CacheFolderTest, NamesThatLeaveTheCacheAreRefused) {
  for (const char* user : {"", ".", "..", "a/b"}) {
    EXPECT_STATUS(kInvalidArgument, CacheFolder::Open(disk_, "/ssd", user, "demo", TestRun(), "/pfs/demo"), "user");
  }
  EXPECT_STATUS(kInvalidArgument, CacheFolder::Open(disk_, "ssd", "alice", "demo", TestRun(), "/pfs/demo"), "absolute");
  ASSERT_OK_AND_ASSIGN(const auto odd, CacheFolder::Open(disk_, "/ssd", "alice", "../../x", TestRun(), "/pfs/demo"));
  EXPECT_EQ(ParentOf(odd->path()), "/ssd/alice");
}

TEST_F(CacheFolderTest, ADatasetIsWholeAfterCompleteAndNotBefore) {
  auto folder = Open();
  ASSERT_OK(WriteDataset(*folder, 1));
  ASSERT_OK(folder->Begin(TestDescriptor(2, 2)));
  ASSERT_OK(CommitRank(*folder, 2, 0, 2));
  EXPECT_STATUS(kFailedPrecondition, folder->Complete(TestDescriptor(2, 2)), "1 of 2 ranks");
  ASSERT_OK(CommitRank(*folder, 2, 1, 2));

  ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
  EXPECT_EQ(WholeIds(load), Ids({1}));
  EXPECT_EQ(load.removed, Ids({2}));
  EXPECT_EQ(load.highest_id, 2u);
  EXPECT_TRUE(load.warnings.empty());
  const CachedDataset& dataset = load.whole.at(1);
  EXPECT_EQ(dataset.descriptor.step, 10u);
  ASSERT_EQ(dataset.ranks.size(), 2u);
  EXPECT_EQ(dataset.ranks[1].rank(), 1u);
  EXPECT_STATUS(absl::StatusCode::kNotFound, disk_.Info(folder->DatasetPath(2)), "");
}

TEST_F(CacheFolderTest, WrongOrderAndWrongCataloguesAreRefused) {
  auto folder = Open();
  const auto catalogue = TestCatalogue(TestRun(), 1, 0, 2, "abc");
  EXPECT_STATUS(kFailedPrecondition, folder->CommitRank(catalogue, "/ssd/x"), "not open");
  ASSERT_OK(folder->Begin(TestDescriptor(1, 2)));
  EXPECT_STATUS(kAlreadyExists, folder->Begin(TestDescriptor(1, 2)), "");
  EXPECT_STATUS(kInvalidArgument, folder->CommitRank(TestCatalogue(TestRun(2), 1, 0, 2, "abc"), "/ssd/x"), "run");
  EXPECT_STATUS(kInvalidArgument, folder->CommitRank(TestCatalogue(TestRun(), 1, 0, 3, "abc"), "/ssd/x"), "3 ranks");
  EXPECT_STATUS(kInvalidArgument, folder->CommitRank(catalogue, ""), "1 files in the catalogue, 0 written");
  auto renamed = catalogue;
  renamed.mutable_file(0)->set_name("Ckpt1-Rank1.fti");
  EXPECT_STATUS(kInvalidArgument, folder->CommitRank(renamed, "/ssd/x"), "Ckpt1-Rank1.fti");
  scr::Descriptor incomplete = TestDescriptor(3, 2);
  incomplete.launch.reset();
  EXPECT_STATUS(kInvalidArgument, folder->Begin(incomplete), "launch");
}

TEST_F(CacheFolderTest, ARankIsCommittedOnceAndOnlyInItsSize) {
  auto folder = Open();
  ASSERT_OK(folder->Begin(TestDescriptor(1, 2)));
  ASSERT_OK(CommitRank(*folder, 1, 0, 2));
  EXPECT_STATUS(kAlreadyExists, CommitRank(*folder, 1, 0, 2), "rank 0");
  const std::string work = folder->WorkPath(1, 1);
  ASSERT_OK(WriteTestFile(disk_, work, "too short"));
  EXPECT_STATUS(kFailedPrecondition, folder->CommitRank(TestCatalogue(TestRun(), 1, 1, 2, ContentOf(1, 1)), work),
                "9 bytes instead of 5001");
}

TEST_F(CacheFolderTest, ARankWithoutVariablesHasACatalogueAndNoCheckpointFile) {
  auto folder = Open();
  ASSERT_OK(folder->Begin(TestDescriptor(1, 2)));
  ASSERT_OK(CommitRank(*folder, 1, 0, 2));
  ASSERT_OK(folder->CommitRank(EmptyCatalogue(TestRun(), 1, 1, 2), ""));
  ASSERT_OK(folder->Complete(TestDescriptor(1, 2)));
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
  ASSERT_EQ(WholeIds(load), Ids({1}));
  EXPECT_EQ(load.whole.at(1).ranks[1].file_size(), 0);
  ASSERT_OK_AND_ASSIGN(const scr::Filemap filemap, scr::GetFilemap(TreeAt(folder->DatasetPath(1) + "/.scr/filemap_1")));
  EXPECT_EQ(filemap.files.size(), 1u);
}

TEST_F(CacheFolderTest, TheApplicationsOwnFilesStayUnderTheirNames) {
  auto folder = Open();
  scr::Descriptor descriptor = TestDescriptor(1, 1);
  descriptor.own_files = true;
  ASSERT_OK(folder->Begin(descriptor));
  ASSERT_OK_AND_ASSIGN(const std::string path, folder->RouteFile(1, "step_10/sub/field.dat"));
  EXPECT_EQ(path, folder->DatasetPath(1) + "/step_10/sub/field.dat");
  const std::string content = TestContent(1, 3000);
  ASSERT_OK(WriteTestFile(disk_, path, content));
  catalogue::Catalogue catalogue = EmptyCatalogue(TestRun(), 1, 0, 1);
  catalogue.set_files(true);
  *catalogue.add_file() = TestEntry("step_10/sub/field.dat", "step_10/sub/field.dat", content);
  EXPECT_STATUS(kInvalidArgument, folder->CommitRank(catalogue, ""), "");
  ASSERT_OK(folder->CommitRankFiles(catalogue));
  ASSERT_OK(folder->Complete(descriptor));
  disk_.Restart(7);
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
  EXPECT_EQ(WholeIds(load), Ids({1}));
  EXPECT_OK(VerifyFile(disk_, path, catalogue.file(0)));
  EXPECT_STATUS(kInvalidArgument, folder->RouteFile(1, "../2/field.dat"), "");
  EXPECT_STATUS(absl::StatusCode::kNotFound, folder->RouteFile(5, "field.dat"), "");
}

TEST_F(CacheFolderTest, RemoveTakesEntryAndBytesAndIsOkTwice) {
  auto folder = Open();
  ASSERT_OK(WriteDataset(*folder, 1));
  ASSERT_OK(folder->Remove(1));
  ASSERT_OK(folder->Remove(1));
  EXPECT_STATUS(absl::StatusCode::kNotFound, disk_.Info(folder->DatasetPath(1)), "");
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
  EXPECT_TRUE(load.whole.empty());
  EXPECT_TRUE(load.removed.empty());
}

TEST_F(CacheFolderTest, NobodyBelievesInARetiredDatasetAndItsBytesStayUntilItIsRemoved) {
  const auto folder = Open();
  ASSERT_OK(WriteDataset(*folder, 7));
  ASSERT_OK(WriteDataset(*folder, 8));
  const std::string file = folder->DatasetPath(7) + "/Ckpt7-Rank0.fti";
  ASSERT_OK(folder->Retire(7));
  EXPECT_OK(ReadWhole(disk_, file, 1 << 20));
  disk_.Restart(1);  // it holds over a power failure
  const auto again = Open();
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, again->Load());
  EXPECT_EQ(WholeIds(load), Ids{8});
  EXPECT_EQ(load.removed, Ids{7});
  EXPECT_TRUE(load.warnings.empty());
  EXPECT_FALSE(disk_.Info(folder->DatasetPath(7)).ok());
  ASSERT_OK(again->Retire(8));
  ASSERT_OK(disk_.Rename(again->DatasetPath(8) + "/Ckpt8-Rank1.fti", "/ssd/taken"));
  ASSERT_OK(again->Remove(8));
  EXPECT_FALSE(disk_.Info(again->DatasetPath(8)).ok());
  EXPECT_OK(again->Remove(8));
}

TEST_F(CacheFolderTest, OnlyWhatIsThereCanBeRetired) {
  const auto folder = Open();
  EXPECT_STATUS(absl::StatusCode::kNotFound, folder->Retire(7), "no dataset 7");
  ASSERT_OK(folder->Begin(TestDescriptor(7, 1)));
  EXPECT_STATUS(absl::StatusCode::kNotFound, folder->Retire(7), "no dataset 7");  // not whole yet
  ASSERT_OK(WriteDataset(*folder, 8));
  disk_.FailOn({.op = FakeOp::kWrite, .path_part = "cindex"});
  EXPECT_FALSE(folder->Retire(8).ok());
  const auto again = Open();
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, again->Load());
  EXPECT_EQ(WholeIds(load), Ids{8});
  ASSERT_OK(again->Retire(8));
  EXPECT_STATUS(absl::StatusCode::kNotFound, again->Retire(8), "no dataset 8");
}

TEST_F(CacheFolderTest, TellsWhetherFilesCanShareExtents) {
  EXPECT_FALSE(Open()->shares_extents());
  FakeDisk sharing({.shares_extents = true});
  ASSERT_OK_AND_ASSIGN(const auto folder, CacheFolder::Open(sharing, "/ssd", "alice", "demo", TestRun(), "/pfs/demo"));
  EXPECT_TRUE(folder->shares_extents());
  ASSERT_OK_AND_ASSIGN(const auto names, sharing.List(folder->path()));
  for (const std::string& name : names) EXPECT_FALSE(IsWorkName(name)) << name;  // the trial left nothing
}

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

// Each record of a dataset, truncated and with a bit flipped: the dataset is not whole, its bytes are kept.
TEST_F(CacheFolderTest, AnyDamagedRecordMovesTheDatasetAside) {
  const std::vector<std::string> records = {"rank_0.cat", "rank_1.cat", ".scr/filemap_0", ".scr/filemap_1"};
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

TEST_F(CacheFolderTest, ADamagedOrLostIndexTakesNothingWithIt) {
  for (const bool lost : {false, true}) {
    FakeDisk fresh;
    ASSERT_OK_AND_ASSIGN(auto folder, CacheFolder::Open(fresh, "/ssd", "alice", "demo", TestRun(), "/pfs/demo"));
    ASSERT_OK(folder->Begin(TestDescriptor(1, 1)));
    ASSERT_OK(folder->CommitRank(EmptyCatalogue(TestRun(), 1, 0, 1), ""));
    ASSERT_OK(folder->Complete(TestDescriptor(1, 1)));
    const std::string index = folder->path() + "/cindex.scrinfo";
    if (lost) {
      ASSERT_OK(fresh.Remove(index));
    } else {
      fresh.FlipBit(index, 8 * 40 + 1);
    }
    ASSERT_OK_AND_ASSIGN(folder, CacheFolder::Open(fresh, "/ssd", "alice", "demo", TestRun(), "/pfs/demo"));
    if (!lost) {
      EXPECT_STATUS(kFailedPrecondition, folder->Begin(TestDescriptor(2, 1)), "damaged");
    }
    ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
    EXPECT_TRUE(load.whole.empty());
    EXPECT_TRUE(load.removed.empty());
    EXPECT_EQ(load.highest_id, 1u);
    EXPECT_OK(fresh.Info(folder->path() + "/damaged.1.1/rank_0.cat"));
    EXPECT_OK(folder->Begin(TestDescriptor(2, 1)));
  }
}

TEST_F(CacheFolderTest, RecordsThatLeadElsewhereAreNotFollowed) {
  auto folder = Open();
  ASSERT_OK(WriteDataset(*folder, 1));
  const std::string index = folder->path() + "/cindex.scrinfo";
  kvtree::Tree tree = TreeAt(index);
  tree.Find("DSET")->Find("1")->Set("PATH", "/home/alice");
  ASSERT_OK(ReplaceTree(disk_, index, tree));
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
  EXPECT_TRUE(load.whole.empty());
  EXPECT_TRUE(Warned(load, "PATH /home/alice"));
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

TEST_F(CacheFolderTest, DatasetsBegunAndEndedAtTheSameTimeAreAllKept) {
  auto folder = Open();
  std::vector<std::thread> threads;
  std::vector<absl::Status> results(8);
  for (DatasetId id = 1; id <= 8; ++id) {
    threads.emplace_back([&, id] { results[id - 1] = WriteDataset(*folder, id, 3); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) EXPECT_OK(result);
  disk_.Restart(3);
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
  EXPECT_EQ(WholeIds(load), Ids({1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST_F(CacheFolderTest, TheFlushRecordIsReplacedAndADamagedOneIsEmpty) {
  auto folder = Open();
  ASSERT_OK_AND_ASSIGN(const kvtree::Tree none, folder->LoadFlushRecord());
  EXPECT_TRUE(none.empty());
  kvtree::Tree record;
  record.Set("A", "1");
  ASSERT_OK(folder->StoreFlushRecord(record));
  record.Set("A", "2");
  ASSERT_OK(folder->StoreFlushRecord(record));
  disk_.Restart(1);
  ASSERT_OK_AND_ASSIGN(const kvtree::Tree loaded, Open()->LoadFlushRecord());
  EXPECT_TRUE(loaded.SameAs(record));
  disk_.FlipBit(folder->path() + "/flush.cairn", 180);
  ASSERT_OK_AND_ASSIGN(const kvtree::Tree damaged, Open()->LoadFlushRecord());
  EXPECT_TRUE(damaged.empty());
}

// SCR specification, section 14: what an SCR job needs to restart from the cache.
TEST_F(CacheFolderTest, WritesWhatScrNeedsForARestart) {
  auto folder = Open();
  ASSERT_OK(WriteDataset(*folder, 3));
  const kvtree::Tree index = TreeAt(folder->path() + "/cindex.scrinfo");
  const kvtree::Tree* entry = index.FindPath({"DSET", "3"});
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->Get("PATH"), folder->DatasetPath(3));
  EXPECT_EQ(entry->Get("BYPASS"), "0");
  const kvtree::Tree* descriptor = entry->Find("DSETDESC");
  ASSERT_NE(descriptor, nullptr);
  EXPECT_EQ(descriptor->Get("NAME"), "ckpt.3");
  EXPECT_EQ(descriptor->Get("FLAG_CKPT"), "1");
  EXPECT_EQ(descriptor->Get("CKPT"), "3");
  EXPECT_EQ(descriptor->Get("COMPLETE"), "1");
  EXPECT_EQ(descriptor->Get("FILES"), "4");  // two checkpoint files, two catalogues

  const std::string records = folder->DatasetPath(3) + "/.scr/";
  for (const std::string kind : {"reddesc", "reddescmap"}) {
    EXPECT_EQ(TreeAt(records + kind + ".er.er").Get("STATE"), "2");
    EXPECT_NE(TreeAt(records + kind + ".er.shuffile").FindPath({"RANK", "1", "FILE"}), nullptr);
    for (const std::string rank : {"0", "1"}) {
      const std::string group = rank == "0" ? "1" : "2";
      EXPECT_EQ(TreeAt(records + kind + ".er." + rank + ".redset").FindPath({rank, "DESC"})->Get("TYPE"), "SINGLE");
      const kvtree::Tree header =
          TreeAt(records + kind + ".er." + rank + ".single.grp_" + group + "_of_2.mem_1_of_1.redset");
      EXPECT_EQ(header.FindPath({"DESC", "0"})->Get("FILES"), kind == "reddesc" ? "2" : "1");
    }
  }
}

// SCR specification, section 4: every field that SCR has, with what a flush or a scavenge will do with it.
TEST_F(CacheFolderTest, TheFilemapListsTheRanksFilesWithTheirMetaData) {
  auto folder = Open();
  ASSERT_OK(WriteDataset(*folder, 3));
  ASSERT_OK_AND_ASSIGN(const scr::Filemap filemap, scr::GetFilemap(TreeAt(folder->DatasetPath(3) + "/.scr/filemap_1")));
  ASSERT_EQ(filemap.files.size(), 2u);
  const std::string path = folder->DatasetPath(3) + "/Ckpt3-Rank1.fti";
  const scr::Meta& meta = filemap.files.at(path);
  ASSERT_OK_AND_ASSIGN(const FileInfo info, disk_.Info(path));
  EXPECT_EQ(meta.original, "ckpt.3/Ckpt3-Rank1.fti");
  EXPECT_EQ(meta.directory, "/pfs/demo/ckpt.3");
  EXPECT_EQ(meta.name, "Ckpt3-Rank1.fti");
  EXPECT_EQ(meta.ranks, 2u);
  EXPECT_TRUE(meta.complete);
  EXPECT_EQ(meta.bytes, 5001u);
  EXPECT_EQ(meta.mode, info.mode);
  EXPECT_EQ(meta.mtime.tv_sec, info.mtime.tv_sec);
  EXPECT_EQ(meta.crc32, TestEntry("a", "a", ContentOf(3, 1)).crc32());
  const scr::Meta& catalogue = filemap.files.at(folder->DatasetPath(3) + "/rank_1.cat");
  EXPECT_EQ(catalogue.directory, "/pfs/demo/ckpt.3");
  EXPECT_EQ(catalogue.name, "rank_1.cat");
  EXPECT_TRUE(catalogue.complete);
}

}  // namespace
}  // namespace cairn
