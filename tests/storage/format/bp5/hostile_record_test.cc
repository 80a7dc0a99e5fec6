// Records that lead a reader astray or make it work without end, if it believes them.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "storage/format/bp5/encode.h"
#include "storage/format/bp5/metadata.h"
#include "storage/format/bp5/selection.h"
#include "tests/support/status_matchers.h"

namespace cairn::bp5 {
namespace {

using absl::StatusCode;
using Bytes = std::vector<std::byte>;  // as long as a file is and no longer, so that reads beyond it are seen

// Zeros without an end.
class CountingSource final : public ByteSource {
 public:
  absl::Status Read(std::uint32_t, std::uint64_t offset, std::span<std::byte> target) override {
    bytes += target.size();
    ++reads;
    std::memset(target.data(), static_cast<int>(offset / 4096), target.size());
    return absl::OkStatus();
  }
  std::uint64_t bytes = 0, reads = 0;
};

// One step of one writer that has one array of bytes.
class OneArray {
 public:
  OneArray(Kind kind, const Extents& shape, const std::vector<Box>& boxes) {
    Put put;
    put.name = "x";
    put.kind = kind;
    put.type = Type::kChar;
    put.shape = shape;
    for (const Box& box : boxes)
      put.blocks.push_back({.box = box, .location = 4096 * put.blocks.size(), .min_max = {}});
    WriterEncoder writer;
    const auto step = writer.Encode({{put}}, std::uint64_t{1} << 40);
    EXPECT_OK(step);
    const std::string metadata = EncodeStepMetadata({{*step}});
    index_ = BytesOf(EncodeIndexHeader({}) + EncodeWriterMap({{0}}, 1) +
                     EncodeStepRecord(0, metadata.size(), {{WriterData{.flushed = {}, .position = 0}}}));
    formats_ = BytesOf(EncodeFormatEntry(*step->format));
    metadata_ = BytesOf(metadata);
    EXPECT_OK(Extend());
  }

  absl::Status Extend() {
    opened = Metadata();
    return opened.Extend({index_, formats_, 0, metadata_});
  }
  // A number of the variable's record, or of the metadata record.
  void SetOfArray(std::uint32_t place, std::uint64_t number) { Set(opened.Find(0, 0, 0) + place, number); }
  void SetOfRecord(std::uint32_t place, std::uint64_t number) { Set(opened.Record(0, 0).body.data() + place, number); }
  absl::Status Walk() const {
    BlockWalk walk = opened.Blocks(0, 0);
    while (walk.Next()) {
    }
    return walk.status();
  }

  Metadata opened;

 private:
  static Bytes BytesOf(const std::string& text) {
    const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
    return {begin, begin + text.size()};
  }
  void Set(const std::byte* at, std::uint64_t number) {
    std::memcpy(metadata_.data() + (at - metadata_.data()), &number, sizeof number);
  }

