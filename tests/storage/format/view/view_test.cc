// The rules of a view, one by one: what BP5's reader makes of it is what the ranks have stored.
#include "storage/format/view/view.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "storage/format/placement/placement.h"
#include "tests/storage/place/view/sample.h"
#include "tests/support/status_matchers.h"

namespace cairn::view {
namespace {

using bp5::Kind;
using bp5::Type;

constexpr std::uint32_t kInt32 = 3, kInt64 = 4, kUint8 = 5, kDouble = 10, kComplex = 13, kChar = 15;

template <typename T>
std::vector<T> Rising(std::size_t count, T from = 0) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), from);
  return values;
}

ViewFiles Build(const SampleDataset& dataset) {
  auto files = BuildView(dataset.catalogues);
  EXPECT_OK(files);
  return files.ok() ? *std::move(files) : ViewFiles{};
}

Reader Open(const SampleDataset& dataset) {
  return Reader(Build(dataset), FilesOf(dataset));
}

TEST(ViewTest, ArraysAreGlobalArraysOfTheirBoxes) {
  const std::string whole = Raw(Rising<double>(6 * 8));
  std::vector<SampleRank> ranks;
  for (std::uint64_t r = 0; r < 4; ++r) {
    ranks.push_back({Array(5, "temperature", kDouble, {6, 8}, {r / 2 * 3, r % 2 * 4}, {3, 4}, whole)});
  }
  Reader reader = Open(MakeDataset(ranks));
  EXPECT_EQ(reader.Of("temperature").kind, Kind::kGlobalArray);
  EXPECT_EQ(reader.Of("temperature").type, Type::kDouble);
  EXPECT_EQ(reader.All("temperature"), whole);
  EXPECT_EQ(reader.Select("temperature", {{2, 3}, {2, 2}}), Raw(std::vector<double>{19, 20, 27, 28}));
  // One block of each rank, with its own bounds.
  const auto bounds = reader.Bounds("temperature");
  ASSERT_EQ(bounds.size(), 4u);
  EXPECT_EQ(bounds[1], std::pair(1u, Raw(std::vector<double>{4, 23})));
  EXPECT_EQ(bounds[2], std::pair(2u, Raw(std::vector<double>{24, 43})));
}

TEST(ViewTest, ALoneValueIsOfTheLowestRankThatHasIt) {
  const SampleDataset dataset = MakeDataset({{Plain(1, kInt32, Raw<std::int32_t>({1}))},
                                             {Value(2, "time", kDouble, Raw<double>({2.5}))},
                                             {Value(2, "time", kDouble, Raw<double>({7.5}))}});
  Reader reader = Open(dataset);
  EXPECT_EQ(reader.Of("time").kind, Kind::kGlobalValue);
  EXPECT_EQ(reader.Scalar("time", 1), Raw<double>({2.5}));
  EXPECT_EQ(*reader.metadata().FirstWriter(reader.Number("time"), 0), 1u);
  EXPECT_EQ(reader.metadata().Find(reader.Number("time"), 0, 2), nullptr) << "only the lowest has it";
}

TEST(ViewTest, LoneValuesOfEveryTypeHaveTheirBytes) {
  SampleRank rank;
  for (std::int32_t type = 1; type <= 15; ++type) {
    std::string bytes(ElementBytesOf(type), '\0');
    if (bytes.empty()) continue;
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(0xE0 + type + i);
    rank.push_back(Value(type, "v" + std::to_string(type), type, bytes));
  }
  Reader reader = Open(MakeDataset({rank}));
  for (const SampleVariable& of : rank) EXPECT_EQ(reader.Scalar(of.variable.name(), 0), of.bytes);
  EXPECT_EQ(reader.Of("v15").type, Type::kInt8) << "a lone character cannot be told from a small number";
}

