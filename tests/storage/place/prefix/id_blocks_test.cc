// <prefix>/.cairn/ids.<n>: each id is given out once.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/scr/records.h"
#include "storage/place/arbiter/folder_arbiter.h"
#include "storage/place/prefix/id_blocks.h"
#include "storage/place/prefix/prefix.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr auto kResourceExhausted = absl::StatusCode::kResourceExhausted;

constexpr char kPath[] = "/pfs/demo";
constexpr DatasetId kLast = 0x7fffffff;

class IdBlocksTest : public ::testing::Test {
 protected:
  IdBlocksTest() { Open(); }
  std::unique_ptr<Prefix> Open() {
    auto prefix = Prefix::Open(disk_, kPath);
    EXPECT_OK(prefix.status());
    return prefix.ok() ? *std::move(prefix) : nullptr;
  }
  IdBlock Reserve(DatasetId above = 0, std::uint64_t count = id_blocks::kBlock) {
    const auto block = id_blocks::Reserve(*MakeFolderArbiter(disk_, kPath), disk_, kPath, above, count);
    EXPECT_OK(block.status());
    return block.ok() ? *block : IdBlock();
  }
  absl::Status Return(const IdBlock& rest) { return id_blocks::Return(disk_, kPath, rest); }
  // As release 0.1.0 made them: their number says which ids they hold.
  void PutOldBlock(std::uint64_t number) {
    kvtree::Tree tree;
    tree.Set("VERSION", std::uint64_t{1});
    tree.Set("HOST", "old");
    ASSERT_OK(ReplaceTree(disk_, fmt::format("{}/.cairn/ids.{}", kPath, number), tree));
  }
  FakeDisk disk_;
};

