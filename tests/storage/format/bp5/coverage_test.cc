#include "storage/format/bp5/coverage.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace cairn::bp5 {
namespace {

TEST(CoverageTest, NothingIsCoveredByNothingAndEmptyBoxesAlways) {
  EXPECT_FALSE(Covers({}, {.start = {0}, .count = {1}}));
  EXPECT_TRUE(Covers({}, {.start = {5, 5}, .count = {0, 3}}));
}

TEST(CoverageTest, OneElementLeftOutIsNoticedWhereverItIs) {
  const Box box{.start = {3, 2}, .count = {4, 5}};
  const std::vector<Box> halves = {{.start = {3, 2}, .count = {2, 5}}, {.start = {5, 2}, .count = {2, 5}}};
  EXPECT_TRUE(Covers(halves, box));
  for (std::uint64_t row = 0; row < 4; ++row) {
    for (std::uint64_t column = 0; column < 5; ++column) {
      const Box hole{.start = {3 + row, 2 + column}, .count = {1, 1}};
      std::vector<Box> parts = Subtract(box, hole);
      EXPECT_FALSE(Covers(parts, box)) << row << ", " << column;
      // Too many elements together do not stand for those that are missing.
      parts.resize(parts.size() + 2, Box(parts.front()));
      EXPECT_FALSE(Covers(parts, box)) << row << ", " << column;
      parts.push_back(hole);
      EXPECT_TRUE(Covers(parts, box)) << row << ", " << column;
    }
  }
}

TEST(CoverageTest, BoxesLargerThanWhatIsMarkedAtOnceAreCoveredPieceByPiece) {
  const Box box{.start = {0, 0, 0}, .count = {300, 200, 400}};  // 24 Mi elements: three rounds
  std::vector<Box> parts;
  for (std::uint64_t x = 0; x < 300; x += 100) {
    for (std::uint64_t z = 0; z < 400; z += 40) parts.push_back({.start = {x, 0, z}, .count = {100, 200, 40}});
  }
  EXPECT_TRUE(Covers(parts, box));
  parts.push_back({.start = {299, 199, 398}, .count = {1, 1, 2}});
  parts[29].count[2] = 39;
  parts.push_back(Box(parts[0]));
  EXPECT_FALSE(Covers(parts, box)) << "all but its last column is covered, but for two of its elements";
  parts.push_back({.start = {200, 0, 399}, .count = {100, 200, 1}});
  EXPECT_TRUE(Covers(parts, box));
}

TEST(CoverageTest, AsOftenAsCountedOneByOne) {
  const char* given = std::getenv("CAIRN_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device{}();
  SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    const Box box{.start = {1, 2, 3}, .count = {1 + random() % 4, 1 + random() % 9, 1 + random() % 70}};
    std::vector<Box> parts;
    std::vector<bool> marks(*Elements(box.count));
    for (std::uint64_t n = random() % 12; n > 0; --n) {
      Box part{.start = Extents(3), .count = Extents(3)};
      for (std::size_t d = 0; d < 3; ++d) {
        // Often as long as the box, or nearly all of them leave something out.
        const std::uint64_t from = random() % 2 == 0 ? 0 : random() % box.count[d];
        part.start[d] = box.start[d] + from;
        part.count[d] = random() % 2 == 0 ? box.count[d] - from : 1 + random() % (box.count[d] - from);
      }
      ForEachRow(PatternOf(part, box, box), [&](std::uint64_t at, std::uint64_t) {
        for (std::uint64_t i = 0; i < PatternOf(part, box, box).row; ++i) marks[at + i] = true;
      });
      parts.push_back(part);
    }
    const bool all = std::find(marks.begin(), marks.end(), false) == marks.end();
    ASSERT_EQ(Covers(parts, box), all) << "round " << round;
  }
}

}  // namespace
}  // namespace cairn::bp5
