#include "storage/base/box.h"

#include <gtest/gtest.h>

#include <random>

namespace cairn {
namespace {

Box MakeBox(Extents start, Extents count) {
  return {.start = std::move(start), .count = std::move(count)};
}

TEST(ElementsTest, MultipliesAndNoticesOverflow) {
  EXPECT_EQ(Elements(Extents{2, 3, 4}), 24);
  EXPECT_EQ(Elements(Extents{}), 1);
  EXPECT_EQ(Elements(Extents{1ull << 40, 1ull << 40}), std::nullopt);
  EXPECT_EQ(Elements(Extents{1ull << 40, 1ull << 40, 0}), 0);
}

TEST(BoxTest, AnEndBeyond64BitsIsNotSoundAndNotInside) {
  const Box far = MakeBox({~0ull - 1}, {3});
  EXPECT_FALSE(Sound(far));
  EXPECT_FALSE(Inside(far, MakeBox({0}, {10})));
  EXPECT_FALSE(Inside(MakeBox({0}, {1}), MakeBox({0, 0}, {1, 1})));
  EXPECT_TRUE(Inside(MakeBox({2, 3}, {1, 0}), MakeBox({2, 1}, {1, 2})));
}

TEST(BoxTest, IntersectsAndSubtracts) {
  const Box box = MakeBox({0, 0}, {4, 4});
  EXPECT_EQ(Intersect(box, MakeBox({2, 3}, {5, 5})), MakeBox({2, 3}, {2, 1}));
  EXPECT_EQ(Intersect(box, MakeBox({4, 0}, {1, 1})), std::nullopt);
  const std::vector<Box> ring = Subtract(box, MakeBox({1, 1}, {2, 2}));
  ASSERT_EQ(ring.size(), 4);
  EXPECT_EQ(ring[0], MakeBox({0, 0}, {1, 4}));
  EXPECT_EQ(Subtract(box, MakeBox({9, 9}, {1, 1})), std::vector<Box>{box});
  EXPECT_TRUE(Subtract(box, box).empty());
}

TEST(PatternTest, RowsAreAsLongAsTheyAreContiguousInBoth) {
  const RowPattern whole = PatternOf(MakeBox({1, 0}, {2, 5}), MakeBox({0, 0}, {4, 5}), MakeBox({1, 0}, {2, 5}));
  EXPECT_EQ(whole.row, 10);
  EXPECT_EQ(whole.rows(), 1);
  EXPECT_EQ(whole.a_begin, 5);
  const RowPattern part = PatternOf(MakeBox({1, 1}, {2, 3}), MakeBox({0, 0}, {4, 5}), MakeBox({1, 1}, {2, 3}));
  EXPECT_EQ(part.row, 3);
  EXPECT_EQ(part.rows(), 2);
  EXPECT_EQ(part.a_begin, 6);
  EXPECT_EQ(part.a_extent(), 8);
}

struct Random {
  std::mt19937 engine{20261120};
  std::uint64_t Below(std::uint64_t end) { return engine() % end; }
  Box NextBox(std::size_t dimensions, std::uint64_t start_below) {
    Box box{.start = Extents(dimensions), .count = Extents(dimensions)};
    for (std::size_t d = 0; d < dimensions; ++d) {
      box.start[d] = Below(start_below);
      box.count[d] = 1 + Below(4);
    }
    return box;
  }
};

TEST(RunAsBoxesTest, TheBoxesOfARunAreItsElementsInOrder) {
  Random random;
  for (int round = 0; round < 5000; ++round) {
    const std::size_t dimensions = 1 + random.Below(4);
    const Box box = random.NextBox(dimensions, 3);
    const std::uint64_t elements = *Elements(box.count);
    std::uint64_t begin = random.Below(elements + 1), end = random.Below(elements + 1);
    if (begin > end) std::swap(begin, end);
    const std::vector<Box> boxes = RunAsBoxes(box, begin, end);
    EXPECT_LE(boxes.size(), 2 * dimensions - 1);
    std::uint64_t at = begin;
    for (const Box& piece : boxes) {
      ASSERT_TRUE(Inside(piece, box));
      const RowPattern pattern = PatternOf(piece, box, piece);
      std::uint64_t packed = 0;
      ForEachRow(pattern, [&](std::uint64_t in_box, std::uint64_t in_piece) {
        ASSERT_EQ(in_box, at);
        ASSERT_EQ(in_piece, packed);
        at += pattern.row;
        packed += pattern.row;
      });
    }
    ASSERT_EQ(at, end);
  }
}

TEST(SubtractTest, WhatIsLeftAndWhatIsCommonMakeTheBox) {
  Random random;
  for (int round = 0; round < 5000; ++round) {
    const std::size_t dimensions = 1 + random.Below(4);
    const Box box = random.NextBox(dimensions, 3), hole = random.NextBox(dimensions, 5);
    const std::vector<Box> left = Subtract(box, hole);
    EXPECT_LE(left.size(), 2 * dimensions);
    const std::optional<Box> common = Intersect(box, hole);
    std::uint64_t elements = common ? *Elements(common->count) : 0;
    for (std::size_t i = 0; i < left.size(); ++i) {
      ASSERT_TRUE(Inside(left[i], box));
      EXPECT_EQ(Intersect(left[i], hole), std::nullopt);
      for (std::size_t j = 0; j < i; ++j) EXPECT_EQ(Intersect(left[i], left[j]), std::nullopt);
      elements += *Elements(left[i].count);
    }
    EXPECT_EQ(elements, *Elements(box.count));
  }
}

}  // namespace
}  // namespace cairn
