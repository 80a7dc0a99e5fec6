// Where a dataset's BP5 is: the view in the prefix, a view in memory, a directory among the application's files.
#include "storage/job/dataset_bp5/dataset_bp5.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "storage/file/bpdir/directory.h"
#include "storage/job/dataset_bp5/in_cache.h"
#include "storage/place/cache/cache_folder.h"
#include "tests/storage/place/prefix/shown.h"

namespace cairn {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class DatasetBp5Test : public testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(prefix_, Prefix::Open(disk_, kShownPath)); }

  void Commit(DatasetId id, bool placed = true) {
    ASSERT_OK(CommitShown(disk_, *prefix_, ShownDataset(prefix_->run(), id, placed)));
  }

  // Of a view in memory the elements of "field".
  std::vector<double> FieldIn(const MadeView& view, const std::string& root) {
    auto opened = bpdir::Directory::Open(bpdir::FilesInMemory(view.directory, bpdir::ReadFiles(disk_, root)));
    EXPECT_OK(opened.status());
    if (!opened.ok()) return {};
    const bp5::Metadata& metadata = (*opened)->metadata();
    const auto number = metadata.FindVariable("field");
    EXPECT_TRUE(number.has_value());
    if (!number) return {};
    std::vector<double> values(4, -1);
    EXPECT_OK(bp5::ReadSelection(metadata, *number, 0, {.start = {0}, .count = {4}}, (*opened)->data(),
                                 std::as_writable_bytes(std::span(values)))
                  .status());
    return values;
  }

  FakeDisk disk_;
  std::unique_ptr<Prefix> prefix_;
};

TEST_F(DatasetBp5Test, AViewOnDiskIsOneWithAnIndex) {
  EXPECT_EQ(ViewOnDisk(disk_, kShownPath, 3), std::nullopt);
  const std::string folder = std::string(kShownPath) + "/ckpt.3.bp";
  ASSERT_OK(MakeDirectories(disk_, folder));
  EXPECT_EQ(ViewOnDisk(disk_, kShownPath, 3), std::nullopt) << "a crash may leave one without its index";
  ASSERT_OK(WriteTestFile(disk_, folder + "/md.idx", "index"));
  EXPECT_EQ(ViewOnDisk(disk_, kShownPath, 3), folder);
}

TEST_F(DatasetBp5Test, AViewInMemoryReadsTheRanksFilesInThePrefix) {
  for (const bool placed : {true, false}) {
    const DatasetId id = placed ? 3 : 4;
    Commit(id, placed);
    ASSERT_OK_AND_ASSIGN(StoredDataset dataset, DatasetInPrefix(*prefix_, id));
    EXPECT_FALSE(dataset.holds_files());
    EXPECT_EQ(dataset.root, kShownPath);
    ASSERT_OK_AND_ASSIGN(const MadeView view, ViewInMemory(disk_, std::move(dataset), "it"));
    EXPECT_EQ(view.ranks, 2u);
    EXPECT_EQ(view.ranks_here, 2u);
    const auto number = static_cast<double>(id);
    EXPECT_THAT(FieldIn(view, kShownPath), ElementsAre(number, number + 1, number + 2, number + 3));
  }
}

TEST_F(DatasetBp5Test, WhatTheMetadataTakesFromTheFilesIsCompared) {
  Commit(4, /*placed=*/false);
  for (const bool damaged : {false, true}) {
    const std::string path = std::string(kShownPath) + "/ckpt.4/Ckpt4-Rank0.fti";
    ASSERT_OK_AND_ASSIGN(const auto file, disk_.Open(path, {.writable = true}));
    ASSERT_OK_AND_ASSIGN(const FileInfo info, file->Info());
    std::byte last{};
    ASSERT_OK(file->ReadAt(info.bytes - 1, {&last, 1}));
    last ^= damaged ? std::byte{1} : std::byte{0};
    ASSERT_OK(file->WriteAt(info.bytes - 1, {&last, 1}));
    ASSERT_OK_AND_ASSIGN(StoredDataset dataset, DatasetInPrefix(*prefix_, 4));
    const absl::Status made = ViewInMemory(disk_, std::move(dataset), "it").status();
    if (damaged) {
      EXPECT_STATUS(StatusCode::kDataLoss, made, "Ckpt4-Rank0.fti: offset 0: ");
    } else {
      EXPECT_OK(made);
    }
  }
}

TEST_F(DatasetBp5Test, AViewOnDiskThatIsAnotherOneIsTold) {
  Commit(3);
  ASSERT_OK_AND_ASSIGN(StoredDataset dataset, DatasetInPrefix(*prefix_, 3));
  prefix_->MakeView(3, dataset.catalogues);
  ASSERT_OK_AND_ASSIGN(const MadeView same, ViewInMemory(disk_, dataset, "it"));
  EXPECT_OK(same.on_disk);
  ASSERT_OK(WriteTestFile(disk_, std::string(kShownPath) + "/ckpt.3.bp/md.idx", "short"));
  ASSERT_OK_AND_ASSIGN(const MadeView other, ViewInMemory(disk_, dataset, "it"));
  EXPECT_STATUS(StatusCode::kDataLoss, other.on_disk, "ckpt.3.bp: 0 steps, expected one");
}