TEST(ViewTest, AValueOfSeveralElementsIsAGlobalArrayOfTheLowestRank) {
  const std::string low = Raw(Rising<std::int64_t>(5, 10)), high = Raw(Rising<std::int64_t>(5, 90));
  Reader reader = Open(MakeDataset({{}, {Value(2, "levels", kInt64, low)}, {Value(2, "levels", kInt64, high)}}));
  EXPECT_EQ(reader.Of("levels").kind, Kind::kGlobalArray);
  EXPECT_EQ(reader.All("levels"), low);
  EXPECT_EQ(reader.Bounds("levels"), (std::vector{std::pair(1u, Raw<std::int64_t>({10, 14}))}));
}

TEST(ViewTest, PlainVariablesAreLocalArraysByIdOrName) {
  const std::string mine = Raw(Rising<std::int32_t>(1000)), other = Raw(Rising<std::int32_t>(7, -3));
  Reader reader =
      Open(MakeDataset({{Plain(3, kInt32, mine), Plain(4, kChar, "text", "notes")}, {Plain(3, kInt32, other)}}));
  EXPECT_EQ(reader.Of("var_3").kind, Kind::kLocalArray);
  EXPECT_EQ(reader.Block("var_3", 0), mine);
  EXPECT_EQ(reader.Block("var_3", 1), other);
  EXPECT_EQ(reader.Bounds("var_3")[1], std::pair(1u, Raw<std::int32_t>({-3, 3})));
  EXPECT_EQ(reader.Block("notes", 0), "text");
  EXPECT_EQ(reader.Bounds("notes")[0].second, "") << "characters have no order";
}

// A variable that has grown has its new elements in a container at the end of the file.
class GrownTest : public testing::Test {
 protected:
  // Rank 0 has `variable`, which had `before` bytes at the checkpoint before, and something behind it.
  static SampleDataset Grown(const SampleVariable& variable, std::uint64_t before,
                             ftiff::Letter letter = ftiff::Letter::kF) {
    const auto last = ftiff::PlanFresh(std::vector<ftiff::VariableSize>{{variable.variable.id(), before}, {99, 3}},
                                       ftiff::Packing::kExact);
    return MakeDataset({{variable, Plain(99, kUint8, "abc")}},
                       {.packing = ftiff::Packing::kExact, .letter = letter, .last = {*last}});
  }
};

TEST_F(GrownTest, ABoxInSeveralRunsIsCutIntoBoxes) {
  const SampleVariable field = Array(5, "field", kDouble, {7, 9}, {1, 2}, {5, 6}, Raw(Rising<double>(7 * 9)));
  for (std::uint64_t before = 1; before < 40; ++before) {
    const SampleDataset dataset = Grown(field, before * sizeof(double));
    ASSERT_EQ(dataset.catalogues[0].placement(0).run_size(), before < 30 ? 2 : 1);
    Reader reader = Open(dataset);
    EXPECT_EQ(reader.Select("field", {{1, 2}, {5, 6}}), field.bytes);
    // Bounds of every box hold its elements.
    bp5::BlockWalk walk = reader.metadata().Blocks(reader.Number("field"), 0);
    while (walk.Next()) {
      const std::string bytes = reader.Block("field", walk.block().id);
      const auto values = Values<double>(bytes);
      double low, high;
      std::memcpy(&low, walk.block().min, sizeof low);
      std::memcpy(&high, walk.block().max, sizeof high);
      EXPECT_LE(low, *std::ranges::min_element(values));
      EXPECT_GE(high, *std::ranges::max_element(values));
    }
    ASSERT_OK(walk.status());
  }
}

TEST_F(GrownTest, APlainVariableHasABlockForEachRun) {
  const std::string bytes = Raw(Rising<double>(10));
  Reader reader = Open(Grown(Plain(5, kDouble, bytes), 4 * sizeof(double)));
  EXPECT_EQ(reader.Block("var_5", 0), bytes.substr(0, 32));
  EXPECT_EQ(reader.Block("var_5", 1), bytes.substr(32));
  EXPECT_EQ(reader.Bounds("var_5"),
            (std::vector{std::pair(0u, Raw<double>({0, 3})), std::pair(0u, Raw<double>({4, 9}))}));
}

