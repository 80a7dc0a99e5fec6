#include "storage/format/ftiff/layout.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <set>

#include "storage/base/status.h"
#include "tests/storage/format/ftiff/sample_file.h"

namespace cairn::ftiff {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

TEST(PlanFreshTest, ExactIsTheWorkedExamplesFirstCheckpoint) {
  const std::vector<VariableSize> variables = {{1, 4'000'000}, {2, 8'000'000}, {3, 12'000'000}};
  const auto layout = PlanFresh(variables, Packing::kExact);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->containers,
            (std::vector<Container>{
                {.id = 1, .file_offset = 0, .chunk_bytes = 4'000'000, .container_bytes = 4'000'000},
                {.id = 2, .file_offset = 4'000'000, .chunk_bytes = 8'000'000, .container_bytes = 8'000'000},
                {.id = 3, .file_offset = 12'000'000, .chunk_bytes = 12'000'000, .container_bytes = 12'000'000}}));
  EXPECT_EQ(layout->block_containers, std::vector<std::uint32_t>{3});
  EXPECT_EQ(layout->data_bytes, 24'000'000u);
  EXPECT_EQ(layout->meta_bytes(Letter::kF), 292u);
  EXPECT_EQ(layout->file_bytes(Letter::kF), 24'000'292u);
}

TEST(PlanFreshTest, AZeroSizedVariableHasAnEmptyContainerWithContent) {
  for (const Packing packing : {Packing::kExact, Packing::kAligned}) {
    const std::vector<VariableSize> variables = {{7, 0}, {0, 0}};
    const auto layout = PlanFresh(variables, packing);
    ASSERT_TRUE(layout.ok()) << layout.status();
    EXPECT_EQ(layout->containers, (std::vector<Container>{{.id = 7}, {.id = 0}}));
    EXPECT_TRUE(layout->containers[0].has_content);
    EXPECT_EQ(layout->data_bytes, 0u);
    EXPECT_EQ(layout->file_bytes(Letter::kF), 106u + 12 + 2 * 58);
  }
}

TEST(PlanFreshTest, NoVariablesGiveAnEmptyList) {
  const auto layout = PlanFresh({}, Packing::kAligned);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_TRUE(layout->containers.empty());
  EXPECT_TRUE(layout->block_containers.empty());
}

TEST(PlanFreshTest, AlignedPadsSmallVariablesTo4KiB) {
  const std::vector<VariableSize> variables = {{1, 1}, {2, 4096}, {3, 4097}};
  const auto layout = PlanFresh(variables, Packing::kAligned);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->containers,
            (std::vector<Container>{{.id = 1, .file_offset = 0, .chunk_bytes = 1, .container_bytes = 4096},
                                    {.id = 2, .file_offset = 4096, .chunk_bytes = 4096, .container_bytes = 4096},
                                    {.id = 3, .file_offset = 8192, .chunk_bytes = 4097, .container_bytes = 8192}}));
}

// Total size -> payload of the containers that a large variable is split into.
TEST(PlanFreshTest, AlignedSplitsByAThirtySecondOfTheTotalWithinBounds) {
  const std::map<std::uint64_t, std::uint64_t> expected = {
      {2 * kMiB, kMiB},                 // clamped from below
      {32 * kMiB, kMiB},                // exactly
      {33 * kMiB, 2 * kMiB},            // rounded up to whole MiB
      {256 * kMiB, 8 * kMiB},           // a thirty-second
      {2048 * kMiB, 64 * kMiB},         // exactly the largest
      {1024 * 1024 * kMiB, 64 * kMiB},  // clamped from above
  };
  for (const auto& [total, slot] : expected) {
    const std::vector<VariableSize> variables = {{1, total}};
    const auto layout = PlanFresh(variables, Packing::kAligned);
    ASSERT_TRUE(layout.ok()) << layout.status();
    EXPECT_EQ(layout->containers.front().container_bytes, slot) << total;
    EXPECT_EQ(layout->containers.size(), (total + slot - 1) / slot) << total;
  }
}

TEST(PlanFreshTest, AlignedGivesTheLastContainerTheRest) {
  const std::vector<VariableSize> variables = {{4, 2 * kMiB + 5}};
  const auto layout = PlanFresh(variables, Packing::kAligned);
  ASSERT_TRUE(layout.ok()) << layout.status();
  ASSERT_EQ(layout->containers.size(), 3u);
  EXPECT_EQ(layout->containers[2], (Container{.id = 4,
                                              .index = 2,
                                              .variable_offset = 2 * kMiB,
                                              .file_offset = 2 * kMiB,
                                              .chunk_bytes = 5,
                                              .container_bytes = 4096}));
}

