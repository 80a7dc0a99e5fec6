// What people do to the prefix' index between two launches: the next one goes by it, also for what is in the cache.
#include <gtest/gtest.h>

#include <filesystem>

#include "storage/file/trees/tree_file.h"
#include "storage/place/prefix/index_tools.h"
#include "storage/place/prefix/prefix.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class IndexRulesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    harness_.config.flush.every = 1;
    harness_.config.flush.superseded = true;
    ASSERT_TRUE(harness_.Start().ok());
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({.key = "job.0"}), local::OK, "");
    for (std::uint64_t step = 1; step <= 3; ++step) ids_.push_back(Checkpoint(client, step));
  }
  DatasetId Checkpoint(FakeClient& client, std::uint64_t step) {
    const local::Reply done = client.Checkpoint(step, {PlainOf(1, RandomBytes(step, 1000))});
    EXPECT_SAYS(done, local::OK, "");
    const DatasetId id = done.committed().dataset();
    EXPECT_SAYS(client.Wait(id, local::PREFIX), local::OK, "");
    return id;
  }
  std::unique_ptr<FakeClient> Launch() {
    auto client = std::make_unique<FakeClient>(harness_);
    EXPECT_SAYS(client->Open({.key = "job." + std::to_string(++launches_)}), local::OK, "");
    return client;
  }
  DatasetId Latest() { return Launch()->Latest().latest().dataset(); }
  std::string Name(std::size_t i) const { return "ckpt." + std::to_string(ids_[i]); }
  Disk& disk() { return harness_.prefix_disk(); }

  CoreHarness harness_;
  std::vector<DatasetId> ids_;
  int launches_ = 0;
};

TEST_F(IndexRulesTest, ACurrentThatIsSetBackHoldsUntilTheNextCommit) {
  EXPECT_EQ(Latest(), ids_[2]);
  ASSERT_OK(SetIndexCurrent(disk(), harness_.prefix(), Name(1)));
  EXPECT_EQ(Latest(), ids_[1]);
  {
    const auto client = Launch();
    EXPECT_EQ(client->Latest().latest().dataset(), ids_[1]);
    ids_.push_back(Checkpoint(*client, 4));
  }
  EXPECT_EQ(Latest(), ids_[3]);
}

// The second is chosen, the third is passed over. It goes on from there, and keeps two of that line.
TEST_F(IndexRulesTest, KeepLastCountsTheLineThatWasChosenAlsoAfterARestart) {
  ASSERT_OK(SetIndexCurrent(disk(), harness_.prefix(), Name(1)));
  harness_.config.prefix.keep_last = 2;
  harness_.Restart();
  const auto is_there = [&](std::size_t i) { return disk().Info(harness_.PrefixFile(ids_[i], 0)).ok(); };
  const auto leaves = [&](std::size_t i) { return harness_.Eventually([&] { return !is_there(i); }); };
  {
    const auto client = Launch();
    EXPECT_EQ(client->Latest().latest().dataset(), ids_[1]);
    ids_.push_back(Checkpoint(*client, 4));
  }
  EXPECT_TRUE(leaves(0));
  for (const std::size_t i : {1, 2, 3}) EXPECT_TRUE(is_there(i)) << i;
  harness_.Restart();
  ids_.push_back(Checkpoint(*Launch(), 5));
  EXPECT_TRUE(leaves(1));
  EXPECT_TRUE(leaves(2));
  EXPECT_TRUE(is_there(3));
}

// The daemon that commits what the cache still had has not looked at the index yet.
TEST_F(IndexRulesTest, KeepLastAsksTheIndexBeforeItRemovesAnything) {
  harness_.config.flush.every = 0;
  harness_.config.prefix.keep_last = 1;
  harness_.Restart();
  DatasetId late = 0;
  {
    const auto client = Launch();
    const local::Reply done = client->Checkpoint(4, {PlainOf(1, RandomBytes(4, 1000))});
    ASSERT_SAYS(done, local::OK, "");
    late = done.committed().dataset();
    ASSERT_SAYS(client->Wait(late, local::LOCAL), local::OK, "");
  }
  harness_.Restart();
  ASSERT_OK(SetIndexCurrent(disk(), harness_.prefix(), Name(1)));
  ASSERT_EQ(harness_.Flush(late).code(), local::OK);
  ASSERT_TRUE(harness_.Eventually([&] { return !disk().Info(harness_.PrefixFile(ids_[0], 0)).ok(); }));
  EXPECT_TRUE(harness_.Row(ids_[1]).in_prefix());
  EXPECT_EQ(Latest(), ids_[1]);
}

TEST_F(IndexRulesTest, ACommitOfWhatWasMadeBeforeTheBoundDoesNotLiftIt) {
  harness_.config.flush.every = 0;
  harness_.Restart();
  const DatasetId late = Launch()->Checkpoint(4, {PlainOf(1, RandomBytes(4, 1000))}).committed().dataset();
  ASSERT_EQ(harness_.Wait(late, local::LOCAL).status().code(), local::OK);
  ASSERT_OK(SetIndexCurrent(disk(), harness_.prefix(), Name(0)));
  ASSERT_EQ(harness_.Flush(late).code(), local::OK);
  ASSERT_EQ(harness_.Wait(late, local::PREFIX).status().code(), local::OK);
  EXPECT_EQ(Latest(), ids_[0]);
}

