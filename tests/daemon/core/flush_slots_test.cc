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

// Its lane is busy with others': it has the whole time once a thread has begun it.
TEST(FlushSlotsTest, ACopyThatWaitsForAThreadDoesNotHang) {
  constexpr std::chrono::seconds kStalled(30), kMoment(1);
  const SteadyTime begin{std::chrono::hours(1)};
  FlushSlots slots(0);
  const auto copy = std::make_shared<TransferProgress>();
  copy->queued = true;
  slots.CopyBegins(copy, begin);
  EXPECT_TRUE(slots.HasStalled(copy, begin + kStalled, kStalled)) << "others may have its slot";
  EXPECT_EQ(slots.StalledSince(copy, begin + kStalled, kStalled), std::nullopt);
  copy->queued = false;
  const SteadyTime seen = begin + 2 * kStalled;
  EXPECT_FALSE(slots.HasStalled(copy, seen, kStalled));
  EXPECT_FALSE(slots.HasStalled(copy, seen + kStalled - kMoment, kStalled));
  EXPECT_TRUE(slots.HasStalled(copy, seen + kStalled, kStalled));
  EXPECT_EQ(slots.StalledSince(copy, seen + kStalled, kStalled), seen);
}

}  // namespace
}  // namespace cairn
