// Records of single datasets that are odd or hostile: they cost that dataset, and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
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

using ::testing::Contains;
using ::testing::HasSubstr;

class OddRecordsTest : public ::testing::Test, protected Site {
 protected:
  static std::string Folder(DatasetId id) { return fmt::format("{}/.scr/scr.dataset.{}", kPath, id); }
  void MakeDirectoryOf(const std::string& path) {
    const absl::Status removed = disk.Remove(path);
    EXPECT_TRUE(removed.ok() || absl::IsNotFound(removed)) << removed;
    ASSERT_OK(disk.MakeDirectory(path, 0777));
  }
  // Of the application's own files, on rank 0 of 1.
  std::vector<catalogue::Catalogue> PutFiles(DatasetId id, const std::vector<std::string>& names) {
    scr::Descriptor descriptor = TestDescriptor(id, 1);
    descriptor.own_files = true;
    catalogue::Catalogue catalogue = EmptyCatalogue(prefix->run(), id, 0, 1);
    catalogue.set_files(true);
    for (const std::string& name : names) {
      const std::string bytes = fmt::format("bytes of {}", id);
      EXPECT_OK(MakeDirectories(disk, ParentOf(prefix->FilePath(name))));
      EXPECT_OK(WriteTestFile(disk, prefix->FilePath(name), bytes));
      *catalogue.add_file() = TestEntry(name, name, bytes);
    }
    EXPECT_OK(prefix->Commit(descriptor, {catalogue}));
    return {catalogue};
  }
};

TEST_F(OddRecordsTest, ADirectoryInPlaceOfARecordOfScrsCostsThatDatasetOnly) {
  for (const std::string record : {"rank2file", "rank2file.0.0", "filemap_0", "summary.scr"}) {
    PutScr(2);
    PutScr(3, "shared");
    MakeDirectoryOf(Folder(3) + "/" + record);
    ASSERT_OK_AND_ASSIGN(const PrefixContents contents, prefix->Contents());
    EXPECT_TRUE(contents.datasets.contains(2)) << record;
    EXPECT_THAT(contents.bad.at(3), HasSubstr(record));
    EXPECT_OK(prefix->Withdraw(4, {"shared"})) << record;
    ASSERT_OK(disk.Remove(Folder(3) + "/" + record));
  }
}

TEST_F(OddRecordsTest, ARecordOfScrsThatMayNotBeReadCostsThatDatasetOnly) {
  PutScr(2);
  PutScr(3, "shared");
  const auto deny = [&](const std::string& part) {
    disk.ClearFaults();
    disk.FailOn(
        {.op = FakeOp::kOpen, .path_part = part, .times = 1000, .status = PermissionDenied("{}: denied", part)});
  };
  for (const std::string part : {"3/rank2file", "3/summary.scr", "3/commit.cairn"}) {
    deny(part);
    ASSERT_OK_AND_ASSIGN(const PrefixContents contents, prefix->Contents());
    EXPECT_TRUE(contents.datasets.contains(2)) << part;
  }
  deny("3/rank2file");
  EXPECT_TRUE(prefix->Contents()->bad.contains(3));
  EXPECT_OK(prefix->Withdraw(4, {"shared"}));
}

TEST_F(OddRecordsTest, MoreRanksThanAreListedAreNotBelieved) {
  constexpr DatasetId kMany = 18;  // the oldest are not looked at file by file
  for (DatasetId id = 1; id <= kMany; ++id) PutScr(id);
  for (const DatasetId id : {DatasetId{1}, kMany}) {
    kvtree::Tree root = TreeAt(Folder(id) + "/rank2file");
    root.Set("RANKS", std::uint64_t{1} << 20);
    ASSERT_OK(ReplaceTree(disk, Folder(id) + "/rank2file", root));
  }
  ASSERT_OK_AND_ASSIGN(const PrefixContents contents, prefix->Contents());
  EXPECT_EQ(contents.datasets.size(), kMany - 2);
  EXPECT_THAT(contents.bad.at(1), HasSubstr("RANKS 1048576, but 2 are listed"));
  EXPECT_THAT(contents.bad.at(kMany), HasSubstr("RANKS 1048576, but 2 are listed"));
  EXPECT_STATUS(kDataLoss, prefix->Catalogues(kMany), "RANKS");
}

