// A cache that SCR works on, too, or that is found under another name.
#include <gtest/gtest.h>

#include "storage/format/scr/records.h"
#include "tests/storage/place/cache/cache_folder_fixture.h"

namespace cairn {
namespace {

using SharedCacheTest = CacheFolderTest;

constexpr char kEntry[] = "900";

TEST_F(SharedCacheTest, EntriesThatScrAddsOrTakesMeanwhileAreKeptSo) {
  const auto folder = Open();
  ASSERT_OK(folder->Load().status());
  ASSERT_OK(WriteDataset(*folder, 1));
  const std::string path = folder->path() + "/cindex.scrinfo";
  kvtree::Tree index = TreeAt(path);
  kvtree::Tree& entry = index.At("DSET").At(kEntry);
  entry.At("DSETDESC").Set("NAME", "step_900");
  entry.Set("PATH", folder->path() + "/scr.dataset.900");
  entry.Set("BYPASS", "0");
  ASSERT_OK(ReplaceTree(disk_, path, index));
  ASSERT_OK(WriteDataset(*folder, 2));
  index = TreeAt(path);
  ASSERT_NE(index.FindPath({"DSET", kEntry}), nullptr);
  EXPECT_NE(index.FindPath({"DSET", "1"}), nullptr);
  EXPECT_NE(index.FindPath({"DSET", "2"}), nullptr);

  index.Find("DSET")->Erase(kEntry);
  ASSERT_OK(ReplaceTree(disk_, path, index));
  ASSERT_OK(folder->Remove(1));
  index = TreeAt(path);
  EXPECT_EQ(index.FindPath({"DSET", kEntry}), nullptr);
  EXPECT_EQ(index.FindPath({"DSET", "1"}), nullptr);
  EXPECT_NE(index.FindPath({"DSET", "2"}), nullptr);
}

TEST_F(SharedCacheTest, ACacheUnderAnotherNameIsTakenAsItIs) {
  ASSERT_OK(WriteDataset(*Open(), 1));
  disk_.SyncAll();
  ASSERT_OK(disk_.Rename("/ssd", "/fast"));
  ASSERT_OK_AND_ASSIGN(const auto folder, CacheFolder::Open(disk_, "/fast", "alice", "demo", TestRun(), "/pfs/demo"));
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
  EXPECT_EQ(WholeIds(load), Ids({1}));
  EXPECT_TRUE(Warned(load, "had PATH /ssd"));
  const kvtree::Tree index = TreeAt(folder->path() + "/cindex.scrinfo");
  EXPECT_EQ(index.FindPath({"DSET", "1"})->Get("PATH"), folder->DatasetPath(1));
  ASSERT_OK_AND_ASSIGN(const CacheLoad again, folder->Load());
  EXPECT_FALSE(Warned(again, "PATH"));
}

}  // namespace
}  // namespace cairn
