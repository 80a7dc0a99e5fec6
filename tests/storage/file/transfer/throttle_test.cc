// The bandwidth that transfers share.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "storage/base/clock.h"
#include "storage/file/transfer/throttle.h"
#include "storage/file/transfer/transfer.h"

namespace cairn {
namespace {

TEST(ThrottleTest, WithoutLimitEverythingGoesAtOnce) {
  Throttle throttle(0);
  std::atomic<bool> stop{false};
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(throttle.Take(UINT64_MAX, stop));
}

TEST(ThrottleTest, WhatIsTakenBeyondTheLimitWaitsUntilItIsLiftedOrStopped) {
  Throttle throttle(1);
  std::atomic<bool> stop{false};
  EXPECT_TRUE(throttle.Take(UINT64_MAX, stop));  // paid for by those that come after, for centuries
  bool lifted = false;
  std::thread waiting([&] { lifted = throttle.Take(1, stop); });
  throttle.SetLimit(0);
  waiting.join();
  EXPECT_TRUE(lifted);
  throttle.SetLimit(1);
  bool taken = true;
  std::thread stopped([&] { taken = throttle.Take(1, stop); });
  stop = true;
  stopped.join();
  EXPECT_FALSE(taken);
}

// So that a transfer that waits for its share is not taken for one that hangs.
TEST(ThrottleTest, ATransferThatWaitsForItsShareSaysSo) {
  Throttle throttle(1);
  TransferProgress progress;
  EXPECT_TRUE(TakeBandwidth(throttle, 1 << 20, progress));  // twelve days at this rate
  EXPECT_FALSE(progress.throttled);
  std::thread waiting([&] { EXPECT_FALSE(TakeBandwidth(throttle, 1, progress)); });
  while (!progress.throttled) std::this_thread::yield();
  progress.stop = true;
  waiting.join();
  EXPECT_FALSE(progress.throttled);
}

TEST(ThrottleTest, AHigherLimitShortensTheWait) {
  Throttle throttle(1);
  std::atomic<bool> stop{false};
  EXPECT_TRUE(throttle.Take(1 << 20, stop));  // twelve days at this rate
  throttle.SetLimit(1 << 30);
  EXPECT_TRUE(throttle.Take(1, stop));  // a millisecond at that one
}

// Time that stands still but for what waits: a wait tells how long it was.
class BackgroundBudgetTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kRate = 1'000'000;
  // How long all that has gone so far had to wait.
  std::chrono::milliseconds waited() const { return std::chrono::duration_cast<std::chrono::milliseconds>(waited_); }
  bool Take(Throttle& throttle, std::uint64_t bytes, const std::atomic<bool>* waited_for = nullptr) {
    return throttle.Take(bytes, stop_, waited_for);
  }

  const std::shared_ptr<BackgroundBudget> budget_ = std::make_shared<BackgroundBudget>(kRate);
  std::function<void()> in_a_wait_ = [] {};

 private:
  std::chrono::nanoseconds waited_{0};
  std::atomic<bool> stop_{false};
  const ScopedClock clock_{
      {.wall = nullptr,
       .steady = [this] { return std::chrono::steady_clock::time_point(std::chrono::hours(1) + waited_); },
       .sleep =
           [this](std::chrono::nanoseconds time) {
             waited_ += time;
             in_a_wait_();
           }}};
};

TEST_F(BackgroundBudgetTest, CountsOnlyWhileSomethingUrgentGoesOn) {
  Throttle copies(0, budget_);
  EXPECT_TRUE(Take(copies, 100 * kRate));
  EXPECT_EQ(waited().count(), 0);
  budget_->UrgentBegan();
  budget_->UrgentBegan();
  for (int i = 0; i < 11; ++i) EXPECT_TRUE(Take(copies, kRate));  // the last one is paid for by the next
  EXPECT_NEAR(static_cast<double>(waited().count()), 10'000, 100);
  budget_->UrgentEnded();  // one is still under way
  EXPECT_TRUE(Take(copies, kRate));
  EXPECT_NEAR(static_cast<double>(waited().count()), 11'000, 100);
  budget_->UrgentEnded();
  EXPECT_TRUE(Take(copies, 100 * kRate));
  EXPECT_NEAR(static_cast<double>(waited().count()), 11'000, 100);
}

TEST_F(BackgroundBudgetTest, IsOneForAllAndRaisesNoLimitOfTheirOwn) {
  Throttle one(0, budget_), another(0, budget_), slow(kRate / 10, budget_);
  budget_->UrgentBegan();
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(Take(one, kRate));
    EXPECT_TRUE(Take(another, kRate));
  }
  EXPECT_NEAR(static_cast<double>(waited().count()), 9'000, 100);
  EXPECT_TRUE(Take(slow, kRate));
  EXPECT_TRUE(Take(slow, kRate));
  EXPECT_NEAR(static_cast<double>(waited().count()), 9'000 + 11'000, 1100);
  budget_->UrgentEnded();
}

TEST_F(BackgroundBudgetTest, WhatIsOnlyComparedHasItButNoLimitOfCopies) {
  Throttle slow(1, budget_);
  TransferProgress progress;
  EXPECT_TRUE(TakeToCompare(slow, 100 * kRate, progress));
  EXPECT_EQ(waited().count(), 0);
  budget_->UrgentBegan();
  for (int i = 0; i < 11; ++i) EXPECT_TRUE(TakeToCompare(slow, kRate, progress));
  EXPECT_NEAR(static_cast<double>(waited().count()), 10'000, 100);
  budget_->UrgentEnded();
  Throttle alone(1);
  EXPECT_TRUE(TakeToCompare(alone, 100 * kRate, progress));
}

TEST_F(BackgroundBudgetTest, WhatAClientWaitsForGoesOnAtOnce) {
  Throttle copies(0, budget_);
  std::atomic<bool> waited_for{false};
  budget_->UrgentBegan();
  EXPECT_TRUE(Take(copies, 3600 * kRate, &waited_for));  // paid for by the next, for an hour
  in_a_wait_ = [&] { waited_for = waited() >= std::chrono::seconds(2); };
  EXPECT_TRUE(Take(copies, kRate, &waited_for));
  EXPECT_LT(waited(), std::chrono::milliseconds(2100));
  EXPECT_TRUE(Take(copies, 3600 * kRate, &waited_for));
  EXPECT_LT(waited(), std::chrono::milliseconds(2100));
  budget_->UrgentEnded();
}

TEST_F(BackgroundBudgetTest, AnotherLimitIsFeltAtOnceAndNoneIsNone) {
  Throttle copies(0, budget_);
  budget_->UrgentBegan();
  EXPECT_TRUE(Take(copies, 3600 * kRate));
  budget_->SetLimit(3600 * kRate);
  EXPECT_TRUE(Take(copies, 1));
  EXPECT_LE(waited(), std::chrono::milliseconds(1000));
  budget_->SetLimit(0);
  EXPECT_TRUE(Take(copies, UINT64_MAX));
  EXPECT_TRUE(Take(copies, UINT64_MAX));
  EXPECT_LE(waited(), std::chrono::milliseconds(1000));
  budget_->UrgentEnded();
}

}  // namespace
}  // namespace cairn
