#include "client/cli/halt_time.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace cairn::cli {
namespace {

class HaltTimeTest : public ::testing::Test {
 protected:
  // Summer time begins there on the last Sunday of March at 2:00.
  HaltTimeTest() {
    setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    tzset();
  }
  static std::int64_t Parsed(const std::string& text) {
    const auto time = ParseHaltTime(text, 1'000'000'000);
    EXPECT_TRUE(time.ok()) << time.status();
    return time.ok() ? *time : -1;
  }
  static bool Refused(const std::string& text) {
    return absl::IsInvalidArgument(ParseHaltTime(text, 1'000'000'000).status());
  }
};

TEST_F(HaltTimeTest, TimesOfTheCalendarAreLocal) {
  EXPECT_EQ(Parsed("2030-01-01T01:00:00"), 1893456000);
  EXPECT_EQ(Parsed("2030-01-01 01:00:00"), 1893456000);
  EXPECT_EQ(Parsed("2030-01-01T01:00"), 1893456000);
  EXPECT_EQ(Parsed("2030-07-01T02:00:00"), 1909094400);
  EXPECT_EQ(Parsed("2028-02-29T00:00:59") - Parsed("2028-02-28T23:59:59"), 60);
}

TEST_F(HaltTimeTest, DurationsCountFromNow) {
  EXPECT_EQ(Parsed("+2h"), 1'000'007'200);
  EXPECT_EQ(Parsed("+90min"), 1'000'005'400);
  EXPECT_EQ(Parsed("+0"), 1'000'000'000);
}

TEST_F(HaltTimeTest, WhatNoClockShowsIsRefused) {
  for (const char* text :
       {"2030-02-30T00:00:00", "2030-13-01T00:00:00", "2030-00-01T00:00:00", "2030-01-01T24:00:00",
        "2030-01-01T00:60:00", "2030-01-01T00:00:60", "1960-01-01T00:00:00", "2030-03-31T02:30:00"}) {
    EXPECT_TRUE(Refused(text)) << text;
  }
}

TEST_F(HaltTimeTest, AnythingElseIsRefused) {
  for (const char* text : {"", "now", "2030-01-01", "2030-01-01T", "2030-01-01T10", "2030-1-1T10:00:00",
                           "2030-01-01T10:00:00Z", "2030-01-01T10:00:0", "-2h", "2h", "+", "+2", "+2x", "+-2h",
                           "+99999999999999d", "20300101T100000", "2030/01/01T10:00:00", " 2030-01-01T10:00:00"}) {
    EXPECT_TRUE(Refused(text)) << text;
  }
}

TEST_F(HaltTimeTest, SecondsAreANumberOrADuration) {
  EXPECT_EQ(*ParseHaltSeconds("900"), 900u);
  EXPECT_EQ(*ParseHaltSeconds("15min"), 900u);
  EXPECT_EQ(*ParseHaltSeconds("2147483647"), 2147483647u);
  for (const char* text : {"", "0", "-5", "1500ms2", "x", "2147483648", "99999999999999999999", "5 parsecs", "500ms"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseHaltSeconds(text).status())) << text;
  }
}

TEST_F(HaltTimeTest, TimesAreShownAsTheyAreGiven) {
  EXPECT_EQ(FormatHaltTime(1893456000), "2030-01-01T01:00:00");
  EXPECT_EQ(Parsed(FormatHaltTime(1909094400)), 1909094400);
  EXPECT_EQ(FormatHaltTime(INT64_MAX), std::to_string(INT64_MAX));
}

}  // namespace
}  // namespace cairn::cli