TEST_F(GrownTest, RunsThatCutElementsAreShownAsBytes) {
  const std::string whole = Raw(Rising<double>(10));
  for (const SampleVariable& variable : {Plain(5, kDouble, whole, "field"), Value(5, "field", kDouble, whole),
                                         Array(5, "field", kDouble, {10}, {0}, {10}, whole)}) {
    Reader reader = Open(Grown(variable, 13));
    EXPECT_EQ(reader.Of("field").kind, Kind::kLocalArray);
    EXPECT_EQ(reader.Of("field").type, Type::kUint8);
    EXPECT_EQ(reader.Block("field", 0) + reader.Block("field", 1), whole);
    EXPECT_EQ(reader.Bounds("field")[0].second, "");
  }
}

TEST_F(GrownTest, InLayoutALocationsAreThoseOfThatFile) {
  const std::string whole = Raw(Rising<double>(10));
  Reader reader = Open(Grown(Array(5, "field", kDouble, {10}, {0}, {10}, whole), 24, ftiff::Letter::kA));
  EXPECT_EQ(reader.All("field"), whole);
}

TEST(ViewTest, WhatIsOfUnknownTypeIsShownAsBytes) {
  Reader reader = Open(MakeDataset({{Plain(8, 0, "any bytes")}}));
  EXPECT_EQ(reader.Of("var_8").type, Type::kUint8);
  EXPECT_EQ(reader.Block("var_8", 0), "any bytes");
}

TEST(ViewTest, ARankWithoutVariablesHasAnEmptyRecordAndNoSubfile) {
  const SampleDataset dataset = MakeDataset({{}, {Plain(1, kUint8, "x")}, {}});
  const ViewFiles files = Build(dataset);
  ASSERT_EQ(files.links.size(), 1u);
  EXPECT_EQ(files.links[0].name, "data.1");
  EXPECT_EQ(files.links[0].target, "../ckpt.7/Ckpt7-Rank1.fti");
  Reader reader(files, FilesOf(dataset));
  EXPECT_EQ(reader.metadata().writers(0), 3u);
  EXPECT_EQ(reader.metadata().data_block_bytes(0, 0), 0u);
  EXPECT_EQ(reader.Block("var_1", 0), "x");
}

TEST(ViewTest, NoRankWithVariablesIsAStepWithNothing) {
  Reader reader = Open(MakeDataset({{}, {}}));
  EXPECT_EQ(reader.metadata().steps(), 1u);
  EXPECT_TRUE(reader.metadata().variables().empty());
}

TEST(ViewTest, DataBlockSizeIsTheEndOfTheLastBlockRoundedUp) {
  const SampleDataset dataset = MakeDataset({{Plain(1, kUint8, std::string(100, 'a')), Plain(2, kUint8, "abc")}});
  EXPECT_EQ(dataset.catalogues[0].placement(1).run(0).offset(), 4096u);
  EXPECT_EQ(Open(dataset).metadata().data_block_bytes(0, 0), 4112u);
}

TEST(ViewTest, EmptyBoxesLeaveTheShapeVisible) {
  const std::string whole = Raw(Rising<double>(12));
  Reader reader = Open(MakeDataset({{Array(1, "a", kDouble, {3, 4}, {0, 0}, {0, 4}, whole), Plain(2, kDouble, "")},
                                    {Array(1, "a", kDouble, {3, 4}, {0, 0}, {3, 4}, whole)}}));
  EXPECT_EQ(*reader.metadata().Shape(reader.Number("a"), 0), (Extents{3, 4}));
  EXPECT_EQ(reader.All("a"), whole);
  EXPECT_EQ(reader.Bounds("a"), (std::vector{std::pair(1u, Raw<double>({0, 11}))})) << "an empty block has none";
  EXPECT_TRUE(reader.Has("var_2"));
  const SampleRank none = {Array(1, "a", kDouble, {0, 4}, {0, 0}, {0, 4}, "")};
  const SampleDataset nothing = MakeDataset({{}, none, none});
  Reader empty = Open(nothing);
  EXPECT_EQ(*empty.metadata().Shape(empty.Number("a"), 0), (Extents{0, 4}));
  EXPECT_EQ(empty.Bounds("a"), (std::vector{std::pair(1u, std::string())})) << "one of them";
}

