#include "storage/format/bp5/encode.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "storage/format/bp5/image.h"
#include "tests/storage/format/bp5/step_model.h"
#include "tests/support/status_matchers.h"
#include "tests/support/vectors.h"

namespace cairn::bp5 {
namespace {

using bpdir::Image;

std::uint64_t NumberAt(std::string_view bytes, std::size_t at) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size();) {
    if (hex[i] == ' ' || hex[i] == '\n') {
      ++i;
      continue;
    }
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
    i += 2;
  }
  return bytes;
}

// BP5 specification, section 10: an attribute a = 5, a scalar n = 7, an array x = {1.5, -2, 4}.
Image WorkedExample() {
  WriterEncoder encoder;
  const std::vector<Put> puts = {Int32("n", 7), Doubles("x", 0, 3, -2, 4)};
  const std::vector<Attribute> attributes = {Int32Attribute("a", 5)};
  const absl::StatusOr<EncodedStep> step = encoder.Encode(puts, 32, attributes);
  EXPECT_OK(step);
  Image image({});
  if (step.ok()) image.Append({&*step, 1}, std::vector<WriterData>(1), std::vector<std::uint32_t>{0});
  return image;
}

TEST(EncodeTest, TheWorkedExampleComesOutByteByByte) {
  const Image image = WorkedExample();
  EXPECT_EQ(image.metadata(), FromHex(R"(
      4001000000000000 d000000000000000 6000000000000000
      0200009ae3769ac6683d18c4 b800000000000000 00000000
      0100000000000000 8000000000000000 2000000000000000 07000000 00000000
      0000000000000000 0000000000000000 0000000000000000 0000000000000000
      0100000000000000 0100000000000000 0100000000000000
      8800000000000000 9000000000000000 9800000000000000 a000000000000000 a800000000000000
      0300000000000000
      0300000000000000 0300000000000000 0000000000000000 0000000000000000 00000000000000c0 0000000000001040
      0200008d72b6d67f54032261 4400000000000000 00000000
      0100000000000000 2000000000000000 0000000000000000 0000000000000000
      3800000000000000 0400000000000000 4000000000000000
      3361000000000000 0500000000000000)"));
  EXPECT_EQ(image.index(), std::string("ADIOS-BP v2.<.0 Index Table") + std::string(5, '\0') + "2<0" +
                               FromHex("00 00 05 02 00 6e 00") + std::string(22, '\0') + FromHex(R"(
      77 2000000000000000 0100000000000000 0100000000000000 0100000000000000 0000000000000000
      73 2000000000000000 0000000000000000 4801000000000000 0000000000000000 0000000000000000)"));
}

TEST(EncodeTest, TheWorkedExampleHasTheSameFilesAsTheReferenceWriters) {
  const auto vectors = testing::VectorsPath("bp5/tiny_w1.bp");
  if (!vectors) return;
  const Image image = WorkedExample();
  EXPECT_EQ(image.metadata(), testing::ReadVector(*vectors + "/md.0"));
  EXPECT_EQ(image.formats(), testing::ReadVector(*vectors + "/mmd.0"));
  std::string index = testing::ReadVector(*vectors + "/md.idx");
  std::memset(index.data() + 42, 0, 4);  // random there
  EXPECT_EQ(image.index(), index);
}

TEST(EncodeTest, TheHeaderSaysWhatItIsAsked) {
  const std::string header = EncodeIndexHeader({.active = true, .column_major = true, .id = 0x01020304});
  ASSERT_EQ(header.size(), 64u);
  EXPECT_EQ(header[kActiveOffset], 1);
  EXPECT_EQ(header[40], 'y');
  EXPECT_EQ(header.substr(42, 4), "\4\3\2\1");
  EXPECT_EQ(EncodeIndexHeader({}).substr(40, 2), std::string("n\0", 2));
}

TEST(EncodeTest, FlushesAndPositionsOfEachWriterStandInTheStepRecord) {
  const std::vector<WriterData> data = {{.flushed = {{64, 32}}, .position = 128},
                                        {.flushed = {{256, 0}}, .position = 512}};
  const std::string record = EncodeStepRecord(1000, 2000, data);
  ASSERT_EQ(record.size(), 9 + 8 * (3 + 2 * 3));
  EXPECT_EQ(record[0], 's');
  const std::uint64_t numbers[] = {72, 1000, 2000, 1, 64, 32, 128, 256, 0, 512};
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(NumberAt(record, 1 + 8 * i), numbers[i]) << i;
}

TEST(EncodeTest, AWriterMapCountsSubfilesByTheHighest) {
  const std::string record = EncodeWriterMap(std::vector<std::uint32_t>{4, 4, 2}, 2);
  const std::uint64_t numbers[] = {48, 3, 2, 5, 4, 4, 2};
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(NumberAt(record, 1 + 8 * i), numbers[i]) << i;
}

TEST(EncodeTest, AFormatEntryIsPaddedButItsBlockIsNot) {
  FormatBlock block;
  block.bytes = std::string(12, 'b');
  const std::string entry = EncodeFormatEntry(block);
  EXPECT_EQ(entry.size(), 16u + 12 + 16);
  EXPECT_EQ(NumberAt(entry, 0), 12u);
  EXPECT_EQ(NumberAt(entry, 8), 16u);
}

// --- formats ---

TEST(EncodeTest, WritersWithTheSameVariablesInTheSameOrderShareAFormat) {
  WriterEncoder first, second, third;
  const std::vector<Put> puts = {Int32("n", 7), Doubles("x", 0, 3, -2, 4)};
  const std::vector<Put> other = {puts[1], puts[0]};
  ASSERT_OK_AND_ASSIGN(const EncodedStep a, first.Encode(puts, 32));
  ASSERT_OK_AND_ASSIGN(const EncodedStep b, second.Encode(puts, 32));
  ASSERT_OK_AND_ASSIGN(const EncodedStep c, third.Encode(other, 32));
  EXPECT_EQ(a.format.get(), b.format.get());
  EXPECT_NE(a.format->id, c.format->id);
  // In any order, as long as the format has them all.
  ASSERT_OK_AND_ASSIGN(const EncodedStep d, second.Encode(other, 32));
  EXPECT_EQ(a.format.get(), d.format.get());
}

TEST(EncodeTest, FormatsAreSharedBetweenThreadsAndGoWhenNobodyHasThem) {
  const std::vector<Put> puts = {Int32("shared", 7), Doubles("between threads", 0, 3, -2, 4)};
  std::vector<std::shared_ptr<const FormatBlock>> formats(8);
  std::vector<std::thread> threads;
  for (auto& format : formats) {
    threads.emplace_back([&] { format = WriterEncoder().Encode(puts, 32)->format; });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& format : formats) EXPECT_EQ(format.get(), formats[0].get());

  const std::weak_ptr<const FormatBlock> watched = formats[0];
  formats.clear();
  for (int i = 0; i < 100; ++i) ASSERT_OK(WriterEncoder().Encode(std::vector{Int32(fmt::format("n{}", i), i)}, 0));
  EXPECT_TRUE(watched.expired());
}

TEST(EncodeTest, AFormatGainsTheFieldsOfNewVariables) {
  WriterEncoder encoder, at_once;
  const std::vector<Put> puts = {Int32("n", 7), Int32("m", 8)};
  ASSERT_OK_AND_ASSIGN(const EncodedStep before, encoder.Encode(std::span(puts).first(1), 0));
  ASSERT_OK_AND_ASSIGN(const EncodedStep after, encoder.Encode(puts, 0));
  ASSERT_OK_AND_ASSIGN(const EncodedStep both, at_once.Encode(puts, 0));
  EXPECT_NE(before.format->id, after.format->id);
  EXPECT_EQ(after.format.get(), both.format.get());
  EXPECT_EQ(after.record, both.record);
}

TEST(EncodeTest, TwoSparseStepsOnEndStartAFreshFormat) {
  WriterEncoder encoder, fresh;
  const std::vector<Put> puts = {Int32("a", 1), Int32("b", 2), Int32("c", 3)};
  ASSERT_OK_AND_ASSIGN(const EncodedStep all, encoder.Encode(puts, 0));
  const std::span<const Put> one = std::span(puts).last(1);
  ASSERT_OK_AND_ASSIGN(const EncodedStep sparse, encoder.Encode(one, 0));
  EXPECT_EQ(sparse.format.get(), all.format.get());
  ASSERT_OK_AND_ASSIGN(const EncodedStep again, encoder.Encode(one, 0));
  ASSERT_OK_AND_ASSIGN(const EncodedStep alone, fresh.Encode(one, 0));
  EXPECT_EQ(again.format.get(), alone.format.get());
  EXPECT_EQ(again.record, alone.record);
}

TEST(EncodeTest, AStepWithHalfOfTheFieldsKeepsTheFormat) {
  WriterEncoder encoder;
  const std::vector<Put> puts = {Int32("a", 1), Int32("b", 2), Int32("c", 3)};
  ASSERT_OK_AND_ASSIGN(const EncodedStep all, encoder.Encode(puts, 0));
  for (const std::size_t written : {1, 2, 1, 3, 1, 2}) {
    ASSERT_OK_AND_ASSIGN(const EncodedStep step, encoder.Encode(std::span(puts).first(written), 0));
    EXPECT_EQ(step.format.get(), all.format.get()) << written;
  }
}

TEST(EncodeTest, WhatAFreshFormatLeftOutIsStillKnown) {
  WriterEncoder encoder;
  const std::vector<Put> puts = {Int32("a", 1), Int32("b", 2), Int32("c", 3)};
  ASSERT_OK(encoder.Encode(puts, 0));
  for (int i = 0; i < 2; ++i) ASSERT_OK(encoder.Encode(std::span(puts).first(1), 0));
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, encoder.Encode(std::vector{Doubles("b", 0, 1, 0, 0)}, 16), "b: ");
}

std::uint64_t FirstHash(const FormatBlock& block) {
  return NumberAt({reinterpret_cast<const char*>(block.id.bytes.data()), 12}, 4) & 0xffffffff;
}

// The name was found by trying many.
TEST(EncodeTest, AnIdentifierIsNeverOneThatReadersTakeForAnotherKind) {
  Put put = Int32("v_snrNh400", 0);
  put.type = Type::kInt8;
  put.value = "x";
  const NewStructure plain{.name = "MetaData",
                           .fixed_bytes = 25,
                           .fields = {{"BitFieldCount", "integer", 8, 0},
                                      {"BitField", "integer[BitFieldCount]", 8, 8},
                                      {"DataBlockSize", "integer", 8, 16},
                                      {"BPg_v_snrNh400", "integer", 1, 24}}};
  ASSERT_OK_AND_ASSIGN(const FormatBlock refused, EncodeFormat(plain, {}));
  EXPECT_EQ(FirstHash(refused), 0u);
  WriterEncoder encoder;
  ASSERT_OK_AND_ASSIGN(const EncodedStep step, encoder.Encode({&put, 1}, 0));
  EXPECT_NE(FirstHash(*step.format), 0u);
}

TEST(EncodeTest, NothingPutIsARecordWithoutFields) {
  WriterEncoder encoder;
  ASSERT_OK_AND_ASSIGN(const EncodedStep step, encoder.Encode({}, 0));
  EXPECT_EQ(step.record.size(), 48u);
  EXPECT_EQ(NumberAt(step.record, 12), 24u);
  EXPECT_EQ(step.record.substr(24), std::string(24, '\0'));
  EXPECT_EQ(step.attributes_format, nullptr);
}

// --- format blocks ---

TEST(EncodeFormatTest, SubStructuresStandInDescendingOrderOfTheirNames) {
  const NewStructure top{.name = "Top", .fixed_bytes = 8, .fields = {{"n", "integer", 8, 0}}};
  NewStructure a = top, b = top;
  a.name = "Apple";
  b.name = "Pear";
  ASSERT_OK_AND_ASSIGN(const FormatBlock one, EncodeFormat(top, {a, b}));
  ASSERT_OK_AND_ASSIGN(const FormatBlock two, EncodeFormat(top, {b, a}));
  EXPECT_EQ(one.id, two.id);
  EXPECT_LT(one.bytes.find("Pear"), one.bytes.find("Apple"));
}

TEST(EncodeFormatTest, WhatABlockCannotHoldIsRefused) {
  const NewStructure good{.name = "Top", .fixed_bytes = 8, .fields = {{"n", "integer", 8, 0}}};
  ASSERT_OK(EncodeFormat(good, {}));
  const auto refused = [&](auto change, const char* part) {
    NewStructure bad = good;
    change(bad);
    EXPECT_STATUS(absl::StatusCode::kInvalidArgument, EncodeFormat(bad, {}), part);
    EXPECT_STATUS(absl::StatusCode::kInvalidArgument, EncodeFormat(good, {bad}), part);
  };
  refused([](NewStructure& s) { s.name = ""; }, "no name");
  refused([](NewStructure& s) { s.name.push_back('\0'); }, "NUL");
  refused([](NewStructure& s) { s.fixed_bytes = 0; }, "0 bytes");
  refused([](NewStructure& s) { s.fields[0].name = ""; }, "empty text");
  refused([](NewStructure& s) { s.fields[0].type.push_back('\0'); }, "NUL");
  refused([](NewStructure& s) { s.fields[0].element_bytes = 0; }, "field n");
  refused([](NewStructure& s) { s.fields[0].offset = 8; }, "outside");
  refused([](NewStructure& s) { s.fields.push_back(s.fields[0]); }, "out of order");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, EncodeFormat(good, std::vector<NewStructure>(100, good)),
                "100 sub-structures");
}

