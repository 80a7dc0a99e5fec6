// Restarts from datasets that SCR itself put into the prefix.
#include <gtest/gtest.h>

#include <filesystem>

#include "storage/file/trees/tree_file.h"
#include "storage/format/scr/records.h"
#include "storage/place/prefix/index_tools.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/storage/place/prefix/scr_data.h"
#include "tests/support/status_matchers.h"
#include "tests/support/vectors.h"

namespace cairn {
namespace {

class ScrRestoreTest : public ::testing::Test {
 protected:
  // False: there are no vectors.
  bool Start(const std::string& scenario) {
    const auto folder = testing::VectorsPath("scr/" + scenario);
    if (!folder) return false;
    testing::CopyWritable(*folder + "/pfs/demo", harness_.prefix());
    EXPECT_TRUE(harness_.Start().ok());
    return true;
  }

  static std::vector<FakeClient::Restored> Restore(Ranks& ranks, DatasetId id) {
    std::vector<Memory> none(ranks.clients.size());
    return ranks.Restore(id, none);
  }
  void ExpectRestores(Ranks& ranks, DatasetId id, local::Tier tier) {
    for (const FakeClient::Restored& one : Restore(ranks, id)) {
      ASSERT_EQ(one.code, local::OK) << one.message;
      EXPECT_EQ(one.tier, tier) << local::Tier_Name(one.tier);
    }
  }
  // The application gets the file under its name, with the bytes that it wrote.
  void ExpectFile(FakeClient& client, DatasetId id, const std::string& dataset, const std::string& name, Rank writer) {
    const local::Reply path = client.RestartFile(id, dataset + "/" + name);
    ASSERT_SAYS(path, local::OK, "");
    const std::string bytes = harness_.Read(harness_.cache_disk(), path.restart_file().path());
    EXPECT_FALSE(bytes.empty()) << name;
    EXPECT_TRUE(bytes == testing::ScrApplicationData(dataset, writer, testing::ScrIndexOf(name), bytes.size())) << name;
  }
  DatasetId Latest(FakeClient& client) {
    const local::Reply latest = client.Latest();
    EXPECT_SAYS(latest, local::OK, "");
    return latest.latest().dataset();
  }

  IndexRow Row(DatasetId id) {
    const auto rows = ListIndex(harness_.prefix_disk(), harness_.prefix());
    EXPECT_OK(rows.status());
    for (const IndexRow& row : rows.ok() ? *rows : std::vector<IndexRow>()) {
      if (row.entry.descriptor.id == id) return row;
    }
    ADD_FAILURE() << "no dataset " << id;
    return {};
  }