TEST_F(IdBlocksTest, BlocksFollowEachOtherAndAreNeverGivenOutTwice) {
  const IdBlock first = Reserve();
  EXPECT_EQ(first.first, 1u);
  EXPECT_EQ(first.count, id_blocks::kBlock);
  disk_.Restart(5);
  const IdBlock second = Reserve();
  EXPECT_EQ(second.first, first.first + first.count);
  const IdBlock third = Reserve(100'000, 10);
  EXPECT_EQ(third.first, 100'001u);
  EXPECT_EQ(third.count, 10u);
  EXPECT_EQ(Reserve(1).first, 100'011u);
}

TEST_F(IdBlocksTest, IdsStartAboveEverythingThatThePrefixKnows) {
  for (const std::uint64_t known : {1, 63, 64, 1000}) {
    for (const char* where : {"ckpt.{}", ".scr/scr.dataset.{}", "index"}) {
      SCOPED_TRACE(fmt::format("{} in {}", known, where));
      FakeDisk disk;
      ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::Open(disk, kPath));
      if (std::string_view(where) == "index") {
        kvtree::Tree index;
        scr::IndexEntry entry;
        entry.descriptor.id = known;
        entry.descriptor.name = "by_scr";
        scr::PutIndexEntry(entry, index);
        ASSERT_OK(ReplaceTree(disk, "/pfs/demo/.scr/index.scr", index));
      } else {
        ASSERT_OK(disk.MakeDirectory("/pfs/demo/" + fmt::format(fmt::runtime(where), known), 0700));
      }
      EXPECT_EQ(prefix->ReserveIds(0)->first, known + 1);
    }
  }
}

TEST_F(IdBlocksTest, FoldersOfImpossibleIdsDoNotUseUpTheIds) {
  ASSERT_OK(disk_.MakeDirectory("/pfs/demo/ckpt.20261120093000", 0700));
  ASSERT_OK(disk_.MakeDirectory("/pfs/demo/ckpt.x", 0700));
  EXPECT_EQ(Reserve().first, 1u);
}

TEST_F(IdBlocksTest, AtTheEndOfAllIdsABlockIsShorterAndThenThereIsNone) {
  const IdBlock last = Reserve(kLast - 5, 100);
  EXPECT_EQ(last.first, kLast - 4);
  EXPECT_EQ(last.count, 5u);
  EXPECT_STATUS(kResourceExhausted, id_blocks::Reserve(*MakeFolderArbiter(disk_, kPath), disk_, kPath, 0, 1),
                "ids end at 2147483647");
  auto prefix = Open();
  EXPECT_STATUS(kResourceExhausted, prefix->ReserveIds(kLast), "ids end");
  EXPECT_STATUS(kResourceExhausted, prefix->ReserveIds(UINT64_MAX), "ids end");
}

TEST_F(IdBlocksTest, WhatWasReturnedOfTheNewestBlockIsGivenOutAgain) {
  const IdBlock block = Reserve(0, 100);
  ASSERT_OK(Return({.first = 8, .count = 93, .number = block.number}));
  disk_.Restart(3);
  EXPECT_EQ(Reserve(0, 10).first, 8u);
  EXPECT_EQ(Reserve(0, 10).first, 18u);
}

TEST_F(IdBlocksTest, ABlockThatIsReturnedWholeOrEmptyIsNoTrouble) {
  const IdBlock block = Reserve(0, 100);
  ASSERT_OK(Return(block));
  const IdBlock again = Reserve(0, 100);
  EXPECT_EQ(again.first, block.first);
  ASSERT_OK(Return({.first = again.first + again.count, .count = 0, .number = again.number}));
  EXPECT_EQ(Reserve(0, 1).first, 101u);
}

// Others have reserved since: their ids are not given out again.
TEST_F(IdBlocksTest, WhatIsReturnedOfAnOlderBlockIsLost) {
  const IdBlock old = Reserve(0, 100);
  const IdBlock newer = Reserve(0, 100);
  ASSERT_OK(Return({.first = 2, .count = 99, .number = old.number}));
  EXPECT_EQ(Reserve().first, newer.first + newer.count);
}

TEST_F(IdBlocksTest, BlocksOfRelease010CountWithTheirSixtyFourIds) {
  PutOldBlock(0);
  PutOldBlock(1);
  const IdBlock next = Reserve(0, 10);
  EXPECT_EQ(next.first, 129u);
  EXPECT_EQ(next.number, 2u);
  EXPECT_EQ(Reserve(0, 10).first, 139u);
}

TEST_F(IdBlocksTest, OfManyThatReserveAtOnceEachGetsABlockOfItsOwn) {
  auto prefix = Open();
  std::vector<std::thread> threads;
  std::vector<absl::StatusOr<IdBlock>> blocks(8, absl::UnknownError(""));
  for (auto& block : blocks) {
    threads.emplace_back([&] { block = prefix->ReserveIds(0); });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<DatasetId> firsts;
  for (const auto& block : blocks) {
    ASSERT_OK(block.status());
    EXPECT_EQ(block->first % id_blocks::kBlock, 1u);
    firsts.insert(block->first);
  }
  EXPECT_EQ(firsts.size(), 8u);
}

// One who reserves while another returns has either ids above the block, or the rest of it; never both the same.
TEST_F(IdBlocksTest, APowerFailureNeverLetsIdsBeGivenOutTwice) {
  for (std::uint64_t n = 1;; ++n) {
    SCOPED_TRACE(fmt::format("power fails at operation {}", n));
    FakeDisk disk;
    ASSERT_OK(Prefix::Open(disk, kPath));
    disk.SyncAll();
    disk.CrashAt(n);
    DatasetId used = 0;  // told to somebody
    const auto take = [&](const absl::StatusOr<IdBlock>& block) {
      if (!block.ok()) return;
      EXPECT_GT(block->first, used);
      used = block->first + 2;
    };
    const auto first = id_blocks::Reserve(*MakeFolderArbiter(disk, kPath), disk, kPath, 0, 10);
    take(first);
    if (first.ok()) {
      id_blocks::Return(disk, kPath, {.first = used + 1, .count = 7, .number = first->number}).IgnoreError();
    }
    take(id_blocks::Reserve(*MakeFolderArbiter(disk, kPath), disk, kPath, 0, 10));
    const bool crashed = disk.crashed();
    disk.Restart(n);
    const auto after = id_blocks::Reserve(*MakeFolderArbiter(disk, kPath), disk, kPath, 0, 10);
    ASSERT_OK(after.status());
    take(after);
    if (!crashed) break;
  }
}

TEST_F(IdBlocksTest, ADamagedBlockIsNamedAndNoIdsAreGivenOut) {
  const IdBlock block = Reserve(0, 10);
  const std::string path = fmt::format("{}/.cairn/ids.{}", kPath, block.number);
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.Set("FIRST", std::uint64_t{5'000'000'000});
  tree.Set("COUNT", std::uint64_t{10});
  ASSERT_OK(ReplaceTree(disk_, path, tree));
  EXPECT_STATUS(kDataLoss, id_blocks::Reserve(*MakeFolderArbiter(disk_, kPath), disk_, kPath, 0), path);
  disk_.FlipBit(path, 200);
  EXPECT_STATUS(kDataLoss, id_blocks::Reserve(*MakeFolderArbiter(disk_, kPath), disk_, kPath, 0), path);
}

TEST_F(IdBlocksTest, ARestThatIsNotOfItsBlockIsNamedAndNoIdsAreGivenOut) {
  const IdBlock block = Reserve(100, 10);
  ASSERT_OK(Return({.first = 50, .count = 60, .number = block.number}));
  EXPECT_STATUS(kDataLoss, id_blocks::Reserve(*MakeFolderArbiter(disk_, kPath), disk_, kPath, 0),
                "FIRST 50 is not of the block");
}

}  // namespace
}  // namespace cairn
