// Which copies hang, and who gives way to one that begins.
#include "daemon/core/flush_slots.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>

#include "storage/file/transfer/transfer.h"

namespace cairn {
namespace {

TEST(FlushSlotsTest, ACopyThatBeginsMakesOthersGiveWay) {
  FlushSlots slots(0);
  const auto copy = std::make_shared<TransferProgress>();
  slots.CopyBegins(copy, SteadyTime());  // nobody is there that could
  int gave_way = 0;
  slots.OnCopyBegins([&] { ++gave_way; });
  slots.CopyEnds(copy);
  EXPECT_EQ(gave_way, 0);
  slots.CopyBegins(copy, SteadyTime());
  EXPECT_EQ(gave_way, 1);
}

TEST(FlushSlotsTest, ACopyStallsThatDoesNotGetOnUnlessItWaitsForBandwidth) {
  constexpr std::chrono::seconds kStalled(30), kMoment(1);
  const SteadyTime begin{std::chrono::hours(1)};
  FlushSlots slots(0);
  const auto hung = std::make_shared<TransferProgress>(), throttled = std::make_shared<TransferProgress>();
  slots.CopyBegins(hung, begin);
  slots.CopyBegins(throttled, begin);
  throttled->throttled = true;
  EXPECT_EQ(slots.CopiesMoving(begin + kStalled - kMoment, kStalled), 2u);
  EXPECT_EQ(slots.StalledSince(hung, begin + kStalled - kMoment, kStalled), std::nullopt);
  EXPECT_EQ(slots.CopiesMoving(begin + kStalled, kStalled), 1u);
  EXPECT_EQ(slots.StalledSince(hung, begin + kStalled, kStalled), begin);
  EXPECT_EQ(slots.StalledSince(throttled, begin + kStalled, kStalled), std::nullopt);
  hung->bytes_done = 1;
  EXPECT_EQ(slots.CopiesMoving(begin + 2 * kStalled, kStalled), 2u);
  EXPECT_EQ(slots.StalledSince(hung, begin + 2 * kStalled, kStalled), std::nullopt);
}

}  // namespace
}  // namespace cairn
