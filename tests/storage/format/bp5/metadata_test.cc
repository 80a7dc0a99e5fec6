// Directories made in memory by the encoder, some of them damaged afterwards.
#include "storage/format/bp5/metadata.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "storage/format/bp5/encode.h"
#include "tests/storage/format/bp5/bp_files.h"
#include "tests/support/status_matchers.h"

namespace cairn::bp5::testing {
namespace {

using absl::StatusCode;
using Numbers64 = std::vector<std::uint64_t>;

template <typename T>
std::string Raw(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(std::data(values)), values.size() * sizeof(T)};
}

template <typename T>
T ValueAt(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

Put GlobalArray(const std::string& name, Type type, const Extents& shape, std::vector<PutBlock> blocks) {
  Put put;
  put.name = name;
  put.kind = Kind::kGlobalArray;
  put.type = type;
  put.shape = shape;
  put.blocks = std::move(blocks);
  return put;
}

Put Scalar(const std::string& name, Kind kind, Type type, const std::string& value) {
  Put put;
  put.name = name;
  put.kind = kind;
  put.type = type;
  put.value = value;
  return put;
}

PutBlock BlockOf(const Extents& start, const Extents& count, std::uint64_t location = 0, std::string min_max = "") {
  return {{start, count}, location, std::move(min_max)};
}

// A directory made step by step.
class Made {
 public:
  explicit Made(const IndexOptions& options = {}) { files_.index = EncodeIndexHeader(options); }

  // What each writer puts, and where its data lies (nothing: at 0, without flushes).
  Made& Step(const std::vector<std::vector<Put>>& puts, std::vector<WriterData> data = {},
             const std::vector<Attribute>& attributes = {}, std::uint64_t data_bytes = 1 << 20) {
    if (puts.size() != writers_.size()) {
      writers_ = std::vector<WriterEncoder>(puts.size());
      std::vector<std::uint32_t> subfiles;
      for (std::uint32_t i = 0; i < puts.size(); ++i) subfiles.push_back(10 + i);
      files_.index += EncodeWriterMap(subfiles, 1);
    }
    std::vector<EncodedStep> steps;
    for (std::size_t w = 0; w < puts.size(); ++w) {
      absl::StatusOr<EncodedStep> step =
          writers_[w].Encode(puts[w], data_bytes, w == 0 ? attributes : std::vector<Attribute>());
      EXPECT_OK(step);
      files_.formats += EncodeFormatEntry(*step->format);
      if (step->attributes_format != nullptr) files_.formats += EncodeFormatEntry(*step->attributes_format);
      steps.push_back(*std::move(step));
    }
    const std::string metadata = EncodeStepMetadata(steps);
    data.resize(puts.size());
    files_.index += EncodeStepRecord(files_.metadata.size(), metadata.size(), data);
    files_.metadata += metadata;
    return *this;
  }

  const BpFiles& files() const { return files_; }

 private:
  BpFiles files_;
  std::vector<WriterEncoder> writers_;
};

// A directory that must open; its files stay with it.
struct Opened {
  explicit Opened(BpFiles from) : files(std::move(from)) { EXPECT_OK(ExtendWith(files, metadata)); }
  explicit Opened(const Made& made) : Opened(made.files()) {}

  VariableNumber Number(const std::string& name) const { return metadata.FindVariable(name).value_or(~0u); }
  absl::Status Walk(const std::string& name, std::uint32_t step = 0) const {
    BlockWalk walk = metadata.Blocks(Number(name), step);
    while (walk.Next()) {
    }
    EXPECT_FALSE(walk.Next()) << "the end is the end";
    return walk.status();
  }

  BpFiles files;
  Metadata metadata;
};

absl::Status StatusOfOpening(const BpFiles& files) {
  Metadata metadata;
  return ExtendWith(files, metadata);
}

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

TEST(MetadataTest, BlocksAreCountedOverAllWriters) {
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

TEST(MetadataTest, ColumnMajorArraysAreShownRowMajor) {
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

TEST(MetadataTest, JoinedBlocksAreStacked) {
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

TEST(MetadataTest, JoinedArraysThatContradictThemselvesAreRefused) {
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

TEST(MetadataTest, LocalValuesHaveOneElementPerWriter) {
  const Put v = Scalar("v", Kind::kLocalValue, Type::kUint16, Raw<std::uint16_t>({3}));
  const Opened opened(Made().Step({{v}, {v}, {}}));
  ASSERT_OK_AND_ASSIGN(const Extents shape, opened.metadata.Shape(opened.Number("v"), 0));
  EXPECT_EQ(shape, Extents{3});
  EXPECT_STATUS(StatusCode::kNotFound, opened.metadata.Shape(opened.Number("v"), 1), "'v'");
}

TEST(MetadataTest, TheLowestWritersShapeHoldsForAll) {
  const Opened fits(Made().Step({{GlobalArray("x", Type::kInt8, {9}, {BlockOf({0}, {4})})},
                                 {GlobalArray("x", Type::kInt8, {20}, {BlockOf({4}, {5})})}}));
  EXPECT_OK(fits.Walk("x"));
  ASSERT_OK_AND_ASSIGN(const Extents shape, fits.metadata.Shape(fits.Number("x"), 0));
  EXPECT_EQ(shape, Extents{9});
  const Opened leaves(Made().Step({{GlobalArray("x", Type::kInt8, {9}, {BlockOf({0}, {4})})},
                                   {GlobalArray("x", Type::kInt8, {20}, {BlockOf({4}, {6})})}}));
  EXPECT_STATUS(StatusCode::kDataLoss, leaves.Walk("x"), "step 0, writer 1: a block leaves the shape");
}

TEST(MetadataTest, DamagedArrayRecordsAreRefusedWhenTheyAreUsed) {
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

TEST(MetadataTest, DimensionsAreTheSameInAllRecords) {
  const Put line = GlobalArray("x", Type::kInt8, {4}, {BlockOf({0}, {4})});
  const Put plane = GlobalArray("x", Type::kInt8, {2, 2}, {BlockOf({0, 0}, {2, 2})});
  const Opened opened(Made().Step({{line}, {plane}}).Step({{line}, {}}));
  EXPECT_EQ(opened.metadata.variables()[opened.Number("x")].dimensions, 1u);
  EXPECT_STATUS(StatusCode::kDataLoss, opened.Walk("x", 0), "writer 1: Dims is not as in other records");
  EXPECT_OK(opened.Walk("x", 1));
  ASSERT_OK_AND_ASSIGN(const std::uint32_t dimensions, opened.metadata.Dimensions(opened.Number("x"), 1));
  EXPECT_EQ(dimensions, 1u);
}

TEST(MetadataTest, VariablesThatChangeTheirTypeAreRefused) {
  const Put number = Scalar("x", Kind::kGlobalValue, Type::kInt32, Raw<std::int32_t>({1}));
  const Put other = Scalar("x", Kind::kGlobalValue, Type::kUint32, Raw<std::uint32_t>({1}));
  const Put array = GlobalArray("x", Type::kInt32, {4}, {BlockOf({0}, {4})});
  EXPECT_STATUS(StatusCode::kDataLoss, StatusOfOpening(Made().Step({{number}, {other}}).files()), "variable 'x'");
  EXPECT_STATUS(StatusCode::kDataLoss, StatusOfOpening(Made().Step({{number}, {array}}).files()), "variable 'x'");
}

TEST(MetadataTest, MinMaxIsOverBlocksWritersAndSteps) {
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

TEST(MetadataTest, MinMaxSaysWhichBlocksAndStepsItLeavesOut) {
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
