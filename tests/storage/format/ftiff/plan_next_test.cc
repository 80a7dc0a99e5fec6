// The list of containers from checkpoint to checkpoint. The worked example and FTI's own runs are in example_test.cc.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "storage/format/ftiff/layout.h"
#include "tests/storage/format/ftiff/planned.h"
#include "tests/support/status_matchers.h"

namespace cairn::ftiff {
namespace {

constexpr std::uint64_t kKiB = 1 << 10, kMiB = 1 << 20;
constexpr Packing kPackings[] = {Packing::kExact, Packing::kAligned};

TEST(PlanNextTest, TheFirstCheckpointHasAFreshList) {
  const Sizes sizes = {{3, 5}, {1, 0}, {2, 3 * kMiB}};
  for (const Packing packing : kPackings) {
    ExpectSame(Next({}, sizes, packing), Fresh(sizes, packing));
    ExpectSame(Next({}, {}, packing), {});
  }
}

TEST(PlanNextTest, WithTheSameSizesNothingChanges) {
  const Sizes sizes = {{3, 5}, {1, 0}, {2, 3 * kMiB}};
  for (const Packing packing : kPackings) {
    const FileLayout last = Fresh(sizes, packing);
    ExpectSame(Next(last, sizes, packing), last);
  }
}

TEST(PlanNextTest, ExactPutsAllThatIsNewIntoOneBlockInTheOrderOfTheVariables) {
  const FileLayout last = Fresh({{1, 10}, {2, 20}}, Packing::kExact);
  const FileLayout next = Next(last, {{7, 3}, {2, 25}, {1, 10}, {5, 0}}, Packing::kExact);
  EXPECT_EQ(next.containers,
            (std::vector<Container>{
                {.id = 1, .file_offset = 0, .chunk_bytes = 10, .container_bytes = 10},
                {.id = 2, .file_offset = 10, .chunk_bytes = 20, .container_bytes = 20},
                {.id = 7, .file_offset = 30, .chunk_bytes = 3, .container_bytes = 3},
                {.id = 2, .index = 1, .variable_offset = 20, .file_offset = 33, .chunk_bytes = 5, .container_bytes = 5},
                {.id = 5, .file_offset = 38}}));
  EXPECT_EQ(next.block_containers, (std::vector<std::uint32_t>{2, 3}));
  EXPECT_EQ(next.data_bytes, 38u);
}

// Sizes of one variable, checkpoint after checkpoint, and the chunks that its containers then have; -1: no content.
struct Growth {
  std::vector<std::uint64_t> sizes;
  std::vector<std::vector<int>> chunks;
};

TEST(PlanNextTest, ExactFillsContainersInFileOrderAndEmptiesTheLaterOnes) {
  const std::vector<Growth> all = {
      {{8, 12, 20}, {{8}, {8, 4}, {8, 4, 8}}},                        // growth
      {{8, 20, 13, 8, 7}, {{8}, {8, 12}, {8, 5}, {8, -1}, {7, -1}}},  // shrink: a full container closes the variable
      {{8, 20, 0, 8, 9}, {{8}, {8, 12}, {0, -1}, {8, -1}, {8, 1}}},   // to nothing and back: content returns
      {{0, 4, 0, 9}, {{0}, {0, 4}, {0, -1}, {0, 4, 5}}},              // from nothing
      {{8, 12, 2, 30}, {{8}, {8, 4}, {2, -1}, {8, 4, 18}}},           // growth over emptied containers
  };
  for (const Growth& growth : all) {
    FileLayout layout;
    for (std::size_t step = 0; step < growth.sizes.size(); ++step) {
      SCOPED_TRACE(::testing::PrintToString(growth.sizes) + ", step " + std::to_string(step));
      layout = Next(layout, {{4, growth.sizes[step]}}, Packing::kExact);
      ASSERT_EQ(layout.containers.size(), growth.chunks[step].size());
      for (std::size_t i = 0; i < layout.containers.size(); ++i) {
        EXPECT_EQ(layout.containers[i].has_content, growth.chunks[step][i] >= 0);
        EXPECT_EQ(layout.containers[i].chunk_bytes, static_cast<std::uint64_t>(std::max(0, growth.chunks[step][i])));
      }
    }
  }
}

TEST(PlanNextTest, WithoutANewContainerThereIsNoNewBlock) {
  const FileLayout last = Next(Fresh({{1, 10}}, Packing::kExact), {{1, 20}}, Packing::kExact);
  EXPECT_EQ(Next(last, {{1, 15}}, Packing::kExact).block_containers, (std::vector<std::uint32_t>{1, 1}));
}

TEST(PlanNextTest, AVariableThatIsNoLongerGivenMakesTheListFresh) {
  for (const Packing packing : kPackings) {
    const FileLayout last = Fresh({{1, 10}, {2, 20}}, packing);
    ExpectSame(Next(last, {{2, 5}, {3, 7}}, packing, true), Fresh({{2, 5}, {3, 7}}, packing));
    ExpectSame(Next(last, {}, packing), {});
  }
}

TEST(PlanNextTest, ContainersOfARestoredFileAreMarkedAndStaySo) {
  for (const Packing packing : kPackings) {
    const auto marks = [](const FileLayout& layout) {
      std::vector<bool> marks;
      for (const Container& c : layout.containers) marks.push_back(c.in_file_before);
      return marks;
    };
    FileLayout layout = Next(Fresh({{1, 10}}, packing), {{1, 10}, {2, 20}}, packing, /*is_restored=*/true);
    EXPECT_EQ(marks(layout), (std::vector<bool>{true, false}));
    layout = Next(layout, {{1, 10}, {2, 20}, {3, 1}}, packing);
    EXPECT_EQ(marks(layout), (std::vector<bool>{true, false, false}));
    layout = Next(layout, {{1, 10}, {2, 20}, {3, 1}}, packing, /*is_restored=*/true);
    EXPECT_EQ(marks(layout), (std::vector<bool>{true, true, true}));
  }
}

TEST(PlanNextTest, AlignedLetsAVariableGrowWithinItsContainersOnly) {
  const FileLayout last = Fresh({{1, 2 * kMiB + 5}, {2, 9}}, Packing::kAligned);
  FileLayout within = last;
  within.containers[2].chunk_bytes = 4 * kKiB;
  within.containers[3].chunk_bytes = 0;
  ExpectSame(Next(last, {{1, 2 * kMiB + 4 * kKiB}, {2, 0}}, Packing::kAligned), within);
  const Sizes beyond = {{1, 2 * kMiB + 4 * kKiB + 1}, {2, 9}};
  ExpectSame(Next(last, beyond, Packing::kAligned), Fresh(beyond, Packing::kAligned));
}

TEST(PlanNextTest, AlignedSplitsANewVariableByTheTotalIntoABlockOfItsOwn) {
  const FileLayout last = Fresh({{1, 2 * kMiB}}, Packing::kAligned);
  const FileLayout next = Next(last, {{1, kMiB + 1}, {2, 63 * kMiB}, {3, 0}}, Packing::kAligned);
  ASSERT_EQ(next.block_containers, (std::vector<std::uint32_t>{2, 33}));
  EXPECT_EQ(next.containers[0], last.containers[0]);
  EXPECT_EQ(next.containers[1].chunk_bytes, 1u);
  EXPECT_EQ(next.containers[1].container_bytes, kMiB);
  for (std::size_t i = 2; i < 33; ++i)
    EXPECT_EQ(next.containers[i].container_bytes, 2 * kMiB);  // 64 MiB and a byte / 32
  EXPECT_EQ(next.containers[33].container_bytes, kMiB);
  EXPECT_EQ(next.containers[34], (Container{.id = 3, .file_offset = 65 * kMiB}));
}

// Lists of FTI's own packing are legal, but not aligned.
TEST(PlanNextTest, AlignedMakesAFreshListInPlaceOfOneThatIsNotAligned) {
  const auto expect_fresh = [](const FileLayout& last, const Sizes& sizes) {
    ExpectSame(Next(last, sizes, Packing::kAligned, true), Fresh(sizes, Packing::kAligned));
  };
  expect_fresh(Fresh({{1, 4095}, {2, 4097}}, Packing::kExact), {{1, 4095}, {2, 4097}});
  expect_fresh(Fresh({{1, 65 * kMiB}}, Packing::kExact), {{1, 64 * kMiB}});
  FileLayout apart = Fresh({{1, kMiB}, {2, kMiB}}, Packing::kExact);
  apart = Next(apart, {{1, 2 * kMiB}, {2, kMiB}}, Packing::kExact);
  expect_fresh(apart, {{1, 2 * kMiB}, {2, kMiB}});
  const FileLayout small = Next(Fresh({{1, 4096}}, Packing::kExact), {{1, 8192}}, Packing::kExact);
  expect_fresh(small, {{1, 8192}});
  const FileLayout from_nothing = Next(Fresh({{1, 0}}, Packing::kExact), {{1, 4096}}, Packing::kExact);
  expect_fresh(from_nothing, {{1, 4096}});
}

TEST(PlanNextTest, ExactGoesOnWithAnAlignedList) {
  const FileLayout last = Fresh({{1, 2 * kMiB + 5}}, Packing::kAligned);
  const FileLayout next = Next(last, {{1, 3 * kMiB}}, Packing::kExact);
  ASSERT_EQ(next.containers.size(), 4u);
  EXPECT_EQ(next.containers[2].chunk_bytes, 4 * kKiB);
  EXPECT_EQ(next.containers[3], (Container{.id = 1,
                                           .index = 3,
                                           .variable_offset = 2 * kMiB + 4 * kKiB,
                                           .file_offset = 2 * kMiB + 4 * kKiB,
                                           .chunk_bytes = kMiB - 4 * kKiB,
                                           .container_bytes = kMiB - 4 * kKiB}));
}

TEST(PlanNextTest, AListThatIsNotSoundIsNotGoneOnWith) {
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  const std::vector<std::function<void(FileLayout*)>> damages = {
      [](FileLayout* l) { l->containers[2].index = 7; },
      [](FileLayout* l) { l->containers[2].index = -1; },
      [](FileLayout* l) { l->containers[2].variable_offset += 1; },
      [](FileLayout* l) { l->containers[1].file_offset += 1; },
      [](FileLayout* l) { l->containers[2].container_bytes = kHuge; },
      [](FileLayout* l) { l->containers[2].container_bytes -= 1; },
      [](FileLayout* l) { l->containers[1].id = 1; },
      [](FileLayout* l) { l->containers.pop_back(); },
      [](FileLayout* l) { l->block_containers[0] = 1; },
      [](FileLayout* l) { l->block_containers.push_back(0); },
      [](FileLayout* l) {
        l->block_containers = {std::numeric_limits<std::uint32_t>::max(), 4};
      },
      [](FileLayout* l) { l->data_bytes = kHuge; },
  };
  const Sizes sizes = {{1, 30}, {2, 8}};
  for (const Packing packing : kPackings) {
    for (std::size_t i = 0; i < damages.size(); ++i) {
      SCOPED_TRACE(i);
      FileLayout last = Next(Fresh({{1, 10}, {2, 5}}, Packing::kExact), {{1, 20}, {2, 5}}, Packing::kExact);
      damages[i](&last);
      ExpectSame(Next(last, sizes, packing), Fresh(sizes, packing));
    }
  }
}

TEST(PlanNextTest, AListThatWouldGetTooLongIsMadeFresh) {
  Sizes sizes;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(kContainersMax); ++id) sizes.push_back({id, 1});
  const FileLayout last = Fresh(sizes, Packing::kExact);
  ASSERT_EQ(last.containers.size(), kContainersMax);
  EXPECT_EQ(Next(last, sizes, Packing::kExact).block_containers.size(), 1u);
  sizes[5].bytes = 2;
  const FileLayout next = Next(last, sizes, Packing::kExact);
  EXPECT_EQ(next.containers.size(), kContainersMax);
  EXPECT_EQ(next.containers[5].container_bytes, 2u);
  sizes.push_back({static_cast<std::int32_t>(kContainersMax), 1});
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, PlanNext(last, false, sizes, Packing::kExact), "containers");

