// Flushes: which, when, again after what failed, and what is said meanwhile. design.md, "The daemon".
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/flush_fixture.h"
#include "tests/daemon/core/gate.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

class FlushTest : public FlushFixture {
 protected:
  void StartWith(std::uint32_t every) {
    harness_.config.flush.every = every;
    Start();
  }
};

TEST_F(FlushTest, TheRhythmGoesOnAfterARestart) {
  harness_.config.cache.keep = 10;
  harness_.config.flush.superseded = true;
  StartWith(3);
  const DatasetId first = Make(1);
  Make(2);  // goes at the restart: whether the application lives is not known then
  const LaunchId launch = client_->launch();
  const std::string token = client_->token();
  harness_.Restart();
  client_ = std::make_unique<FakeClient>(harness_);
  ASSERT_SAYS(client_->Open({.launch = launch, .token = token}), local::OK, "");
  const DatasetId third = Make(3);
  EXPECT_TRUE(harness_.Eventually([&] { return harness_.Row(third).in_prefix(); }));
  EXPECT_FALSE(harness_.Row(first).in_prefix());
}

TEST_F(FlushTest, EverySoManyThGoesByItself) {
  StartWith(3);
  std::vector<DatasetId> ids;
  for (std::uint64_t step = 1; step <= 6; ++step) {
    ids.push_back(Make(step));
    if (step % 3 == 0) {
      EXPECT_TRUE(harness_.Eventually([&] { return harness_.Row(ids.back()).in_prefix(); }));
    }
  }
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(harness_.Row(ids[i]).in_prefix(), (i + 1) % 3 == 0) << i;
  // Who waits for it gets it all the same.
  EXPECT_SAYS(client_->Wait(ids[4], local::PREFIX), local::OK, "");
}

TEST_F(FlushTest, TheNewestGoesWhenTheApplicationIsGone) {
  StartWith(10);
  Make(1);
  const DatasetId newest = Make(2);
  client_->Drop();
  EXPECT_TRUE(harness_.Eventually([&] { return harness_.Row(newest).in_prefix(); }));
}

TEST_F(FlushTest, ByTheNameOfNobodyNothingGoes) {
  StartWith(0);
  const DatasetId id = Make(1);
  client_->Drop();
  EXPECT_FALSE(harness_.Row(id).in_prefix());
  EXPECT_EQ(harness_.Flush(id).code(), local::OK);  // the command asks by name
  EXPECT_EQ(harness_.Wait(id, local::PREFIX).status().code(), local::OK);
  EXPECT_EQ(harness_.Flush(id + 9).code(), local::NOT_FOUND);
}

TEST_F(FlushTest, AnUnstartedOneOfASupersededCheckpointIsDroppedNamingTheSuccessor) {
  Gate gate(FakeOp::kWrite, "ckpt.");
  prefix_disk_.SetHook(gate.hook());
  harness_.config.flush.parallel = 1;
  StartWith(1);
  const DatasetId first = Make(1);
  gate.AwaitArrival();  // begun: it is not dropped
  const DatasetId second = Make(2), third = Make(3);
  gate.Open();
  EXPECT_SAYS(client_->Wait(third, local::PREFIX), local::OK, "");
  EXPECT_TRUE(harness_.Row(first).in_prefix());
  const local::Reply superseded = client_->Wait(second, local::PREFIX);
  EXPECT_SAYS(superseded, local::SUPERSEDED, "dataset " + std::to_string(third));
  EXPECT_SAYS(client_->Test(second, local::PREFIX), local::SUPERSEDED, "dataset " + std::to_string(third));
  EXPECT_SAYS(client_->Test(second, local::LOCAL), local::OK, "");
  EXPECT_EQ(harness_.Row(second).state(), "superseded");
  EXPECT_EQ(harness_.Flush(second).code(), local::OK);  // unless it is asked for by name
  EXPECT_EQ(harness_.Wait(second, local::PREFIX).status().code(), local::OK);
}

