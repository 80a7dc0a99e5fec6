#include "storage/place/cache/cache_folder.h"
#include "storage/base/path.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "storage/file/transfer/transfer.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/format/scr/records.h"
#include "tests/storage/place/cache/cache_folder_fixture.h"

namespace cairn {
namespace {

TEST_F(CacheFolderTest, IsFoundAgainByItsIdentityAndNotByItsName) {
  const std::string path = Open()->path();
  EXPECT_EQ(path, "/ssd/alice/scr.demo-01010101");
  ASSERT_OK(disk_.Rename(path, "/ssd/alice/scr.other"));
  EXPECT_EQ(Open()->path(), "/ssd/alice/scr.other");
  ASSERT_OK_AND_ASSIGN(const auto found, CacheFolder::Find(disk_, "/ssd", "alice"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].run.run, TestRun());
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

// It is some run's all the same: nobody may act as if no such run had been here.
TEST_F(CacheFolderTest, AFolderThatHasLostItsIdentityAndCannotBeReadIsSaidToBeThere) {
  auto folder = Open();
  ASSERT_OK(WriteDataset(*folder, 1));
  ASSERT_OK(disk_.Remove(folder->path() + "/run.cairn"));
  for (const char* record : {"/.scr/filemap_", "/rank_"}) {
    SCOPED_TRACE(record);
    disk_.FailOn({.op = FakeOp::kRead, .path_part = record, .times = 1000, .status = PermissionDenied("denied")});
    std::vector<std::string> unread;
    ASSERT_OK_AND_ASSIGN(auto found, CacheFolder::Find(disk_, "/ssd", "alice", &unread));
    EXPECT_TRUE(found.empty());
    ASSERT_EQ(unread.size(), 1u);
    EXPECT_NE(unread.front().find("denied"), std::string::npos);
    disk_.ClearFaults();
    // One that can be read says it for all.
    disk_.FailOn({.op = FakeOp::kRead, .path_part = record + std::string("0"), .times = 1000});
    unread.clear();
    ASSERT_OK_AND_ASSIGN(found, CacheFolder::Find(disk_, "/ssd", "alice", &unread));
    EXPECT_EQ(found.size(), 1u);
    EXPECT_TRUE(unread.empty());
    disk_.ClearFaults();
  }
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

TEST_F(CacheFolderTest, RanksThatAreCommittedTogetherAreDurableAfterOneSyncOfEachDirectory) {
  constexpr std::uint32_t kRanks = 5;
  auto folder = Open();
  ASSERT_OK(folder->Begin(TestDescriptor(1, kRanks)));
  std::vector<DatasetStore::Part> parts;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    const std::string content = ContentOf(1, rank), work = folder->WorkPath(1, rank);
    ASSERT_OK(WriteTestFile(disk_, work, content));
    parts.push_back({.catalogue = TestCatalogue(TestRun(), 1, rank, kRanks, content), .work_path = work});
  }
  std::atomic<int> syncs{0};
  disk_.SetHook([&syncs](FakeOp op, const std::string&) { syncs += op == FakeOp::kSyncDirectory ? 1 : 0; });
  ASSERT_OK(folder->CommitRanks(parts));
  EXPECT_EQ(syncs, 2);  // the dataset's, and that of its records
  EXPECT_STATUS(kAlreadyExists, folder->CommitRanks({&parts[3], 1}), "rank 3 was committed before");
  ASSERT_OK(folder->Complete(TestDescriptor(1, kRanks)));
  disk_.SetHook(nullptr);
  disk_.Restart(7);  // what was not synced is gone
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
  EXPECT_EQ(WholeIds(load), Ids({1}));
  EXPECT_EQ(load.whole.at(1).ranks.size(), kRanks);
  for (Rank rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(ReadWhole(disk_, Open()->DatasetPath(1) + "/" + CheckpointFileName(1, rank), 1 << 20).value_or(""),
              ContentOf(1, rank));
  }
}

TEST_F(CacheFolderTest, OfRanksThatAreCommittedTogetherNoneCountsIfOneCannotBe) {
  auto folder = Open();
  ASSERT_OK(folder->Begin(TestDescriptor(1, 3)));
  std::vector<DatasetStore::Part> parts;
  for (Rank rank = 0; rank < 3; ++rank) {
    const std::string content = ContentOf(1, rank), work = folder->WorkPath(1, rank);
    ASSERT_OK(WriteTestFile(disk_, work, content + (rank == 1 ? "more than the catalogue says" : "")));
    parts.push_back({.catalogue = TestCatalogue(TestRun(), 1, rank, 3, content), .work_path = work});
  }
  EXPECT_STATUS(kFailedPrecondition, folder->CommitRanks(parts), "bytes instead of");
  EXPECT_STATUS(kFailedPrecondition, folder->Complete(TestDescriptor(1, 3)), "0 of 3 ranks");
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

TEST_F(CacheFolderTest, TheFlushRecordIsReplacedAndADamagedOneIsToldOf) {
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
  const absl::Status damaged = Open()->LoadFlushRecord().status();
  EXPECT_TRUE(absl::IsDataLoss(damaged)) << damaged;
  EXPECT_NE(damaged.message().find("flush.cairn"), std::string::npos) << damaged;
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
  const kvtree::Tree written = TreeAt(folder->DatasetPath(3) + "/.scr/filemap_1");
  ASSERT_OK_AND_ASSIGN(const scr::Filemap filemap, scr::GetFilemap(written));
  ASSERT_OK_AND_ASSIGN(const std::uint64_t expected, scr::GetExpectedFiles(written));
  EXPECT_EQ(expected, filemap.files.size());
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
  EXPECT_EQ(meta.rank, 1u);
  EXPECT_EQ(meta.dataset, 3u);
  const kvtree::Tree* fields = written.FindPath({"FILE", path, "META"});
  ASSERT_NE(fields, nullptr);
  EXPECT_TRUE(scr::meta::Check(scr::meta::kFile, "Ckpt3-Rank1.fti", *fields));  // the names of older versions
  EXPECT_TRUE(scr::meta::Check(scr::meta::kType, scr::FileType::kFull, *fields));
  EXPECT_EQ(fields->Get("ORIGPATH"), meta.directory);
  EXPECT_EQ(fields->Get("ORIGNAME"), meta.name);
  const scr::Meta& catalogue = filemap.files.at(folder->DatasetPath(3) + "/rank_1.cat");
  EXPECT_EQ(catalogue.directory, "/pfs/demo/ckpt.3");
  EXPECT_EQ(catalogue.name, "rank_1.cat");
  EXPECT_TRUE(catalogue.complete);
}

}  // namespace
}  // namespace cairn
