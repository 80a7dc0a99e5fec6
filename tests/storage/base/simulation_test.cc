// What a simulation gives in place of the kernel's random numbers and clocks.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "storage/base/clock.h"
#include "storage/base/random.h"

namespace cairn {
namespace {

using Bytes = std::array<std::byte, 12>;

Bytes Draw() {
  Bytes bytes{};
  FillRandom(bytes);
  return bytes;
}

TEST(ScopedRandomTest, GivesTheSameBytesForTheSameNumbersOnItsThreadOnly) {
  const auto draw = [] {
    std::uint64_t next = 1;
    const ScopedRandom scoped([&next] { return next++; });
    return Draw();
  };
  const Bytes first = draw();
  EXPECT_EQ(first[0], std::byte{1});
  EXPECT_EQ(first[8], std::byte{2});
  EXPECT_EQ(draw(), first);
  const ScopedRandom scoped([]() -> std::uint64_t { return 0; });
  Bytes elsewhere{};
  std::thread([&] { elsewhere = Draw(); }).join();
  EXPECT_NE(elsewhere, Bytes{});
  EXPECT_EQ(Draw(), Bytes{});
}

TEST(ScopedRandomTest, TheInnermostCountsAndTheKernelDoesAgainAfterwards) {
  {
    const ScopedRandom outer([]() -> std::uint64_t { return 0; });
    {
      const ScopedRandom inner([]() -> std::uint64_t { return ~std::uint64_t{0}; });
      EXPECT_EQ(Draw()[0], std::byte{255});
    }
    EXPECT_EQ(Draw(), Bytes{});
  }
  EXPECT_NE(Draw(), Draw());
}

TEST(ScopedClockTest, TellsAndPassesGivenTime) {
  std::chrono::nanoseconds passed{0};
  const auto before = SteadyNow();
  {
    const ScopedClock scoped({
        .wall = [&] { return std::chrono::system_clock::time_point(std::chrono::microseconds(7)); },
        .steady = [&] { return std::chrono::steady_clock::time_point(passed); },
        .sleep = [&](std::chrono::nanoseconds time) { passed += time; },
    });
    SleepFor(std::chrono::hours(1));
    EXPECT_EQ(SteadyNow().time_since_epoch(), std::chrono::hours(1));
    EXPECT_EQ(WallNow().time_since_epoch(), std::chrono::microseconds(7));
    EXPECT_EQ(NowMicros(), 7);
  }
  EXPECT_GE(SteadyNow(), before);
  EXPECT_GT(WallNow().time_since_epoch(), std::chrono::hours(1));
}

}  // namespace
}  // namespace cairn
