// What release 0.1.0 left (tests/storage/place/release_0_1_0) goes on as the same run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "storage/base/launch_mark.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/prefix/identity.h"
#include "storage/place/prefix/prefix.h"
#include "tests/storage/place/release_0_1_0.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using testing::kOldCache;
using testing::kOldPrefix;
using testing::kOldRun;

using Ids = std::set<DatasetId>;

class UpgradeTest : public ::testing::Test {
 protected:
  UpgradeTest() {
    testing::PutOldPrefix(disk_);
    testing::PutOldCache(disk_);
    disk_.SyncAll();
  }
  std::unique_ptr<Prefix> Open(const std::string& path = kOldPrefix) {
    auto prefix = Prefix::Open(disk_, path);
    EXPECT_OK(prefix.status());
    return prefix.ok() ? *std::move(prefix) : nullptr;
  }
  static Ids Restorable(Prefix& prefix) {
    Ids ids;
    const auto committed = prefix.Committed();
    EXPECT_OK(committed.status());
    if (!committed.ok()) return ids;
    for (const auto& [id, dataset] : *committed) ids.insert(id);
    return ids;
  }
  static NewLaunch Wanted() { return {.key = "new", .nranks = 1, .run = {}, .maker = {}}; }

  FakeDisk disk_;
};

TEST_F(UpgradeTest, ItIsTheSameRunWithTheSameDatasets) {
  const auto prefix = Open();
  EXPECT_EQ(prefix->run().Hex(), kOldRun);
  EXPECT_FALSE(prefix->identity().parent.has_value());
  EXPECT_EQ(Restorable(*prefix), (Ids{1, 2, 66}));
  ASSERT_OK_AND_ASSIGN(const PrefixContents contents, prefix->Contents());
  EXPECT_TRUE(contents.datasets.at(66).current);
  EXPECT_TRUE(contents.fenced.empty());
  for (const DatasetId id : {1, 2, 66}) EXPECT_OK(prefix->Catalogues(id));
  EXPECT_TRUE(prefix->TakeWarnings().empty());
}

TEST_F(UpgradeTest, AReaderSeesThemWithoutChangingAnything) {
  ASSERT_OK_AND_ASSIGN(const auto before, disk_.List(std::string(kOldPrefix) + "/.cairn"));
  ASSERT_OK_AND_ASSIGN(const auto reader, Prefix::OpenReadOnly(disk_, kOldPrefix));
  EXPECT_EQ(reader->run().Hex(), kOldRun);
  EXPECT_EQ(Restorable(*reader), (Ids{1, 2, 66}));
  EXPECT_EQ(*disk_.List(std::string(kOldPrefix) + "/.cairn"), before);
}

TEST_F(UpgradeTest, TheFirstOpenerNotesTheDirectorySoThatLaterCopiesAreBranches) {
  ASSERT_OK_AND_ASSIGN(const std::string old, ReadWhole(disk_, std::string(kOldPrefix) + "/.cairn/run", 100));
  EXPECT_EQ(Open()->identity().number, 1u);
  ASSERT_OK_AND_ASSIGN(const kvtree::Tree tree, ReadTree(disk_, std::string(kOldPrefix) + "/.cairn/run.1"));
  ASSERT_OK_AND_ASSIGN(const FileInfo folder, disk_.Info(std::string(kOldPrefix) + "/.cairn"));
  EXPECT_EQ(tree.Get("RUN"), kOldRun);
  EXPECT_EQ(*tree.GetUnsigned("INODE"), folder.inode);
  EXPECT_FALSE(tree.Get("PARENT").has_value());
  EXPECT_EQ(*ReadWhole(disk_, std::string(kOldPrefix) + "/.cairn/run", 100), old);
  EXPECT_EQ(Open()->identity().number, 1u);
  disk_.CopyTree(kOldPrefix, "/tmp/copy");
  const auto copy = Open("/tmp/copy");
  EXPECT_NE(copy->run().Hex(), kOldRun);
  EXPECT_EQ(copy->identity().parent->Hex(), kOldRun);
  EXPECT_EQ(Restorable(*copy), (Ids{1, 2, 66}));
}

