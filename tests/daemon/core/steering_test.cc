// Told to stop: the same to all ranks. daemon/core/steering.cc; SCR specification, 7.2, 7.3, 12.7.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "tests/daemon/core/gate.h"
#include "tests/daemon/core/steering_fixture.h"

namespace cairn {
namespace {

using namespace std::chrono_literals;

TEST_F(SteeringTest, WithoutConditionsAndSettingsTheAnswerIsNo) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  for (std::uint64_t number = 1; number < 5; ++number) {
    EXPECT_FALSE(ExitSays(client, number));
    EXPECT_FALSE(NeedSays(client, number));
    ASSERT_NE(CheckpointFor(client, number, 1s), 0u);
    Pass(1h);
  }
  EXPECT_SAYS(Exit(client, 0), local::INVALID_ARGUMENT, "from 1");
}

TEST_F(SteeringTest, AConditionHoldsForBothQuestionsAndSaysWhy) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  EXPECT_FALSE(ExitSays(client, 1));
  Halt([](scr::Halt& halt) { halt.reason = "maintenance"; });
  EXPECT_TRUE(ExitSays(client, 2, "maintenance"));
  EXPECT_TRUE(NeedSays(client, 1));
  Halt([](scr::Halt& halt) { halt.reason = ""; });
  EXPECT_FALSE(ExitSays(client, 3)) << "it was taken back";
  Halt([](scr::Halt& halt) { halt.reason = scr::kFinalizeCalled; });
  EXPECT_FALSE(ExitSays(client, 4)) << "the last launch ended: no reason to stop this one";
  Halt([](scr::Halt& halt) { halt.exit_after_s = kNowS + 3600; });
  EXPECT_FALSE(ExitSays(client, 5));
  Pass(1h);
  EXPECT_TRUE(ExitSays(client, 6, "EXIT_AFTER_TIME"));
}

TEST_F(SteeringTest, AReasonIsToldAsTextWhateverTheFileHas) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  Halt([](scr::Halt& halt) { halt.reason = "W\xc3\xa4rme\n\x1b[31m \xff\xc3\xc0\x80\xed\xa0\x80\xf0\x9f\x94\xa5"; });
  EXPECT_TRUE(ExitSays(client, 1, "W\xc3\xa4rme??[31m ???????\xf0\x9f\x94\xa5"));
  const admin::StatusReply status = harness_.Status();
  EXPECT_EQ(status.runs(0).halt().reason(), "W\xc3\xa4rme??[31m ???????\xf0\x9f\x94\xa5");
  admin::StatusReply parsed;
  EXPECT_TRUE(parsed.ParseFromString(status.SerializeAsString()));
  Halt([](scr::Halt& halt) { halt.reason = std::string(5000, 'x'); });
  const local::Reply reply = Exit(client, 2);
  EXPECT_TRUE(reply.should_exit().yes());
  EXPECT_LT(reply.should_exit().why().size(), 500u);
}

TEST_F(SteeringTest, WhoIsShutOutWhileItAsksIsTold) {
  Ranks ranks(harness_, 2, "job.1");
  Halt([](scr::Halt& halt) { halt.checkpoints_left = 1; });
  ASSERT_SAYS(ranks[0].Checkpoint(1, kMemory), local::OK, "");
  const std::uint64_t asked = SendExit(ranks[0], 1);
  FakeClient other(harness_);
  ASSERT_SAYS(other.Open({.key = "job.2", .takeover = true}), local::OK, "");
  EXPECT_SAYS(ranks[0].Next(asked), local::FENCED, "");
}

TEST_F(SteeringTest, TheEndOfTheAllocationIsWhatTheRanksSay) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.end_time_s = kNowS + 1000}), local::OK, "");
  Halt([](scr::Halt& halt) { halt.halt_seconds = 300; });
  EXPECT_FALSE(ExitSays(client, 1));
  Pass(700s);
  EXPECT_TRUE(ExitSays(client, 2, "TIME_LIMIT"));
  EXPECT_EQ(harness_.Status().runs(0).halt().end_time_s(), kNowS + 1000);
}