  FileLayout too_long = last;  // as a file that was restored may have it
  too_long.containers.push_back({.id = 0, .index = 1, .variable_offset = 1, .file_offset = too_long.data_bytes});
  too_long.block_containers.push_back(1);
  sizes.pop_back();
  sizes[5].bytes = 1;
  ExpectSame(Next(too_long, sizes, Packing::kExact), Fresh(sizes, Packing::kExact));
}

TEST(PlanNextTest, AListThatWouldGetTooManyBytesIsMadeFresh) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max() / 2;
  const FileLayout last = Fresh({{1, kMost}}, Packing::kExact);
  const Sizes sizes = {{1, 5}, {2, 7}};
  ExpectSame(Next(last, sizes, Packing::kExact), Fresh(sizes, Packing::kExact));
}

TEST(PlanNextTest, BadVariablesAreRefusedAsForAFreshList) {
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  const std::vector<Sizes> lists = {{{1, 1}, {1, 1}}, {{-1, 1}}, {{1, kHuge}}, {{1, kHuge / 2}, {2, kHuge / 2}}};
  for (const Sizes& sizes : lists) {
    for (const Packing packing : kPackings) {
      const auto fresh = PlanFresh(sizes, packing);
      EXPECT_STATUS(absl::StatusCode::kInvalidArgument, fresh, "");
      EXPECT_EQ(PlanNext(Fresh({{1, 1}}, packing), false, sizes, packing).status(), fresh.status());
    }
  }
}