TEST(ViewTest, ANameThatWouldMeanTwoThingsIsMadeTwo) {
  const std::string ints = Raw(Rising<std::int32_t>(4)), doubles = Raw(Rising<double>(4));
  Reader reader = Open(MakeDataset(
      {{Array(1, "u", kInt32, {4}, {0}, {4}, ints), Value(2, "u", kInt32, ints), Plain(3, kInt32, ints, "u"),
        Plain(4, kInt32, ints, "u"), Plain(5, kInt32, ints), Plain(6, kDouble, doubles, "var_5")},
       {Plain(5, kDouble, doubles)}}));
  EXPECT_EQ(reader.Of("u").kind, Kind::kGlobalArray);
  EXPECT_EQ(reader.All("u#2"), ints);
  EXPECT_EQ(reader.Block("u#3", 0), ints);
  EXPECT_EQ(reader.Block("u#4", 0), ints);
  EXPECT_EQ(reader.Block("var_5", 0), ints);
  EXPECT_EQ(reader.Block("var_5#6", 0), doubles);
  EXPECT_EQ(reader.Block("var_5#5", 0), doubles) << "rank 1 means another type by it";
}

TEST(ViewTest, ArraysOfOtherShapesOnOtherRanksAreNotMixed) {
  const std::string whole = Raw(Rising<double>(6));
  Reader reader = Open(
      MakeDataset({{Array(1, "a", kDouble, {6}, {0}, {6}, whole)}, {Array(1, "a", kDouble, {3}, {0}, {3}, whole)}}));
  EXPECT_EQ(reader.All("a"), whole);
  EXPECT_EQ(reader.All("a#1"), whole.substr(0, 24));
}

TEST(ViewTest, AttributesSayWhichCheckpointItIs) {
  const Reader reader = Open(MakeDataset({{}}, {.dataset = 12, .step = 3400, .launch = 5}));
  ASSERT_OK_AND_ASSIGN(const auto attributes, reader.metadata().Attributes(0));
  EXPECT_EQ(attributes.at("cairn/run").strings, (std::vector<std::string>{"00112233445566778899aabbccddeeff"}));
  EXPECT_EQ(attributes.at("cairn/dataset").values, Raw<std::uint64_t>({12}));
  EXPECT_EQ(attributes.at("cairn/step").values, Raw<std::uint64_t>({3400}));
  EXPECT_EQ(attributes.at("cairn/launch").values, Raw<std::uint64_t>({5}));
  EXPECT_TRUE(attributes.at("cairn/step").single);
  EXPECT_EQ(attributes.size(), 4u);
}

TEST(ViewTest, IsReadWhateverThePackingAndLayout) {
  std::mt19937_64 random(20261120);
  for (const auto packing : {ftiff::Packing::kExact, ftiff::Packing::kAligned}) {
    for (const auto letter : {ftiff::Letter::kA, ftiff::Letter::kF}) {
      std::string whole(11 * 13 * 5 * 16, '\0');
      for (char& byte : whole) byte = static_cast<char>(random());
      std::vector<SampleRank> ranks;
      for (std::uint64_t r = 0; r < 3; ++r) {
        ranks.push_back({Plain(1, kUint8, std::string(1 + r, 'p')),
                         Array(2, "z", kComplex, {11, 13, 5}, {0, r * 4, 0}, {11, r == 2 ? 5u : 4u, 5}, whole),
                         Value(3, "n", kInt64, Raw<std::int64_t>({std::int64_t(r)}))});
      }
      Reader reader = Open(MakeDataset(ranks, {.packing = packing, .letter = letter}));
      EXPECT_EQ(reader.All("z"), whole);
      EXPECT_EQ(reader.Scalar("n", 0), Raw<std::int64_t>({0}));
      EXPECT_EQ(reader.Block("var_1", 2), "ppp");
    }
  }
}

