#include "storage/base/transfer_shape.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace cairn {
namespace {

constexpr std::uint32_t kKi = 1 << 10, kMi = 1 << 20;

TEST(TransferShapeTest, IsAPowerOfTwoWithinBoundsAndAtLeastOneDeep) {
  EXPECT_TRUE(TransferShape().valid());
  EXPECT_TRUE((TransferShape{.bytes = 256 * kKi, .depth = 1}.valid()));
  EXPECT_TRUE((TransferShape{.bytes = 16 * kMi, .depth = 64}.valid()));
  EXPECT_FALSE((TransferShape{.bytes = 128 * kKi, .depth = 1}.valid()));
  EXPECT_FALSE((TransferShape{.bytes = 32 * kMi, .depth = 1}.valid()));
  EXPECT_FALSE((TransferShape{.bytes = 3 * kMi, .depth = 1}.valid()));
  EXPECT_FALSE((TransferShape{.bytes = 0, .depth = 1}.valid()));
  EXPECT_FALSE((TransferShape{.bytes = 1 * kMi, .depth = 0}.valid()));
  EXPECT_FALSE((TransferShape{.bytes = 1 * kMi, .depth = 65}.valid()));
}

TEST(ChooseShapeTest, TakesTheFewestBytesInFlightThatAreNearTheFastest) {
  const std::vector<ShapeSpeed> measured = {{.shape = {1 * kMi, 1}, .bytes_per_s = 94},
                                            {.shape = {1 * kMi, 4}, .bytes_per_s = 95},
                                            {.shape = {4 * kMi, 2}, .bytes_per_s = 99},
                                            {.shape = {4 * kMi, 8}, .bytes_per_s = 100}};
  const auto chosen = ChooseShape(measured);
  ASSERT_TRUE(chosen.has_value());
  EXPECT_EQ(chosen->shape, (TransferShape{1 * kMi, 4}));
  EXPECT_EQ(chosen->bytes_per_s, 95);
}

TEST(ChooseShapeTest, TakesLargerTransfersOfAsManyBytesInFlightWhateverTheOrder) {
  std::vector<ShapeSpeed> measured = {{.shape = {256 * kKi, 16}, .bytes_per_s = 100},
                                      {.shape = {4 * kMi, 1}, .bytes_per_s = 97},
                                      {.shape = {1 * kMi, 4}, .bytes_per_s = 98}};
  EXPECT_EQ(ChooseShape(measured)->shape, (TransferShape{4 * kMi, 1}));
  std::swap(measured[0], measured[1]);
  EXPECT_EQ(ChooseShape(measured)->shape, (TransferShape{4 * kMi, 1}));
}

TEST(ChooseShapeTest, TakesTheDeepestIfOnlyThatIsFast) {
  const std::vector<ShapeSpeed> measured = {{.shape = {1 * kMi, 1}, .bytes_per_s = 1},
                                            {.shape = {1 * kMi, 4}, .bytes_per_s = 4},
                                            {.shape = {4 * kMi, 8}, .bytes_per_s = 30}};
  EXPECT_EQ(ChooseShape(measured)->shape, (TransferShape{4 * kMi, 8}));
}

TEST(ChooseShapeTest, SpeedsThatAreNoneDoNotCount) {
  const double nan = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(ChooseShape({}).has_value());
  const std::vector<ShapeSpeed> none = {{.shape = {1 * kMi, 1}, .bytes_per_s = nan},
                                        {.shape = {1 * kMi, 2}, .bytes_per_s = infinite},
                                        {.shape = {1 * kMi, 4}, .bytes_per_s = 0},
                                        {.shape = {1 * kMi, 8}, .bytes_per_s = -5}};
  EXPECT_FALSE(ChooseShape(none).has_value());
  std::vector<ShapeSpeed> one = none;
  one.push_back({.shape = {4 * kMi, 8}, .bytes_per_s = 2});
  EXPECT_EQ(ChooseShape(one)->shape, (TransferShape{4 * kMi, 8}));
}

}  // namespace
}  // namespace cairn
