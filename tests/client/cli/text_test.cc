#include "client/cli/text.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace cairn::cli {
namespace {

TEST(TextTest, CountsHaveTheirPlural) {
  EXPECT_EQ(Count(0, "file"), "0 files");
  EXPECT_EQ(Count(1, "file"), "1 file");
  EXPECT_EQ(Count(12, "file"), "12 files");
}

TEST(TextTest, BytesAreShortAndNeverRoundUpToTheNextUnitsThousand) {
  EXPECT_EQ(Bytes(0), "0 B");
  EXPECT_EQ(Bytes(1023), "1023 B");
  EXPECT_EQ(Bytes(1024), "1.0 KiB");
  EXPECT_EQ(Bytes(1536), "1.5 KiB");
  EXPECT_EQ(Bytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(Bytes(std::uint64_t{5} << 30), "5.0 GiB");
  EXPECT_EQ(Bytes(UINT64_MAX), "16.0 EiB");
}

TEST(TextTest, DurationsHaveTwoUnits) {
  EXPECT_EQ(Duration(0), "0 ms");
  EXPECT_EQ(Duration(999), "999 ms");
  EXPECT_EQ(Duration(59'999), "59 s");
  EXPECT_EQ(Duration(61'000), "1 m 1 s");
  EXPECT_EQ(Duration(3'600'000), "1 h 0 m");
  EXPECT_EQ(Duration(90'000'000), "1 d 1 h");
}

TEST(TextTest, SharesAreSaneWhateverTheNumbers) {
  EXPECT_EQ(Percent(1, 4), "25 %");
  EXPECT_EQ(Percent(5, 4), "100 %");
  EXPECT_EQ(Percent(5, 0), "-");
  EXPECT_EQ(Bar(1, 2, 10), "[#####.....]");
  EXPECT_EQ(Bar(9, 2, 4), "[####]");
  EXPECT_EQ(Bar(1, 0, 4), "[....]");
}

TEST(TextTest, ForeignTextCannotSteerATerminal) {
  EXPECT_EQ(Clean("a\x1b[31mb\nc\x7f"), "a?[31mb?c?");
  EXPECT_EQ(Clean("höhe"), "höhe");
}

TEST(TextTest, TablesLineUp) {
  EXPECT_EQ(Table({{"N", "NAME"}, {"1", "höhe"}, {"100", "x"}}, {true, false}),
            "  N  NAME\n"
            "  1  höhe\n"
            "100  x\n");
}

TEST(TextTest, ColoursTakeNoColumns) {
  EXPECT_EQ(Table({{"N", ""}, {"\x1b[32mab\x1b[0m", "x"}, {"abc", "\x1b[2my\x1b[0m"}}, {true, false}),
            "  N\n"
            " \x1b[32mab\x1b[0m  x\n"
            "abc  \x1b[2my\x1b[0m\n");
  EXPECT_EQ(FirstColumns("höhe", 2), "hö");
  EXPECT_EQ(FirstColumns("höhe", 9), "höhe");
  EXPECT_EQ(FirstColumns("\x1b[32mabc\x1b[0m", 2), "\x1b[32mab\x1b[0m");
  EXPECT_EQ(FirstColumns("\x1b[1ma\x1b[0mbc", 2), "\x1b[1ma\x1b[0mb");
  EXPECT_EQ(FirstColumns("abc", 0), "");
  EXPECT_EQ(FirstColumns("a\x1b[32", 9), "a\x1b[32");
}

TEST(TextTest, AgesAreAsPeopleSayThem) {
  constexpr std::int64_t kSecond = 1'000'000, kNow = 1'700'000'000 * kSecond;
  EXPECT_EQ(Ago(0, kNow), "-");
  EXPECT_EQ(Ago(kNow, kNow), "just now");
  EXPECT_EQ(Ago(kNow - 12 * kSecond, kNow), "12 s ago");
  EXPECT_EQ(Ago(kNow - 119 * kSecond, kNow), "1 min ago");
  EXPECT_EQ(Ago(kNow - 7200 * kSecond, kNow), "2 h ago");
  EXPECT_EQ(Ago(kNow - 30 * 86400 * kSecond, kNow), "30 d ago");
  EXPECT_EQ(Ago(kNow - 400 * 86400 * kSecond, kNow).size(), 10u);
  EXPECT_EQ(Ago(kNow + 5 * kSecond, kNow), LocalTime(kNow + 5 * kSecond)) << "clocks differ";
}

TEST(TextTest, TimesAreLocal) {
  EXPECT_EQ(LocalTime(0), "-");
  EXPECT_EQ(LocalTime(1'700'000'000'000'000).size(), 19u);
}

}  // namespace
}  // namespace cairn::cli
