#include "daemon/config/cache_transfers.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace cairn {
namespace {

constexpr std::uint32_t kMi = 1 << 20;

TEST(CacheTransfersTest, WhatIsSetStandsForWhatWasMeasured) {
  const TransferShapes measured{.write = {.bytes = kMi, .depth = 4}, .read = {.bytes = 2 * kMi, .depth = 2}};
  Config::Cache cache;
  EXPECT_EQ(WithSettings(cache, measured), measured);
  cache.write_bytes = 8 * kMi;
  cache.read_depth = 3;
  EXPECT_EQ(WithSettings(cache, measured),
            (TransferShapes{.write = {.bytes = 8 * kMi, .depth = 4}, .read = {.bytes = 2 * kMi, .depth = 3}}));
}

TEST(CacheTransfersTest, ItIsMeasuredUnlessTheSettingsSayOtherwise) {
  Config::Cache cache;
  EXPECT_EQ(WhyNotMeasured(cache), "");
  cache.write_bytes = cache.read_bytes = kMi;
  cache.write_depth = cache.read_depth = 2;
  EXPECT_EQ(WhyNotMeasured(cache), "the settings say all of it");
  for (std::uint32_t* const depth : {&cache.write_depth, &cache.read_depth}) {
    *depth = 0;
    EXPECT_EQ(WhyNotMeasured(cache), "");
    *depth = 2;
  }
  for (std::uint64_t* const bytes : {&cache.write_bytes, &cache.read_bytes}) {
    *bytes = 0;
    EXPECT_EQ(WhyNotMeasured(cache), "");
    *bytes = kMi;
  }
  cache = {};
  cache.direct = false;
  EXPECT_EQ(WhyNotMeasured(cache), "cache.direct is off");
  cache.probe = false;
  EXPECT_EQ(WhyNotMeasured(cache), "cache.probe is off");
}

}  // namespace
}  // namespace cairn
