#include "daemon/core/container_list.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ftiff::Packing;
using Sizes = std::vector<ftiff::VariableSize>;

std::shared_ptr<ContainerList> Planned(const ContainerList* last, Sizes sizes, Packing packing = Packing::kExact) {
  auto list = NextList(last, std::move(sizes), packing);
  EXPECT_OK(list);
  return list.ok() ? *list : nullptr;
}

// As if its file was written: each container's hash is that of one byte, its place in the list from `first`.
void Settle(ContainerList& list, std::uint8_t first) {
  for (std::size_t i = 0; i < list.layout->containers.size(); ++i) {
    const std::byte byte{static_cast<std::uint8_t>(first + i)};
    list.hashes.push_back(Md5(std::span(&byte, 1)));
  }
  list.settled = true;
}

TEST(ContainerListTest, NothingChangesNothing) {
  const auto first = Planned(nullptr, {{1, 4000}, {2, 8000}});
  const auto second = Planned(first.get(), {{1, 4000}, {2, 8000}});
  EXPECT_EQ(second->layout, first->layout);
  EXPECT_FALSE(second->settled);
  EXPECT_TRUE(SamePlaces(*first->layout, *second->layout));
  // What was planned for one packing says nothing of another.
  const auto aligned = Planned(first.get(), {{1, 4000}, {2, 8000}}, Packing::kAligned);
  EXPECT_EQ(aligned->layout->containers[1].file_offset, 4096u);
  EXPECT_FALSE(SamePlaces(*first->layout, *aligned->layout));
}

TEST(ContainerListTest, ErrorsArePassedOn) {
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, NextList(nullptr, {{-1, 4}}, Packing::kExact), "");
  const auto first = Planned(nullptr, {{1, 4000}});
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, NextList(first.get(), {{1, 4}, {1, 5}}, Packing::kExact), "");
}

TEST(ContainerListTest, AFilesListHasTheOffsetsOfLayoutF) {
  const auto list = Planned(nullptr, {{1, 4000}, {2, 8000}});
  Settle(*list, 1);
  ftiff::FileMetadata file;
  file.letter = ftiff::Letter::kA;
  file.layout = ftiff::Placed(*list->layout, ftiff::Letter::kA);
  file.chunk_hashes = list->hashes;
  ASSERT_NE(file.layout.containers[0].file_offset, 0u);
  const auto read = ListOf(file, /*restored=*/true);
  EXPECT_TRUE(read->settled);
  EXPECT_TRUE(SamePlaces(*read->layout, *list->layout));
  EXPECT_EQ(read->hashes, list->hashes);
  const auto next = Planned(read.get(), {{1, 4000}, {2, 9000}});
  ASSERT_EQ(next->layout->containers.size(), 3u);
  EXPECT_TRUE(next->layout->containers[0].in_file_before);
  EXPECT_FALSE(next->layout->containers[2].in_file_before);
}

TEST(ContainerListTest, EmptiedContainersHaveTheLastHashThatTheyHad) {
  const auto first = Planned(nullptr, {{1, 10}});
  const auto grown = Planned(first.get(), {{1, 30}});
  EXPECT_FALSE(HasEmptied(*grown->layout));
  Settle(*grown, 100);
  const auto shrunk = Planned(grown.get(), {{1, 5}, {2, 7}});
  EXPECT_TRUE(HasEmptied(*shrunk->layout));
  const std::vector<Md5Digest> last = LastHashes(grown.get(), *shrunk->layout);
  ASSERT_EQ(last.size(), 3u);
  EXPECT_EQ(last[0], grown->hashes[0]);
  EXPECT_EQ(last[1], grown->hashes[1]);
  EXPECT_EQ(last[2], Md5({}));  // it is new
  EXPECT_EQ(LastHashes(nullptr, *shrunk->layout), std::vector<Md5Digest>(3, Md5({})));
  // Another variable in the same place.
  const auto other = Planned(nullptr, {{3, 5}});
  EXPECT_EQ(LastHashes(grown.get(), *other->layout), std::vector<Md5Digest>(1, Md5({})));
}

TEST(ContainerListTest, AnAlignedListGivesWayToAFreshOneOfAQuarter) {
  constexpr std::uint64_t kMiB = 1 << 20;
  const auto large = Planned(nullptr, {{1, 16 * kMiB}}, Packing::kAligned);
  EXPECT_EQ(Planned(large.get(), {{1, 5 * kMiB}}, Packing::kAligned)->layout->data_bytes, 16 * kMiB);
  EXPECT_EQ(Planned(large.get(), {{1, 4 * kMiB}}, Packing::kAligned)->layout->data_bytes, 4 * kMiB);
  const auto exact = Planned(nullptr, {{1, 16 * kMiB}});
  EXPECT_EQ(Planned(exact.get(), {{1, 1}})->layout->data_bytes, 16 * kMiB);  // FTI's rules
}

TEST(ContainerListTest, InLayoutAVariablesOfOtherSizesAppearAsTheyAreRegistered) {
  using ftiff::Letter;
  const auto first = Planned(nullptr, {{1, 4000}, {2, 4000}, {3, 8000}});
  for (const auto& [letter, front] : {std::pair(Letter::kF, 1), std::pair(Letter::kA, 3)}) {
    const auto next = NextList(first.get(), {{3, 8000}, {1, 4000}, {2, 4000}}, Packing::kExact, letter);
    ASSERT_OK(next);
    EXPECT_EQ((*next)->layout->containers.front().id, front);
  }
  const auto same_sizes = NextList(first.get(), {{2, 4000}, {1, 4000}, {3, 8000}}, Packing::kExact, Letter::kA);
  ASSERT_OK(same_sizes);
  EXPECT_EQ((*same_sizes)->layout->containers.front().id, 1) << "the file is gone on with";
}

}  // namespace
}  // namespace cairn