TEST_F(SteeringTest, TheFirstRankToAskDecidesForAll) {
  Ranks ranks(harness_, 3, "job.1");
  EXPECT_FALSE(ExitSays(ranks[1], 1));
  EXPECT_FALSE(NeedSays(ranks[1], 1));
  Halt([](scr::Halt& halt) { halt.reason = "enough"; });
  EXPECT_FALSE(ExitSays(ranks[0], 1));
  EXPECT_FALSE(NeedSays(ranks[0], 1));
  EXPECT_TRUE(ExitSays(ranks[0], 2));
  Halt([](scr::Halt& halt) { halt.reason = ""; });
  EXPECT_FALSE(ExitSays(ranks[2], 1));
  EXPECT_TRUE(ExitSays(ranks[2], 2));
  EXPECT_TRUE(ExitSays(ranks[1], 2));
  EXPECT_TRUE(ExitSays(ranks[1], 2)) << "asked again";
  EXPECT_SAYS(Exit(ranks[1], 1), local::FAILED_PRECONDITION, "later ones");
}

TEST_F(SteeringTest, TheFileIsReadAboutOnceASecond) {
  std::atomic<int> opened{0};
  prefix_disk_.SetHook([&](FakeOp op, const std::string& path) {
    if (op == FakeOp::kOpen && path.find("halt.scr") != std::string::npos) ++opened;
  });
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  for (std::uint64_t number = 1; number <= 100; ++number) ExitSays(client, number);
  EXPECT_EQ(opened, 1);
  Pass(999ms);
  ExitSays(client, 101);
  EXPECT_EQ(opened, 1);
  Pass(1ms);
  for (std::uint64_t number = 102; number <= 200; ++number) ExitSays(client, number);
  EXPECT_EQ(opened, 2);
}

// --- Checkpoints left ---

TEST_F(SteeringTest, StopsWithExactlySoManyMoreCheckpoints) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const DatasetId before = CheckpointFor(client, 1, 1s);
  EXPECT_FALSE(ExitSays(client, 1));
  ASSERT_SAYS(client.Wait(before, local::LOCAL), local::OK, "");
  Pass(1s);
  EXPECT_FALSE(ExitSays(client, 10)) << "it has been looked since, so that one is not counted";
  Halt([](scr::Halt& halt) { halt.checkpoints_left = 3; });
  for (std::uint64_t step = 2; step <= 3; ++step) {
    ASSERT_NE(CheckpointFor(client, step, 1s), 0u);
    EXPECT_FALSE(ExitSays(client, 10 + step)) << step;
  }
  ASSERT_NE(CheckpointFor(client, 4, 1s), 0u);
  EXPECT_TRUE(ExitSays(client, 14, "NO_CHECKPOINTS_LEFT"));
  EXPECT_EQ(WholeCheckpoints(), 4);
  EXPECT_EQ(Found().checkpoints_left, 0u);
}

TEST_F(SteeringTest, WhatWasAskedForBeforeACheckpointOrALaunchCountsForItAtOnce) {
  const auto halt = [&](const std::function<void(scr::Halt&)>& change) {  // and no time passes
    ASSERT_TRUE(ChangeHalt(prefix_disk_, harness_.prefix(), change, 10s).ok());
  };
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    EXPECT_FALSE(ExitSays(client, 1));
    halt([](scr::Halt& conditions) { conditions.checkpoints_left = 1; });
    ASSERT_NE(CheckpointFor(client, 1, 0s), 0u);
    EXPECT_TRUE(ExitSays(client, 2, "NO_CHECKPOINTS_LEFT"));
    ASSERT_SAYS(client.Close(), local::OK, "");
  }
  halt([](scr::Halt& conditions) {
    conditions.checkpoints_left.reset();
    conditions.reason = "enough";
  });
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "job.2"}), local::OK, "");
  EXPECT_TRUE(ExitSays(client, 1, "enough"));
}