// --- Steps ---

TEST(StepsTest, EachDatasetIsAStepWithSubfilesOfItsOwn) {
  const std::string first = Raw(Rising<double>(8)), second = Raw(Rising<double>(8, 50));
  const SampleDataset two =
      MakeDataset({{Array(1, "a", kDouble, {8}, {0}, {4}, first)}, {Array(1, "a", kDouble, {8}, {4}, {4}, first)}},
                  {.dataset = 3, .step = 30});
  const SampleDataset one = MakeDataset({{Array(1, "a", kDouble, {8}, {0}, {8}, second)}}, {.dataset = 9, .step = 90});
  Steps steps("../run");
  ASSERT_OK(steps.Add(two.catalogues));
  ASSERT_OK(steps.Add(one.catalogues));
  EXPECT_EQ(steps.size(), 2u);
  auto files = FilesOf(two, "../run");
  files.merge(FilesOf(one, "../run"));
  Reader reader(steps.Files(), files);
  EXPECT_EQ(reader.metadata().steps(), 2u);
  EXPECT_EQ(reader.metadata().writers(0), 2u);
  EXPECT_EQ(reader.metadata().writers(1), 1u);
  EXPECT_EQ(reader.metadata().subfile(0, 1), 1u);
  EXPECT_EQ(reader.metadata().subfile(1, 0), 2u);
  EXPECT_EQ(reader.All("a", 0), first);
  EXPECT_EQ(reader.All("a", 1), second);
  ASSERT_OK_AND_ASSIGN(const auto attributes, reader.metadata().Attributes(1));
  EXPECT_EQ(attributes.at("cairn/step").values, Raw<std::uint64_t>({90}));
  // A writer map before each, though the second would fit into the first.
  EXPECT_EQ(steps.Files().index[64], 'w');
}

TEST(StepsTest, ShapesMayChangeFromStepToStepAndTypesGetNamesOfTheirOwn) {
  const std::string bytes = Raw(Rising<double>(8)), ints = Raw(Rising<std::int64_t>(8));
  Steps steps("..");
  std::map<std::string, std::string> files;
  std::uint64_t id = 1;
  for (const SampleVariable& of :
       {Array(1, "a", kDouble, {8}, {0}, {8}, bytes), Array(1, "a", kDouble, {4}, {0}, {4}, bytes),
        Array(1, "a", kInt64, {8}, {0}, {8}, ints), Array(1, "a", kDouble, {2, 4}, {0, 0}, {2, 4}, bytes)}) {
    const SampleDataset dataset = MakeDataset({{of}}, {.dataset = id++});
    ASSERT_OK(steps.Add(dataset.catalogues));
    files.merge(FilesOf(dataset));
  }
  Reader reader(steps.Files(), files);
  EXPECT_EQ(reader.All("a", 0), bytes);
  EXPECT_EQ(reader.All("a", 1), bytes.substr(0, 32));
  EXPECT_EQ(reader.All("a#1", 2), ints);
  EXPECT_EQ(reader.All("a#1#2", 3), bytes);
  EXPECT_EQ(reader.Of("a").steps, (std::vector<std::uint32_t>{0, 1}));
}

