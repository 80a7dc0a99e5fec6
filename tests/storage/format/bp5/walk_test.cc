// Records of md.idx and entries of mmd.0, in pieces of any size.
#include "storage/format/bp5/walk.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "storage/format/bp5/encode.h"
#include "storage/format/bp5/format.h"

namespace cairn::bp5 {
namespace {

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string Records() {
  const WriterData unflushed{{}, 64}, flushed{{{0, 16}, {32, 48}}, 128};
  return EncodeWriterMap(std::vector<std::uint32_t>{0, 3}, 2) +
         EncodeStepRecord(8, 96, std::vector<WriterData>{unflushed, unflushed}) +
         EncodeStepRecord(104, 200, std::vector<WriterData>{flushed, flushed});
}

TEST(IndexWalkTest, RecordsComeWithTheirOffsetsAndNumbers) {
  const std::string records = Records();
  IndexWalk walk(BytesOf(records), kIndexHeaderBytes);
  ASSERT_TRUE(walk.Next());
  EXPECT_TRUE(walk.record().head.is_writer_map());
  EXPECT_EQ(walk.record().offset, kIndexHeaderBytes);
  const WriterMapBody map(walk.record().body);
  EXPECT_EQ(map.writers, 2u);
  EXPECT_EQ(map.aggregators, 2u);
  EXPECT_EQ(map.subfile_count, 4u);
  EXPECT_EQ(U64At(map.subfiles, 8), 3u);
  ASSERT_TRUE(walk.Next());
  EXPECT_TRUE(walk.record().head.is_step());
  EXPECT_EQ(walk.record().offset, kIndexHeaderBytes + 9 + 8 * 5);
  const StepBody first(walk.record().body);
  EXPECT_EQ(first.metadata_begin, 8u);
  EXPECT_EQ(first.metadata_bytes, 96u);
  EXPECT_EQ(first.PositionsEach(), 1u);
  EXPECT_EQ(U64At(first.positions, 8), 64u);
  ASSERT_TRUE(walk.Next());
  const StepBody second(walk.record().body);
  EXPECT_EQ(second.flushes, 2u);
  EXPECT_EQ(second.positions.size(), 2 * 8 * second.PositionsEach());
  EXPECT_FALSE(walk.Next());
  EXPECT_EQ(walk.offset(), kIndexHeaderBytes + records.size());
  EXPECT_FALSE(walk.unfinished().has_value());
}

TEST(IndexWalkTest, APieceThatEndsAnywhereHasTheRecordsThatAreWholeInIt) {
  const std::string records = Records();
  std::vector<std::uint64_t> ends = {0};
  for (IndexWalk walk(BytesOf(records), 0); walk.Next();) ends.push_back(walk.offset());
  for (std::size_t cut = 0; cut <= records.size(); ++cut) {
    IndexWalk walk(BytesOf(records).first(cut), 0);
    while (walk.Next()) {
    }
    std::uint64_t whole = 0;
    for (const std::uint64_t end : ends) whole = end <= cut ? end : whole;
    EXPECT_EQ(walk.offset(), whole) << cut;
    EXPECT_EQ(walk.unfinished().has_value(), cut - whole >= kIndexRecordHeadBytes) << cut;
    if (walk.unfinished()) {
      EXPECT_GT(whole + kIndexRecordHeadBytes + walk.unfinished()->body_bytes, cut);
    }
  }
}

TEST(IndexWalkTest, AnyLengthIsBelievedOnlyAsFarAsThereAreBytes) {
  std::string record = "s" + std::string(8, '\xff') + "body";
  IndexWalk walk(BytesOf(record), 5);
  EXPECT_FALSE(walk.Next());
  EXPECT_EQ(walk.offset(), 5u);
  ASSERT_TRUE(walk.unfinished().has_value());
  EXPECT_EQ(walk.unfinished()->body_bytes, ~std::uint64_t{0});
}

TEST(IndexWalkTest, WhatABodyDoesNotHaveIsZero) {
  const std::string one(8, '\2');
  const WriterMapBody map(BytesOf(one));
  EXPECT_EQ(map.writers, 0x0202020202020202u);
  EXPECT_EQ(map.aggregators, 0u);
  EXPECT_TRUE(map.subfiles.empty());
  const StepBody step({});
  EXPECT_EQ(step.metadata_begin + step.metadata_bytes + step.flushes, 0u);
  EXPECT_TRUE(step.positions.empty());
}

TEST(IndexHeaderTest, FieldsAreWhereTheSpecificationHasThem) {
  std::string header = EncodeIndexHeader({.active = true, .column_major = true, .id = 0x12345678});
  const IndexHeader read = ReadIndexHeader(BytesOf(header));
  EXPECT_EQ(read.text, "ADIOS-BP v2.<.0 Index Table");
  EXPECT_EQ(read.release, "2<0");
  EXPECT_EQ(read.version, 5);
  EXPECT_EQ(read.minor_version, 2);
  EXPECT_EQ(read.active, 1);
  EXPECT_EQ(read.row_order, 'y');
  EXPECT_EQ(read.id, 0x12345678u);
  header.replace(0, 32, 32, 'x');  // text without an end
  EXPECT_EQ(ReadIndexHeader(BytesOf(header)).text, std::string(32, 'x'));
}

TEST(FormatWalkTest, EntriesComeWithTheirOffsetsInAPieceThatEndsAnywhere) {
  const auto block = EncodeFormat({"Top", 8, 8, {{"n", "integer", 8, 0}}}, {});
  ASSERT_TRUE(block.ok());
  const std::string entry = EncodeFormatEntry(*block), entries = entry + entry;
  for (std::size_t cut = 0; cut <= entries.size(); ++cut) {
    FormatWalk walk(BytesOf(entries).first(cut), 100);
    std::size_t found = 0;
    while (walk.Next()) {
      EXPECT_EQ(walk.entry().offset, 100 + found++ * entry.size());
      EXPECT_EQ(walk.entry().id.size(), 12u);
      EXPECT_EQ(walk.entry().block_offset(), walk.entry().offset + 28);
      EXPECT_TRUE(DecodeFormat("here", walk.entry().block).ok());
    }
    EXPECT_EQ(found, cut / entry.size());
    EXPECT_EQ(walk.unfinished().has_value(), cut % entry.size() >= kFormatEntryHeadBytes) << cut;
  }
}

TEST(FormatWalkTest, LengthsThatOverflowFitNowhere) {
  const FormatEntryHead head{.id_bytes = ~std::uint64_t{0} - 8, .block_bytes = 64};
  EXPECT_FALSE(head.FitsIn(1 << 20));
  EXPECT_FALSE((FormatEntryHead{.id_bytes = 12, .block_bytes = ~std::uint64_t{0}}.FitsIn(1 << 20)));
  EXPECT_TRUE((FormatEntryHead{.id_bytes = 12, .block_bytes = 4}.FitsIn(32)));
  EXPECT_FALSE((FormatEntryHead{.id_bytes = 12, .block_bytes = 5}.FitsIn(32)));
}

TEST(NumberTypeTest, BaseAndSizeMakeAType) {
  using Base = FieldType::Base;
  EXPECT_EQ(NumberTypeOf(Base::kInteger, 2), Type::kInt16);
  EXPECT_EQ(NumberTypeOf(Base::kUnsigned, 8), Type::kUint64);
  EXPECT_EQ(NumberTypeOf(Base::kFloat, 4), Type::kFloat);
  EXPECT_EQ(NumberTypeOf(Base::kFloat, 16), Type::kLongDouble);
  EXPECT_EQ(NumberTypeOf(Base::kChar, 1), Type::kChar);
  for (const Base base : {Base::kInteger, Base::kUnsigned, Base::kFloat, Base::kChar}) {
    EXPECT_EQ(NumberTypeOf(base, 3), std::nullopt);
  }
  EXPECT_EQ(NumberTypeOf(Base::kFloat, 2), std::nullopt);
  EXPECT_EQ(NumberTypeOf(Base::kString, 8), std::nullopt);
  EXPECT_EQ(NumberTypeOf(Base::kStructure, 8), std::nullopt);
}

}  // namespace
}  // namespace cairn::bp5