TEST_F(SteeringTest, ARankWaitsForOthersThatStillCapture) {
  Ranks ranks(harness_, 2, "job.1");
  Halt([](scr::Halt& halt) { halt.checkpoints_left = 1; });
  EXPECT_FALSE(ExitSays(ranks[0], 1));
  ASSERT_SAYS(ranks[0].Checkpoint(1, kMemory), local::OK, "");
  const std::uint64_t asked = SendExit(ranks[0], 2);
  // The other rank is at an earlier question, and gets its answer at once.
  EXPECT_FALSE(ExitSays(ranks[1], 1));
  EXPECT_FALSE(ranks[0].HasReply(asked));
  ASSERT_SAYS(ranks[1].Checkpoint(1, kMemory), local::OK, "");
  EXPECT_TRUE(ExitSays(ranks[1], 2, "NO_CHECKPOINTS_LEFT"));
  EXPECT_TRUE(ranks[0].Next(asked).should_exit().yes());
}

TEST_F(SteeringTest, WhatARankHasNotBegunItDoesNotWaitFor) {
  Ranks ranks(harness_, 2, "job.1");
  Halt([](scr::Halt& halt) { halt.checkpoints_left = 1; });
  ASSERT_SAYS(ranks[0].Checkpoint(1, kMemory), local::OK, "");
  const std::uint64_t asked = SendExit(ranks[0], 1);
  EXPECT_FALSE(ExitSays(ranks[1], 1)) << "it asks before it comes to the checkpoint";
  EXPECT_FALSE(ranks[0].Next(asked).should_exit().yes()) << "decided by the other";
  ASSERT_SAYS(ranks[1].Checkpoint(1, kMemory), local::OK, "");
  EXPECT_TRUE(ExitSays(ranks[1], 2));
  EXPECT_TRUE(ExitSays(ranks[0], 2));
}

TEST_F(SteeringTest, WhatARankHasNotHandedOverItDoesNotWaitFor) {
  Ranks ranks(harness_, 2, "job.1");
  Halt([](scr::Halt& halt) { halt.checkpoints_left = 1; });
  ASSERT_SAYS(ranks[0].Begin(1, kMemory), local::OK, "");
  ASSERT_SAYS(ranks[1].Checkpoint(1, kMemory), local::OK, "");
  EXPECT_FALSE(ExitSays(ranks[0], 1)) << "it asks while its own checkpoint is open";
}

TEST_F(SteeringTest, AFailedCheckpointDoesNotCount) {
  Ranks ranks(harness_, 2, "job.1");
  Halt([](scr::Halt& halt) { halt.checkpoints_left = 1; });
  ASSERT_SAYS(ranks[0].Checkpoint(1, kMemory), local::OK, "");
  const std::uint64_t asked = SendExit(ranks[0], 1);
  ASSERT_SAYS(ranks[1].Begin(1, kMemory), local::OK, "");
  ASSERT_SAYS(ranks[1].Abort("cannot"), local::OK, "");
  EXPECT_FALSE(ranks[0].Next(asked).should_exit().yes());
  EXPECT_EQ(Found().checkpoints_left, 1u);
}

TEST_F(SteeringTest, ALostRankLetsTheOthersGoOn) {
  Ranks ranks(harness_, 2, "job.1");
  Halt([](scr::Halt& halt) { halt.checkpoints_left = 1; });
  ASSERT_SAYS(ranks[0].Checkpoint(1, kMemory), local::OK, "");
  const std::uint64_t asked = SendExit(ranks[0], 1);
  ranks[1].Drop();
  EXPECT_FALSE(ranks[0].Next(asked).should_exit().yes());
}

TEST_F(SteeringTest, ACheckpointThatDoesNotSettleIsWaitedForNoLongerThanTheDeadline) {
  Gate gate(FakeOp::kSync, "Ckpt");
  cache_disk_.SetHook(gate.hook());
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  Halt([](scr::Halt& halt) { halt.checkpoints_left = 1; });
  ASSERT_SAYS(client.Checkpoint(1, kMemory), local::OK, "");
  const local::Reply reply = Exit(client, 1, /*deadline_ms=*/80);
  EXPECT_SAYS(reply, local::OK, "");
  EXPECT_FALSE(reply.should_exit().yes());
  gate.Open();
  ASSERT_TRUE(harness_.Eventually([&] { return Found().checkpoints_left == 0u; }));
  EXPECT_TRUE(harness_.Eventually([&, number = 2]() mutable { return ExitSays(client, ++number); }));
}