  Bytes index_, formats_, metadata_;
};

constexpr std::uint32_t kDims = 0, kBlockCount = 8, kDbCount = 16, kLocation = 48;

TEST(HostileRecordTest, AFirstRecordWithoutDimensionsIsRefused) {
  for (const std::uint64_t blocks : {1, 20}) {
    for (const std::uint64_t location : {std::uint64_t{128}, std::uint64_t{1} << 40}) {
      OneArray array(Kind::kGlobalArray, {8}, {{{0}, {8}}});
      array.SetOfArray(kDims, 0);
      array.SetOfArray(kBlockCount, blocks);
      array.SetOfArray(kDbCount, 0);
      array.SetOfArray(kLocation, location);
      ASSERT_OK(array.Extend());
      EXPECT_STATUS(StatusCode::kDataLoss, array.Walk(), "Dims is not 1 to 64");
      EXPECT_STATUS(StatusCode::kDataLoss, array.opened.Shape(0, 0), "Dims is not 1 to 64");
      EXPECT_STATUS(StatusCode::kDataLoss, array.opened.MinMaxOf(0, 0), "Dims is not 1 to 64");
    }
  }
}

TEST(HostileRecordTest, APointerToNoBitsIsNotFollowed) {
  OneArray array(Kind::kGlobalArray, {8}, {{{0}, {8}}});
  array.SetOfRecord(0, 0);
  array.SetOfRecord(8, ~std::uint64_t{7});
  ASSERT_OK(array.Extend());
  EXPECT_TRUE(array.opened.variables()[0].steps.empty());
}

TEST(HostileRecordTest, BlocksOverEachOtherAreReadOnce) {
  constexpr std::uint64_t kElements = 1 << 20;
  const OneArray whole(Kind::kGlobalArray, {kElements}, std::vector<Box>(5000, Box{{0}, {kElements}}));
  // None has all of the selection, and the first alone has its last element.
  std::vector<Box> boxes = {{{kElements - 1}, {1}}};
  boxes.resize(5000, Box{{0}, {kElements - 1}});
  const OneArray most(Kind::kGlobalArray, {kElements}, boxes);
  for (const OneArray* const array : {&whole, &most}) {
    CountingSource source;
    Bytes target(kElements);
    ASSERT_OK_AND_ASSIGN(const bool covered, ReadSelection(array->opened, 0, 0, {{0}, {kElements}}, source, target));
    EXPECT_TRUE(covered);
    EXPECT_LE(source.bytes, kElements);
    EXPECT_EQ(target[0], std::byte{static_cast<std::uint8_t>(4999)}) << "the last block wins";
  }
}

TEST(HostileRecordTest, BlocksThatLeaveTooManyPiecesAreRefused) {
  // Every other element, again and again: what is left is in more and more pieces.
  std::vector<Box> boxes;
  for (int times = 0; times < 20; ++times) {
    for (std::uint64_t at = 0; at < 2000; at += 2) boxes.push_back({{at}, {1}});
  }
  const OneArray array(Kind::kGlobalArray, {2000}, boxes);
  CountingSource source;
  Bytes target(2000);
  EXPECT_STATUS(StatusCode::kResourceExhausted, ReadSelection(array.opened, 0, 0, {{0}, {2000}}, source, target),
                "variable x");
  EXPECT_LE(source.bytes, 8 * target.size());
}

TEST(HostileRecordTest, OverlapsOfAFewTimesAreReadInOrder) {
  // Blocks of one element with three neighbours on each side.
  std::vector<Box> boxes;
  for (std::uint64_t at = 0; at + 7 <= 2000; ++at) boxes.push_back({{at}, {7}});
  const OneArray array(Kind::kGlobalArray, {2000}, boxes);
  CountingSource source;
  Bytes target(2000);
  ASSERT_OK_AND_ASSIGN(const bool covered, ReadSelection(array.opened, 0, 0, {{0}, {2000}}, source, target));
  EXPECT_TRUE(covered);
  for (std::size_t i = 0; i < 1994; ++i) {
    ASSERT_EQ(target[i], std::byte{static_cast<std::uint8_t>(i)}) << "of the last block that has it";
  }
}

TEST(HostileRecordTest, BlocksAreFoundByNumberOrAsTheWalkShowsThem) {
  for (const Kind kind : {Kind::kLocalArray, Kind::kGlobalArray}) {
    std::vector<Box> boxes;
    for (std::uint64_t i = 0; i < 100; ++i) boxes.push_back({kind == Kind::kLocalArray ? Extents{} : Extents{i}, {1}});
    const OneArray array(kind, kind == Kind::kLocalArray ? Extents{} : Extents{100}, boxes);
    CountingSource source;
    Bytes first(1), second(1);
    BlockWalk walk = array.opened.Blocks(0, 0);
    while (walk.Next()) {
      ASSERT_OK(ReadBlock(array.opened, 0, 0, walk.block(), std::nullopt, source, first));
      ASSERT_OK(ReadBlock(array.opened, 0, 0, walk.block().id, std::nullopt, source, second));
      EXPECT_EQ(first, second);
      EXPECT_EQ(first[0], std::byte{static_cast<std::uint8_t>(walk.block().id)});
      BlockWalk other = array.opened.Blocks(0, 0);
      ASSERT_TRUE(other.Seek(walk.block().id));
      EXPECT_EQ(other.block().index, walk.block().index);
      EXPECT_EQ(other.block().location, walk.block().location);
      EXPECT_EQ(other.block().ToBox(), walk.block().ToBox());
    }
    ASSERT_OK(walk.status());
    EXPECT_STATUS(StatusCode::kNotFound, ReadBlock(array.opened, 0, 0, 100, std::nullopt, source, first), "block 100");
  }
}

}  // namespace
}  // namespace cairn::bp5
