// What an application could not use (MarkRefused), and names that several datasets have, in the index.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "storage/base/status.h"
#include "storage/place/prefix/index_tools.h"
#include "storage/place/prefix/prefix.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/storage/place/prefix/site.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class RefusedTest : public ::testing::Test, protected Site {
 protected:
  absl::Status CommitNamed(DatasetId id, const std::string& name) {
    scr::Descriptor descriptor = TestDescriptor(id, kRanks);
    descriptor.name = name;
    descriptor.created_us = static_cast<std::int64_t>(id) * 1000;
    return Commit(descriptor);
  }
  std::string LeadsTo(const std::string& name) {
    const kvtree::Tree index = Index();
    const kvtree::Tree* line = index.FindPath({"NAME", name});
    return line == nullptr ? "" : std::string(line->Get("DSET").value_or(""));
  }
};

TEST_F(RefusedTest, WhatIsRefusedIsFailedForAllCopiesAndNotCurrent) {
  for (const DatasetId id : {3, 4}) ASSERT_OK(Commit(id));
  ASSERT_OK(prefix->MarkRefused(4));
  EXPECT_EQ(Restorable(), Ids({3}));
  EXPECT_EQ(Contents().refused, std::set<DatasetId>({4}));
  EXPECT_EQ(Contents().bound, 0u);
  EXPECT_EQ(Current(), "");
  ASSERT_OK(prefix->MarkRefused(4)) << "again";
  disk.Restart(1);
  Reopen();
  EXPECT_EQ(Contents().refused, std::set<DatasetId>({4}));
  ASSERT_OK(Commit(5));
  EXPECT_EQ(Current(), "ckpt.5");
  ASSERT_OK(prefix->MarkRefused(3));
  EXPECT_EQ(Current(), "ckpt.5") << "it was not current";
}

TEST_F(RefusedTest, WhatWasFoundDamagedMayBeRefusedToo) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(prefix->MarkFailed(3));
  EXPECT_TRUE(Contents().refused.empty());
  ASSERT_OK(prefix->MarkRefused(3));
  EXPECT_EQ(Contents().refused, std::set<DatasetId>({3}));
}

TEST_F(RefusedTest, WhatIsNotCompleteOrNotThereCannotBe) {
  ASSERT_OK(prefix->BeginFlush(TestDescriptor(3, kRanks)));
  EXPECT_STATUS(kNotFound, prefix->MarkRefused(3), "dataset 3 is not complete");
  EXPECT_STATUS(kNotFound, prefix->MarkRefused(9), "9");
  ASSERT_OK(Commit(3));
  EXPECT_EQ(Restorable(), Ids({3}));
}

TEST_F(RefusedTest, OnlySomeoneWhoAddsItAgainTakesThatBack) {
  for (const DatasetId id : {3, 4}) ASSERT_OK(Commit(id));
  ASSERT_OK(prefix->MarkRefused(4));
  EXPECT_STATUS(kAlreadyExists, Commit(4), "");
  EXPECT_EQ(Restorable(), Ids({3})) << "committed again, as by a scavenge";
  ASSERT_OK(AddToIndex(disk, kPath, "4"));
  EXPECT_EQ(Restorable(), Ids({3, 4}));
  EXPECT_EQ(Current(), "ckpt.4");
  EXPECT_TRUE(Contents().failed.empty());
}

TEST_F(RefusedTest, ScrsOwnIsRefusedAsScrDoes) {
  PutScr(2);
  ASSERT_OK(SetIndexCurrent(disk, kPath, "2"));
  ASSERT_OK(prefix->MarkRefused(2));
  EXPECT_TRUE(Restorable().empty());
  EXPECT_EQ(Contents().refused, std::set<DatasetId>({2}));
  EXPECT_EQ(Current(), "");
}

// --- Names ---

TEST_F(RefusedTest, ANewDatasetHasTheNameFromItsCommitOnAndKeepsItWhenTheOlderGoes) {
  ASSERT_OK(CommitNamed(3, "best"));
  EXPECT_EQ(LeadsTo("best"), "3");
  scr::Descriptor next = TestDescriptor(4, kRanks);
  next.name = "best";
  ASSERT_OK(prefix->BeginFlush(next));
  EXPECT_EQ(LeadsTo("best"), "3");
  ASSERT_OK(CommitNamed(4, "best"));
  EXPECT_EQ(LeadsTo("best"), "4");
  EXPECT_EQ(Current(), "best");
  EXPECT_EQ(Contents().bound, 0u);
  ASSERT_OK(prefix->Remove(3, CataloguesOf(3)));
  EXPECT_EQ(LeadsTo("best"), "4");
  EXPECT_EQ(Current(), "best");
}

TEST_F(RefusedTest, TheOlderDatasetHasTheNameAgainWhenTheNewerGoes) {
  for (const DatasetId id : {3, 4}) ASSERT_OK(CommitNamed(id, "best"));
  ASSERT_OK(DropFromIndex(disk, kPath, "4"));
  EXPECT_EQ(LeadsTo("best"), "3");
  EXPECT_EQ(Current(), "best");
}

TEST_F(RefusedTest, ACurrentThatWasSetBackStaysWhenAnOlderOneOfItsNameComesLate) {
  ASSERT_OK(CommitNamed(3, "best"));
  ASSERT_OK(CommitNamed(5, "other"));
  ASSERT_OK(SetIndexCurrent(disk, kPath, "3"));
  ASSERT_OK(CommitNamed(4, "best"));  // made before CURRENT was set back
  EXPECT_EQ(LeadsTo("best"), "3");
  EXPECT_EQ(Contents().bound, 3u);
}

}  // namespace
}  // namespace cairn