TEST_F(UpgradeTest, ItsLaunchesAreReadAndHaveNoBase) {
  const auto prefix = Open();
  ASSERT_OK_AND_ASSIGN(const auto newest, prefix->NewestLaunch());
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->id, 2u);
  EXPECT_FALSE(newest->has_base());
  EXPECT_EQ(newest->nranks, 1u);
  EXPECT_EQ(newest->secret.size(), 32u);
  EXPECT_OK(prefix->EnterLaunch(2));
  EXPECT_FALSE(disk_.Info(std::string(kOldPrefix) + "/.cairn/launch.2.base").ok());
  EXPECT_FALSE((*prefix->FindLease(2)).has_value());
}

TEST_F(UpgradeTest, IdsGoOnAboveItsBlocks) {
  const auto prefix = Open();
  ASSERT_OK_AND_ASSIGN(const IdBlock block, prefix->ReserveIds(0));
  EXPECT_EQ(block.first, 129u);
  EXPECT_EQ(block.number, 2u);
}

TEST_F(UpgradeTest, ANewLaunchListsWhatWasCommittedAndCommitsCountUnderIt) {
  const auto prefix = Open();
  ASSERT_OK_AND_ASSIGN(const LaunchRecord launch, prefix->MakeLaunch(Wanted(), 2));
  EXPECT_EQ(launch.id, 3u);
  ASSERT_OK_AND_ASSIGN(const kvtree::Tree base, ReadTree(disk_, std::string(kOldPrefix) + "/.cairn/launch.3.base"));
  ASSERT_NE(base.Find("COUNTS"), nullptr);
  EXPECT_EQ(base.Find("COUNTS")->Get("1"), "2");
  EXPECT_EQ(base.Find("COUNTS")->Get("66"), "66");
  EXPECT_EQ(Restorable(*prefix), (Ids{1, 2, 66}));

  ASSERT_OK_AND_ASSIGN(const auto committed, prefix->Contents());
  scr::Descriptor descriptor = committed.datasets.at(66).descriptor;
  ASSERT_OK_AND_ASSIGN(auto catalogues, prefix->Catalogues(66));
  descriptor.id = 129;
  descriptor.name = "ckpt.129";
  descriptor.launch = 3;
  descriptor.mark = LaunchMark(launch.secret);
  catalogues[0].set_dataset(129);
  catalogues[0].set_launch(3);
  catalogues[0].mutable_file(0)->set_prefix_name("ckpt.129/Ckpt129-Rank0.fti");
  ASSERT_OK(prefix->Commit(descriptor, catalogues, 3));
  EXPECT_EQ(Restorable(*prefix), (Ids{1, 2, 66, 129}));
  ASSERT_OK(prefix->MakeLaunch(Wanted(), 3));
  EXPECT_EQ(Restorable(*prefix), (Ids{1, 2, 66, 129}));
  descriptor.id = 130;
  descriptor.name = "ckpt.130";
  catalogues[0].set_dataset(130);
  catalogues[0].mutable_file(0)->set_prefix_name("ckpt.130/Ckpt130-Rank0.fti");
  EXPECT_TRUE(IsFenced(prefix->Commit(descriptor, catalogues, 3)));
}

TEST_F(UpgradeTest, ItsCacheIsFoundAndItsDatasetsAreWholeAndCarryNoMark) {
  ASSERT_OK_AND_ASSIGN(const auto found, CacheFolder::Find(disk_, kOldCache, testing::kOldUser));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].run.run.Hex(), kOldRun);
  EXPECT_EQ(found[0].prefix, kOldPrefix);
  EXPECT_EQ(found[0].served, 0u);
  const auto prefix = Open();
  EXPECT_TRUE(prefix->identity().Includes(found[0].run.run));
  ASSERT_OK_AND_ASSIGN(const auto folder, CacheFolder::Open(disk_, kOldCache, testing::kOldUser, testing::kOldRunName,
                                                            prefix->identity(), kOldPrefix));
  EXPECT_EQ(folder->path(), found[0].path);
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
  Ids whole;
  for (const auto& [id, dataset] : load.whole) {
    whole.insert(id);
    EXPECT_EQ(dataset.descriptor.mark, "");
    EXPECT_EQ(dataset.descriptor.launch, id < 65 ? 1u : 2u);
  }
  EXPECT_TRUE(whole.contains(65) && whole.contains(66) && whole.contains(67));
  EXPECT_TRUE(load.warnings.empty());
}

}  // namespace
}  // namespace cairn
