// Runs whose prefix is gone: how long the cache keeps what it has of them, and who gets the room then.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "tests/daemon/core/fake_client.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

constexpr std::uint64_t kMiB = 1 << 20;

// The cache has room for two datasets, and nothing is written past it.
class LostRunsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    daemon_.config.cache.bytes_max = 5 * kMiB;
    daemon_.config.cache.bypass = false;
    daemon_.config.cache.grace_ms = 3'600'000;
    daemon_.config.flush.retry_ms_min = 1;
    daemon_.config.flush.retry_ms_max = 5;
    // Time passes where the wall clock is asked, on both clocks: nobody sees it pass between the one and the other.
    daemon_.clocks.wall = [this] {
      seen_ = passed_.load();
      return std::chrono::system_clock::now() + seen_.load() + set_forward_.load();
    };
    daemon_.clocks.steady = [this] { return std::chrono::steady_clock::now() + seen_.load(); };
    ASSERT_TRUE(daemon_.Start().ok());
  }

  std::string dead() const { return daemon_.root() + "/dead"; }
  std::unique_ptr<FakeClient> Open(const std::string& prefix) {
    auto client = std::make_unique<FakeClient>(daemon_);
    EXPECT_SAYS(client->Open({.key = "job.of." + prefix + std::to_string(++keys_), .prefix = prefix}), local::OK, "");
    return client;
  }
  DatasetId Make(FakeClient& client, std::uint64_t step) {
    const local::Reply done = client.Checkpoint(step, memory_);
    EXPECT_SAYS(done, local::OK, "");
    EXPECT_SAYS(client.Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
    return done.committed().dataset();
  }
  // A run with one checkpoint in the cache only; its application has closed.
  DatasetId LeaveOne() {
    const auto client = Open(dead());
    const DatasetId id = Make(*client, 1);
    EXPECT_SAYS(client->Close(), local::OK, "");
    run_ = client->run();
    return id;
  }
  admin::RunStatus StatusOfDead() {
    const admin::StatusReply status = daemon_.Status();
    for (const admin::RunStatus& run : status.runs()) {
      if (run.run() == run_) return run;
    }
    return {};
  }
  bool IsCached() {
    for (const admin::DatasetRow& row : daemon_.List()) {
      if (row.run() == run_ && row.in_cache()) return true;
    }
    return false;
  }
  // What is still written there, as the lease's end is, may come in between.
  void RemoveDead() {
    ASSERT_TRUE(daemon_.Eventually([this] { return RemoveTree(prefix_disk_, dead()).ok(); }));
  }
  // The flush, which the run is asked for, finds out.
  void Lose(DatasetId id) {
    RemoveDead();
    ASSERT_EQ(daemon_.Flush(id, run_).code(), local::OK);
    ASSERT_TRUE(daemon_.Eventually([this] { return StatusOfDead().lost_since_us() != 0; }));
  }

  // Since the start. A run that is lost is looked at again and again; the look that time passed over seems to hang.
  void Pass(std::chrono::steady_clock::duration time) {
    passed_ = time;
    ASSERT_TRUE(daemon_.Eventually([this, time] {
      const bool has_passed = seen_.load() == time;
      const admin::RunStatus dead = StatusOfDead();
      return dead.lost_since_us() == 0 || (has_passed && dead.hung_since_us() == 0);
    }));
  }

  std::atomic<std::chrono::steady_clock::duration> passed_{}, seen_{}, set_forward_{};
  int keys_ = 0;
  std::string run_;
  const Memory memory_ = {PlainOf(1, RandomBytes(1, 2 * kMiB))};
  FakeDisk prefix_disk_;
  CoreHarness daemon_{nullptr, &prefix_disk_};
};

TEST_F(LostRunsTest, WhatTheCacheHasOfItGoesOnceItsTimeIsOverAndRoomIsNeeded) {
  Lose(LeaveOne());
  EXPECT_TRUE(daemon_.Warned("it is not at " + dead() + " any more; 1 datasets, 2.0 MiB, are in the cache only"));
  EXPECT_EQ(StatusOfDead().flushes_size(), 0) << "it is not tried again for each dataset";
  const auto client = Open(daemon_.prefix());
  Make(*client, 1);
  EXPECT_SAYS(client->Checkpoint(2, memory_), local::RESOURCE_EXHAUSTED, "goes when cache.grace is over");
  Pass(hours(2));
  EXPECT_TRUE(IsCached()) << "nobody needs its room";
  Make(*client, 3);
  EXPECT_FALSE(IsCached());
  EXPECT_TRUE(daemon_.Warned("is removed from the cache, which alone had it"));
}

