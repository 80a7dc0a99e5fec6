// Blocks that operators of ADIOS2 have stored: got back exactly, or an error; nothing is believed that they say.
#include "storage/format/bp5/operator.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/storage/format/bp5/operator_blocks.h"
#include "tests/support/status_matchers.h"

namespace cairn::bp5::testing {
namespace {

using absl::StatusCode;

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

absl::StatusOr<OperatorHead> HeadOf(const std::string& block, std::uint64_t bytes) {
  return ReadOperatorHead(BytesOf(block).first(std::min<std::size_t>(block.size(), kOperatorHeadBytes)), block.size(),
                          bytes);
}

// As a reader does it.
absl::StatusOr<std::string> ElementsIn(const std::string& block, Type type, std::uint64_t bytes) {
  CAIRN_ASSIGN_OR_RETURN(const OperatorHead head, HeadOf(block, bytes));
  if (head.raw) return block.substr(*head.raw, bytes);
  CAIRN_ASSIGN_OR_RETURN(const Memory elements, UndoOperator(BytesOf(block), type, bytes));
  return std::string(reinterpret_cast<const char*>(elements.get()), bytes);
}

void ExpectElements(const std::string& block, Type type, const std::string& elements) {
  ASSERT_OK_AND_ASSIGN(const std::string found, ElementsIn(block, type, elements.size()));
  EXPECT_TRUE(found == elements);
}

double Value(const std::string& elements, std::size_t i) {
  double value = 0;
  std::memcpy(&value, elements.data() + 8 * i, 8);
  return value;
}

void ExpectNear(const std::string& block, const std::string& elements, double error) {
  ASSERT_OK_AND_ASSIGN(const std::string found, ElementsIn(block, Type::kDouble, elements.size()));
  ASSERT_EQ(found.size(), elements.size());
  for (std::size_t i = 0; i < elements.size() / 8; ++i) {
    ASSERT_NEAR(Value(found, i), Value(elements, i), error) << "element " << i;
  }
}

std::string RandomBytes(std::size_t bytes) {
  std::mt19937_64 random(1);
  std::string made(bytes, '\0');
  for (char& byte : made) byte = static_cast<char>(random());
  return made;
}

void SetNumber(std::string& block, std::size_t at, std::uint64_t number, std::size_t bytes = 8) {
  std::memcpy(block.data() + at, &number, bytes);
}

TEST(OperatorTest, Bzip2) {
  for (const std::size_t count : {1, 7, 1000, 300'000}) {
    ExpectElements(Bzip2Block(Doubles(count)), Type::kDouble, Doubles(count));
  }
  ExpectElements(Bzip2Block(RandomBytes(1000)), Type::kUint8, RandomBytes(1000));
}

TEST(OperatorTest, BloscOfEachCompressorAndOfManyChunks) {
  const std::string elements = Doubles(20'000);
  for (const char* const compressor : {"blosclz", "lz4", "lz4hc", "zlib", "zstd"}) {
    ExpectElements(BloscBlock(elements, {.compressor = compressor}), Type::kDouble, elements);
  }
  ExpectElements(BloscBlock(elements, {.chunk_bytes = 7000}), Type::kDouble, elements);
  ExpectElements(BloscBlock(elements, {.older = true}), Type::kDouble, elements);
  ExpectElements(BloscBlock(RandomBytes(5000), {.element_bytes = 1}), Type::kUint8, RandomBytes(5000));
}

TEST(OperatorTest, BloscThatLeftTheElementsAlone) {
  const std::string elements = Doubles(9);
  const std::string block = RawBloscBlock(elements);
  ASSERT_OK_AND_ASSIGN(const OperatorHead head, HeadOf(block, elements.size()));
  EXPECT_EQ(head.raw, 23u);
  ExpectElements(block, Type::kDouble, elements);
  EXPECT_STATUS(StatusCode::kDataLoss, HeadOf(block.substr(0, block.size() - 1), elements.size()),
                "did not get smaller");
}

TEST(OperatorTest, ZfpOfEachMode) {
  const std::string elements = Doubles(4096);
  ExpectNear(ZfpBlock(elements, Type::kDouble, {4096}), elements, 1e-15);
  ExpectNear(ZfpBlock(elements, Type::kDouble, {64, 64}, {{"accuracy", "0.001"}}), elements, 0.001);
  ExpectNear(ZfpBlock(elements, Type::kDouble, {64, 64}, {{"accuracy", " +1e-6"}}), elements, 1e-6);
  ExpectNear(ZfpBlock(elements, Type::kDouble, {16, 16, 16}, {{"precision", "40"}}), elements, 1e-6);
  ExpectNear(ZfpBlock(elements, Type::kDouble, {16, 16, 16}, {{"rate", "32"}, {"backend", "serial"}}), elements, 1e-3);
}

TEST(OperatorTest, ZfpLeavesOutExtentsOfOne) {
  const std::string elements = Doubles(63 * 65);
  ExpectNear(ZfpBlock(elements, Type::kDouble, {1, 63, 1, 65}), elements, 1e-15);
}

TEST(OperatorTest, ZfpOfEachType) {
  const std::string floats = Floats(1024);
  for (const auto& [type, elements] : std::vector<std::pair<Type, std::string>>{
           {Type::kFloat, floats}, {Type::kComplexFloat, floats}, {Type::kComplexDouble, Doubles(1024)}}) {
    const std::uint64_t count = elements.size() / ElementBytes(type);
    const std::string block = ZfpBlock(elements, type, {4, count / 4});
    ASSERT_OK_AND_ASSIGN(const std::string found, ElementsIn(block, type, elements.size()));
    EXPECT_EQ(found.size(), elements.size());
  }
  std::vector<std::int32_t> integers(500), found(500);
  for (std::int32_t i = 0; i < 500; ++i) integers[static_cast<std::size_t>(i)] = 1000 * i;
  const std::string elements(reinterpret_cast<const char*>(integers.data()), 2000);
  ASSERT_OK_AND_ASSIGN(const std::string bytes,
                       ElementsIn(ZfpBlock(elements, Type::kInt32, {500}), Type::kInt32, 2000));
  std::memcpy(found.data(), bytes.data(), 2000);
  for (std::size_t i = 0; i < 500; ++i) EXPECT_NEAR(found[i], integers[i], 4);
  EXPECT_OK(ElementsIn(ZfpBlock(elements, Type::kInt64, {250}), Type::kInt64, 2000));
}

// ADIOS2 has changed how it merges dimensions, and blocks do not say which way it was.
TEST(OperatorTest, ZfpOfManyDimensionsIsReadTheWayThatFits) {
  const std::string elements = Doubles(5 * 6 * 7 * 9);
  for (const std::size_t merged_to : {3, 4}) {
    ExpectNear(ZfpBlock(elements, Type::kDouble, {5, 6, 7, 9}, {{"accuracy", "1e-9"}}, merged_to), elements, 1e-9);
    ExpectNear(ZfpBlock(elements, Type::kDouble, {5, 2, 3, 7, 9}, {}, merged_to), elements, 1e-15);
    const std::string whole = Doubles(8 * 8 * 8 * 8);
    EXPECT_STATUS(StatusCode::kFailedPrecondition,
                  ElementsIn(ZfpBlock(whole, Type::kDouble, {8, 8, 8, 8}, {{"rate", "8"}}, merged_to), Type::kDouble,
                             whole.size()),
                  "compressed by zfp: in four dimensions or in three");
  }
}

TEST(OperatorTest, OthersAreNamed) {
  const auto answer = [](int number) {
    const std::string block = std::string(1, static_cast<char>(number)) + "\1" + std::string(60, '\0');
    return HeadOf(block, 8).status();
  };
  EXPECT_STATUS(StatusCode::kFailedPrecondition, answer(2), "compressed by libpressio, which is not undone here");
  EXPECT_STATUS(StatusCode::kFailedPrecondition, answer(3), "compressed by mgard, which is not undone here");
  EXPECT_STATUS(StatusCode::kFailedPrecondition, answer(6), "compressed by sz, which is not undone here");
  EXPECT_STATUS(StatusCode::kFailedPrecondition, answer(11), "compressed by sz3, which is not undone here");
  EXPECT_STATUS(StatusCode::kFailedPrecondition, answer(99), "compressed by operator 99, which is not undone here");
  std::string block = Bzip2Block(Doubles(4));
  block[1] = 2;
  EXPECT_STATUS(StatusCode::kFailedPrecondition, HeadOf(block, 32), "compressed by bzip2 in layout 2");
  std::string newer = BloscBlock(Doubles(1000));
  newer[23] = 5;
  EXPECT_STATUS(StatusCode::kFailedPrecondition, ElementsIn(newer, Type::kDouble, 8000), "that of blosc 2");
}

TEST(OperatorTest, WhatBlocksSayOfTheirSizeMustBeTheElements) {
  const std::string elements = Doubles(1000);
  for (const std::string& block : {Bzip2Block(elements), BloscBlock(elements), RawBloscBlock(elements)}) {
    for (const std::uint64_t bytes : {0, 8, 7992, 8008}) {
      EXPECT_STATUS(StatusCode::kDataLoss, ElementsIn(block, Type::kDouble, bytes), "8000");
    }
  }
  EXPECT_STATUS(StatusCode::kDataLoss, ElementsIn(ZfpBlock(elements, Type::kDouble, {1000}), Type::kDouble, 7992),
                "its extents make 8000 bytes, its elements are 7992");
  EXPECT_STATUS(StatusCode::kDataLoss, ElementsIn(ZfpBlock(elements, Type::kDouble, {1000}), Type::kInt64, 8000),
                "type");
  EXPECT_STATUS(StatusCode::kDataLoss, ElementsIn(ZfpBlock(elements, Type::kDouble, {1000}), Type::kUint8, 8000),
                "does not compress elements of type");
}

// Before there is memory for them.
TEST(OperatorTest, BlocksThatClaimGigabytesAreRefused) {
  constexpr std::uint64_t kClaimed = std::uint64_t{12} << 30;
  const std::string elements = Doubles(1000);
  std::string bzip2 = Bzip2Block(Doubles(10));
  SetNumber(bzip2, 4, kClaimed);
  SetNumber(bzip2, 12, 7);
  bzip2.insert(36, std::string(16 * 6, '\0'));
  EXPECT_STATUS(StatusCode::kDataLoss, ElementsIn(bzip2, Type::kDouble, kClaimed), "cannot be in");
  std::string blosc = BloscBlock(elements);
  SetNumber(blosc, 4, kClaimed);
  EXPECT_STATUS(StatusCode::kDataLoss, ElementsIn(blosc, Type::kDouble, kClaimed), "too few for a chunk");
  std::string zfp = ZfpBlock(elements, Type::kDouble, {1000});
  SetNumber(zfp, 12, kClaimed / 8);
  EXPECT_STATUS(StatusCode::kDataLoss, ElementsIn(zfp, Type::kDouble, kClaimed), "are no whole stream");
  EXPECT_STATUS(StatusCode::kResourceExhausted, ElementsIn(zfp, Type::kDouble, std::uint64_t{1} << 50),
                "got back at once");
  EXPECT_STATUS(StatusCode::kDataLoss, HeadOf(std::string("\7\1\0\0", 4) + std::string(100 << 20, ' '), 8), "too many");
}

TEST(OperatorTest, ZfpParametersThatMakeNoSense) {
  const std::string elements = Doubles(64);
  const auto answer = [&](const std::string& good, const std::string& name, const std::string& value) {
    std::string block = ZfpBlock(elements, Type::kDouble, {64}, {{name, good}});
    block.replace(block.find(good, 32), good.size(), value);
    return ElementsIn(block, Type::kDouble, elements.size()).status();
  };
  EXPECT_STATUS(StatusCode::kDataLoss, answer("16.0000", "rate", "1e99999"), "parameter rate");
  EXPECT_STATUS(StatusCode::kDataLoss, answer("16.0000", "rate", "-16.000"), "parameter rate");
  EXPECT_STATUS(StatusCode::kDataLoss, answer("16.0000", "rate", "2000000"), "parameter rate");
  EXPECT_STATUS(StatusCode::kDataLoss, answer("16.0000", "rate", "1000.00"), "no whole stream");
  EXPECT_STATUS(StatusCode::kDataLoss, answer("0.00001", "accuracy", "     no"), "parameter accuracy: no number");
  const std::string both = ZfpBlock(elements, Type::kDouble, {64}, {{"accuracy", "1"}, {"rate", "16"}});
  EXPECT_STATUS(StatusCode::kDataLoss, ElementsIn(both, Type::kDouble, elements.size()), "exclude each other");
}

std::vector<std::pair<Type, std::string>> SmallBlocks() {
  const std::string elements = Doubles(128);
  return {{Type::kDouble, Bzip2Block(elements)},
          {Type::kDouble, BloscBlock(elements, {.chunk_bytes = 512})},
          {Type::kDouble, BloscBlock(elements, {.compressor = "zstd", .older = true})},
          {Type::kDouble, BloscBlock(elements, {.compressor = "blosclz"})},
          {Type::kDouble, RawBloscBlock(elements)},
          {Type::kDouble, ZfpBlock(elements, Type::kDouble, {8, 16}, {{"accuracy", "0.01"}})},
          {Type::kDouble, ZfpBlock(elements, Type::kDouble, {2, 4, 4, 4}, {{"rate", "16"}}, 3)},
          {Type::kFloat, ZfpBlock(Floats(256), Type::kFloat, {256})}};
}

TEST(OperatorTest, BlocksThatAreCutAreDamaged) {
  for (const auto& [type, block] : SmallBlocks()) {
    for (std::size_t bytes = 0; bytes < block.size(); ++bytes) {
      const auto found = ElementsIn(block.substr(0, bytes), type, 1024);
      // Of zfp's last word not all bits mean something, of the other bytes all do.
      EXPECT_FALSE(found.ok() && bytes + 8 < block.size()) << "cut at " << bytes << " of " << block.size();
    }
  }
}

// Under the sanitizers: nothing outside of the block is read.
TEST(OperatorTest, ChangedBitsAreAnErrorOrOtherElements) {
  for (const auto& [type, block] : SmallBlocks()) {
    for (std::size_t bit = 0; bit < 8 * block.size(); ++bit) {
      std::string changed = block;
      changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
      const auto found = ElementsIn(changed, type, 1024);
      EXPECT_TRUE(!found.ok() || found->size() == 1024u) << "bit " << bit;
    }
  }
}

}  // namespace
}  // namespace cairn::bp5::testing