TEST_F(SteeringTest, FilesThatAreACheckpointCountAndOutputsDoNot) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  Halt([](scr::Halt& halt) { halt.checkpoints_left = 1; });
  ASSERT_SAYS(client.OutputBegin(1, /*checkpoint=*/false, /*output=*/true), local::OK, "");
  const local::Reply output = client.OutputEnd();
  ASSERT_SAYS(client.Wait(output.committed().dataset(), local::LOCAL), local::OK, "");
  EXPECT_FALSE(ExitSays(client, 1));
  ASSERT_SAYS(client.OutputBegin(2), local::OK, "");
  ASSERT_SAYS(client.OutputEnd(), local::OK, "");
  EXPECT_TRUE(ExitSays(client, 2, "NO_CHECKPOINTS_LEFT"));
}

TEST_F(SteeringTest, NoFileIsMadeWhereNothingIsCountedDown) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const DatasetId id = CheckpointFor(client, 1, 1s);
  ASSERT_SAYS(client.Wait(id, local::LOCAL), local::OK, "");
  EXPECT_FALSE(ExitSays(client, 1));
  EXPECT_FALSE(harness_.IsThere(prefix_disk_, harness_.prefix() + "/.scr/halt.scr"));
}

// --- A prefix in trouble ---

TEST_F(SteeringTest, AHangingPrefixHangsNobody) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  Halt([](scr::Halt& halt) { halt.reason = "enough"; });
  EXPECT_TRUE(ExitSays(client, 1));
  Gate gate(FakeOp::kOpen, "halt.scr");
  prefix_disk_.SetHook(gate.hook());
  Pass(1s);
  EXPECT_TRUE(Exit(client, 2, /*deadline_ms=*/80).should_exit().yes()) << "as last known";
  ASSERT_TRUE(harness_.Eventually([&] { return harness_.Warned("does not answer"); }));
  for (std::uint64_t number = 3; number < 50; ++number) EXPECT_TRUE(ExitSays(client, number));
  EXPECT_EQ(Warnings("does not answer"), 1);
  prefix_disk_.SetHook(nullptr);
  gate.Open();
  ASSERT_TRUE(ChangeHalt(
                  prefix_disk_, harness_.prefix(), [](scr::Halt& halt) { halt.reason = ""; }, 10s)
                  .ok());
  EXPECT_TRUE(harness_.Eventually([&, number = 50]() mutable {
    Pass(1s);
    return !ExitSays(client, ++number);
  }));
}

TEST_F(SteeringTest, ADamagedFileIsReportedOnceAndChangesNothing) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  Halt([](scr::Halt& halt) { halt.reason = "enough"; });
  EXPECT_TRUE(ExitSays(client, 1));
  prefix_disk_.FlipBit(harness_.prefix() + "/.scr/halt.scr", 8 * 20);
  for (std::uint64_t number = 2; number < 5; ++number) {
    Pass(1s);
    EXPECT_TRUE(ExitSays(client, number));
  }
  EXPECT_TRUE(harness_.Warned("halt.scr"));
  EXPECT_NE(harness_.Status().runs(0).halt().error().find("halt.scr"), std::string::npos);
  EXPECT_EQ(Warnings("halt.scr"), 1);
}

TEST_F(SteeringTest, AFileThatCannotBeReadHoldsNobodyUpThatCountsCheckpoints) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  Halt([](scr::Halt& halt) { halt.checkpoints_left = 1; });
  EXPECT_FALSE(ExitSays(client, 1));
  prefix_disk_.FailOn({.op = FakeOp::kOpen, .path_part = "halt.scr", .times = 1'000'000});
  ASSERT_NE(CheckpointFor(client, 1, 0s), 0u);
  EXPECT_FALSE(ExitSays(client, 2));
  prefix_disk_.ClearFaults();
  EXPECT_TRUE(harness_.Eventually([&, number = 2]() mutable {  // taken off when the file can be reached again
    Pass(1s);
    return ExitSays(client, ++number);
  }));
}

}  // namespace
}  // namespace cairn