TEST_F(DatasetBp5Test, ChecksumsAreThoseOfTheFilesWhereTheyAre) {
  Commit(3);
  ASSERT_OK_AND_ASSIGN(StoredDataset dataset, DatasetInPrefix(*prefix_, 3));
  ASSERT_OK_AND_ASSIGN(const MadeView view, ViewInMemory(disk_, std::move(dataset), "it"));
  ASSERT_EQ(view.sums->size(), 2u);
  EXPECT_GT(view.sums->at("ckpt.3/Ckpt3-Rank1.fti").bytes, 0u);
  StoredDataset files{.id = 5, .root = "/pfs/demo", .catalogues = std::vector<catalogue::Catalogue>(1)};
  for (const char* const name : {"a.bp/md.idx", "a.bp/data.0", "a.bp/deep/data.1", "b.bp/md.idx"}) {
    files.catalogues[0].add_file()->set_prefix_name(name);
  }
  EXPECT_EQ(SumsIn(files, "a.bp")->size(), 2u);
  EXPECT_TRUE(SumsIn(files, "a.bp")->contains("data.0"));
}

TEST_F(DatasetBp5Test, RanksThatAreNotHereHaveNothingInTheView) {
  Commit(3);
  ASSERT_OK_AND_ASSIGN(StoredDataset dataset, DatasetInPrefix(*prefix_, 3));
  dataset.catalogues.erase(dataset.catalogues.begin());
  ASSERT_OK_AND_ASSIGN(const MadeView view, ViewInMemory(disk_, std::move(dataset), "it"));
  EXPECT_EQ(view.ranks, 2u);
  EXPECT_EQ(view.ranks_here, 1u);
  EXPECT_THAT(FieldIn(view, kShownPath), ElementsAre(-1, -1, 5, 6));
}

TEST_F(DatasetBp5Test, ARankBeyondTheirNumberIsDamage) {
  Commit(3);
  ASSERT_OK_AND_ASSIGN(StoredDataset dataset, DatasetInPrefix(*prefix_, 3));
  dataset.catalogues[1].set_rank(2);
  EXPECT_STATUS(StatusCode::kDataLoss, ViewInMemory(disk_, std::move(dataset), "it").status(), "it: rank 2 of 2");
}

TEST_F(DatasetBp5Test, WhatIsNotCommittedIsNotFound) {
  EXPECT_STATUS(StatusCode::kNotFound, DatasetInPrefix(*prefix_, 9).status(), "9");
}

TEST_F(DatasetBp5Test, DirectoriesAmongFilesHaveTheirNamesInThePrefixWhereverTheyAre) {
  StoredDataset dataset{.id = 5, .root = "/pfs/demo", .catalogues = std::vector<catalogue::Catalogue>(2)};
  dataset.catalogues[1].set_files(true);
  EXPECT_TRUE(dataset.holds_files());
  EXPECT_THAT(DirectoriesIn(dataset), IsEmpty());
  for (const char* const name : {"out/a.bp/md.idx", "out/a.bp/md.0", "b.bp/md.idx", "amd.idx"}) {
    catalogue::FileEntry& file = *dataset.catalogues[1].add_file();
    file.set_prefix_name(name);
    file.set_name("cached/" + std::string(name));
  }
  EXPECT_THAT(DirectoriesIn(dataset),
              ElementsAre(Pair("b.bp", "/pfs/demo/b.bp"), Pair("out/a.bp", "/pfs/demo/out/a.bp")));
  dataset.root = "/node/cache";
  dataset.in_cache = true;
  EXPECT_THAT(DirectoriesIn(dataset),
              ElementsAre(Pair("b.bp", "/node/cache/cached/b.bp"), Pair("out/a.bp", "/node/cache/cached/out/a.bp")));
}

TEST_F(DatasetBp5Test, WhatOnlyACacheHasIsShownFromThere) {
  ASSERT_OK_AND_ASSIGN(const auto folder,
                       CacheFolder::Open(disk_, "/node0", "alice", "demo", prefix_->run(), kShownPath));
  view::SampleDataset dataset = ShownDataset(prefix_->run(), 6);
  ASSERT_OK(folder->Begin(TestDescriptor(6, 2)));
  const std::string work = folder->WorkPath(6, 1);
  ASSERT_OK(WriteTestFile(disk_, work, dataset.files[1]));
  ASSERT_OK(folder->CommitRank(dataset.catalogues[1], work));
  ASSERT_OK_AND_ASSIGN(StoredDataset found, DatasetInCache(disk_, folder->path(), prefix_->run(), 6));
  EXPECT_TRUE(found.in_cache);
  ASSERT_EQ(found.catalogues.size(), 1u);
  const std::string root = found.root;
  ASSERT_OK_AND_ASSIGN(const MadeView view, ViewInMemory(disk_, std::move(found), "it"));
  EXPECT_EQ(view.ranks_here, 1u);
  EXPECT_THAT(FieldIn(view, root), ElementsAre(-1, -1, 8, 9));
  EXPECT_STATUS(StatusCode::kNotFound, DatasetInCache(disk_, folder->path(), prefix_->run(), 7).status(), "dataset 7");
}

}  // namespace
}  // namespace cairn
