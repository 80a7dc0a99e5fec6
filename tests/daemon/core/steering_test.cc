// Told to stop, told to checkpoint: the same to all ranks. daemon/core/steering.cc; SCR specification, 7.2, 7.3, 12.7.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>

#include "storage/kvtree/tree.h"
#include "storage/prefix/halt_file.h"
#include "storage/scr/records.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/gate.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

const Memory kMemory = {ValueOf(1, "step", 7), PlainOf(2, RandomBytes(2, 100'000))};
constexpr std::int64_t kNowS = 2'000'000'000;

std::uint64_t SendExit(FakeClient& client, std::uint64_t number, std::uint32_t deadline_ms = 0) {
  local::Request request;
  request.set_deadline_ms(deadline_ms);
  request.mutable_should_exit()->set_number(number);
  return client.Send(std::move(request));
}

local::Reply Exit(FakeClient& client, std::uint64_t number, std::uint32_t deadline_ms = 0) {
  return client.Next(SendExit(client, number, deadline_ms));
}

local::Reply Need(FakeClient& client, std::uint64_t number) {
  local::Request request;
  request.mutable_need_checkpoint()->set_number(number);
  return client.Ask(std::move(request));
}

ClientOptions On(const std::string& host) {
  ClientOptions options;
  options.peer.host = host;
  return options;
}

class SteeringTest : public ::testing::Test {
 protected:
  SteeringTest() {
    harness_.clocks.steady = [this] { return std::chrono::steady_clock::time_point(milliseconds(steady_ms_)); };
    harness_.clocks.wall = [this] { return std::chrono::system_clock::time_point(milliseconds(wall_ms_)); };
  }
  void SetUp() override { ASSERT_TRUE(harness_.Start().ok()); }

  void Pass(milliseconds time) {
    steady_ms_ += time.count();
    wall_ms_ += time.count();
  }
  // As `cairn halt` does; the daemon sees it at its next look.
  void Halt(const std::function<void(scr::Halt&)>& change) {
    ASSERT_TRUE(ChangeHalt(prefix_disk_, harness_.prefix(), change, 10s).ok());
    Pass(1s);
  }
  scr::Halt Found() {
    const auto halt = ReadHalt(prefix_disk_, harness_.prefix());
    EXPECT_TRUE(halt.ok()) << halt.status();
    return halt.value_or(scr::Halt());
  }
  bool ExitSays(FakeClient& client, std::uint64_t number, const std::string& why = "") {
    const local::Reply reply = Exit(client, number);
    EXPECT_SAYS(reply, local::OK, "");
    EXPECT_TRUE(!reply.should_exit().yes() || reply.should_exit().why().find(why) != std::string::npos)
        << reply.should_exit().why();
    return reply.should_exit().yes();
  }
  bool NeedSays(FakeClient& client, std::uint64_t number) {
    const local::Reply reply = Need(client, number);
    EXPECT_SAYS(reply, local::OK, "");
    EXPECT_EQ(reply.need_checkpoint().yes(), !reply.need_checkpoint().why().empty());
    return reply.need_checkpoint().yes();
  }
  // Holds the application up for `cost`.
  DatasetId CheckpointFor(FakeClient& client, std::uint64_t step, milliseconds cost) {
    EXPECT_SAYS(client.Begin(step, kMemory), local::OK, "");
    EXPECT_TRUE(client.Fill(kMemory));
    Pass(cost);
    const local::Reply done = client.Commit();
    EXPECT_SAYS(done, local::OK, "");
    return done.committed().dataset();
  }
  int Warnings(const std::string& part) {
    const admin::StatusReply status = harness_.Status();
    return static_cast<int>(
        std::count_if(status.warnings().begin(), status.warnings().end(),
                      [&](const std::string& warning) { return warning.find(part) != std::string::npos; }));
  }
  int WholeCheckpoints() {
    int whole = 0;
    for (const admin::DatasetRow& row : harness_.List()) whole += row.level() >= local::LOCAL ? 1 : 0;
    return whole;
  }

  FakeDisk cache_disk_, prefix_disk_;
  CoreHarness harness_{&cache_disk_, &prefix_disk_};
  std::atomic<std::int64_t> steady_ms_{5'000'000}, wall_ms_{kNowS * 1000};
};

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

// --- When a checkpoint is due ---

TEST_F(SteeringTest, ByCountAndByTheRanksEnvironmentInPlaceOfTheConfiguration) {
  harness_.config.checkpoint.every = 2;
  harness_.Restart();
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    for (std::uint64_t number = 1; number < 9; ++number) EXPECT_EQ(NeedSays(client, number), number % 2 == 0);
    ASSERT_SAYS(client.Close(), local::OK, "");
  }
  local::Rhythm rhythm;
  rhythm.set_has_every(true);
  rhythm.set_every(3);
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({.key = "job.2", .rhythm = rhythm}), local::OK, "");
    for (std::uint64_t number = 1; number < 9; ++number) EXPECT_EQ(NeedSays(client, number), number % 3 == 0);
    ASSERT_SAYS(client.Close(), local::OK, "");
  }
  rhythm.set_every(0);
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "job.3", .rhythm = rhythm}), local::OK, "");
  for (std::uint64_t number = 1; number < 9; ++number) EXPECT_FALSE(NeedSays(client, number));
}

