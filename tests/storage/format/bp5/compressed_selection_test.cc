// Selections of arrays whose blocks are compressed: a directory that ADIOS2 wrote with operator "none", its blocks
// replaced.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "storage/format/bp5/metadata.h"
#include "storage/format/bp5/selection.h"
#include "tests/storage/format/bp5/bp_files.h"
#include "tests/storage/format/bp5/operator_blocks.h"
#include "tests/support/status_matchers.h"
#include "tests/support/vectors.h"

namespace cairn::bp5::testing {
namespace {

using absl::StatusCode;

// Pieces of subfiles.
class Pieces final : public ByteSource {
 public:
  absl::Status Read(std::uint32_t subfile, std::uint64_t offset, std::span<std::byte> target) override {
    ++reads;
    const auto found = Find(subfile, offset, target.size());
    if (found.size() != target.size()) return absl::DataLossError("ends before");
    std::memcpy(target.data(), found.data(), target.size());
    return absl::OkStatus();
  }
  std::span<const std::byte> InPlace(std::uint32_t subfile, std::uint64_t offset, std::uint64_t bytes) override {
    return mapped ? Find(subfile, offset, bytes) : std::span<const std::byte>();
  }

  std::map<std::pair<std::uint32_t, std::uint64_t>, std::string> pieces;
  bool mapped = false;
  int reads = 0;

 private:
  std::span<const std::byte> Find(std::uint32_t subfile, std::uint64_t offset, std::uint64_t bytes) const {
    auto piece = pieces.upper_bound({subfile, offset});
    if (piece == pieces.begin()) return {};
    --piece;
    const auto& [place, text] = *piece;
    if (place.first != subfile || offset - place.second > text.size() ||
        bytes > text.size() - (offset - place.second)) {
      return {};
    }
    return std::as_bytes(std::span(text)).subspan(offset - place.second, bytes);
  }
};

constexpr std::uint64_t kRows = 4, kColumns = 3;  // of a block of "z", which has two, one above the other

// Element i of the block of a writer.
float ValueOf(std::uint32_t writer, std::size_t i) {
  return static_cast<float>(std::sin(0.1 * static_cast<double>(i + kRows * kColumns * writer)));
}

class CompressedSelectionTest : public ::testing::Test {
 protected:
  using Compress = std::function<std::string(const std::string& elements)>;

  // False: no vectors.
  bool Write(const Compress& compress) {
    const auto folder = ::cairn::testing::VectorsPath("bp5");
    if (!folder) return false;
    files_ = ReadBpFiles(*folder + "/opnull_w2.bp");
    metadata_ = Metadata();
    source_ = Pieces();
    EXPECT_OK(ExtendWith(files_, metadata_));
    z_ = metadata_.FindVariable("z").value();
    for (std::uint32_t writer = 0; writer < 2; ++writer) {
      std::string elements;
      for (std::size_t i = 0; i < kRows * kColumns; ++i) {
        const float value = ValueOf(writer, i);
        elements.append(reinterpret_cast<const char*>(&value), sizeof value);
      }
      Replace(writer, compress(elements));
    }
    return true;
  }

  // Section 7: a pointer to the locations at 48 of the record, one to the stored bytes at 56.
  void Replace(std::uint32_t writer, const std::string& block) {
    constexpr std::uint64_t kLocation = std::uint64_t{1} << 20;
    char* const base = files_.metadata.data() + (metadata_.Record(0, writer).body.data() -
                                                 reinterpret_cast<const std::byte*>(files_.metadata.data()));
    const char* const record = base + (metadata_.Find(z_, 0, writer) - metadata_.Record(0, writer).body.data());
    const auto set = [&](std::uint64_t at, std::uint64_t number) { std::memcpy(base + at, &number, sizeof number); };
    const auto number_at = [&](std::uint64_t at) {
      std::uint64_t number = 0;
      std::memcpy(&number, record + at, sizeof number);
      return number;
    };
    set(16, std::uint64_t{1} << 30);  // all of the writer's data
    set(number_at(48), kLocation);
    set(number_at(56), block.size());
    ASSERT_OK_AND_ASSIGN(const DataPlace place, metadata_.Place(0, writer, kLocation, block.size()));
    source_.pieces[{place.subfile, place.offset}] = block;
  }

