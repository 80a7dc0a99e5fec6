// The bandwidth that transfers share.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

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

TEST(ThrottleTest, WhatIsUrgentGoesFirstAndItsEndIsFelt) {
  Throttle throttle(0, 1);
  std::atomic<bool> stop{false};
  EXPECT_TRUE(throttle.Take(1 << 20, stop)) << "without a limit";
  throttle.UrgentBegan();
  throttle.UrgentBegan();
  EXPECT_TRUE(throttle.Take(1 << 20, stop));  // twelve days at this rate
  std::atomic<bool> taken{false};
  std::thread waiting([&] { taken = throttle.Take(1, stop); });
  throttle.UrgentEnded();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(taken) << "one is still under way";
  throttle.UrgentEnded();
  waiting.join();
  EXPECT_TRUE(taken);
}

TEST(ThrottleTest, WhatIsUrgentDoesNotRaiseTheLimit) {
  Throttle throttle(1, 1 << 30);
  std::atomic<bool> stop{false};
  throttle.UrgentBegan();
  EXPECT_TRUE(throttle.Take(1 << 20, stop));  // twelve days at this rate
  std::thread waiting([&] { EXPECT_FALSE(throttle.Take(1, stop)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  stop = true;
  waiting.join();
}

}  // namespace
}  // namespace cairn