TEST(StepsTest, WhatIsRefusedLeavesNoTrace) {
  const SampleDataset good = MakeDataset({{Plain(1, kUint8, "x")}}, {.dataset = 1});
  SampleDataset bad = MakeDataset({{Plain(1, kUint8, "x")}}, {.dataset = 2});
  bad.catalogues[0].mutable_placement(0)->mutable_run(0)->set_bytes(5);
  Steps with(".."), without("..");
  for (Steps* steps : {&with, &without}) {
    ASSERT_OK(steps->Add(good.catalogues));
    if (steps == &with) {
      EXPECT_STATUS(absl::StatusCode::kDataLoss, steps->Add(bad.catalogues), "dataset 2, rank 0");
    }
    ASSERT_OK(steps->Add(good.catalogues));
  }
  EXPECT_EQ(with.Files().index, without.Files().index);
  EXPECT_EQ(with.Files().metadata, without.Files().metadata);
  EXPECT_EQ(with.Files().links.size(), 2u);
}

// --- Errors ---

class BadCatalogueTest : public testing::Test {
 protected:
  SampleDataset dataset_ = MakeDataset({{Value(1, "v", kDouble, Raw<double>({1})), Plain(2, kUint8, "abc")},
                                        {Array(3, "a", kDouble, {2}, {0}, {2}, Raw<double>({1, 2}))}});
  void Expect(absl::StatusCode code, const std::string& what) {
    EXPECT_STATUS(code, BuildView(dataset_.catalogues), what);
  }
};

TEST_F(BadCatalogueTest, NotAllRanks) {
  dataset_.catalogues.pop_back();
  Expect(absl::StatusCode::kInvalidArgument, "rank 0 of 2");
  dataset_.catalogues.clear();
  Expect(absl::StatusCode::kInvalidArgument, "no catalogues");
}

TEST_F(BadCatalogueTest, OfAnotherDataset) {
  dataset_.catalogues[1].set_dataset(8);
  Expect(absl::StatusCode::kInvalidArgument, "dataset 8");
}

TEST_F(BadCatalogueTest, TheApplicationsOwnFiles) {
  for (auto& catalogue : dataset_.catalogues) catalogue.set_files(true);
  Expect(absl::StatusCode::kInvalidArgument, "own files");
}

TEST_F(BadCatalogueTest, WithoutPlacement) {
  dataset_.catalogues[1].clear_placement();
  Expect(absl::StatusCode::kFailedPrecondition, "rank 1");
}

TEST_F(BadCatalogueTest, WithoutAValuesBytes) {
  dataset_.catalogues[0].mutable_placement(0)->mutable_run(0)->clear_min_max();
  Expect(absl::StatusCode::kFailedPrecondition, "\"v\"");
}

TEST_F(BadCatalogueTest, RunsOfOtherBytesThanTheVariable) {
  dataset_.catalogues[1].mutable_placement(0)->mutable_run(0)->set_bytes(8);
  Expect(absl::StatusCode::kDataLoss, "runs of 8 bytes, variable 3 has 16");
}

TEST_F(BadCatalogueTest, RunsThatLeaveTheFile) {
  dataset_.catalogues[1].mutable_placement(0)->mutable_run(0)->set_offset(~std::uint64_t{0} - 3);
  Expect(absl::StatusCode::kDataLoss, "leave the file");
}

TEST_F(BadCatalogueTest, PlacementsForOtherVariables) {
  dataset_.catalogues[0].mutable_placement()->RemoveLast();
  Expect(absl::StatusCode::kDataLoss, "1 for 2 variables");
}

TEST_F(BadCatalogueTest, BoundsOfAnotherSize) {
  dataset_.catalogues[1].mutable_placement(0)->mutable_run(0)->set_min_max("12345");
  Expect(absl::StatusCode::kDataLoss, "min_max: 5 bytes, expected 16");
}

TEST_F(BadCatalogueTest, BoxesThatLeaveTheShape) {
  dataset_.catalogues[1].mutable_variables(0)->set_box_start(0, 1);
  Expect(absl::StatusCode::kDataLoss, "the box of \"a\"");
}

TEST_F(BadCatalogueTest, NamesThatBp5CannotHave) {
  dataset_.catalogues[1].mutable_variables(0)->set_name(std::string("a\0b", 3));
  Expect(absl::StatusCode::kInvalidArgument, "NUL");
}

}  // namespace
}  // namespace cairn::view
