// "This restart did not work for me": no restart chooses the dataset any more, whatever happens to the daemon.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "storage/place/prefix/index_tools.h"
#include "storage/place/prefix/prefix.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/gate.h"
#include "tests/daemon/core/scr_writer.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class RejectTest : public ::testing::Test {
 protected:
  void Start() {
    harness_.config.flush.superseded = true;
    ASSERT_OK(harness_.Start());
    Launch();
  }
  void TearDown() override { client_ = nullptr; }
  void Launch() {
    client_ = nullptr;
    client_ = std::make_unique<FakeClient>(harness_);
    ASSERT_SAYS(client_->Open({.key = "job." + std::to_string(++launches_)}), local::OK, "");
  }
  // The power fails: nothing is left but what was synced.
  void Crash() {
    client_ = nullptr;
    for (FakeDisk* disk : {&cache_disk_, &prefix_disk_}) disk->CrashAt(1);
    harness_.Stop();
    for (FakeDisk* disk : {&cache_disk_, &prefix_disk_}) disk->Restart(static_cast<std::uint64_t>(launches_));
    Start();
  }
  static Memory MemoryOf(std::uint64_t step) { return {PlainOf(1, "bytes of step " + std::to_string(step))}; }
  DatasetId Make(std::uint64_t step, local::Level level) {
    const local::Reply done = client_->Checkpoint(step, MemoryOf(step));
    EXPECT_SAYS(done, local::OK, "");
    EXPECT_SAYS(client_->Wait(done.committed().dataset(), level), local::OK, "");
    return done.committed().dataset();
  }
  std::uint64_t LatestStep() {
    const local::Reply latest = client_->Latest();
    return CodeOfReply(latest) == local::OK ? latest.latest().step() : 0;
  }
  // What the next restart gives: its step.
  std::uint64_t Restore() {
    const local::Reply latest = client_->Latest();
    if (CodeOfReply(latest) != local::OK) return 0;
    Memory memory = MemoryOf(latest.latest().step());
    const std::string whole = memory[0].bytes;
    memory = Blank(std::move(memory));
    const FakeClient::Restored restored = client_->Restore(latest.latest().dataset(), memory);
    EXPECT_EQ(restored.code, local::OK) << restored.message;
    EXPECT_EQ(memory[0].bytes, whole);
    tier_ = restored.tier;
    return latest.latest().step();
  }
  PrefixContents Contents() {
    const auto prefix = Prefix::OpenReadOnly(prefix_disk_, harness_.prefix());
    EXPECT_OK(prefix.status());
    const auto contents = (*prefix)->Contents();
    EXPECT_OK(contents.status());
    return contents.ok() ? *contents : PrefixContents();
  }

  FakeDisk cache_disk_, prefix_disk_;
  CoreHarness harness_{&cache_disk_, &prefix_disk_};
  std::unique_ptr<FakeClient> client_;
  local::Tier tier_ = local::TIER_NONE;
  int launches_ = 0;
};

TEST_F(RejectTest, TheSameLaunchGoesOnToTheOneBeforeAndSoDoesTheNextAfterACrash) {
  Start();
  Make(1, local::PREFIX);
  const DatasetId second = Make(2, local::PREFIX);
  Launch();
  ASSERT_EQ(Restore(), 2u);
  ASSERT_SAYS(client_->Reject(second), local::OK, "");
  EXPECT_EQ(Contents().refused, std::set<DatasetId>({second}));
  Crash();
  EXPECT_EQ(Restore(), 1u);
  EXPECT_EQ(tier_, local::TIER_CACHE);
  Launch();
  EXPECT_EQ(Restore(), 1u);
}

TEST_F(RejectTest, TheAgreementOfTheLaunchIsMadeAnew) {
  Start();
  for (const std::uint64_t step : {1, 2, 3}) Make(step, local::PREFIX);
  Launch();
  ASSERT_EQ(Restore(), 3u);
  ASSERT_SAYS(client_->Reject(client_->Latest().latest().dataset()), local::OK, "");
  ASSERT_EQ(Restore(), 2u);
  ASSERT_SAYS(client_->Reject(client_->Latest().latest().dataset()), local::OK, "");
  ASSERT_EQ(Restore(), 1u);
  ASSERT_SAYS(client_->Reject(client_->Latest().latest().dataset()), local::OK, "");
  EXPECT_SAYS(client_->Latest(), local::NOT_FOUND, "no checkpoint to restart from");
}