TEST_F(FlushTest, AWaitForThePrefixOrAPinKeepsItFromBeingDropped) {
  Gate gate(FakeOp::kWrite, "ckpt.");
  prefix_disk_.SetHook(gate.hook());
  StartWith(1);
  Make(1);
  gate.AwaitArrival();
  const DatasetId waited = Make(2);
  const std::uint64_t waiting = client_->SendWait(waited, local::PREFIX);
  const DatasetId pinned = Make(3);
  ASSERT_EQ(harness_.Pin(pinned, true).code(), local::OK);
  const DatasetId dropped = Make(4), last = Make(5);
  gate.Open();
  EXPECT_SAYS(client_->Next(waiting), local::OK, "");
  EXPECT_SAYS(client_->Wait(last, local::PREFIX), local::OK, "");
  EXPECT_SAYS(client_->Wait(pinned, local::PREFIX), local::OK, "");
  EXPECT_SAYS(client_->Test(dropped, local::PREFIX), local::SUPERSEDED, "");
}

TEST_F(FlushTest, WithKeepNoneIsDropped) {
  Gate gate(FakeOp::kWrite, "ckpt.");
  prefix_disk_.SetHook(gate.hook());
  harness_.config.flush.superseded = true;
  StartWith(1);
  std::vector<DatasetId> ids = {Make(1)};
  gate.AwaitArrival();
  for (std::uint64_t step = 2; step <= 4; ++step) ids.push_back(Make(step));
  gate.Open();
  for (DatasetId id : ids) EXPECT_SAYS(client_->Wait(id, local::PREFIX), local::OK, "");
}

struct Trouble {
  std::string name;
  FakeFault fault;
};

class TroubleTest : public FlushTest, public ::testing::WithParamInterface<Trouble> {};

TEST_P(TroubleTest, IsTriedAgainUntilItWorks) {
  StartWith(0);
  const DatasetId id = Make(1);
  prefix_disk_.FailOn(GetParam().fault);
  EXPECT_SAYS(client_->Wait(id, local::PREFIX), local::OK, "");
  EXPECT_TRUE(harness_.Warned("next try in"));
  EXPECT_TRUE(harness_.Warned("injected trouble"));
  Memory back = Blank(memory_);
  EXPECT_EQ(client_->Restore(id, back).code, local::OK);
}

INSTANTIATE_TEST_SUITE_P(
    Each, TroubleTest,
    ::testing::Values(
        Trouble{"NoSpace",
                {.op = FakeOp::kWrite,
                 .path_part = "ckpt.",
                 .times = 3,
                 .status = absl::ResourceExhaustedError("injected trouble")}},
        Trouble{"WriteError",
                {.op = FakeOp::kWrite, .path_part = "ckpt.", .status = absl::UnavailableError("injected trouble")}},
        Trouble{"SyncError",
                {.op = FakeOp::kSync, .path_part = "ckpt.", .status = absl::UnavailableError("injected trouble")}},
        Trouble{"RenameError",
                {.op = FakeOp::kRename,
                 .path_part = "ckpt.",
                 .times = 2,
                 .status = absl::UnavailableError("injected trouble")}},
        Trouble{"RecordError",
                {.op = FakeOp::kAny,
                 .path_part = "commit.cairn",
                 .times = 2,
                 .status = absl::UnavailableError("injected trouble")}},
        Trouble{"IndexError",
                {.op = FakeOp::kWrite,
                 .path_part = "index.scr",
                 .times = 2,
                 .status = absl::UnavailableError("injected trouble")}},
        Trouble{"Everything",
                {.op = FakeOp::kAny,
                 .path_part = "/prefix",
                 .times = 9,
                 .status = absl::UnavailableError("injected trouble")}}),
    [](const auto& info) { return info.param.name; });

TEST_F(FlushTest, TheStatusTellsWhatHoldsItUp) {
  harness_.config.flush.retry_ms_min = 60'000;
  harness_.config.flush.retry_ms_max = 120'000;
  StartWith(0);
  const DatasetId id = Make(1);
  prefix_disk_.FailOn({.op = FakeOp::kWrite,
                       .path_part = "ckpt.",
                       .times = UINT64_MAX,
                       .status = absl::ResourceExhaustedError("the quota is used up")});
  const local::Reply expired = client_->Next(client_->SendWait(id, local::PREFIX, 20));
  EXPECT_SAYS(expired, local::DEADLINE_EXCEEDED, "level prefix");
  ASSERT_TRUE(harness_.Eventually([&] {
    const admin::StatusReply status = harness_.Status();
    return status.runs(0).flushes_size() == 1 && status.runs(0).flushes(0).state() == "backing off";
  }));
  const admin::StatusReply status = harness_.Status();
  const admin::FlushStatus& flush = status.runs(0).flushes(0);
  EXPECT_EQ(flush.dataset(), id);
  EXPECT_NE(flush.error().find("the quota is used up"), std::string::npos) << flush.error();
  EXPECT_GT(flush.retry_in_ms(), 0u);
  EXPECT_GT(flush.bytes(), 1'500'000u);
  EXPECT_SAYS(client_->Test(id, local::LOCAL), local::OK, "");
  EXPECT_SAYS(client_->Checkpoint(2, memory_), local::OK, "");  // the application is not bothered
}

