// Sets of numbers as ranges.
#include "storage/base/number_ranges.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace cairn {
namespace {

using Map = std::map<std::uint64_t, std::uint64_t>;

TEST(NumberRangesTest, NeighboursBecomeOneRange) {
  NumberRanges ids;
  EXPECT_TRUE(ids.empty());
  ids.Add(5);
  ids.Add(7);
  EXPECT_EQ(ids.ranges(), (Map{{5, 5}, {7, 7}}));
  ids.Add(6);
  EXPECT_EQ(ids.ranges(), (Map{{5, 7}}));
  ids.AddRange(1, 100);
  EXPECT_EQ(ids.ranges(), (Map{{1, 100}}));
}

TEST(NumberRangesTest, RemovingFromTheMiddleLeavesTwoRanges) {
  NumberRanges ids;
  ids.AddRange(1, 5);
  ids.Remove(3);
  EXPECT_EQ(ids.ranges(), (Map{{1, 2}, {4, 5}}));
  ids.Remove(1);
  ids.Remove(5);
  ids.Remove(9);
  EXPECT_EQ(ids.ranges(), (Map{{2, 2}, {4, 4}}));
  ids.Remove(2);
  ids.Remove(4);
  EXPECT_TRUE(ids.empty());
}

TEST(NumberRangesTest, RandomChangesAreThoseOfAPlainSet) {
  std::mt19937_64 random(17);
  for (int round = 0; round < 50; ++round) {
    NumberRanges ids;
    std::set<std::uint64_t> model;
    for (int step = 0; step < 100; ++step) {
      const std::uint64_t first = 1 + random() % 40, last = first + random() % 6;
      if (random() % 3 == 0) {
        ids.Remove(first);
        model.erase(first);
      } else {
        ids.AddRange(first, last);
        for (std::uint64_t id = first; id <= last; ++id) model.insert(id);
      }
      std::uint64_t before = 0;
      for (const auto& [from, to] : ids.ranges()) {
        ASSERT_LE(from, to);
        ASSERT_GT(from, before);  // apart: two that touch are one
        before = to + 1;
      }
      for (std::uint64_t id = 0; id < 50; ++id) ASSERT_EQ(ids.Contains(id), model.contains(id)) << id;
    }
  }
}

TEST(NumberRangesTest, ItsTextIsReadAgain) {
  NumberRanges ranks;
  ranks.AddRange(0, 3);
  ranks.Add(8);
  EXPECT_EQ(TextOf(ranks), "0-3,8");
  EXPECT_EQ(ranks.size(), 5u);
  EXPECT_EQ(ranks.Numbers(), (std::vector<std::uint64_t>{0, 1, 2, 3, 8}));
  EXPECT_EQ(ParseNumberRanges("0-3,8", 9), ranks);
}

TEST(NumberRangesTest, OtherTextsAreNone) {
  for (const char* text :
       {"",      ",",   "1,", ",1", "1-", "-1", "1-2-3", "2-1",  "1-1", "1,1", "1,2",
        "1-3,4", "3,1", "01", "+1", "1 ", "a",  "0x1",   "1--2", "9",   "0-9", "18446744073709551616"}) {
    EXPECT_EQ(ParseNumberRanges(text, 9), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace cairn