TEST_F(RejectTest, WhatIsOnlyInTheCacheStaysThereAndIsNotFlushedNorChosenAfterACrash) {
  harness_.config.flush.every = 0;
  Start();
  Make(1, local::LOCAL);
  const DatasetId second = Make(2, local::LOCAL);
  Launch();
  ASSERT_EQ(Restore(), 2u);
  ASSERT_SAYS(client_->Reject(second), local::OK, "");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Restore(), 1u) << i;
    EXPECT_TRUE(harness_.Row(second).in_cache());
    EXPECT_EQ(harness_.Row(second).state(), "rejected");
    EXPECT_SAYS(client_->Wait(second, local::PREFIX), local::SUPERSEDED, "it was rejected");
    Crash();
  }
  Make(3, local::LOCAL);
  Launch();
  EXPECT_EQ(Restore(), 3u);
  ASSERT_EQ(harness_.Flush(second).code(), local::OK);
  EXPECT_FALSE(Contents().datasets.contains(second));
}

// The first checkpoint that needs the room takes it.
TEST_F(RejectTest, WhatIsOnlyInTheCacheLeavesItWhenItsRoomIsNeeded) {
  harness_.config.flush.every = 0;
  harness_.config.cache.keep = 10;
  harness_.config.cache.bytes_max = 3 << 20;
  Start();
  const auto make = [&](std::uint64_t step) {
    const local::Reply done = client_->Checkpoint(step, {PlainOf(1, RandomBytes(step, 900'000))});
    EXPECT_SAYS(done, local::OK, "");
    EXPECT_SAYS(client_->Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
    return done.committed().dataset();
  };
  const DatasetId first = make(1), second = make(2), third = make(3);
  Launch();
  ASSERT_SAYS(client_->Reject(third), local::OK, "");
  make(4);
  EXPECT_FALSE(harness_.Row(third).in_cache());
  EXPECT_TRUE(harness_.Row(first).in_cache());
  EXPECT_TRUE(harness_.Row(second).in_cache());
}

TEST_F(RejectTest, AllRanksMaySayItAndAgainAlsoToTheNextDaemon) {
  harness_.config.flush.superseded = true;
  ASSERT_OK(harness_.Start());
  const std::vector<Memory> memory = {MemoryOf(1), MemoryOf(1)};
  Ranks ranks(harness_, 2, "job.a");
  const DatasetId id = ranks.Checkpoint(1, memory);
  ASSERT_SAYS(ranks[0].Wait(id, local::PREFIX), local::OK, "");
  const std::uint64_t calls[] = {ranks[0].SendReject(id), ranks[1].SendReject(id)};
  for (const Rank rank : {0, 1}) EXPECT_SAYS(ranks[rank].Next(calls[rank]), local::OK, "") << rank;
  EXPECT_SAYS(ranks[0].Reject(id), local::OK, "");
  Crash();
  EXPECT_SAYS(client_->Reject(id), local::OK, "");
  EXPECT_SAYS(client_->Latest(), local::NOT_FOUND, "");
}

TEST_F(RejectTest, WhatCannotBeRestoredCannotBeRejected) {
  Start();
  EXPECT_SAYS(client_->Reject(77), local::NOT_FOUND, "no restorable dataset 77");
  const DatasetId output = client_->OutputBegin(1, /*checkpoint=*/false, /*output=*/true).output_begin().dataset();
  EXPECT_SAYS(client_->Reject(output), local::NOT_FOUND, "");
  FakeClient observer(harness_);
  ASSERT_SAYS(observer.Open({.observer = true}), local::OK, "");
  EXPECT_SAYS(observer.Reject(77), local::FAILED_PRECONDITION, "observer");
}

TEST_F(RejectTest, SomeoneWhoAddsItToTheIndexTakesItBack) {
  Start();
  Make(1, local::PREFIX);
  const DatasetId second = Make(2, local::PREFIX);
  for (const bool pinned : {false, true}) {
    SCOPED_TRACE(pinned);
    ASSERT_EQ(harness_.Pin(second, pinned).code(), local::OK);  // what is pinned stays in the cache
    for (const bool crash : {false, true}) {
      SCOPED_TRACE(crash);
      Launch();
      ASSERT_EQ(Restore(), 2u);
      ASSERT_SAYS(client_->Reject(second), local::OK, "");
      if (crash) Crash();
      EXPECT_EQ(LatestStep(), 1u);
      ASSERT_OK(AddToIndex(prefix_disk_, harness_.prefix(), std::to_string(second)));
      Launch();
      EXPECT_EQ(Restore(), 2u);
      Crash();
      EXPECT_EQ(Restore(), 2u) << "nothing of it is left";
    }
  }
}

TEST_F(RejectTest, AFlushThatWouldBeTriedAgainEnds) {
  harness_.config.flush.every = 1;
  Start();
  Make(1, local::PREFIX);
  prefix_disk_.FailOn({.op = FakeOp::kAny, .path_part = "ckpt.2", .times = UINT64_MAX});
  const DatasetId second = Make(2, local::LOCAL);
  ASSERT_TRUE(harness_.Eventually([&] { return harness_.Warned("flush of dataset " + std::to_string(second)); }));
  Launch();
  ASSERT_EQ(Restore(), 2u);
  ASSERT_SAYS(client_->Reject(second), local::OK, "");
  prefix_disk_.ClearFaults();
  EXPECT_EQ(harness_.Status().runs(0).flushes_size(), 0);
  EXPECT_EQ(Restore(), 1u);
  Crash();
  EXPECT_EQ(Restore(), 1u);
  EXPECT_FALSE(Contents().datasets.contains(second));
}

TEST_F(RejectTest, WhatACommitThatWasUnderWayHasPutThereIsMarked) {
  harness_.config.flush.every = 1;
  Start();
  Make(1, local::PREFIX);
  Gate gate(FakeOp::kLink, "commit.cairn");
  prefix_disk_.SetHook(gate.hook());
  const DatasetId second = Make(2, local::LOCAL);
  gate.AwaitArrival();
  ASSERT_EQ(LatestStep(), 2u);
  const std::uint64_t call = client_->SendReject(second);
  EXPECT_EQ(LatestStep(), 1u);
  EXPECT_FALSE(client_->HasReply(call)) << "it may be on the prefix in a moment";
  gate.Open();
  ASSERT_SAYS(client_->Next(call), local::OK, "");
  prefix_disk_.SetHook(nullptr);
  EXPECT_EQ(Contents().refused, std::set<DatasetId>({second}));
  Crash();
  EXPECT_EQ(Restore(), 1u);
}

TEST_F(RejectTest, WhatThePrefixCannotBeToldIsUnavailableAndToldWhenItComesBack) {
  Start();
  Make(1, local::PREFIX);
  const DatasetId second = Make(2, local::PREFIX);
  Launch();
  ASSERT_EQ(LatestStep(), 2u);
  prefix_disk_.FailOn({.op = FakeOp::kAny, .path_part = "index.changes", .times = UINT64_MAX});
  EXPECT_SAYS(client_->Reject(second), local::UNAVAILABLE, "");
  EXPECT_EQ(LatestStep(), 1u);
  prefix_disk_.ClearFaults();
  EXPECT_TRUE(Contents().refused.empty());
  Crash();  // the next daemon tells it
  EXPECT_EQ(LatestStep(), 1u);
  EXPECT_TRUE(harness_.Eventually([&] { return Contents().refused.contains(second); }));
  EXPECT_SAYS(client_->Reject(second), local::OK, "");
}

TEST_F(RejectTest, ARecordThatCannotBeStoredIsSaid) {
  harness_.config.flush.every = 0;
  Start();
  const DatasetId id = Make(1, local::LOCAL);
  cache_disk_.FailOn({.op = FakeOp::kAny, .path_part = "flush.cairn", .times = UINT64_MAX});
  EXPECT_SAYS(client_->Reject(id), local::UNAVAILABLE, "injected");
  cache_disk_.ClearFaults();
  EXPECT_SAYS(client_->Reject(id), local::OK, "");
  Crash();
  EXPECT_SAYS(client_->Latest(), local::NOT_FOUND, "");
}

TEST_F(RejectTest, RanksThatRestoreItAreToldToAskAgain) {
  harness_.config.flush.superseded = true;
  ASSERT_OK(harness_.Start());
  std::vector<Memory> memory = {MemoryOf(1), MemoryOf(1)};
  Ranks ranks(harness_, 2, "job.a");
  const DatasetId first = ranks.Checkpoint(1, memory), second = ranks.Checkpoint(2, memory);
  for (const DatasetId id : {first, second}) ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  const std::uint64_t call = ranks[0].SendRestore(second, memory[0]);
  ASSERT_SAYS(ranks[1].Reject(second), local::OK, "");
  EXPECT_EQ(ranks[0].TakeRestore(call, memory[0]).code, local::RETRY);
  EXPECT_EQ(ranks[1].Restore(second, memory[1]).code, local::RETRY);
  for (const Rank rank : {0, 1}) EXPECT_EQ(ranks[rank].Latest().latest().dataset(), first) << rank;
  for (const FakeClient::Restored& one : ranks.Restore(first, memory)) EXPECT_EQ(one.code, local::OK) << one.message;
}

// Whoever comes to it as to the latest is told first; who waits for that rank is told with it.
TEST_F(RejectTest, ItIsRestoredByItsNumberWhenAllRanksHaveHeardOfIt) {
  harness_.config.flush.superseded = true;
  ASSERT_OK(harness_.Start());
  const std::vector<Memory> memory = {MemoryOf(1), MemoryOf(1)};
  Ranks ranks(harness_, 2, "job.a");
  const DatasetId first = ranks.Checkpoint(1, memory), second = ranks.Checkpoint(2, memory);
  for (const DatasetId id : {first, second}) ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  ASSERT_SAYS(ranks[0].Reject(second), local::OK, "");
  ASSERT_EQ(ranks[0].Latest().latest().dataset(), first);
  std::vector<Memory> back = {Blank(memory[0]), Blank(memory[1])};
  const std::uint64_t waits = ranks[0].SendRestore(second, back[0]);
  EXPECT_EQ(ranks[1].Restore(second, back[1]).code, local::RETRY);
  EXPECT_EQ(ranks[0].TakeRestore(waits, back[0]).code, local::RETRY);
  for (const FakeClient::Restored& one : ranks.Restore(second, back)) EXPECT_EQ(one.code, local::OK) << one.message;
  for (const Rank rank : {0, 1}) EXPECT_EQ(back[rank][0].bytes, memory[rank][0].bytes) << rank;
  for (const Rank rank : {0, 1}) EXPECT_EQ(ranks[rank].Latest().latest().dataset(), first) << rank;
}

TEST_F(RejectTest, ScrsOwnIsMarkedAsScrDoes) {
  ASSERT_TRUE(MakeDirectories(prefix_disk_, harness_.prefix()).ok());
  PutScr(prefix_disk_, harness_.prefix(), 3, {{"step_3/rank_0.ckpt"}});
  Start();
  ASSERT_EQ(client_->Latest().latest().dataset(), 3u);
  ASSERT_SAYS(client_->Reject(3), local::OK, "");
  EXPECT_SAYS(client_->Latest(), local::NOT_FOUND, "");
  Crash();
  EXPECT_SAYS(client_->Latest(), local::NOT_FOUND, "");
  EXPECT_EQ(Contents().refused, std::set<DatasetId>({3}));
}

// CURRENT was set back to it, and the bound stays when it is rejected: what is older is chosen, nothing newer.
TEST_F(RejectTest, WhatCurrentWasSetBackToIsNotChosenEither) {
  Start();
  Make(1, local::PREFIX);
  const DatasetId second = Make(2, local::PREFIX);
  Make(3, local::PREFIX);
  ASSERT_EQ(harness_.Pin(second, true).code(), local::OK);
  ASSERT_OK(SetIndexCurrent(prefix_disk_, harness_.prefix(), std::to_string(second)));
  Launch();
  ASSERT_EQ(Restore(), 2u);
  ASSERT_SAYS(client_->Reject(second), local::OK, "");
  EXPECT_EQ(Restore(), 1u);
  Crash();
  EXPECT_EQ(Restore(), 1u);
}

}  // namespace
}  // namespace cairn
