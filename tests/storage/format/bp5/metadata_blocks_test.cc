// Blocks of variables, their shapes and bounds, in directories made in memory, some of them damaged afterwards.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "storage/format/bp5/encode.h"
#include "storage/format/bp5/metadata.h"
#include "tests/storage/format/bp5/made_metadata.h"
#include "tests/support/status_matchers.h"

namespace cairn::bp5::testing {
namespace {

using absl::StatusCode;
using Numbers64 = std::vector<std::uint64_t>;

// What the variable's record in the first step points to at `place`, to be changed.
char* InRecord(Opened& opened, const std::string& name, std::uint32_t place, std::uint32_t writer = 0) {
  const auto* const record = reinterpret_cast<const char*>(opened.metadata.Find(opened.Number(name), 0, writer));
  return opened.files.metadata.data() + (record - opened.files.metadata.data()) + place;
}
void SetNumber(char* at, std::uint64_t number) {
  std::memcpy(at, &number, sizeof(number));
}

constexpr std::uint32_t kDims = 0, kBlockCount = 8, kDbCount = 16, kShape = 24, kCount = 32, kOffset = 40,
                        kLocation = 48;

TEST(MetadataBlocksTest, BlocksAreCountedOverAllWriters) {
  const std::string bounds = Raw<double>({-1, 1});
  const Opened opened(
      Made().Step({{GlobalArray("x", Type::kDouble, {4, 6},
                                {BlockOf({0, 0}, {1, 6}, 0, bounds), BlockOf({1, 0}, {1, 6}, 48, bounds)})},
                   {},
                   {GlobalArray("x", Type::kDouble, {4, 6}, {BlockOf({2, 0}, {2, 6}, 16, bounds)})}}));
  BlockWalk walk = opened.metadata.Blocks(opened.Number("x"), 0);
  ASSERT_TRUE(walk.Next());
  EXPECT_EQ(walk.block().ToBox(), (Box{{0, 0}, {1, 6}}));
  EXPECT_EQ(walk.block().stored_bytes, 48u);
  ASSERT_NE(walk.block().min, nullptr);
  EXPECT_EQ(ValueAt<double>(walk.block().max), 1.0);
  ASSERT_TRUE(walk.Next());
  EXPECT_EQ(walk.block().writer, 0u);
  EXPECT_EQ(walk.block().index, 1u);
  EXPECT_EQ(walk.block().id, 1u);
  EXPECT_EQ(walk.block().location, 48u);
  ASSERT_TRUE(walk.Next());
  EXPECT_EQ(walk.block().writer, 2u);
  EXPECT_EQ(walk.block().index, 0u);
  EXPECT_EQ(walk.block().id, 2u);
  EXPECT_FALSE(walk.Next());
  EXPECT_OK(walk.status());
  EXPECT_OK(opened.Walk("x", 1)) << "no such step, no blocks";
}

TEST(MetadataBlocksTest, ColumnMajorArraysAreShownRowMajor) {
  const Opened opened(Made({.column_major = true})
                          .Step({{GlobalArray("x", Type::kInt8, {2, 3, 4}, {BlockOf({0, 1, 2}, {2, 2, 1})}),
                                  GlobalArray("line", Type::kInt8, {5}, {BlockOf({1}, {3})})}}));
  ASSERT_OK_AND_ASSIGN(const Extents shape, opened.metadata.Shape(opened.Number("x"), 0));
  EXPECT_EQ(shape, (Extents{4, 3, 2}));
  BlockWalk walk = opened.metadata.Blocks(opened.Number("x"), 0);
  ASSERT_TRUE(walk.Next());
  EXPECT_EQ(walk.block().ToBox(), (Box{{2, 1, 0}, {1, 2, 2}}));
  BlockWalk line = opened.metadata.Blocks(opened.Number("line"), 0);
  ASSERT_TRUE(line.Next());
  EXPECT_EQ(line.block().ToBox(), (Box{{1}, {3}}));
}

Put Joined(const Extents& shape, const std::vector<Extents>& counts) {
  Put put = GlobalArray("j", Type::kUint8, shape, {});
  put.kind = Kind::kJoinedArray;
  for (const Extents& count : counts) put.blocks.push_back(BlockOf({}, count));
  return put;
}

TEST(MetadataBlocksTest, JoinedBlocksAreStacked) {
  const Opened opened(
      Made().Step({{Joined({3, kJoinedMark}, {{3, 2}, {3, 1}})}, {Joined({3, kJoinedMark}, {{3, 4}})}}));
  ASSERT_OK_AND_ASSIGN(const Extents shape, opened.metadata.Shape(opened.Number("j"), 0));
  EXPECT_EQ(shape, (Extents{3, 7}));
  BlockWalk walk = opened.metadata.Blocks(opened.Number("j"), 0);
  Numbers64 starts;
  while (walk.Next()) {
    EXPECT_EQ(walk.block().StartOf(0), 0u);
    EXPECT_EQ(walk.block().joined, 1u);
    starts.push_back(walk.block().StartOf(1));
  }
  EXPECT_EQ(starts, (Numbers64{0, 2, 3}));
}

TEST(MetadataBlocksTest, JoinedArraysThatContradictThemselvesAreRefused) {
  const std::uint64_t half = std::uint64_t{1} << 63;
  const Opened whole(Made().Step({{Joined({kJoinedMark}, {{5}})}, {Joined({kJoinedMark}, {{5}})}}));
  const auto damaged = [&](std::uint32_t pointer, std::uint64_t number) {
    Opened opened(whole.files);
    for (std::uint32_t writer = 0; writer < 2; ++writer) {
      const auto at = ValueAt<std::uint64_t>(InRecord(opened, "j", pointer, writer));
      const Metadata::RecordPlace record = opened.metadata.Record(0, writer);
      const auto base = reinterpret_cast<const char*>(record.body.data()) - opened.files.metadata.data();
      SetNumber(opened.files.metadata.data() + base + at, number);
    }
    return opened.Walk("j");
  };
  EXPECT_OK(whole.Walk("j"));
  EXPECT_STATUS(StatusCode::kDataLoss, damaged(kCount, half), "longer extent than can be counted");
  EXPECT_STATUS(StatusCode::kDataLoss, damaged(kShape, 12), "no joined dimension");
}

TEST(MetadataBlocksTest, LocalValuesHaveOneElementPerWriter) {
  const Put v = Scalar("v", Kind::kLocalValue, Type::kUint16, Raw<std::uint16_t>({3}));
  const Opened opened(Made().Step({{v}, {v}, {}}));
  ASSERT_OK_AND_ASSIGN(const Extents shape, opened.metadata.Shape(opened.Number("v"), 0));
  EXPECT_EQ(shape, Extents{3});
  EXPECT_STATUS(StatusCode::kNotFound, opened.metadata.Shape(opened.Number("v"), 1), "'v'");
}

TEST(MetadataBlocksTest, TheLowestWritersShapeHoldsForAll) {
  const Opened fits(Made().Step({{GlobalArray("x", Type::kInt8, {9}, {BlockOf({0}, {4})})},
                                 {GlobalArray("x", Type::kInt8, {20}, {BlockOf({4}, {5})})}}));
  EXPECT_OK(fits.Walk("x"));
  ASSERT_OK_AND_ASSIGN(const Extents shape, fits.metadata.Shape(fits.Number("x"), 0));
  EXPECT_EQ(shape, Extents{9});
  const Opened leaves(Made().Step({{GlobalArray("x", Type::kInt8, {9}, {BlockOf({0}, {4})})},
                                   {GlobalArray("x", Type::kInt8, {20}, {BlockOf({4}, {6})})}}));
  EXPECT_STATUS(StatusCode::kDataLoss, leaves.Walk("x"), "step 0, writer 1: a block leaves the shape");
}

TEST(MetadataBlocksTest, DamagedArrayRecordsAreRefusedWhenTheyAreUsed) {
  const Opened whole(
      Made().Step({{GlobalArray("x", Type::kDouble, {8}, {BlockOf({0}, {8}, 0, Raw<double>({0, 1}))})}}));
  struct Damage {
    std::uint32_t place;
    std::uint64_t number;
    std::string part;
  };
  const std::uint64_t length = whole.metadata.Record(0, 0).body.size();
  std::vector<Damage> damages = {
      {kDims, 0, "Dims is not 1 to 64"},
      {kDims, 65, "Dims"},
      {kDims, 2, "Dims"},
      {kBlockCount, length, "BlockCount"},
      {kDbCount, 2, "DBCount"},
      {kBlockCount, std::uint64_t{1} << 61, "BlockCount"},
      {56, 8, "leaves the record"},
      {56, length - 8, "leaves the record"},
  };
  for (const std::uint32_t place : {kShape, kCount, kOffset, kLocation}) {
    for (const std::uint64_t pointer : {std::uint64_t{0}, std::uint64_t{16}, length, length - 4, ~std::uint64_t{7}}) {
      damages.push_back({place, pointer, "leaves the record"});
    }
  }
  for (const Damage& damage : damages) {
    Opened opened(whole.files);
    SetNumber(InRecord(opened, "x", damage.place), damage.number);
    EXPECT_STATUS(StatusCode::kDataLoss, opened.Walk("x"), damage.part) << damage.place << " " << damage.number;
    EXPECT_FALSE(opened.metadata.Shape(opened.Number("x"), 0).ok());
    EXPECT_FALSE(opened.metadata.MinMaxOf(opened.Number("x")).ok());
  }
  Opened opened(whole.files);
  SetNumber(InRecord(opened, "x", 56), 0);
  BlockWalk walk = opened.metadata.Blocks(opened.Number("x"), 0);
  ASSERT_TRUE(walk.Next()) << "no MinMax is no damage";
  EXPECT_EQ(walk.block().min, nullptr);
}

TEST(MetadataBlocksTest, DimensionsAreTheSameInAllRecords) {
  const Put line = GlobalArray("x", Type::kInt8, {4}, {BlockOf({0}, {4})});
  const Put plane = GlobalArray("x", Type::kInt8, {2, 2}, {BlockOf({0, 0}, {2, 2})});
  const Opened opened(Made().Step({{line}, {plane}}).Step({{line}, {}}));
  EXPECT_EQ(opened.metadata.variables()[opened.Number("x")].dimensions, 1u);
  EXPECT_STATUS(StatusCode::kDataLoss, opened.Walk("x", 0), "writer 1: Dims is not as in other records");
  EXPECT_OK(opened.Walk("x", 1));
  ASSERT_OK_AND_ASSIGN(const std::uint32_t dimensions, opened.metadata.Dimensions(opened.Number("x"), 1));
  EXPECT_EQ(dimensions, 1u);
}

TEST(MetadataBlocksTest, MinMaxIsOverBlocksWritersAndSteps) {
  const double nan = std::nan("");
  const auto x = [](std::initializer_list<double> bounds) {
    return GlobalArray("x", Type::kDouble, {8}, {BlockOf({0}, {4}, 0, Raw(bounds))});
  };
  const auto n = [](std::int8_t value) { return Scalar("n", Kind::kLocalValue, Type::kInt8, Raw({value})); };
  const Opened opened(Made()
                          .Step({{x({1, 2}), n(3)}, {x({-3, 0}), n(-7)}})
                          .Step({{x({nan, nan}), n(9)}, {x({5, 6})}})
                          .Step({{x({nan, nan})}, {}}));
  const Metadata& metadata = opened.metadata;
  const VariableNumber vx = opened.Number("x"), vn = opened.Number("n");
  const auto bounds = [&](const absl::StatusOr<std::optional<MinMax>>& result) {
    EXPECT_TRUE(result.ok() && result->has_value());
    return std::pair(ValueAt<double>((*result)->min.data()), ValueAt<double>((*result)->max.data()));
  };
  EXPECT_EQ(bounds(metadata.MinMaxOf(vx, 0)), std::pair(-3.0, 2.0));
  EXPECT_EQ(bounds(metadata.MinMaxOf(vx, 1)), std::pair(5.0, 6.0)) << "a NaN gives way to a number";
  EXPECT_TRUE(std::isnan(bounds(metadata.MinMaxOf(vx, 2)).first));
  EXPECT_EQ(bounds(metadata.MinMaxOf(vx)), std::pair(-3.0, 6.0));
  ASSERT_OK_AND_ASSIGN(const std::optional<MinMax> values, metadata.MinMaxOf(vn));
  ASSERT_TRUE(values.has_value());
  EXPECT_EQ(ValueAt<std::int8_t>(values->min.data()), -7);
  EXPECT_EQ(ValueAt<std::int8_t>(values->max.data()), 9);
  ASSERT_OK_AND_ASSIGN(const std::optional<MinMax> none, metadata.MinMaxOf(vn, 2));
  EXPECT_FALSE(none.has_value());
}

TEST(MetadataBlocksTest, MinMaxSaysWhichBlocksAndStepsItLeavesOut) {
  const auto x = [](std::vector<PutBlock> blocks) { return GlobalArray("x", Type::kDouble, {8}, std::move(blocks)); };
  const auto known = BlockOf({0}, {4}, 0, Raw<double>({1, 2})), unknown = BlockOf({4}, {4}), empty = BlockOf({4}, {0});
  const Opened opened(Made()
                          .Step({{x({known})}, {x({empty})}})
                          .Step({{x({known})}, {x({unknown})}})
                          .Step({{x({unknown, unknown})}, {}})
                          .Step({{x({empty})}, {}}));
  const auto left_out = [&](std::optional<std::uint32_t> step) {
    const VariableNumber vx = opened.Number("x");
    const auto found = step ? opened.metadata.MinMaxOf(vx, *step) : opened.metadata.MinMaxOf(vx);
    EXPECT_TRUE(found.ok() && found->has_value());
    return std::pair((*found)->blocks_without, (*found)->steps_without);
  };
  EXPECT_EQ(left_out(0), std::pair(std::uint64_t{0}, 0u)) << "an empty block has nothing to say";
  EXPECT_EQ(left_out(1), std::pair(std::uint64_t{1}, 0u));
  EXPECT_FALSE((*opened.metadata.MinMaxOf(opened.Number("x"), 2)).has_value());
  EXPECT_FALSE((*opened.metadata.MinMaxOf(opened.Number("x"), 3)).has_value());
  EXPECT_EQ(left_out({}), std::pair(std::uint64_t{3}, 1u));
}

}  // namespace
}  // namespace cairn::bp5::testing