TEST(PlanFreshTest, IdsGivenTwiceOrNegativeAreRefused) {
  const std::vector<VariableSize> twice = {{1, 8}, {2, 8}, {1, 8}};
  const auto by_twice = PlanFresh(twice, Packing::kExact);
  EXPECT_EQ(by_twice.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(MessageOf(by_twice.status()).find("id 1 is given twice"), std::string_view::npos) << by_twice.status();
  const std::vector<VariableSize> negative = {{-1, 8}};
  EXPECT_EQ(PlanFresh(negative, Packing::kExact).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PlanFreshTest, SizesThatOverflowAreRefused) {
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  const std::vector<std::vector<VariableSize>> lists = {
      {{1, kHuge}}, {{1, kHuge / 2}, {2, kHuge / 2}}, {{1, kHuge / 4}, {2, kHuge / 4}, {3, 4}}, {{1, kHuge - 4094}}};
  for (const auto& list : lists) {
    for (const Packing packing : {Packing::kExact, Packing::kAligned}) {
      EXPECT_EQ(PlanFresh(list, packing).status().code(), absl::StatusCode::kInvalidArgument) << list[0].bytes;
    }
  }
}

TEST(PlanFreshTest, MoreContainersThanAFileMayHaveAreRefusedBeforeTheyAreMade) {
  const std::uint64_t most = kContainersMax * 64 * kMiB;
  const std::vector<VariableSize> variables = {{1, most + 1}};
  EXPECT_EQ(PlanFresh(variables, Packing::kAligned).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(PlanFresh(variables, Packing::kExact).ok());
}

// Offsets counted by hand: two blocks of three containers (40, 0, 64 bytes) and two (20, 8).
TEST(PlacedTest, EachLayoutPutsContainersWhereItsRecordsLeaveRoom) {
  struct Expected {
    Letter letter;
    std::vector<std::uint64_t> offsets;
    std::uint64_t meta_bytes;
  };
  const std::vector<Expected> all = {
      {Letter::kA, {300, 340, 340, 544, 564}, 96 + 2 * 12 + 5 * 64},
      {Letter::kB, {288, 328, 328, 528, 548}, 90 + 2 * 12 + 5 * 62},
      {Letter::kC, {0, 40, 40, 104, 124}, 110 + 2 * 12 + 5 * 62},
      {Letter::kD, {0, 40, 40, 104, 124}, 110 + 2 * 12 + 5 * 58},
      {Letter::kE, {0, 40, 40, 104, 124}, 82 + 2 * 8 + 5 * 50},
      {Letter::kF, {0, 40, 40, 104, 124}, 106 + 2 * 12 + 5 * 58},
  };
  for (const Expected& expected : all) {
    SCOPED_TRACE(static_cast<char>(expected.letter));
    const FileLayout placed = Placed(testing::MixedLayout(), expected.letter);
    std::vector<std::uint64_t> offsets;
    for (const Container& c : placed.containers) offsets.push_back(c.file_offset);
    EXPECT_EQ(offsets, expected.offsets);
    EXPECT_EQ(placed.meta_bytes(expected.letter), expected.meta_bytes);
    EXPECT_EQ(placed.file_bytes(expected.letter), 132 + expected.meta_bytes);
    EXPECT_EQ(placed.data_bytes, 132u);
    EXPECT_EQ(Placed(placed, Letter::kF).containers, testing::MixedLayout().containers);
  }
}

// What must hold of any plan.
void CheckPlan(const std::vector<VariableSize>& variables, Packing packing, const FileLayout& layout) {
  std::map<std::int32_t, std::uint64_t> chunk_bytes, container_bytes;
  std::map<std::int32_t, std::int32_t> containers;
  std::vector<std::int32_t> order;
  std::uint64_t offset = 0;
  for (const Container& c : layout.containers) {
    EXPECT_EQ(c.file_offset, offset);
    EXPECT_EQ(c.index, containers[c.id]++);
    EXPECT_EQ(c.variable_offset, container_bytes[c.id]);
    EXPECT_EQ(c.variable_offset, chunk_bytes[c.id]) << "a container before this one is not full";
    EXPECT_TRUE(c.has_content);
    EXPECT_LE(c.chunk_bytes, c.container_bytes);
    if (packing == Packing::kAligned) {
      EXPECT_EQ(c.file_offset % 4096, 0u);
      EXPECT_LT(c.container_bytes - c.chunk_bytes, 4096u);
      EXPECT_LE(c.container_bytes, 64 * kMiB);
    }
    if (c.index == 0) order.push_back(c.id);
    offset += c.container_bytes;
    chunk_bytes[c.id] += c.chunk_bytes;
    container_bytes[c.id] += c.container_bytes;
  }
  EXPECT_EQ(layout.data_bytes, offset);
  ASSERT_EQ(order.size(), variables.size());
  for (std::size_t i = 0; i < variables.size(); ++i) {
    EXPECT_EQ(order[i], variables[i].id);
    EXPECT_EQ(chunk_bytes[variables[i].id], variables[i].bytes);
    if (packing == Packing::kExact) {
      EXPECT_EQ(container_bytes[variables[i].id], variables[i].bytes);
    }
  }
  ASSERT_EQ(layout.block_containers.size(), 1u);
  EXPECT_EQ(layout.block_containers[0], layout.containers.size());
}

TEST(PlanFreshTest, AnyVariablesAreCoveredOnceInOrderByContiguousContainers) {
  const std::uint64_t seed = testing::TestSeed();
  SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::set<std::int32_t> ids;
    std::vector<VariableSize> variables;
    const std::size_t count = 1 + random() % 20;
    while (variables.size() < count) {
      const auto id = static_cast<std::int32_t>(random() % 100000);
      if (ids.insert(id).second) variables.push_back({id, random() >> (random() % 39 + 24)});
    }
    for (const Packing packing : {Packing::kExact, Packing::kAligned}) {
      const auto layout = PlanFresh(variables, packing);
      ASSERT_TRUE(layout.ok()) << layout.status();
      CheckPlan(variables, packing, *layout);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace cairn::ftiff
