// A restore from a prefix that is out of reach for a while: it waits, and does not go on from something older.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <string>

#include "tests/daemon/core/fake_client.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kForGood = 1'000'000;

class PrefixAwayTest : public ::testing::Test {
 protected:
  PrefixAwayTest() {
    harness_.clocks.steady = [this] { return SteadyTime(milliseconds(steady_ms_)); };
  }
  void TearDown() override { prefix_disk_.SetHook(nullptr); }

  // Two checkpoints on the prefix, and a node that has neither.
  void SetUp() override {
    ASSERT_TRUE(harness_.Start().ok());
    {
      FakeClient client(harness_);
      ASSERT_SAYS(client.Open({}), local::OK, "");
      for (const std::uint64_t step : {1, 2}) {
        older_ = newer_;
        newer_ = client.Checkpoint(step, memory_).committed().dataset();
        ASSERT_SAYS(client.Wait(newer_, local::PREFIX), local::OK, "");
      }
    }
    StartWithEmptyCache("/another_node");
    file_ = harness_.PrefixFile(newer_, 0);
    prefix_disk_.SetHook([this](FakeOp op, const std::string& path) {
      if (op == FakeOp::kOpen && path == file_) ++tries_;
    });
  }
  void StartWithEmptyCache(const std::string& name) {
    harness_.Stop();
    harness_.config.cache.path = harness_.root() + name;
    ASSERT_TRUE(harness_.Start().ok());
  }
  // Until the file has been opened so many times more.
  bool AwaitTries(int more) {
    return harness_.Eventually([this, until = tries_ + more] { return tries_ >= until; });
  }
  // Of the newer one, which begins while everything but its file can be read, and goes on while nothing can.
  std::future<FakeClient::Restored> SendRestore(FakeClient& client, Memory& back, std::uint32_t deadline_ms = 0) {
    prefix_disk_.FailOn({.path_part = file_, .times = kForGood});
    const std::uint64_t call = client.SendRestore(newer_, back, deadline_ms);
    EXPECT_TRUE(AwaitTries(1));
    prefix_disk_.FailOn({.path_part = harness_.prefix(), .times = kForGood});
    EXPECT_TRUE(AwaitTries(2));  // then it has found out
    return std::async(std::launch::async, [this, &client, &back, call] { return client.TakeRestore(call, back); });
  }
  // Its file cannot be read, while the prefix is in reach.
  void ExpectNewerGivesWay(FakeClient& client, Memory& back) {
    prefix_disk_.FailOn({.path_part = file_, .times = kForGood});
    const std::uint64_t call = client.SendRestore(newer_, back);
    auto restored = std::async(std::launch::async, [&] { return client.TakeRestore(call, back); });
    EXPECT_TRUE(AwaitTries(2));
    Pass(std::chrono::seconds(10));
    ASSERT_EQ(restored.get().code, local::RETRY);
  }
  void Pass(milliseconds time) { steady_ms_ += time.count(); }

  FakeDisk prefix_disk_;
  CoreHarness harness_{nullptr, &prefix_disk_};
  const Memory memory_ = {ValueOf(1, "step", 7), PlainOf(2, RandomBytes(2, 3'000'000))};
  DatasetId older_ = 0, newer_ = 0;
  std::string file_;
  std::atomic<int> tries_ = 0;
  std::atomic<std::int64_t> steady_ms_ = 1'000'000;
};

TEST_F(PrefixAwayTest, IsWaitedForHoweverLongWithinTheDeadline) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  Memory back = Blank(memory_);
  auto restored = SendRestore(client, back);
  for (int i = 0; i < 3; ++i) {
    Pass(std::chrono::seconds(10));
    EXPECT_TRUE(AwaitTries(2));
  }
  prefix_disk_.ClearFaults();
  const FakeClient::Restored one = restored.get();
  EXPECT_EQ(one.code, local::OK) << one.message;
  EXPECT_EQ(one.tier, local::TIER_PREFIX);
  EXPECT_TRUE(back[1].bytes == memory_[1].bytes);
}

TEST_F(PrefixAwayTest, WhenTheDeadlineIsOverTheSameDatasetIsStillTheLatest) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  Memory back = Blank(memory_);
  EXPECT_EQ(SendRestore(client, back, /*deadline_ms=*/2000).get().code, local::DEADLINE_EXCEEDED);
  prefix_disk_.ClearFaults();
  EXPECT_EQ(client.Latest().latest().dataset(), newer_);
  EXPECT_EQ(client.Restore(newer_, back).code, local::OK);
  EXPECT_TRUE(back[1].bytes == memory_[1].bytes);
}

// A bad disk below it, for example.
TEST_F(PrefixAwayTest, AFileThatCannotBeReadWhileThePrefixIsInReachGivesWayToAnOlderCheckpoint) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  Memory back = Blank(memory_);
  ASSERT_NO_FATAL_FAILURE(ExpectNewerGivesWay(client, back));
  EXPECT_EQ(client.Latest().latest().dataset(), older_);
  EXPECT_EQ(client.Restore(older_, back).code, local::OK);
}

TEST_F(PrefixAwayTest, WhatGaveWayToAnOlderCheckpointIsRestoredByItsNumberWhenItCanBeReadAgain) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  Memory back = Blank(memory_);
  ASSERT_NO_FATAL_FAILURE(ExpectNewerGivesWay(client, back));
  prefix_disk_.ClearFaults();
  EXPECT_EQ(client.Latest().latest().dataset(), older_) << "it stays passed over";
  const FakeClient::Restored one = client.Restore(newer_, back);
  EXPECT_EQ(one.code, local::OK) << one.message;
  EXPECT_TRUE(back[1].bytes == memory_[1].bytes);
}

TEST_F(PrefixAwayTest, TheApplicationsOwnFilesAreWaitedForAsWell) {
  const std::string bytes = RandomBytes(3, 100'000);
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    const local::Reply begun = client.OutputBegin(3);
    ASSERT_SAYS(begun, local::OK, "");
    newer_ = begun.output_begin().dataset();
    const local::Reply routed = client.RouteFile("out/a");
    ASSERT_SAYS(routed, local::OK, "");
    harness_.Write(harness_.cache_disk(), routed.route_file().path(), bytes);
    ASSERT_SAYS(client.OutputEnd(), local::OK, "");
    ASSERT_SAYS(client.Wait(newer_, local::PREFIX), local::OK, "");
  }
  ASSERT_NO_FATAL_FAILURE(StartWithEmptyCache("/a_third_node"));
  file_ = harness_.prefix() + "/out/a";
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  Memory none;
  auto restored = SendRestore(client, none);
  Pass(std::chrono::seconds(10));
  EXPECT_TRUE(AwaitTries(2));
  prefix_disk_.ClearFaults();
  const FakeClient::Restored one = restored.get();
  ASSERT_EQ(one.code, local::OK) << one.message;
  EXPECT_EQ(one.tier, local::TIER_PREFIX);
  const local::Reply path = client.RestartFile(newer_, "out/a");
  ASSERT_SAYS(path, local::OK, "");
  EXPECT_TRUE(harness_.Read(harness_.cache_disk(), path.restart_file().path()) == bytes);
}

}  // namespace
}  // namespace cairn