TEST_F(LostRunsTest, ItsTimeGoesOnOverARestartOfTheDaemon) {
  Lose(LeaveOne());
  const std::int64_t since = StatusOfDead().lost_since_us();
  Pass(minutes(40));
  daemon_.Restart();
  ASSERT_TRUE(daemon_.Eventually([this] { return StatusOfDead().lost_since_us() != 0; })) << "nothing asks it to flush";
  EXPECT_EQ(StatusOfDead().lost_since_us(), since);
  Pass(minutes(80));
  const auto client = Open(daemon_.prefix());
  Make(*client, 1);
  Make(*client, 2);
  EXPECT_FALSE(IsCached());
}

TEST_F(LostRunsTest, OneThatComesBackIsFlushedAndNothingIsForgotten) {
  const DatasetId id = LeaveOne();
  const std::string away = dead() + ".away";
  ASSERT_TRUE(prefix_disk_.Rename(dead(), away).ok());
  ASSERT_EQ(daemon_.Flush(id, run_).code(), local::OK);
  ASSERT_TRUE(daemon_.Eventually([this] { return StatusOfDead().lost_since_us() != 0; }));
  Pass(hours(2));
  ASSERT_TRUE(prefix_disk_.Rename(away, dead()).ok());
  ASSERT_TRUE(daemon_.Eventually([this] { return StatusOfDead().lost_since_us() == 0; }));
  EXPECT_TRUE(daemon_.Eventually([this] {
    for (const admin::DatasetRow& row : daemon_.List()) {
      if (row.run() == run_ && row.in_prefix()) return true;
    }
    return false;
  }));
}

TEST_F(LostRunsTest, APrefixThatCannotBeAskedIsNotLost) {
  const DatasetId id = LeaveOne();
  prefix_disk_.FailOn({.path_part = "/dead", .times = UINT64_MAX});
  ASSERT_EQ(daemon_.Flush(id, run_).code(), local::OK);
  ASSERT_TRUE(daemon_.Eventually(
      [this] { return StatusOfDead().flushes_size() == 1 && StatusOfDead().flushes(0).state() == "backing off"; }));
  Pass(hours(2));
  const auto client = Open(daemon_.prefix());
  Make(*client, 1);
  EXPECT_SAYS(client->Checkpoint(2, memory_), local::RESOURCE_EXHAUSTED, "goes once it is on the prefix");
  EXPECT_EQ(StatusOfDead().lost_since_us(), 0);
  EXPECT_TRUE(IsCached());
}

TEST_F(LostRunsTest, ARunWhosePrefixWasMadeAnewGivesItsRoomToo) {
  LeaveOne();
  RemoveDead();
  const auto client = Open(dead());  // another run
  ASSERT_TRUE(daemon_.Eventually([this] { return StatusOfDead().lost_since_us() != 0; }));
  Make(*client, 1);
  EXPECT_SAYS(client->Checkpoint(2, memory_), local::RESOURCE_EXHAUSTED, "goes when cache.grace is over");
  Pass(hours(2));
  Make(*client, 3);
  EXPECT_FALSE(IsCached());
}

TEST_F(LostRunsTest, APinnedOneStays) {
  const DatasetId id = LeaveOne();
  RemoveDead();
  ASSERT_EQ(daemon_.Pin(id, true, run_).code(), local::OK);  // and so it is flushed
  ASSERT_TRUE(daemon_.Eventually([this] { return StatusOfDead().lost_since_us() != 0; }));
  Pass(hours(2));
  const auto client = Open(daemon_.prefix());
  Make(*client, 1);
  EXPECT_SAYS(client->Checkpoint(2, memory_), local::RESOURCE_EXHAUSTED, "is pinned");
}

TEST_F(LostRunsTest, AClockThatIsSetForwardEndsNothing) {
  Lose(LeaveOne());
  const std::int64_t until = StatusOfDead().kept_until_us();
  constexpr std::int64_t kDayUs = 86'400'000'000;
  set_forward_ = hours(24);
  EXPECT_TRUE(daemon_.Eventually([&] { return StatusOfDead().kept_until_us() >= until + kDayUs; }));
  const auto client = Open(daemon_.prefix());
  Make(*client, 1);
  EXPECT_SAYS(client->Checkpoint(2, memory_), local::RESOURCE_EXHAUSTED, "goes when cache.grace is over");
}

TEST_F(LostRunsTest, WithoutAGraceItStaysForGood) {
  daemon_.Stop();
  daemon_.config.cache.grace_ms = 0;
  ASSERT_TRUE(daemon_.Start().ok());
  Lose(LeaveOne());
  EXPECT_TRUE(daemon_.Warned("they stay (cache.grace is 0)"));
  Pass(hours(24 * 365));
  const auto client = Open(daemon_.prefix());
  Make(*client, 1);
  EXPECT_SAYS(client->Checkpoint(2, memory_), local::RESOURCE_EXHAUSTED, "`cairn rm` removes it");
}

}  // namespace
}  // namespace cairn