TEST(ProcessingOrderTest, WhatTheListHasComesFirstInItsOrder) {
  FileLayout last = Fresh({{5, 1}, {2, 1}, {9, 1}}, Packing::kExact);
  last = Next(last, {{9, 4}, {5, 1}, {2, 1}, {1, 1}}, Packing::kExact);
  const Sizes given = {{7, 70}, {1, 10}, {2, 20}, {6, 60}, {5, 50}};
  EXPECT_EQ(ProcessingOrder(last, given), (Sizes{{5, 50}, {2, 20}, {1, 10}, {7, 70}, {6, 60}}));
  EXPECT_EQ(ProcessingOrder({}, given), given);
  EXPECT_TRUE(ProcessingOrder(last, {}).empty());
}

TEST(ProcessingOrderTest, AnIdGivenTwiceStaysAndIsThenRefused) {
  const FileLayout last = Fresh({{2, 1}, {1, 1}}, Packing::kExact);
  const Sizes ordered = ProcessingOrder(last, Sizes{{1, 10}, {1, 11}, {2, 20}});
  EXPECT_EQ(ordered, (Sizes{{2, 20}, {1, 10}, {1, 11}}));
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, PlanNext(last, false, ordered, Packing::kExact), "twice");
}

}  // namespace
}  // namespace cairn::ftiff