TEST_F(SteeringTest, ByTimeSinceTheLastOneBeganAndAfterAReload) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  Pass(1h);
  EXPECT_FALSE(NeedSays(client, 1));
  Config config = harness_.config;
  config.checkpoint.interval_ms = 60'000;
  harness_.core().Reload(config);
  EXPECT_TRUE(NeedSays(client, 2)) << "more than that after the open";
  ASSERT_NE(CheckpointFor(client, 1, 10s), 0u);
  Pass(50s - 1ms);
  EXPECT_FALSE(NeedSays(client, 3));
  Pass(1ms);
  EXPECT_TRUE(NeedSays(client, 4));
}

TEST_F(SteeringTest, ByTheMeasuredCost) {
  harness_.config.checkpoint.overhead_percent = 10;
  harness_.Restart();
  Ranks ranks(harness_, 2, "job.1");
  EXPECT_TRUE(NeedSays(ranks[0], 1)) << "to learn the cost";
  EXPECT_TRUE(NeedSays(ranks[1], 1));
  CheckpointFor(ranks[0], 1, 2s);
  CheckpointFor(ranks[1], 1, 5s);  // the slowest counts
  Pass(87s);
  EXPECT_FALSE(NeedSays(ranks[0], 2)) << "10 of 99 s, with the next one";
  Pass(2s);
  EXPECT_TRUE(NeedSays(ranks[0], 3));
  const admin::RhythmStatus rhythm = harness_.Status().runs(0).rhythm();
  EXPECT_EQ(rhythm.checkpoints(), 1u);
  EXPECT_EQ(rhythm.cost_us(), 5'000'000u);
  EXPECT_EQ(rhythm.cost_total_us(), 5'000'000u);
  EXPECT_EQ(rhythm.elapsed_ms(), 96'000u);
}

TEST_F(SteeringTest, ByMeanTimeBetweenFailuresOfAllNodes) {
  harness_.config.checkpoint.mtbf_ms = 86'400'000;
  harness_.Restart();
  FakeClient one(harness_, On("node1")), two(harness_, On("node2"));
  ASSERT_SAYS(one.Open({.rank = 0, .nranks = 2}), local::OK, "");
  ASSERT_SAYS(two.Open({.rank = 1, .nranks = 2}), local::OK, "");
  EXPECT_TRUE(NeedSays(one, 1)) << "to learn the cost";
  CheckpointFor(one, 1, 60s);
  CheckpointFor(two, 1, 60s);
  const admin::RhythmStatus rhythm = harness_.Status().runs(0).rhythm();
  EXPECT_EQ(rhythm.nodes(), 2u);
  // Young's first term is sqrt(2 * 60 s * 43200 s) = 2277 s; Daly adds less than 2 %.
  EXPECT_GT(rhythm.interval_ms(), 2'277'000u);
  EXPECT_LT(rhythm.interval_ms(), 2'320'000u);
  EXPECT_FALSE(NeedSays(one, 2));
  Pass(milliseconds(rhythm.interval_ms()));
  EXPECT_TRUE(NeedSays(one, 3));
}

TEST_F(SteeringTest, ACheckpointOfFilesCostsTheTimeFromBeginToEnd) {
  harness_.config.checkpoint.overhead_percent = 50;
  harness_.Restart();
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  ASSERT_SAYS(client.OutputBegin(1), local::OK, "");
  Pass(7s);
  ASSERT_SAYS(client.OutputEnd(), local::OK, "");
  ASSERT_SAYS(client.OutputBegin(2, /*checkpoint=*/false, /*output=*/true), local::OK, "");
  Pass(9s);
  ASSERT_SAYS(client.OutputEnd(), local::OK, "");
  const admin::RhythmStatus rhythm = harness_.Status().runs(0).rhythm();
  EXPECT_EQ(rhythm.checkpoints(), 1u);
  EXPECT_EQ(rhythm.cost_us(), 7'000'000u);
}

TEST_F(SteeringTest, NonsenseFromAClientIsNoSetting) {
  local::Rhythm rhythm;
  rhythm.set_has_overhead(true);
  rhythm.set_overhead_percent(std::numeric_limits<double>::quiet_NaN());
  rhythm.set_has_interval(true);
  rhythm.set_interval_ms(UINT64_MAX);
  rhythm.set_has_mtbf(true);
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.end_time_s = INT64_MIN, .rhythm = rhythm}), local::OK, "");
  EXPECT_FALSE(NeedSays(client, UINT64_MAX));
}