  CoreHarness harness_;
};

TEST_F(ScrRestoreTest, TheNewestIsFetchedAndGivenBackUnderItsNames) {
  if (!Start("bypass_np3")) return;
  Ranks ranks(harness_, 3, "job.1");
  const local::Reply latest = ranks[0].Latest();
  ASSERT_SAYS(latest, local::OK, "");
  EXPECT_EQ(latest.latest().dataset(), 2u);
  EXPECT_EQ(latest.latest().step(), 2u);
  EXPECT_TRUE(latest.latest().files());
  EXPECT_EQ(Latest(ranks[1]), 2u);
  EXPECT_EQ(Latest(ranks[2]), 2u);
  ExpectRestores(ranks, 2, local::TIER_PREFIX);
  ExpectFile(ranks[0], 2, "step_000020", "rank_0.ckpt", 0);
  ExpectFile(ranks[0], 2, "step_000020", "sub1/extra_0_1.dat", 0);
  ExpectFile(ranks[2], 2, "step_000020", "sub2/extra_2_2.dat", 2);
  ExpectFile(ranks[0], 2, "step_000020", "rank_1.ckpt", 1);  // whoever wrote it
  EXPECT_TRUE(harness_.Eventually([this] { return Row(2).entry.fetched.size() == 1; }));
  EXPECT_TRUE(harness_.Eventually([this] {
    const auto tree = ReadTree(harness_.prefix_disk(), harness_.prefix() + "/.scr/flush.scr");
    if (!tree.ok()) return false;
    const auto entries = scr::GetFlushEntries(*tree);
    return entries.ok() && entries->contains(2) && entries->at(2).in_cache && entries->at(2).in_prefix;
  }));
}

TEST_F(ScrRestoreTest, AfterTheFetchItIsInTheCacheAlsoForTheNextDaemon) {
  if (!Start("bypass_np3")) return;
  {
    Ranks ranks(harness_, 3, "job.1");
    ExpectRestores(ranks, Latest(ranks[0]), local::TIER_PREFIX);
  }
  harness_.Restart();
  Ranks ranks(harness_, 3, "job.2");
  EXPECT_EQ(Latest(ranks[0]), 2u);
  ExpectRestores(ranks, 2, local::TIER_CACHE);
  ExpectFile(ranks[1], 2, "step_000020", "rank_1.ckpt", 1);
  EXPECT_EQ(Row(2).entry.descriptor.name, "step_000020");
}

TEST_F(ScrRestoreTest, WhatWasFetchedAndThenDroppedIsNotChosenFromTheCache) {
  if (!Start("bypass_np3")) return;
  {
    Ranks ranks(harness_, 3, "job.1");
    ExpectRestores(ranks, Latest(ranks[0]), local::TIER_PREFIX);
  }
  ASSERT_OK(DropFromIndex(harness_.prefix_disk(), harness_.prefix(), "step_000020"));
  Ranks ranks(harness_, 3, "job.2");
  EXPECT_EQ(Latest(ranks[0]), 1u);
}

TEST_F(ScrRestoreTest, NorIfItWasDroppedWhileNoDaemonWasThere) {
  if (!Start("bypass_np3")) return;
  {
    Ranks ranks(harness_, 3, "job.1");
    ExpectRestores(ranks, Latest(ranks[0]), local::TIER_PREFIX);
  }
  harness_.Stop();
  ASSERT_OK(DropFromIndex(harness_.prefix_disk(), harness_.prefix(), "step_000020"));
  ASSERT_OK(harness_.Start());
  Ranks ranks(harness_, 3, "job.2");
  EXPECT_EQ(Latest(ranks[0]), 1u);
  EXPECT_TRUE(harness_.Eventually([this] { return !harness_.Row(2).in_cache(); }));
}

TEST_F(ScrRestoreTest, ACurrentThatWasSetBackBoundsTheChoice) {
  if (!Start("prefix_lifecycle_np2")) return;
  Ranks ranks(harness_, 2, "job.1");
  EXPECT_EQ(Latest(ranks[0]), 1u);
  ExpectRestores(ranks, 1, local::TIER_PREFIX);
  ExpectFile(ranks[1], 1, "step_000010", "rank_1.ckpt", 1);
}

TEST_F(ScrRestoreTest, WhatHasFailedIsNotChosen) {
  if (!Start("index_failed_np2")) return;
  Ranks ranks(harness_, 2, "job.1");
  EXPECT_EQ(Latest(ranks[0]), 1u);
}

TEST_F(ScrRestoreTest, AScavengedOneIsRestored) {
  if (!Start("scavenge_xor_np4")) return;
  Ranks ranks(harness_, 4, "job.1");
  EXPECT_EQ(Latest(ranks[0]), 1u);
  ExpectRestores(ranks, 1, local::TIER_PREFIX);
  ExpectFile(ranks[2], 1, "step_000010", "rank_2.ckpt", 2);
}

TEST_F(ScrRestoreTest, WithoutACheckpointThereIsNothingToRestartFrom) {
  if (!Start("crash_before_flush_np3")) return;
  Ranks ranks(harness_, 3, "job.1");
  EXPECT_SAYS(ranks[0].Latest(), local::NOT_FOUND, "no checkpoint");
}

TEST_F(ScrRestoreTest, AnotherNumberOfRanksIsRefused) {
  if (!Start("bypass_np3")) return;
  Ranks ranks(harness_, 2, "job.1");
  const DatasetId id = Latest(ranks[0]);
  for (const FakeClient::Restored& one : Restore(ranks, id)) {
    EXPECT_EQ(one.code, local::FAILED_PRECONDITION) << one.message;
    EXPECT_NE(one.message.find("3 ranks"), std::string::npos) << one.message;
  }
}

TEST_F(ScrRestoreTest, AFileThatWasCutIsSeenAndTheOlderOneTaken) {
  if (!Start("bypass_np3")) return;
  harness_.Truncate(harness_.prefix_disk(), harness_.prefix() + "/step_000020/rank_1.ckpt", 3);
  Ranks ranks(harness_, 3, "job.1");
  EXPECT_EQ(Latest(ranks[0]), 1u);
  EXPECT_TRUE(harness_.Warned("dataset 2"));
  ExpectRestores(ranks, 1, local::TIER_PREFIX);
  EXPECT_TRUE(harness_.Eventually([this] { return !Row(2).entry.failed.empty(); }));
  EXPECT_FALSE(Row(2).current);
}

TEST_F(ScrRestoreTest, AFileThatIsLostMeanwhileMovesThePinToTheOlderOne) {
  if (!Start("bypass_np3")) return;
  Ranks ranks(harness_, 3, "job.1");
  EXPECT_EQ(Latest(ranks[0]), 2u);
  std::filesystem::remove(harness_.prefix() + "/step_000020/sub1/extra_2_1.dat");
  for (const FakeClient::Restored& one : Restore(ranks, 2)) EXPECT_EQ(one.code, local::RETRY) << one.message;
  EXPECT_EQ(Latest(ranks[1]), 1u);
  ExpectRestores(ranks, 1, local::TIER_PREFIX);
  ExpectFile(ranks[2], 1, "step_000010", "sub1/extra_2_1.dat", 2);
  EXPECT_TRUE(harness_.Eventually([this] { return !Row(2).entry.failed.empty(); }));
}

TEST_F(ScrRestoreTest, NewDatasetsGoAboveAndNothingOfScrsIsEverRemoved) {
  harness_.config.flush.every = 1;
  harness_.config.prefix.keep_last = 1;
  if (!Start("bypass_np3")) return;
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  for (std::uint64_t step = 1; step <= 3; ++step) {
    const local::Reply done = client.Checkpoint(step, {PlainOf(1, RandomBytes(step, 1000))});
    ASSERT_SAYS(done, local::OK, "");
    EXPECT_GT(done.committed().dataset(), 2u);
    ASSERT_SAYS(client.Wait(done.committed().dataset(), local::PREFIX), local::OK, "");
  }
  EXPECT_TRUE(harness_.Eventually([this] {
    const auto rows = ListIndex(harness_.prefix_disk(), harness_.prefix());
    return rows.ok() && rows->size() == 3;  // one of ours, both of SCR's
  }));
  EXPECT_EQ(harness_.Remove(1).code(), local::FAILED_PRECONDITION);
  for (const char* name : {"step_000010/rank_0.ckpt", "step_000020/rank_2.ckpt"}) {
    EXPECT_TRUE(std::filesystem::exists(harness_.prefix() + "/" + name)) << name;
  }
}

}  // namespace
}  // namespace cairn