TEST_F(IndexRulesTest, WhatALaterLaunchHasMadeIsChosenAlsoIfItIsNotCommitted) {
  harness_.config.flush.every = 0;
  harness_.Restart();
  ASSERT_OK(SetIndexCurrent(disk(), harness_.prefix(), Name(0)));
  DatasetId made = 0;
  {
    const auto client = Launch();
    EXPECT_EQ(client->Latest().latest().dataset(), ids_[0]);
    made = client->Checkpoint(4, {PlainOf(1, RandomBytes(4, 1000))}).committed().dataset();
    ASSERT_SAYS(client->Wait(made, local::LOCAL), local::OK, "");
  }
  EXPECT_EQ(Latest(), made);
  harness_.Restart();
  EXPECT_EQ(Latest(), made);
}

TEST_F(IndexRulesTest, TheBoundHoldsOverARestartOfTheDaemon) {
  ASSERT_OK(SetIndexCurrent(disk(), harness_.prefix(), Name(0)));
  harness_.Restart();
  EXPECT_EQ(Latest(), ids_[0]);
}

TEST_F(IndexRulesTest, WhatIsDroppedIsNotChosenUntilItIsAddedAgain) {
  ASSERT_OK(DropFromIndex(disk(), harness_.prefix(), Name(2)));
  EXPECT_EQ(Latest(), ids_[1]);
  harness_.Restart();
  EXPECT_EQ(Latest(), ids_[1]);
  ASSERT_OK(AddToIndex(disk(), harness_.prefix(), Name(2)));
  EXPECT_EQ(Latest(), ids_[2]);
}

TEST_F(IndexRulesTest, WhatIsRemovedIsGone) {
  ASSERT_OK(RemoveFromIndex(disk(), harness_.prefix(), Name(2)));
  EXPECT_FALSE(harness_.IsThere(disk(), harness_.PrefixFile(ids_[2], 0)));
  EXPECT_EQ(Latest(), ids_[1]);
}

// As SCR does when the application says that it could not restart from it.
TEST_F(IndexRulesTest, WhatAnApplicationUnderScrHasRefusedIsNotChosenFromTheCacheEither) {
  const std::string path = harness_.prefix() + "/.scr/index.scr";
  ASSERT_OK_AND_ASSIGN(kvtree::Tree index, ReadTree(disk(), path));
  index.At("DSET").At(std::to_string(ids_[2])).Set("FAILED", "2026-01-02T03:04:05");
  ASSERT_OK(ReplaceTree(disk(), path, index));
  EXPECT_EQ(Latest(), ids_[1]);
  harness_.Restart();
  EXPECT_EQ(Latest(), ids_[1]);
}

TEST_F(IndexRulesTest, WhatFailedIsChosenAgainOnceItIsRepairedAndAddedAgain) {
  harness_.Restart();  // no image of it is left
  const std::string file = harness_.PrefixFile(ids_[2], 0);
  std::filesystem::remove_all(harness_.CacheFolderPath() + "/scr.dataset." + std::to_string(ids_[2]));
  harness_.Flip(disk(), file, 700);
  {
    const auto client = Launch();
    ASSERT_EQ(client->Latest().latest().dataset(), ids_[2]);
    Memory back = {PlainOf(1, std::string(1000, '\0'))};
    EXPECT_EQ(client->Restore(ids_[2], back).code, local::RETRY);
    EXPECT_EQ(client->Latest().latest().dataset(), ids_[1]);
  }
  harness_.Flip(disk(), file, 700);
  ASSERT_TRUE(harness_.Eventually([&] {
    const auto prefix = Prefix::OpenReadOnly(disk(), harness_.prefix());
    return prefix.ok() && (*prefix)->Contents()->failed.contains(ids_[2]);
  }));
  EXPECT_EQ(Latest(), ids_[1]);  // as the index says
  ASSERT_OK(DropFromIndex(disk(), harness_.prefix(), Name(2)));
  ASSERT_OK(AddToIndex(disk(), harness_.prefix(), Name(2)));
  const auto client = Launch();
  ASSERT_EQ(client->Latest().latest().dataset(), ids_[2]);
  Memory back = {PlainOf(1, std::string(1000, '\0'))};
  const FakeClient::Restored restored = client->Restore(ids_[2], back);
  EXPECT_EQ(restored.code, local::OK) << restored.message;
  EXPECT_TRUE(back[0].bytes == RandomBytes(3, 1000));
}

TEST_F(IndexRulesTest, WhatIsDamagedOnThePrefixIsChosenFromTheCache) {
  ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::Open(disk(), harness_.prefix()));
  ASSERT_OK(prefix->MarkFailed(ids_[2]));
  EXPECT_EQ(Latest(), ids_[2]);
  harness_.Restart();
  EXPECT_EQ(Latest(), ids_[2]);
}

}  // namespace
}  // namespace cairn
