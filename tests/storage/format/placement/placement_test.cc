#include "storage/format/placement/placement.h"

#include <gtest/gtest.h>

#include <random>

#include "storage/format/catalogue/catalogue.h"
#include "tests/storage/place/view/sample.h"
#include "tests/support/status_matchers.h"

namespace cairn::view {
namespace {

// The variable's bytes where the placement says that they are.
std::string BytesAt(const SampleDataset& dataset, int variable) {
  std::string bytes;
  for (const catalogue::Run& run : dataset.catalogues[0].placement(variable).run()) {
    bytes += dataset.files[0].substr(run.offset(), run.bytes());
  }
  return bytes;
}

SampleRank RandomRank(std::mt19937_64& random) {
  constexpr std::uint32_t kTypes[] = {0, 1, 2, 3, 10, 11, 13};
  SampleRank rank;
  const std::size_t variables = 1 + random() % 5;
  for (std::size_t i = 0; i < variables; ++i) {
    const std::uint32_t type = kTypes[random() % std::size(kTypes)];
    const std::uint64_t element = std::max<std::uint32_t>(ElementBytesOf(type), 1);
    std::string bytes((random() % 3 == 0 ? random() % 100'000 : random() % 40) * element, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    rank.push_back(Plain(static_cast<std::int32_t>(i), type, std::move(bytes)));
  }
  return rank;
}

// A rank's file over many checkpoints, whose variables grow, shrink and change their types.
TEST(PlacementTest, SaysWhereEveryByteOfEveryVariableIs) {
  std::mt19937_64 random(20261120);
  for (const auto packing : {ftiff::Packing::kExact, ftiff::Packing::kAligned}) {
    for (const auto letter : {ftiff::Letter::kA, ftiff::Letter::kF}) {
      std::vector<ftiff::FileLayout> last;
      for (int checkpoint = 0; checkpoint < 15; ++checkpoint) {
        const SampleRank rank = RandomRank(random);
        const SampleDataset dataset = MakeDataset({rank}, {.packing = packing, .letter = letter, .last = last});
        EXPECT_OK(CheckPlacement(dataset.catalogues[0]));
        EXPECT_OK(ValidateCatalogue(dataset.catalogues[0]));
        for (std::size_t v = 0; v < rank.size(); ++v) EXPECT_EQ(BytesAt(dataset, static_cast<int>(v)), rank[v].bytes);
        last = dataset.layouts;
      }
    }
  }
}

TEST(PlacementTest, ContainersThatFollowEachOtherAreOneRun) {
  const SampleDataset dataset = MakeDataset({{Plain(1, 5, std::string(5 << 20, 'x')), Plain(2, 5, "y")}});
  EXPECT_GT(dataset.layouts[0].containers.size(), 2u);
  EXPECT_EQ(dataset.catalogues[0].placement(0).run_size(), 1);
}

TEST(PlacementTest, OfALayoutThatContradictsItselfThereIsNone) {
  catalogue::Catalogue catalogue = MakeDataset({{Plain(1, 5, std::string(100, 'x'))}}).catalogues[0];
  ftiff::FileLayout layout;
  layout.containers = {{.id = 1, .variable_offset = 0, .file_offset = 0, .chunk_bytes = 40, .container_bytes = 40},
                       {.id = 1, .index = 1, .variable_offset = 50, .file_offset = 40, .chunk_bytes = 60}};
  EXPECT_EQ(PlacementOf(catalogue, layout)[0].run_size(), 0);
}

TEST(PlacementTest, RunsHaveTheBoundsOfAllTheirContainers) {
  std::vector<std::int64_t> values(400'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i) - 1000;
  const SampleDataset dataset = MakeDataset({{Plain(1, 4, Raw(values))}});
  EXPECT_GT(dataset.layouts[0].containers.size(), 1u);
  EXPECT_EQ(dataset.catalogues[0].placement(0).run(0).min_max(), Raw<std::int64_t>({-1000, 398'999}));
}

TEST(PlacementTest, ALoneValueThatIsCutInTwoIsNotKept) {
  const auto last = ftiff::PlanFresh(std::vector<ftiff::VariableSize>{{1, 5}}, ftiff::Packing::kExact);
  const SampleDataset dataset =
      MakeDataset({{Value(1, "v", 10, Raw<double>({1}))}}, {.packing = ftiff::Packing::kExact, .last = {*last}});
  const catalogue::Placement& placement = dataset.catalogues[0].placement(0);
  ASSERT_EQ(placement.run_size(), 1) << "the containers follow each other";
  EXPECT_EQ(placement.run(0).min_max(), "");
}

TEST(PlacementTest, WithoutAnyIsSound) {
  catalogue::Catalogue catalogue = MakeDataset({{Plain(1, 5, "abc")}}).catalogues[0];
  catalogue.clear_placement();
  EXPECT_OK(CheckPlacement(catalogue));
}

TEST(PlacementTest, ThatIsWrongMakesACatalogueUnsound) {
  catalogue::Catalogue catalogue = MakeDataset({{Plain(1, 5, "abc")}}).catalogues[0];
  catalogue.mutable_placement(0)->mutable_run(0)->set_bytes(2);
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, ValidateCatalogue(catalogue), "runs of 2 bytes");
}

// Empty runs take 2 bytes of a file, but far more in memory.
TEST(PlacementTest, TooManyRunsAreRefusedBeforeTheyAreMade) {
  catalogue::Catalogue catalogue = MakeDataset({{Plain(1, 5, "abc")}}).catalogues[0];
  for (std::uint64_t i = 0; i < ftiff::kContainersMax; ++i) catalogue.mutable_placement(0)->add_run();
  EXPECT_STATUS(absl::StatusCode::kDataLoss, DecodeCatalogue("x.cat", EncodeCatalogue(catalogue)), "1048577 runs");
}

}  // namespace
}  // namespace cairn::view
