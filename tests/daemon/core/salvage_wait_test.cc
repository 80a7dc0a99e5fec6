// What was left of a run that nobody opens, in a daemon that lives on. Time is turned by hand.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "daemon/core/cache_room.h"
#include "daemon/core/run.h"
#include "daemon/core/runs.h"
#include "daemon/core/salvage.h"
#include "storage/base/ids.h"
#include "tests/daemon/core/by_hand.h"
#include "tests/daemon/core/captured_parts.h"
#include "tests/daemon/core/lasting_deposits.h"

namespace cairn {
namespace {

using std::chrono::minutes;

TEST(SalvageWaitTest, WhatNobodyOpensIsDroppedAfterADay) {
  ByHand by_hand;
  const auto held = std::make_shared<LastingDeposits>();
  LeaveCaptured(*held, CapturedPartOf(RunId::Random(), 7, 0, 1));
  const auto begun = std::chrono::system_clock::time_point(std::chrono::seconds(1'700'000'000));
  const auto start = by_hand.strand.now();
  CachedRuns cached;
  cached.salvage = std::make_shared<Salvage>(held, by_hand.context.env.pools.work, [&] {
    return begun + std::chrono::duration_cast<std::chrono::microseconds>(by_hand.strand.now() - start);
  });
  CacheRoom room(by_hand.context);
  Runs runs(by_hand.context, room, [](auto&&...) { return nullptr; });
  runs.Enter(std::move(cached));
  // By the clock, not by when the daemon has started.
  for (minutes passed(0); passed < Salvage::kKeptFor; passed += minutes(10)) {
    EXPECT_EQ(held->size(), 2u);
    EXPECT_TRUE(runs.AnyLeft());
    by_hand.Turn(minutes(10));
    by_hand.RunAll();
  }
  EXPECT_EQ(held->size(), 0u);
  EXPECT_FALSE(runs.AnyLeft());
  ASSERT_EQ(by_hand.context.warnings->all().size(), 1u);
  EXPECT_NE(by_hand.context.warnings->all().front().find("could not be looked at for a day"), std::string::npos);
}

}  // namespace
}  // namespace cairn
