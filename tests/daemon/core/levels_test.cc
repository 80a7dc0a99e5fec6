// Test, wait, latest and stored: what is said of a dataset, when, and to whom. design.md, "The ladder".
#include <gtest/gtest.h>

#include "tests/daemon/core/fake_client.h"

namespace cairn {
namespace {

class LevelsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(harness_.Start().ok()); }

  // Of one rank, at `local`.
  DatasetId Whole(FakeClient& client, std::uint64_t step) {
    const local::Reply done = client.Checkpoint(step, memory_);
    EXPECT_SAYS(done, local::OK, "");
    EXPECT_SAYS(client.Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
    return done.committed().dataset();
  }

  CoreHarness harness_;
  const Memory memory_ = {ValueOf(1, "step", 7), PlainOf(2, RandomBytes(2, 100'000))};
};

TEST_F(LevelsTest, AreReachedOneAfterTheOther) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const DatasetId id = Whole(client, 1);
  for (local::Level level : {local::NONE, local::FROZEN, local::CAPTURED, local::LOCAL}) {
    const local::Reply test = client.Test(id, level);
    ASSERT_SAYS(test, local::OK, "");
    EXPECT_TRUE(test.test().reached()) << local::Level_Name(level);
    EXPECT_EQ(test.test().level(), local::LOCAL);
  }
  local::Reply test = client.Test(id, local::PREFIX);
  ASSERT_SAYS(test, local::OK, "");
  EXPECT_FALSE(test.test().reached());
  EXPECT_SAYS(client.Test(id, local::REDUNDANT), local::UNSUPPORTED, "redundant");
  EXPECT_SAYS(client.Wait(id, local::REDUNDANT), local::UNSUPPORTED, "redundant");
  ASSERT_SAYS(client.Wait(id, local::PREFIX), local::OK, "");
  test = client.Test(id, local::REDUNDANT);  // a stronger copy is there
  ASSERT_SAYS(test, local::OK, "");
  EXPECT_TRUE(test.test().reached());
}

TEST_F(LevelsTest, UnknownIdsAndLevelsAreToldApart) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const DatasetId id = Whole(client, 1);
  EXPECT_SAYS(client.Test(id + 1000, local::LOCAL), local::NOT_FOUND, "no dataset");
  EXPECT_SAYS(client.Wait(0, local::LOCAL), local::NOT_FOUND, "no dataset");
  EXPECT_SAYS(client.Stored(id + 1000), local::NOT_FOUND, "no whole dataset");
  EXPECT_SAYS(client.Test(id, static_cast<local::Level>(17)), local::INVALID_ARGUMENT, "17");
  EXPECT_SAYS(client.Wait(id, static_cast<local::Level>(-1)), local::INVALID_ARGUMENT, "level");
  Memory blank = Blank(memory_);
  EXPECT_EQ(client.Restore(id + 1000, blank).code, local::NOT_FOUND);
}

TEST_F(LevelsTest, AnIdThatNoRecordKnowsAnyMoreIsAFailedDataset) {
  DatasetId begun = 0;
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    begun = client.Begin(1, memory_).begin().dataset();
    ASSERT_NE(begun, 0u);
    harness_.Restart();
  }
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "job.2"}), local::OK, "");
  EXPECT_SAYS(client.Test(begun, local::LOCAL), local::FAILED, "no record");
  EXPECT_SAYS(client.Wait(begun, local::LOCAL), local::FAILED, "no record");
}

TEST_F(LevelsTest, HoldAfterARestartOfTheDaemon) {
  DatasetId id = 0;
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    id = Whole(client, 12);
  }
  harness_.Restart();
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "job.2"}), local::OK, "");
  EXPECT_SAYS(client.Wait(id, local::LOCAL), local::OK, "");
  const local::Reply latest = client.Latest();
  ASSERT_SAYS(latest, local::OK, "");
  EXPECT_EQ(latest.latest().dataset(), id);
  EXPECT_EQ(latest.latest().step(), 12u);
  EXPECT_FALSE(latest.latest().files());
}