  absl::StatusOr<std::vector<float>> Select(const Box& box) {
    std::vector<float> values(*Elements(box.count));
    const auto read = ReadSelection(metadata_, z_, 0, box, source_, std::as_writable_bytes(std::span(values)));
    if (!read.ok()) return read.status();
    EXPECT_TRUE(*read);
    return values;
  }
  void ExpectSelection(const Box& box) {
    const auto values = Select(box);
    ASSERT_OK(values);
    for (std::size_t i = 0; i < values->size(); ++i) {
      const std::uint64_t row = box.start[0] + i / box.count[1], column = box.start[1] + i % box.count[1];
      const auto writer = static_cast<std::uint32_t>(row / kRows);
      ASSERT_NEAR((*values)[i], ValueOf(writer, row % kRows * kColumns + column), 1e-5) << row << " " << column;
    }
  }

  BpFiles files_;
  Metadata metadata_;
  Pieces source_;
  VariableNumber z_ = 0;
};

TEST_F(CompressedSelectionTest, SelectionsAndBlocksOfEachOperator) {
  for (const Compress& compress :
       std::vector<Compress>{Bzip2Block, RawBloscBlock,
                             [](const std::string& elements) { return BloscBlock(elements, {.element_bytes = 4}); },
                             [](const std::string& elements) {
                               return ZfpBlock(elements, Type::kFloat, {kRows, kColumns});
                             }}) {
    for (const bool mapped : {false, true}) {
      if (!Write(compress)) return;
      source_.mapped = mapped;
      ExpectSelection({.start = {0, 0}, .count = {8, 3}});
      ExpectSelection({.start = {3, 1}, .count = {2, 2}});
      ExpectSelection({.start = {7, 2}, .count = {1, 1}});
      std::vector<float> two(2);
      ASSERT_OK(ReadBlock(metadata_, z_, 0, 1, Box{.start = {1, 1}, .count = {2, 1}}, source_,
                          std::as_writable_bytes(std::span(two))));
      EXPECT_NEAR(two[0], ValueOf(1, 4), 1e-5);
      EXPECT_NEAR(two[1], ValueOf(1, 7), 1e-5);
    }
  }
}

TEST_F(CompressedSelectionTest, NothingCompressedIsShownInPlace) {
  if (!Write(Bzip2Block)) return;
  source_.mapped = true;
  ASSERT_OK_AND_ASSIGN(const auto row, SelectionInPlace(metadata_, z_, 0, {.start = {0, 0}, .count = {1, 3}}, source_));
  EXPECT_FALSE(row);
  ASSERT_OK_AND_ASSIGN(const auto block, BlockInPlace(metadata_, z_, 0, 1, {}, source_));
  EXPECT_FALSE(block);
  Write(RawBloscBlock);
  source_.mapped = true;
  ASSERT_OK_AND_ASSIGN(const auto raw, BlockInPlace(metadata_, z_, 0, 1, {}, source_));
  ASSERT_TRUE(raw);
  EXPECT_EQ(raw->size(), 48u);
}

TEST_F(CompressedSelectionTest, ErrorsNameTheBlockAndTheOperator) {
  if (!Write(Bzip2Block)) return;
  for (auto& [place, block] : source_.pieces) block[block.size() / 2] ^= 1;
  EXPECT_STATUS(StatusCode::kDataLoss, Select({.start = {0, 0}, .count = {8, 3}}),
                "variable z, step 0, writer 0, block 0: compressed by bzip2: batch 0");
  for (auto& [place, block] : source_.pieces) block[0] = 3;
  EXPECT_STATUS(StatusCode::kFailedPrecondition, Select({.start = {5, 0}, .count = {1, 1}}),
                "variable z, step 0, writer 1, block 0: compressed by mgard, which is not undone here");
  Write([](const std::string& elements) { return Bzip2Block(elements.substr(4)); });
  EXPECT_STATUS(StatusCode::kDataLoss, Select({.start = {5, 0}, .count = {1, 1}}),
                "it says that it has 44 bytes, its elements are 48");
}

}  // namespace
}  // namespace cairn::bp5::testing