TEST_F(OddRecordsTest, ARunOfManyRanksIsListedWithAllOfThem) {
  scr::IndexEntry entry;
  entry.descriptor.id = 3;
  entry.descriptor.name = "step_3";
  entry.descriptor.complete = entry.complete = true;
  PutScrRecords(entry, entry.descriptor, std::vector<std::vector<std::string>>(9000));
  ASSERT_OK_AND_ASSIGN(const PrefixContents contents, prefix->Contents());
  EXPECT_EQ(contents.datasets.at(3).descriptor.ranks, 9000u);
}

TEST_F(OddRecordsTest, ADirectoryInPlaceOfACatalogueIsDamageOfItsDataset) {
  PutFiles(3, {"out/a"});
  MakeDirectoryOf(prefix->CataloguePath(3, 0));
  EXPECT_STATUS(kDataLoss, prefix->Catalogues(3), prefix->CataloguePath(3, 0));
}

TEST_F(OddRecordsTest, AListOfAnotherDatasetThatCannotBeReadBlocksNoRemoval) {
  PutScr(1);
  ASSERT_OK(disk.Remove(Folder(1) + "/rank2file.0.0"));
  const auto catalogues = PutFiles(2, {"out/a", "out/b"});
  PutFiles(3, {"out/b"});
  ASSERT_OK(disk.Remove(prefix->CataloguePath(3, 0)));  // SCR's list still names its file
  ASSERT_OK(prefix->Remove(2, catalogues));
  EXPECT_FALSE(IsThere("out/a"));
  EXPECT_TRUE(IsThere("out/b"));
  EXPECT_THAT(prefix->TakeWarnings(), Contains(HasSubstr("dataset 1: ")));
}

TEST_F(OddRecordsTest, ADatasetWithADamagedCatalogueGivesWayByScrsLists) {
  PutFiles(1, {"out/a"});
  PutFiles(2, {"out/b"});
  for (const DatasetId id : {1, 2}) ASSERT_OK(disk.Remove(prefix->CataloguePath(id, 0)));
  ASSERT_OK_AND_ASSIGN(const auto withdrawn, prefix->Withdraw(3, {"out/a"}));
  ASSERT_EQ(withdrawn.size(), 1u);
  EXPECT_TRUE(withdrawn.at(1).empty());
  EXPECT_EQ(CommittedIds(), Ids({2}));
  EXPECT_THAT(prefix->TakeWarnings(), Contains(HasSubstr("rank_0.cat")));
  EXPECT_STATUS(absl::StatusCode::kAborted, prefix->Withdraw(1, {"out/b"}), "");
}

TEST_F(OddRecordsTest, WhomScrHasOverwrittenGivesWayToWhatItHasBrought) {
  PutFiles(1, {"out/a", "only_1"});
  PutFiles(2, {"out/b"});
  kvtree::Tree index = Index();
  PutFiles(3, {"out/a", "out/c"});  // over 1's; as if by SCR: there is no commit, and nobody was withdrawn
  ASSERT_OK(disk.Remove(Folder(3) + "/commit.cairn"));
  scr::IndexEntry entry;
  entry.descriptor = TestDescriptor(3, 1);
  entry.descriptor.own_files = true;
  entry.descriptor.complete = entry.complete = true;
  scr::PutIndexEntry(entry, index);
  ASSERT_OK(ReplaceTree(disk, kIndex, index));
  EXPECT_EQ(CommittedIds(), Ids({2, 3}));
  EXPECT_FALSE(IsThere("only_1"));
  EXPECT_TRUE(IsThere("out/a"));
  EXPECT_TRUE(IsThere("out/b"));
}

}  // namespace
}  // namespace cairn