TEST_F(LevelsTest, AWaitThatIsInVainSaysWhatItWaitedFor) {
  Ranks ranks(harness_, 2, "job.1");
  const local::Reply done = ranks[0].Checkpoint(1, memory_);
  ASSERT_SAYS(done, local::OK, "");
  const DatasetId id = done.committed().dataset();
  const local::Reply expired = ranks[0].Next(ranks[0].SendWait(id, local::LOCAL, /*deadline_ms=*/20));
  EXPECT_SAYS(expired, local::DEADLINE_EXCEEDED, "level local of dataset " + std::to_string(id));
  EXPECT_SAYS(expired, local::DEADLINE_EXCEEDED, "within 20 ms");
  const admin::WaitReply admin = harness_.Wait(id, local::LOCAL, 20);
  EXPECT_EQ(admin.status().code(), local::DEADLINE_EXCEEDED) << admin.status().message();
  EXPECT_SAYS(ranks[1].Checkpoint(1, memory_), local::OK, "");
  EXPECT_EQ(harness_.Wait(id, local::LOCAL).status().code(), local::OK);
}

TEST_F(LevelsTest, ManyWaitsThatExpireAreForgotten) {
  Ranks ranks(harness_, 2, "job.1");
  const local::Reply done = ranks[0].Checkpoint(1, memory_);
  ASSERT_SAYS(done, local::OK, "");
  const DatasetId id = done.committed().dataset();
  for (int i = 0; i < 500; ++i) {
    ASSERT_SAYS(ranks[0].Next(ranks[0].SendWait(id, local::LOCAL, 1)), local::DEADLINE_EXCEEDED, "");
  }
  const std::uint64_t waiting = ranks[0].SendWait(id, local::LOCAL);
  ASSERT_SAYS(ranks[1].Checkpoint(1, memory_), local::OK, "");
  EXPECT_SAYS(ranks[0].Next(waiting), local::OK, "");
}

// --- cairn_latest ---

TEST_F(LevelsTest, LatestIsTheNewestWholeOneOfEarlierLaunches) {
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    Whole(client, 1);
    Whole(client, 2);
    ASSERT_SAYS(client.Begin(3, memory_), local::OK, "");  // never committed
  }
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "job.2"}), local::OK, "");
  const local::Reply latest = client.Latest();
  ASSERT_SAYS(latest, local::OK, "");
  EXPECT_EQ(latest.latest().step(), 2u);
}

TEST_F(LevelsTest, LatestWaitsForWhatIsCapturedAndOnItsWayToLocal) {
  DatasetId id = 0;
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    const local::Reply done = client.Checkpoint(5, {PlainOf(1, RandomBytes(5, 16 << 20))});
    ASSERT_SAYS(done, local::OK, "");
    id = done.committed().dataset();
  }
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "job.2"}), local::OK, "");
  const local::Reply latest = client.Latest();
  ASSERT_SAYS(latest, local::OK, "");
  EXPECT_EQ(latest.latest().dataset(), id);
}

TEST_F(LevelsTest, LatestIsOneAnswerForAllRanksOfALaunch) {
  FakeClient before(harness_);
  ASSERT_SAYS(before.Open({}), local::OK, "");
  const DatasetId old = Whole(before, 1);
  ASSERT_SAYS(before.Close(), local::OK, "");
  Ranks ranks(harness_, 2, "job.2");
  EXPECT_EQ(ranks[0].Latest().latest().dataset(), old);
  EXPECT_EQ(ranks[1].Latest().latest().dataset(), old);
  EXPECT_EQ(ranks[0].Latest().latest().dataset(), old);
}