// --- rules of records ---

// Every pointer of a metadata record, in the order of its fields.
std::vector<std::uint64_t> Targets(const EncodedStep& step, std::span<const std::uint32_t> arrays) {
  const std::string_view base = std::string_view(step.record).substr(24);
  std::vector<std::uint64_t> targets = {NumberAt(base, 8)};
  for (const std::uint32_t at : arrays) {
    for (std::uint32_t field = 24; field < 64; field += 8) {
      if (const std::uint64_t target = NumberAt(base, at + field); target != 0) targets.push_back(target);
    }
  }
  return targets;
}

TEST(EncodeTest, TargetsRiseInTheOrderOfTheFieldsAndArraysAreAligned) {
  WriterEncoder encoder;
  Put bytes = Doubles("bytes", 0, 3, 0, 0);
  bytes.type = Type::kInt8;
  bytes.blocks[0].min_max = "ab";  // two bytes: what comes next is padded
  Put local = Doubles("local", 32, 2, 0, 1);
  local.kind = Kind::kLocalArray;
  local.shape.clear();
  const std::vector<Put> puts = {bytes, local, Doubles("global", 64, 2, 0, 1)};
  ASSERT_OK_AND_ASSIGN(const EncodedStep step, encoder.Encode(puts, 96));
  const std::vector<std::uint64_t> targets = Targets(step, std::vector<std::uint32_t>{64, 128, 192});
  EXPECT_EQ(targets.size(), 1u + 5 + 3 + 5);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    EXPECT_EQ(targets[i] % 8, 0u);
    EXPECT_GE(targets[i], i == 0 ? 256 : targets[i - 1] + 8);
  }
  EXPECT_EQ(step.record.size() % 8, 0u);
}