// --- Over breaks and ends ---

TEST_F(SteeringTest, AskedAgainOverTheNextStreamTheAnswerIsTheSame) {
  FakeClient client(harness_, {.resumable = true});
  ASSERT_SAYS(client.Open({}), local::OK, "");
  EXPECT_FALSE(ExitSays(client, 1));
  client.Drop();
  Halt([](scr::Halt& halt) { halt.reason = "enough"; });
  FakeClient again(harness_, {.resumable = true});
  ASSERT_SAYS(again.Open({.launch = client.launch(), .token = client.token()}), local::OK, "");
  EXPECT_FALSE(ExitSays(again, 1));
  EXPECT_TRUE(ExitSays(again, 2));
}

TEST_F(SteeringTest, GoesOnAfterARestartOfTheDaemon) {
  harness_.config.checkpoint.every = 4;
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  EXPECT_FALSE(ExitSays(client, 1));
  Halt([](scr::Halt& halt) { halt.checkpoints_left = 1; });
  harness_.Restart();
  FakeClient again(harness_);
  ASSERT_SAYS(again.Open({.launch = client.launch(), .token = client.token()}), local::OK, "");
  EXPECT_TRUE(NeedSays(again, 8));
  EXPECT_FALSE(ExitSays(again, 2));
  ASSERT_NE(CheckpointFor(again, 1, 1s), 0u);
  EXPECT_TRUE(ExitSays(again, 3));
}

TEST_F(SteeringTest, ACleanEndOfAllRanksIsNoted) {
  ASSERT_TRUE(MakeDirectories(prefix_disk_, harness_.prefix() + "/.scr", 0755).ok());
  Ranks ranks(harness_, 2, "job.1");
  ASSERT_SAYS(ranks[0].Close(), local::OK, "");
  EXPECT_EQ(Found().reason, "");
  ASSERT_SAYS(ranks[1].Close(), local::OK, "");
  EXPECT_EQ(Found().reason, scr::kFinalizeCalled);
}