TEST_F(LevelsTest, ThePinEndsWhenTheLaunchFirstBeginsADataset) {
  FakeClient before(harness_);
  ASSERT_SAYS(before.Open({}), local::OK, "");
  const DatasetId old = Whole(before, 1);
  ASSERT_SAYS(before.Close(), local::OK, "");
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "job.2"}), local::OK, "");
  EXPECT_EQ(client.Latest().latest().dataset(), old);
  const DatasetId fresh = Whole(client, 2);
  EXPECT_EQ(client.Latest().latest().dataset(), fresh);
}

TEST_F(LevelsTest, NothingToRestartFromIsPinnedToo) {
  Ranks ranks(harness_, 2, "job.1");
  EXPECT_SAYS(ranks[0].Latest(), local::NOT_FOUND, "no checkpoint");
  // Another session of the run's past makes one whole meanwhile: not for this launch.
  EXPECT_SAYS(ranks[1].Latest(), local::NOT_FOUND, "no checkpoint");
  const DatasetId id = ranks.Checkpoint(1, {memory_, memory_});
  ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  EXPECT_EQ(ranks[1].Latest().latest().dataset(), id);  // its own begin has ended the pin
}

TEST_F(LevelsTest, AnOutputIsNoCheckpoint) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const local::Reply begun = client.OutputBegin(1, /*checkpoint=*/false, /*output=*/true);
  ASSERT_SAYS(begun, local::OK, "");
  ASSERT_SAYS(client.OutputEnd(), local::OK, "");
  ASSERT_SAYS(client.Wait(begun.output_begin().dataset(), local::LOCAL), local::OK, "");
  EXPECT_SAYS(client.Latest(), local::NOT_FOUND, "no checkpoint");
}

// --- cairn_stored ---

TEST_F(LevelsTest, StoredTellsWhatEachRankHas) {
  Ranks writers(harness_, 2, "job.1");
  const std::vector<Memory> memory = {
      {PlainOf(5, "abc"), ValueOf(1, "step", 7), ArrayOf(2, "u", {4, 2}, {0, 0}, {3, 2}, "abcdef")},
      {PlainOf(5, "defgh"), ValueOf(1, "step", 7), ArrayOf(2, "u", {4, 2}, {3, 0}, {1, 2}, "gh")}};
  const DatasetId id = writers.Checkpoint(9, memory);
  ASSERT_SAYS(writers[0].Wait(id, local::LOCAL), local::OK, "");
  const local::Reply own = writers[1].Stored(id);
  ASSERT_SAYS(own, local::OK, "");
  ASSERT_EQ(own.stored().variables_size(), 3);
  EXPECT_EQ(own.stored().nranks(), 2u);
  EXPECT_EQ(own.stored().step(), 9u);
  for (int i = 0; i < 3; ++i) {  // by id
    const local::Variable& stored = own.stored().variables(i);
    const local::Variable& put = memory[1][i == 0 ? 1 : i == 1 ? 2 : 0].variable;
    EXPECT_EQ(stored.SerializeAsString(), put.SerializeAsString()) << i;
  }
  for (auto& client : writers.clients) ASSERT_SAYS(client->Close(), local::OK, "");

  Ranks readers(harness_, 3, "job.2");  // rank 2 did not exist
  const local::Reply stored = readers[2].Stored(id);
  ASSERT_SAYS(stored, local::OK, "");
  EXPECT_EQ(stored.stored().nranks(), 2u);
  ASSERT_EQ(stored.stored().variables_size(), 2);  // a plain variable is its rank's alone
  EXPECT_EQ(stored.stored().variables(0).kind(), local::VALUE);
  EXPECT_EQ(stored.stored().variables(0).count(), 1u);
  const local::Variable& array = stored.stored().variables(1);
  EXPECT_EQ(array.name(), "u");
  EXPECT_EQ(array.shape_size(), 2);
  EXPECT_EQ(array.shape(0), 4u);
  EXPECT_EQ(array.count(), 0u);
  ASSERT_EQ(array.box_count_size(), 2);
  EXPECT_EQ(array.box_count(0) + array.box_count(1) + array.box_start(0) + array.box_start(1), 0u);
}

}  // namespace
}  // namespace cairn
