// Which blocks a client reads straight into its memory, and that nothing is left out or read twice.
#include "daemon/data/straight.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "storage/base/checksum.h"

namespace cairn {
namespace {

constexpr std::uint64_t kMiB = kCrcBlockBytes;

RestoreSource FileOf(std::uint64_t bytes) {
  RestoreSource source;
  source.path = "/cache/file";
  source.file_bytes = bytes;
  source.crc32c.resize((bytes + kMiB - 1) / kMiB);
  return source;
}

class StraightTest : public testing::Test {
 protected:
  StraightPlan Plan(const RestorePiece& piece) const { return PlanStraight(sources_, {piece}, alignments_, memory_); }

  std::vector<RestoreSource> sources_ = {FileOf(10 * kMiB + 5)};
  std::vector<std::uint64_t> alignments_ = {512};
  std::vector<std::optional<std::uint64_t>> memory_ = {0};
};

TEST_F(StraightTest, WholeBlocksAreReadStraightAndTheEndsGoThroughAnImage) {
  memory_[0] = 512;
  // Bytes 1536 to 3 MiB + 100 of the file: two whole blocks, which begin 1 MiB - 1536 behind the variable's beginning.
  const StraightPlan plan = Plan({.variable_offset = 512, .file_offset = 1536, .bytes = 3 * kMiB + 100 - 1536});
  ASSERT_EQ(plan.sources.size(), 1u);
  ASSERT_EQ(plan.sources[0].runs.size(), 1u);
  const StraightRun& run = plan.sources[0].runs[0];
  EXPECT_EQ(run.file_offset, kMiB);
  EXPECT_EQ(run.variable_offset, 512 + kMiB - 1536);
  EXPECT_EQ(run.blocks, 2u);
  ASSERT_EQ(plan.rest.size(), 2u);
  EXPECT_EQ(plan.rest[0].file_offset, 1536u);
  EXPECT_EQ(plan.rest[0].variable_offset, 512u);
  EXPECT_EQ(plan.rest[0].bytes, kMiB - 1536);
  EXPECT_EQ(plan.rest[1].file_offset, 3 * kMiB);
  EXPECT_EQ(plan.rest[1].variable_offset, 512 + 3 * kMiB - 1536);
  EXPECT_EQ(plan.rest[1].bytes, 100u);
}

TEST_F(StraightTest, AWholePieceOfWholeBlocksLeavesNothing) {
  const StraightPlan plan = Plan({.file_offset = 2 * kMiB, .bytes = 4 * kMiB});
  ASSERT_EQ(plan.sources.size(), 1u);
  EXPECT_EQ(plan.sources[0].runs[0].blocks, 4u);
  EXPECT_TRUE(plan.rest.empty());
}

TEST_F(StraightTest, PiecesThatGoOnCountAsOne) {
  const auto plan = [this](const RestorePiece& next) {
    return PlanStraight(sources_, {{.file_offset = 0, .bytes = kMiB + 512}, next}, alignments_, memory_);
  };
  const RestorePiece goes_on = {.variable_offset = kMiB + 512, .file_offset = kMiB + 512, .bytes = 3 * kMiB - 512};
  const StraightPlan joined = plan(goes_on);
  ASSERT_EQ(joined.sources.size(), 1u);
  ASSERT_EQ(joined.sources[0].runs.size(), 1u);
  EXPECT_EQ(joined.sources[0].runs[0].blocks, 4u);
  EXPECT_TRUE(joined.rest.empty());
  RestorePiece elsewhere = goes_on, later = goes_on;
  elsewhere.file_offset += 512;
  later.variable_offset += 512;
  for (const RestorePiece& next : {elsewhere, later}) EXPECT_EQ(plan(next).sources[0].runs.size(), 2u);
}

TEST_F(StraightTest, WhatDoesNotFitGoesThroughAnImage) {
  const auto expect_rest = [this](const char* what, const RestorePiece& piece) {
    SCOPED_TRACE(what);
    const StraightPlan plan = Plan(piece);
    EXPECT_TRUE(plan.sources.empty());
    ASSERT_EQ(plan.rest.size(), 1u);
    EXPECT_EQ(plan.rest[0].bytes, piece.bytes);
    EXPECT_EQ(plan.rest[0].rows, piece.rows);
  };
  const RestorePiece good = {.file_offset = kMiB, .bytes = 2 * kMiB};
  expect_rest("no whole block", {.file_offset = kMiB + 1, .bytes = 2 * kMiB - 2});
  expect_rest("the file's last block is shorter", {.file_offset = 10 * kMiB, .bytes = 5});
  expect_rest("several rows",
              {.file_offset = 0, .bytes = 2 * kMiB, .rows = 2, .variable_stride = 2 * kMiB, .file_stride = 3 * kMiB});
  expect_rest("no such variable", {.variable = 1, .file_offset = kMiB, .bytes = 2 * kMiB});
  expect_rest("no such source", {.source = 1, .file_offset = kMiB, .bytes = 2 * kMiB});
  expect_rest("beyond the file", {.file_offset = 9 * kMiB, .bytes = 2 * kMiB});
  memory_[0] = 16;
  expect_rest("memory that is not aligned", good);
  alignments_[0] = 16;
  EXPECT_FALSE(Plan(good).sources.empty());
  sources_[0].crc32c.pop_back();
  expect_rest("a file without all its checksums", good);
  sources_ = {FileOf(10 * kMiB + 5)};
  alignments_[0] = 0;
  expect_rest("a file that is not read straight", good);
  alignments_[0] = 16;
  memory_[0].reset();
  expect_rest("memory that is not in one row", good);
}

// Bytes of the variable: each from one place, and that the right one.
TEST_F(StraightTest, PiecesAtRandomAreCoveredOnce) {
  std::mt19937_64 random(testing::UnitTest::GetInstance()->random_seed());
  sources_ = {FileOf(40 * kMiB), FileOf(40 * kMiB)};
  alignments_ = {512, 1};
  memory_ = {512};
  for (int round = 0; round < 200; ++round) {
    std::vector<RestorePiece> pieces;
    std::uint64_t at = 0;
    for (int i = 0; i < 6; ++i) {
      const std::uint64_t bytes = 1 + random() % (4 * kMiB), offset = random() % (30 * kMiB) / 256 * 256;
      pieces.push_back({.variable_offset = at, .source = random() % 2, .file_offset = offset, .bytes = bytes});
      at += bytes;
    }
    const StraightPlan plan = PlanStraight(sources_, pieces, alignments_, memory_);
    struct Part {
      std::uint64_t begin, end, file_offset;
      std::size_t source;
    };
    std::vector<Part> parts;
    for (const RestorePiece& piece : plan.rest) {
      parts.push_back({piece.variable_offset, piece.variable_offset + piece.bytes, piece.file_offset, piece.source});
    }
    for (const StraightSource& source : plan.sources) {
      for (const StraightRun& run : source.runs) {
        EXPECT_EQ(run.file_offset % kMiB, 0u);
        EXPECT_EQ((512 + run.variable_offset) % alignments_[source.source], 0u);
        const std::uint64_t end = run.variable_offset + run.blocks * kMiB;
        parts.push_back({run.variable_offset, end, run.file_offset, source.source});
      }
    }
    std::ranges::sort(parts, {}, &Part::begin);
    std::uint64_t covered = 0;
    for (const Part& part : parts) {
      ASSERT_EQ(part.begin, covered);
      covered = part.end;
      const auto piece = std::ranges::find_if(pieces, [&](const RestorePiece& one) {
        return one.variable_offset <= part.begin && part.end <= one.variable_offset + one.bytes;
      });
      ASSERT_NE(piece, pieces.end());
      EXPECT_EQ(part.file_offset - piece->file_offset, part.begin - piece->variable_offset);
      EXPECT_EQ(part.source, piece->source);
    }
    EXPECT_EQ(covered, at);
  }
}

}  // namespace
}  // namespace cairn