TEST_F(FlushTest, WhoAsksForItByNameWaitsForNoPauseAndHearsWhatIsInTheWay) {
  harness_.config.flush.retry_ms_min = harness_.config.flush.retry_ms_max = 3'600'000;
  StartWith(0);
  const DatasetId id = Make(1);
  prefix_disk_.FailOn({.op = FakeOp::kWrite, .path_part = "ckpt.", .times = UINT64_MAX});
  ASSERT_EQ(harness_.Flush(id).code(), local::OK);
  ASSERT_TRUE(harness_.Eventually([&] { return harness_.Warned("next try in 3600000 ms"); }));
  const admin::WaitReply late = harness_.Wait(id, local::PREFIX, 1);
  EXPECT_EQ(late.status().code(), local::DEADLINE_EXCEEDED) << late.status().message();
  EXPECT_NE(late.held_up_by().find("ckpt."), std::string::npos) << late.held_up_by();
  prefix_disk_.ClearFaults();
  ASSERT_EQ(harness_.Flush(id).code(), local::OK);
  EXPECT_EQ(harness_.Wait(id, local::PREFIX).status().code(), local::OK);
}

TEST_F(FlushTest, GoesOnAfterARestartWithoutAnybodyAsking) {
  StartWith(1);
  prefix_disk_.FailOn({.op = FakeOp::kWrite, .path_part = "ckpt.", .times = UINT64_MAX});
  const DatasetId id = Make(1);
  EXPECT_TRUE(harness_.Eventually([&] { return harness_.Warned("next try in"); }));
  client_ = nullptr;
  harness_.Stop();
  prefix_disk_.ClearFaults();
  ASSERT_TRUE(harness_.Start().ok());
  EXPECT_EQ(harness_.Wait(id, local::PREFIX).status().code(), local::OK);
}

TEST_F(FlushTest, WhatIsOnThePrefixIsKnownAfterARestartAlsoWhileThePrefixIsOutOfReach) {
  StartWith(0);
  const DatasetId id = Make(1), pinned = Make(2);
  ASSERT_SAYS(client_->Wait(id, local::PREFIX), local::OK, "");
  ASSERT_EQ(harness_.Pin(pinned, true).code(), local::OK);
  client_ = nullptr;
  harness_.Restart();
  EXPECT_TRUE(harness_.Row(id).in_prefix());
  EXPECT_FALSE(harness_.Row(id).pinned());
  EXPECT_TRUE(harness_.Row(pinned).pinned());
}

TEST_F(FlushTest, KeepLastTakesOlderOnesFromThePrefix) {
  harness_.config.prefix.keep_last = 2;
  harness_.config.prefix.keep_every = 10;
  StartWith(0);
  const DatasetId rhythm = Make(10), pinned = Make(11), first = Make(12), second = Make(13), third = Make(14);
  ASSERT_EQ(harness_.Pin(pinned, true).code(), local::OK);
  for (DatasetId id : {rhythm, pinned, first, second, third}) {
    ASSERT_SAYS(client_->Wait(id, local::PREFIX), local::OK, "");
  }
  EXPECT_TRUE(harness_.Eventually([&] { return !prefix_disk_.Info(harness_.PrefixFile(first, 0)).ok(); }));
  for (DatasetId id : {rhythm, pinned, second, third}) {
    EXPECT_TRUE(prefix_disk_.Info(harness_.PrefixFile(id, 0)).ok()) << id;
  }
  EXPECT_FALSE(harness_.Row(first).in_prefix());
  EXPECT_TRUE(harness_.Row(first).in_cache());
  EXPECT_SAYS(client_->Test(first, local::PREFIX), local::SUPERSEDED, "");  // and it is not flushed again
}

