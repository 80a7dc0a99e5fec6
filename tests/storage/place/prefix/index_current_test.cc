// Which dataset of a prefix is CURRENT: set by people, by commits and by datasets that fail, and what it bounds.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "storage/file/trees/tree_file.h"
#include "storage/place/prefix/index_tools.h"
#include "storage/place/prefix/prefix.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/storage/place/prefix/site.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class IndexCurrentTest : public ::testing::Test, protected Site {};

TEST_F(IndexCurrentTest, ACurrentThatIsSetBackBoundsUntilTheNextCommit) {
  for (const DatasetId id : {3, 4, 5}) ASSERT_OK(Commit(id));
  EXPECT_EQ(Contents().bound, 0u);
  ASSERT_OK(SetIndexCurrent(disk, kPath, "ckpt.4"));
  EXPECT_EQ(Current(), "ckpt.4");
  EXPECT_EQ(Contents().bound, 4u);
  scr::Descriptor next = TestDescriptor(6, kRanks);
  next.created_us = 4'000'000'000'000'000;  // after the bound was set
  ASSERT_OK(Commit(next));
  EXPECT_EQ(Current(), "ckpt.6");
  EXPECT_EQ(Contents().bound, 0u);
  EXPECT_EQ(Index().Find("CAIRN_CURRENT"), nullptr);
}

TEST_F(IndexCurrentTest, ACurrentThatScrsOwnToolHasSetBackBoundsToo) {
  for (const DatasetId id : {3, 4, 5}) ASSERT_OK(Commit(id));
  kvtree::Tree index = Index();
  scr::SetCurrent("ckpt.3", index);
  ASSERT_OK(ReplaceTree(disk, kIndex, index));
  EXPECT_EQ(Contents().bound, 3u);
  ASSERT_OK(prefix->MarkFailed(4));
  EXPECT_EQ(Contents().bound, 3u);
  ASSERT_OK(prefix->MarkFailed(5));
  EXPECT_EQ(Contents().bound, 0u);  // there is nothing newer left
}

TEST_F(IndexCurrentTest, TheBoundStaysWhenTheDatasetFails) {
  for (const DatasetId id : {3, 4, 5}) ASSERT_OK(Commit(id));
  ASSERT_OK(SetIndexCurrent(disk, kPath, "4"));
  ASSERT_OK(prefix->MarkFailed(4));
  EXPECT_EQ(Current(), "");
  EXPECT_EQ(Contents().bound, 4u);
}

TEST_F(IndexCurrentTest, OnlyAWholeCheckpointCanBeCurrent) {
  scr::Descriptor output = TestDescriptor(3, kRanks);
  output.checkpoint = false;
  output.output = true;
  ASSERT_OK(Commit(output));
  ASSERT_OK(Commit(4));
  ASSERT_OK(prefix->MarkFailed(4));
  PutScr(5);
  kvtree::Tree index = Index();
  index.At("DSET").At("5").SetBool("COMPLETE", false);
  ASSERT_OK(ReplaceTree(disk, kIndex, index));
  EXPECT_STATUS(kFailedPrecondition, SetIndexCurrent(disk, kPath, "3"), "no checkpoint");
  EXPECT_STATUS(kFailedPrecondition, SetIndexCurrent(disk, kPath, "4"), "failed");
  EXPECT_STATUS(kFailedPrecondition, SetIndexCurrent(disk, kPath, "step_5"), "not complete");
  EXPECT_STATUS(kNotFound, SetIndexCurrent(disk, kPath, "ckpt.9"), "ckpt.9");
  EXPECT_EQ(Current(), "");
}

TEST_F(IndexCurrentTest, WithoutCurrentALateCommitOfAnOlderOneNamesNothing) {
  for (const DatasetId id : {4, 5}) ASSERT_OK(Commit(id));
  ASSERT_OK(prefix->MarkFailed(5));
  ASSERT_OK(Commit(3));
  EXPECT_EQ(Contents().bound, 0u);
  EXPECT_NE(Current(), "ckpt.3");
}

TEST_F(IndexCurrentTest, ACommitThatWasMadeLaterWinsOverAnAdoptedOneOfAHigherId) {
  scr::Descriptor adopted = TestDescriptor(70, kRanks);
  adopted.launch = 0;
  adopted.created_us = 1000;
  ASSERT_OK(Commit(adopted));
  EXPECT_EQ(Current(), "ckpt.70");
  scr::Descriptor own = TestDescriptor(5, kRanks);
  own.created_us = 2000;
  ASSERT_OK(Commit(own));
  EXPECT_EQ(Current(), "ckpt.5");
  EXPECT_EQ(Contents().bound, 0u);
}

TEST_F(IndexCurrentTest, FailedGoesWhenTheDatasetIsCommittedAgain) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(Commit(4));
  ASSERT_OK(prefix->MarkFailed(4));
  EXPECT_EQ(Restorable(), Ids({3}));
  EXPECT_EQ(Contents().failed, std::set<DatasetId>({4}));
  EXPECT_STATUS(kAlreadyExists, Commit(4), "");
  EXPECT_EQ(Restorable(), Ids({3, 4}));
  EXPECT_EQ(Current(), "ckpt.4");
  EXPECT_STATUS(kNotFound, prefix->MarkFailed(9), "9");
  EXPECT_STATUS(kNotFound, prefix->MarkFetched(9), "9");
}

TEST_F(IndexCurrentTest, FetchedIsNotedAndNodesAreWritten) {
  ASSERT_OK(Commit(3));
  ASSERT_OK(prefix->MarkFetched(3));
  EXPECT_EQ((*ListIndex(disk, kPath))[0].entry.fetched.size(), 1u);
  ASSERT_OK(prefix->PutNodes(4));
  ASSERT_OK_AND_ASSIGN(const auto nodes, ReadTree(disk, "/pfs/demo/.scr/nodes.scr"));
  EXPECT_EQ(nodes.Get("NODES"), "4");
}

}  // namespace
}  // namespace cairn
