// cache.reserve: what the cache leaves free of its file system, whoever else fills it.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "tests/daemon/core/fake_client.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class ReserveTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kReserve = 4 * kMiB;

  ReserveTest() : disk_({.capacity = 12 * kMiB}) {
    harness_.config.cache.reserve = kReserve;
    harness_.config.cache.bypass = false;
  }
  void Start() {
    ASSERT_TRUE(harness_.Start().ok());
    client_ = std::make_unique<FakeClient>(harness_);
    ASSERT_SAYS(client_->Open({}), local::OK, "");
  }
  void TearDown() override { client_ = nullptr; }
  std::uint64_t Free() { return disk_.FreeBytes("/").value_or(0); }

  FakeDisk disk_;
  CoreHarness harness_{&disk_, nullptr};
  std::unique_ptr<FakeClient> client_;
  const Memory memory_ = {PlainOf(1, RandomBytes(1, 2 * kMiB))};
};

TEST_F(ReserveTest, TheCacheLeavesItFreeWhateverItMayHave) {
  Start();
  for (std::uint64_t step = 1; step <= 8; ++step) {
    const local::Reply done = client_->Checkpoint(step, memory_);
    ASSERT_SAYS(done, local::OK, "");
    ASSERT_SAYS(client_->Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
    EXPECT_TRUE(harness_.Eventually([&] { return Free() >= kReserve; })) << "step " << step << ": " << Free();
  }
  EXPECT_GE(harness_.Status().cache_bytes_used(), 4 * kMiB) << "the rest is there to be used";
}

TEST_F(ReserveTest, WhereOthersFillTheFileSystemNothingMoreIsTakenUntilTheyLeaveIt) {
  harness_.Write(disk_, "/others", RandomBytes(2, 9 * kMiB));
  Start();
  EXPECT_SAYS(client_->Begin(1, memory_), local::RESOURCE_EXHAUSTED, "cache.reserve leaves 4194304 bytes");
  EXPECT_TRUE(harness_.Warned("cache.reserve is 4194304"));
  ASSERT_TRUE(disk_.Remove("/others").ok());
  EXPECT_TRUE(harness_.Eventually([&] { return CodeOfReply(client_->Checkpoint(1, memory_)) == local::OK; }));
  EXPECT_GE(Free(), kReserve);
}

TEST_F(ReserveTest, OthersThatComeLaterCount) {
  Start();
  ASSERT_SAYS(client_->Checkpoint(1, memory_), local::OK, "");
  harness_.Write(disk_, "/others", RandomBytes(2, 6 * kMiB));
  EXPECT_TRUE(harness_.Eventually([&] { return harness_.Warned("cache.reserve is 4194304"); }));
  EXPECT_SAYS(client_->Begin(2, memory_), local::RESOURCE_EXHAUSTED, "cache.reserve");
}

TEST_F(ReserveTest, WhatNeedsNoRoomIsNotRefused) {
  Start();
  ASSERT_SAYS(client_->Checkpoint(1, memory_), local::OK, "");
  harness_.Write(disk_, "/others", RandomBytes(2, 6 * kMiB));
  EXPECT_TRUE(harness_.Eventually([&] { return harness_.Warned("cache.reserve is 4194304"); }));
  const local::Reply done = client_->Checkpoint(2, {});
  ASSERT_SAYS(done, local::OK, "");
  EXPECT_SAYS(client_->Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
}

TEST_F(ReserveTest, CanBeChangedWhileRunning) {
  harness_.Write(disk_, "/others", RandomBytes(2, 9 * kMiB));
  Start();
  EXPECT_SAYS(client_->Begin(1, memory_), local::RESOURCE_EXHAUSTED, "cache.reserve");
  Config changed = harness_.config;
  changed.cache.reserve = 0;
  harness_.core().Reload(changed);
  EXPECT_TRUE(harness_.Eventually([&] { return CodeOfReply(client_->Checkpoint(1, memory_)) == local::OK; }));
  changed.cache.reserve = kReserve;
  harness_.core().Reload(changed);
  EXPECT_TRUE(harness_.Eventually([&] { return harness_.Warned("cache.reserve is 4194304"); }));
}

// --- Two ranks ---

class ReserveOfTwoTest : public ReserveTest {
 protected:
  void StartTwo() {
    ASSERT_TRUE(harness_.Start().ok());
    ranks_ = std::make_unique<Ranks>(harness_, 2, "job.1");
  }
  void TearDown() override {
    ranks_ = nullptr;
    ReserveTest::TearDown();
  }
  std::unique_ptr<Ranks> ranks_;
  const Memory half_ = {PlainOf(1, RandomBytes(1, kMiB))}, other_half_ = {PlainOf(1, RandomBytes(2, kMiB))};
};

TEST_F(ReserveOfTwoTest, BothTogetherLeaveItFree) {
  StartTwo();
  for (std::uint64_t step = 1; step <= 10; ++step) {
    const DatasetId id = ranks_->Checkpoint(step, {half_, other_half_});
    ASSERT_NE(id, 0u) << "step " << step;
    ASSERT_SAYS((*ranks_)[0].Wait(id, local::LOCAL), local::OK, "");
    EXPECT_TRUE(harness_.Eventually([&] { return Free() >= kReserve; })) << "step " << step << ": " << Free();
  }
  EXPECT_GE(harness_.Status().cache_bytes_used(), 4 * kMiB) << "the rest is there to be used";
}

// The first rank's bytes count as soon as it has begun, though nothing of them is on the disk yet.
TEST_F(ReserveOfTwoTest, TheSecondIsRefusedWhatTheFirstLeavesNoRoomFor) {
  StartTwo();
  const Memory five = {PlainOf(1, RandomBytes(1, 5 * kMiB))};
  ASSERT_SAYS((*ranks_)[0].Begin(1, five), local::OK, "");
  EXPECT_SAYS((*ranks_)[1].Begin(1, five), local::RESOURCE_EXHAUSTED, "cache.reserve leaves 4194304 bytes");
  (*ranks_)[0].Abort("there is no room for both");
  EXPECT_TRUE(harness_.Eventually([&] {
    return CodeOfReply((*ranks_)[0].Checkpoint(2, half_)) == local::OK &&
           CodeOfReply((*ranks_)[1].Checkpoint(2, other_half_)) == local::OK;
  }));
  EXPECT_GE(Free(), kReserve);
}

TEST_F(ReserveOfTwoTest, TheSecondIsRefusedNothingIfItAsksForNothing) {
  StartTwo();
  ASSERT_SAYS((*ranks_)[0].Begin(1, half_), local::OK, "");
  harness_.Write(disk_, "/others", RandomBytes(2, 9 * kMiB));
  EXPECT_TRUE(harness_.Eventually([&] { return harness_.Warned("cache.reserve is 4194304"); }));
  EXPECT_SAYS((*ranks_)[1].Begin(1, {}), local::OK, "");
  (*ranks_)[0].Fill(half_);
  ASSERT_SAYS((*ranks_)[0].Commit(), local::OK, "");
  const local::Reply done = (*ranks_)[1].Commit();
  ASSERT_SAYS(done, local::OK, "");
  EXPECT_SAYS((*ranks_)[0].Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
}

}  // namespace
}  // namespace cairn