TEST_F(FlushTest, AReloadChangesTheRhythmAtOnce) {
  StartWith(0);
  Make(1);
  const DatasetId newest = Make(2);
  EXPECT_FALSE(harness_.Row(newest).in_prefix());
  Config config = harness_.config;
  config.flush.every = 1;
  harness_.core().Reload(config);
  EXPECT_TRUE(harness_.Eventually([&] { return harness_.Row(newest).in_prefix(); }));
}

TEST_F(FlushTest, ARemovalEndsAFlushAndItDoesNotBeginAgain) {
  Gate gate(FakeOp::kWrite, "ckpt.");
  prefix_disk_.SetHook(gate.hook());
  StartWith(1);
  const DatasetId id = Make(1);
  gate.AwaitArrival();
  EXPECT_EQ(harness_.Remove(id).code(), local::UNAVAILABLE);
  gate.Open();
  EXPECT_TRUE(harness_.Eventually([&] { return harness_.Status().runs(0).flushes_size() == 0; }));
  EXPECT_EQ(harness_.Remove(id).code(), local::OK);
  EXPECT_FALSE(harness_.Row(id).in_prefix());
  EXPECT_SAYS(client_->Test(id, local::LOCAL), local::NOT_FOUND, "removed");
}

// --- On the real file system ---

TEST(FlushToARealPrefixTest, APrefixThatIsGoneIsWaitedForAndNeverMadeAnew) {
  CoreHarness harness;
  ASSERT_TRUE(harness.Start().ok());
  FakeClient client(harness);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const local::Reply done = client.Checkpoint(1, {ValueOf(1, "step", 7)});
  ASSERT_SAYS(done, local::OK, "");
  const DatasetId id = done.committed().dataset();
  ASSERT_SAYS(client.Wait(id, local::LOCAL), local::OK, "");
  std::filesystem::rename(harness.prefix(), harness.root() + "/elsewhere");
  EXPECT_SAYS(client.Next(client.SendWait(id, local::PREFIX, 50)), local::DEADLINE_EXCEEDED, "");
  EXPECT_TRUE(harness.Eventually([&] { return harness.Warned("next try in"); }));
  EXPECT_FALSE(std::filesystem::exists(harness.prefix()));
  std::filesystem::rename(harness.root() + "/elsewhere", harness.prefix());
  EXPECT_SAYS(client.Wait(id, local::PREFIX), local::OK, "");
}

TEST(FlushToARealPrefixTest, ARunWhosePrefixWasMadeAnewIsNotFlushedThere) {
  CoreHarness harness;
  ASSERT_TRUE(harness.Start().ok());
  DatasetId id = 0;
  {
    FakeClient client(harness);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    const local::Reply done = client.Checkpoint(1, {ValueOf(1, "step", 7)});
    ASSERT_SAYS(done, local::OK, "");
    id = done.committed().dataset();
    ASSERT_SAYS(client.Wait(id, local::LOCAL), local::OK, "");
  }
  harness.Stop();
  std::filesystem::remove_all(harness.prefix());
  ASSERT_TRUE(harness.Start().ok());
  {
    FakeClient client(harness);
    ASSERT_SAYS(client.Open({}), local::OK, "");  // makes it anew
  }
  harness.Stop();
  harness.config.flush.every = 1;
  ASSERT_TRUE(harness.Start().ok());
  EXPECT_TRUE(harness.Eventually([&] { return harness.Warned("is history"); }));
  EXPECT_FALSE(std::filesystem::exists(harness.PrefixFile(id, 0)));
  // The one that lives there now is not taken for history, whichever of them the daemon reads first.
  FakeClient client(harness);
  ASSERT_SAYS(client.Open({.key = "job.2"}), local::OK, "");
  const local::Reply done = client.Checkpoint(1, {ValueOf(1, "step", 7)});
  ASSERT_SAYS(done, local::OK, "");
  ASSERT_SAYS(client.Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
  client.Drop();
  harness.Restart();
  EXPECT_TRUE(harness.Eventually(
      [&] { return harness.Wait(done.committed().dataset(), local::PREFIX, 100).status().code() == local::OK; }));
}

}  // namespace
}  // namespace cairn
