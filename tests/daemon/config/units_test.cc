#include "daemon/config/units.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(UnitsTest, SizesHaveBinaryAndDecimalUnits) {
  EXPECT_EQ(*ParseSize("0"), 0u);
  EXPECT_EQ(*ParseSize("4096"), 4096u);
  EXPECT_EQ(*ParseSize("64MiB"), 64u << 20);
  EXPECT_EQ(*ParseSize(" 2 GB "), 2'000'000'000u);
  EXPECT_EQ(*ParseSize("1.5KiB"), 1536u);
  EXPECT_EQ(*ParseRate("2 GB/s"), 2'000'000'000u);
  EXPECT_EQ(*ParseRate("500MB"), 500'000'000u);
}

TEST(UnitsTest, DurationsNeedAUnitUnlessZero) {
  EXPECT_EQ(*ParseDuration("30s"), 30'000u);
  EXPECT_EQ(*ParseDuration("5 min"), 300'000u);
  EXPECT_EQ(*ParseDuration("0.25s"), 250u);
  EXPECT_EQ(*ParseDuration("0"), 0u);
  EXPECT_EQ(ParseDuration("30").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(UnitsTest, AnythingElseIsRefused) {
  for (const char* text : {"", " ", "MiB", "-1", "+1", "1 MiBs", "1 Mib", "1..5GB", "1.GB", ".5GB", "0.3B", "1e3",
                           "1.0000000001GB", "99999999999999999999", "9223372036854775809", "16777216TiB", "0x10"}) {
    EXPECT_EQ(ParseSize(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_FALSE(ParseSize("2GB/s").ok());
  EXPECT_FALSE(ParseDuration("5 minutes").ok());
}

TEST(UnitsTest, FormattedNumbersParseBackExactly) {
  for (const std::uint64_t n : {0ull, 1ull, 999ull, 1000ull, 1024ull, 1025ull, 64ull << 20, 3ull << 40,
                                2'000'000'000ull, 60'000ull, 90'000ull, 86'400'000ull, 1ull << 63}) {
    EXPECT_EQ(*ParseSize(FormatSize(n)), n) << FormatSize(n);
    EXPECT_EQ(*ParseRate(FormatRate(n)), n) << FormatRate(n);
    EXPECT_EQ(*ParseDuration(FormatDuration(n)), n) << FormatDuration(n);
  }
  EXPECT_EQ(FormatSize(64 << 20), "64MiB");
  EXPECT_EQ(FormatRate(2'000'000'000), "2GB/s");
  EXPECT_EQ(FormatDuration(90'000), "90s");
  EXPECT_EQ(FormatDuration(600'000), "10min");
}

}  // namespace
}  // namespace cairn
