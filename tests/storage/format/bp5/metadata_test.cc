// Directories made in memory by the encoder, some of them damaged afterwards.
#include "storage/format/bp5/metadata.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/format/bp5/encode.h"
#include "tests/storage/format/bp5/bp_files.h"
#include "tests/storage/format/bp5/made_metadata.h"
#include "tests/support/status_matchers.h"

namespace cairn::bp5::testing {
namespace {

using absl::StatusCode;

absl::Status StatusOfOpening(const BpFiles& files) {
  Metadata metadata;
  return ExtendWith(files, metadata);
}

TEST(MetadataTest, NothingIsTakenBeforeTheHeaderIsThere) {
  const BpFiles whole = Made().Step({{}}).files();
  Metadata metadata;
  BpFiles front = whole;
  front.index.resize(63);
  EXPECT_OK(ExtendWith(front, metadata));
  EXPECT_EQ(metadata.index_bytes(), 0u);
  EXPECT_EQ(metadata.formats_bytes(), 0u);
  EXPECT_EQ(metadata.steps(), 0u);
  EXPECT_OK(ExtendWith(whole, metadata));
  EXPECT_EQ(metadata.steps(), 1u);
  EXPECT_EQ(metadata.index_end(0), whole.index.size());
}

TEST(MetadataTest, HeaderSaysHowItWasWritten) {
  const Opened opened(Made({.active = true, .column_major = true, .id = 0x01020304}));
  const Metadata::Header& header = opened.metadata.header();
  EXPECT_TRUE(header.text.starts_with("ADIOS-BP v2."));
  EXPECT_TRUE(header.active && header.column_major);
  EXPECT_FALSE(header.flatten);
  EXPECT_EQ(header.id, 0x01020304u);
}

TEST(MetadataTest, OtherVersionsAndByteOrdersAreRefused) {
  for (const std::size_t at : {36, 37, 38}) {
    BpFiles files = Made().Step({{}}).files();
    files.index[at] = 7;
    EXPECT_STATUS(StatusCode::kFailedPrecondition, StatusOfOpening(files), "md.idx");
  }
}

TEST(MetadataTest, FindAnswersOnlyForWhatWasWritten) {
  const Put a = Scalar("a", Kind::kGlobalValue, Type::kInt32, Raw<std::int32_t>({7}));
  const Put b = Scalar("b", Kind::kLocalValue, Type::kDouble, Raw<double>({0.5}));
  const Opened opened(Made().Step({{a}, {a, b}}).Step({{b}, {}, {a}}));
  const Metadata& metadata = opened.metadata;
  const VariableNumber va = opened.Number("a"), vb = opened.Number("b");
  EXPECT_EQ(va, 0u) << "numbers are given in order of appearance";
  EXPECT_EQ(vb, 1u);
  const auto found = [&](VariableNumber v) {
    std::string text;
    for (std::uint32_t step = 0; step < 3; ++step) {
      for (std::uint32_t writer = 0; writer < 4; ++writer)
        text += metadata.Find(v, step, writer) != nullptr ? 'x' : '.';
    }
    return text;
  };
  EXPECT_EQ(found(va), "xx....x.....");
  EXPECT_EQ(found(vb), ".x..x.......");
  EXPECT_EQ(found(2), "............");
  EXPECT_EQ(found(~0u), "............");
  EXPECT_EQ(metadata.variables()[va].steps, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(metadata.writers(0), 2u);
  EXPECT_EQ(metadata.writers(1), 3u);
  EXPECT_EQ(metadata.writers(2), 0u);
  EXPECT_EQ(metadata.subfile(1, 2), 12u);
}

TEST(MetadataTest, ValuesAreReadWhereTheyAre) {
  const Opened opened(Made().Step({{Scalar("n", Kind::kGlobalValue, Type::kInt64, Raw<std::int64_t>({-5})),
                                    Scalar("text", Kind::kGlobalValue, Type::kString, "hello"),
                                    Scalar("none", Kind::kGlobalValue, Type::kString, ""),
                                    GlobalArray("x", Type::kFloat, {4}, {BlockOf({0}, {4})})}}));
  const Metadata& metadata = opened.metadata;
  ASSERT_OK_AND_ASSIGN(const auto value, metadata.Scalar(opened.Number("n"), 0, 0));
  ASSERT_EQ(value.size(), 8u);
  EXPECT_EQ(ValueAt<std::int64_t>(value.data()), -5);
  ASSERT_OK_AND_ASSIGN(const std::string_view text, metadata.String(opened.Number("text"), 0, 0));
  EXPECT_EQ(text, "hello");
  ASSERT_OK_AND_ASSIGN(const std::string_view none, metadata.String(opened.Number("none"), 0, 0));
  EXPECT_EQ(none, "");
  EXPECT_STATUS(StatusCode::kNotFound, metadata.Scalar(opened.Number("n"), 0, 1), "'n'");
  EXPECT_STATUS(StatusCode::kNotFound, metadata.String(opened.Number("text"), 1, 0), "'text'");
  EXPECT_STATUS(StatusCode::kNotFound, metadata.FirstWriter(opened.Number("n"), 1), "'n'");
  EXPECT_STATUS(StatusCode::kNotFound, metadata.Scalar(99, 0, 0), "no variable 99");
  EXPECT_STATUS(StatusCode::kInvalidArgument, metadata.Scalar(opened.Number("x"), 0, 0), "'x'");
  EXPECT_STATUS(StatusCode::kInvalidArgument, metadata.Scalar(opened.Number("text"), 0, 0), "'text'");
  EXPECT_STATUS(StatusCode::kInvalidArgument, metadata.String(opened.Number("n"), 0, 0), "'n'");
  EXPECT_STATUS(StatusCode::kInvalidArgument, opened.Walk("n"), "'n'");
}

TEST(MetadataTest, VariablesThatChangeTheirTypeAreRefused) {
  const Put number = Scalar("x", Kind::kGlobalValue, Type::kInt32, Raw<std::int32_t>({1}));
  const Put other = Scalar("x", Kind::kGlobalValue, Type::kUint32, Raw<std::uint32_t>({1}));
  const Put array = GlobalArray("x", Type::kInt32, {4}, {BlockOf({0}, {4})});
  EXPECT_STATUS(StatusCode::kDataLoss, StatusOfOpening(Made().Step({{number}, {other}}).files()), "variable 'x'");
  EXPECT_STATUS(StatusCode::kDataLoss, StatusOfOpening(Made().Step({{number}, {array}}).files()), "variable 'x'");
}

Attribute Strings(const std::string& name, std::vector<std::string> strings) {
  Attribute attribute;
  attribute.name = name;
  attribute.type = Type::kString;
  attribute.single = false;
  attribute.strings = std::move(strings);
  return attribute;
}

TEST(MetadataTest, AttributesAreThoseOfAllStepsSoFar) {
  const Opened opened(Made()
                          .Step({{}}, {}, {Strings("a", {"one"}), Strings("b", {})})
                          .Step({{}})
                          .Step({{}}, {}, {Strings("a", {"two", "", "three"})}));
  for (std::uint32_t step = 0; step < 3; ++step) {
    ASSERT_OK_AND_ASSIGN(const auto attributes, opened.metadata.Attributes(step));
    ASSERT_EQ(attributes.size(), 2u);
    EXPECT_EQ(attributes.at("a").strings.size(), step < 2 ? 1u : 3u);
    EXPECT_EQ(opened.metadata.AttributeRecords(step).size(), step == 1 ? 0u : 1u);
  }
  EXPECT_STATUS(StatusCode::kNotFound, opened.metadata.Attributes(3), "no step 3");
}

// A small record must not become a large answer.
TEST(MetadataTest, StringsOfAttributesAreNotTakenTwice) {
  std::vector<std::string> strings(100, "s");
  strings[0] = std::string(400, 'l');
  Opened opened(Made().Step({{}}, {}, {Strings("a", strings)}));
  EXPECT_OK(opened.metadata.Attributes(0));
  const std::span<const std::byte> body = opened.metadata.AttributeRecords(0)[0].body;
  char* const base =
      opened.files.metadata.data() + (reinterpret_cast<const char*>(body.data()) - opened.files.metadata.data());
  char* const list = base + ValueAt<std::uint64_t>(base + 24);
  char* const values = base + ValueAt<std::uint64_t>(list + 16);
  for (int i = 1; i < 100; ++i) std::memcpy(values + 8 * i, values, 8);
  EXPECT_STATUS(StatusCode::kDataLoss, opened.metadata.Attributes(0), "md.0: attribute record at");
}

TEST(MetadataTest, DataLiesInThePartsOfItsStep) {
  const Put x = GlobalArray("x", Type::kInt8, {4}, {BlockOf({0}, {4})});
  const std::uint64_t far = ~std::uint64_t{0} - 15;
  const Opened opened(
      Made().Step({{x}, {x}}, {{{{1000, 64}, {5000, 32}}, 9000}, {{{2000, 64}, {6000, 32}}, far}}, {}, 128));
  const Metadata& metadata = opened.metadata;
  const auto offset = [&](std::uint64_t location, std::uint64_t bytes) {
    const absl::StatusOr<DataPlace> place = metadata.Place(0, 0, location, bytes);
    EXPECT_OK(place);
    return place.ok() ? place->offset : 0;
  };
  EXPECT_EQ(metadata.flushes(0), 2u);
  EXPECT_EQ(metadata.data_block_bytes(0, 0), 128u);
  EXPECT_EQ(offset(0, 64), 1000u);
  EXPECT_EQ(offset(63, 1), 1063u);
  EXPECT_EQ(offset(64, 32), 5000u);
  EXPECT_EQ(offset(96, 32), 9000u);
  EXPECT_EQ(offset(128, 0), 9032u);
  EXPECT_EQ(metadata.Place(0, 0, 0, 1)->subfile, 10u);
  EXPECT_STATUS(StatusCode::kDataLoss, metadata.Place(0, 0, 60, 8), "ends before");
  EXPECT_STATUS(StatusCode::kDataLoss, metadata.Place(0, 0, 96, 33), "the writer has 128");
  EXPECT_STATUS(StatusCode::kDataLoss, metadata.Place(0, 0, far, 32), "the writer has 128");
  EXPECT_STATUS(StatusCode::kDataLoss, metadata.Place(0, 1, 96, 32), "beyond what can be counted");
  EXPECT_STATUS(StatusCode::kNotFound, metadata.Place(0, 2, 0, 1), "no writer 2");
  EXPECT_STATUS(StatusCode::kDataLoss, metadata.SubfileBytes(0), "step 0, writer 1");
}

TEST(MetadataTest, SubfilesMustHaveWhatTheStepsNeed) {
  const Opened opened(Made()
                          .Step({{}, {}}, {{{{0, 64}}, 4096}, {{{512, 128}}, 8192}}, {}, 128)
                          .Step({{}, {}}, {{{}, 256}, {{}, 16384}}, {}, 16));
  ASSERT_OK_AND_ASSIGN(const auto first, opened.metadata.SubfileBytes(0));
  EXPECT_EQ(first, (std::map<std::uint32_t, std::uint64_t>{{10, 4160}, {11, 640}}));
  ASSERT_OK_AND_ASSIGN(const auto both, opened.metadata.SubfileBytes(1));
  EXPECT_EQ(both, (std::map<std::uint32_t, std::uint64_t>{{10, 4160}, {11, 16400}}));
}

TEST(MetadataTest, AnErrorTakesNothing) {
  const Put a = Scalar("a", Kind::kGlobalValue, Type::kInt32, Raw<std::int32_t>({7}));
  const Put x = GlobalArray("x", Type::kInt8, {4}, {BlockOf({0}, {4})});
  const Put y = GlobalArray("y", Type::kInt8, {4}, {BlockOf({0}, {4})});
  Made made;
  const std::size_t first = made.Step({{a}}).files().index.size();
  const BpFiles whole = made.Step({{x}}).Step({{a, y}, {x, y}}).Step({{y}, {y}}).files();

  Metadata metadata;
  Metadata::Tail tail = TailOf(whole, metadata);
  tail.index = tail.index.first(first);
  ASSERT_OK(metadata.Extend(tail));
  const std::string before = TextOfAll(metadata);
  const std::uint64_t index_bytes = metadata.index_bytes(), formats_bytes = metadata.formats_bytes();

  BpFiles damaged = whole;
  damaged.index[damaged.index.size() - 16 - 9 - 24] = 'x';  // the type of the last record
  EXPECT_STATUS(StatusCode::kDataLoss, ExtendWith(damaged, metadata), "md.idx: record at");
  EXPECT_EQ(TextOfAll(metadata), before);
  EXPECT_EQ(metadata.variables().size(), 1u);
  EXPECT_FALSE(metadata.FindVariable("y").has_value());
  EXPECT_EQ(metadata.index_bytes(), index_bytes);
  EXPECT_EQ(metadata.formats_bytes(), formats_bytes);

  ASSERT_OK(ExtendWith(whole, metadata));
  EXPECT_EQ(TextOfAll(metadata), TextOfAll(Opened(whole).metadata));
}

TEST(MetadataTest, StepsThatLieOverEachOtherAreRefused) {
  BpFiles files = Made().Step({{Scalar("a", Kind::kGlobalValue, Type::kInt8, "x")}}).files();
  const std::string step = files.index.substr(64 + 9 + 32);
  EXPECT_OK(StatusOfOpening(files));
  files.index += step;
  EXPECT_STATUS(StatusCode::kDataLoss, StatusOfOpening(files),
                "begins at 0 of md.0, where the steps before have all up to");
}

TEST(MetadataTest, StepsMustLieInTheBytesGiven) {
  const BpFiles whole = Made().Step({{}}).Step({{}}).files();
  Metadata metadata;
  Metadata::Tail tail = TailOf(whole, metadata);
  tail.metadata_begin = 8;
  tail.metadata = tail.metadata.subspan(8);
  EXPECT_STATUS(StatusCode::kDataLoss, metadata.Extend(tail), "of md.0, which has 8 to");
}

TEST(MetadataTest, RecordsAreShownAsTheyAre) {
  const Opened opened(Made().Step({{Scalar("a", Kind::kGlobalValue, Type::kInt8, "x")}, {}}));
  const Metadata::RecordPlace record = opened.metadata.Record(0, 1);
  ASSERT_NE(record.format, nullptr);
  EXPECT_EQ(record.format->top().name, "MetaData");
  EXPECT_EQ(std::memcmp(&opened.files.metadata[record.offset], record.format->id.bytes.data(), 12), 0);
  EXPECT_EQ(reinterpret_cast<const char*>(record.body.data()), &opened.files.metadata[record.offset + 24]);
  EXPECT_EQ(opened.metadata.Record(0, 2).format, nullptr);
  EXPECT_EQ(opened.metadata.formats().size(), 2u);
}

// New variables in each step: tables do not grow with the product of formats and variables.
TEST(MetadataTest, ManyFormatsOfFewVariablesTakeLittleMemory) {
  Made made;
  const Put time = Scalar("time", Kind::kGlobalValue, Type::kDouble, Raw<double>({1}));
  for (int step = 0; step < 200; ++step) {
    std::vector<Put> puts = {time};
    for (int i = 0; i < 20; ++i) {
      puts.push_back(Scalar("v" + std::to_string(20 * step + i), Kind::kGlobalValue, Type::kInt8, "x"));
    }
    made.Step({puts});
  }
  const Opened opened(made);
  EXPECT_EQ(opened.metadata.variables().size(), 4001u);
  EXPECT_EQ(opened.metadata.variables()[opened.Number("time")].steps.size(), 200u);
  for (int i = 0; i < 4000; ++i) {
    const VariableNumber v = opened.Number("v" + std::to_string(i));
    ASSERT_EQ(opened.metadata.variables()[v].steps, std::vector<std::uint32_t>{static_cast<std::uint32_t>(i) / 20});
    ASSERT_NE(opened.metadata.Find(v, i / 20, 0), nullptr);
  }
  EXPECT_LT(opened.metadata.own_bytes(), 4u << 20);
}

}  // namespace
}  // namespace cairn::bp5::testing