TEST(EncodeTest, EmptyListsAreNullButAnEmptyStringHasATarget) {
  WriterEncoder encoder;
  Put text = Int32("text", 0);
  text.type = Type::kString;
  text.value = "";
  Attribute none;
  none.name = "none";
  none.single = false;
  Attribute no_strings = none;
  no_strings.name = "no strings";
  no_strings.type = Type::kString;
  ASSERT_OK_AND_ASSIGN(const EncodedStep step, encoder.Encode({&text, 1}, 0, std::vector{none, no_strings}));
  const std::string_view record = std::string_view(step.record).substr(24);
  ASSERT_GE(NumberAt(record, 24), 32u);
  EXPECT_EQ(record.at(NumberAt(record, 24)), '\0');
  const std::string_view base = std::string_view(step.attributes).substr(24);
  EXPECT_EQ(NumberAt(base, NumberAt(base, 8) + 16), 0u);
  EXPECT_EQ(NumberAt(base, NumberAt(base, 24) + 16), 0u);
}

TEST(EncodeTest, EqualAttributesOfSeveralWritersAreStoredOnce) {
  const auto encode = [](std::int32_t value) {
    return *WriterEncoder().Encode({}, 0, std::vector{Int32Attribute("a", value)});
  };
  const std::vector<EncodedStep> writers = {encode(1), encode(2), encode(1), *WriterEncoder().Encode({}, 0)};
  const std::string metadata = EncodeStepMetadata(writers);
  const std::size_t slot = writers[0].attributes.size();
  EXPECT_EQ(NumberAt(metadata, 0), metadata.size() - 8);
  EXPECT_EQ(metadata.size(), 8 + 16 * 4 + 4 * writers[0].record.size() + 2 * slot);
  const std::uint64_t slots[] = {slot, slot, 0, 0};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(NumberAt(metadata, 8 + 8 * (4 + i)), slots[i]) << i;
}

}  // namespace
}  // namespace cairn::bp5