TEST_F(SteeringTest, AnEndWithALostRankIsNotClean) {
  ASSERT_TRUE(MakeDirectories(prefix_disk_, harness_.prefix() + "/.scr", 0755).ok());
  Ranks ranks(harness_, 2, "job.1");
  ranks[0].Drop();
  ASSERT_TRUE(harness_.Eventually([&] { return harness_.Status().runs(0).sessions() == 1; }));
  ASSERT_SAYS(ranks[1].Close(), local::OK, "");
  EXPECT_EQ(Found().reason, "");
}

TEST_F(SteeringTest, ACleanEndLeavesTheUsersReasonAndAPrefixWithoutRecords) {
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    ASSERT_TRUE(harness_.Eventually([&] { return prefix_disk_.Remove(harness_.prefix() + "/.scr/nodes.scr").ok(); }));
    ASSERT_TRUE(prefix_disk_.Remove(harness_.prefix() + "/.scr").ok());
    ASSERT_SAYS(client.Close(), local::OK, "");
    EXPECT_FALSE(harness_.IsThere(prefix_disk_, harness_.prefix() + "/.scr"));
  }
  Halt([](scr::Halt& halt) { halt.reason = "mine"; });
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "job.2"}), local::OK, "");
  ASSERT_SAYS(client.Close(), local::OK, "");
  EXPECT_EQ(Found().reason, "mine");
}

TEST_F(SteeringTest, AHangingPrefixDoesNotKeepTheLastRankFromClosing) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  Gate gate(FakeOp::kAny, "/.scr");
  prefix_disk_.SetHook(gate.hook());
  EXPECT_SAYS(client.Close(), local::OK, "");
  prefix_disk_.SetHook(nullptr);
  gate.Open();
}

TEST_F(SteeringTest, TheNodesFileHasTheNumberOfHosts) {
  FakeClient one(harness_, On("node1")), two(harness_, On("node2")), three(harness_, On("node1"));
  ASSERT_SAYS(one.Open({.rank = 0, .nranks = 3}), local::OK, "");
  ASSERT_SAYS(two.Open({.rank = 1, .nranks = 3}), local::OK, "");
  const std::string path = harness_.prefix() + "/.scr/nodes.scr";
  EXPECT_FALSE(harness_.IsThere(prefix_disk_, path));
  ASSERT_SAYS(three.Open({.rank = 2, .nranks = 3}), local::OK, "");
  ASSERT_TRUE(harness_.Eventually([&] { return harness_.IsThere(prefix_disk_, path); }));
  const auto tree = kvtree::Decode(path, harness_.Read(prefix_disk_, path));
  ASSERT_TRUE(tree.ok()) << tree.status();
  const auto nodes = scr::GetNodes(*tree);
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_EQ(*nodes, 2u);
}

TEST_F(SteeringTest, StatusShowsTheConditions) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  EXPECT_FALSE(harness_.Status().runs(0).has_halt());
  Halt([](scr::Halt& halt) {
    halt.checkpoints_left = 4;
    halt.exit_before_s = kNowS + 5000;
    halt.halt_seconds = 60;
  });
  EXPECT_FALSE(ExitSays(client, 1));
  const admin::HaltStatus halt = harness_.Status().runs(0).halt();
  EXPECT_EQ(halt.why(), "");
  EXPECT_TRUE(halt.counts_checkpoints());
  EXPECT_EQ(halt.checkpoints_left(), 4u);
  EXPECT_EQ(halt.exit_before_s(), kNowS + 5000);
  EXPECT_EQ(halt.halt_seconds(), 60u);
  Pass(5000s);
  EXPECT_NE(harness_.Status().runs(0).halt().why().find("EXIT_BEFORE_TIME"), std::string::npos);
}

}  // namespace
}  // namespace cairn
