// Which files belong to which rank: how the list is split, and what a reader refuses.
#include "storage/format/scr/rank2file.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/status.h"

namespace cairn::scr {
namespace {

using kvtree::Tree;
using Trees = std::map<std::string, Tree>;
using Files = std::vector<std::vector<std::string>>;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

absl::StatusOr<Rank2File> Read(const Trees& trees, int* loads = nullptr) {
  return GetRank2File([&](const std::string& suffix) -> absl::StatusOr<Tree> {
    if (loads != nullptr) ++*loads;
    const auto at = trees.find(suffix);
    if (at == trees.end()) return NotFound("rank2file{} is not there", suffix);
    return at->second;
  });
}

void ExpectComesBack(const Files& files, const Trees& trees) {
  const auto read = Read(trees);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->ranks, files.size());
  std::map<Rank, std::vector<std::string>> expected;
  for (std::size_t rank = 0; rank < files.size(); ++rank) {
    if (!files[rank].empty()) expected[static_cast<Rank>(rank)] = files[rank];
  }
  EXPECT_EQ(read->files, expected);
}

TEST(Rank2FileTest, AFewFilesAreARootAndOnePart) {
  const Files files = {{"s/rank_0.ckpt", "s/sub1/extra.dat"}, {}, {"s/rank_2.ckpt"}};
  const Trees trees = MakeRank2File(files);
  ASSERT_EQ(trees.size(), 2u);
  EXPECT_EQ(kvtree::Print(trees.at("")),
            "  RANKS\n    3\n  LEVEL\n    1\n  RANK\n    0\n      FILE\n        .0.0\n      OFFSET\n        0\n");
  EXPECT_EQ(kvtree::Print(trees.at(".0.0")),
            "  RANKS\n    3\n  LEVEL\n    0\n  RANK\n    2\n      FILE\n        s/rank_2.ckpt\n    1\n    0\n"
            "      FILE\n        s/rank_0.ckpt\n        s/sub1/extra.dat\n");
  ExpectComesBack(files, trees);
}

// Ranks whose tree packs to that many bytes: 13 for "FILE" and two counts, then names of at most 1019, each with 5.
Files Ranks(int count, std::size_t packed_bytes) {
  std::vector<std::string> names;
  for (std::size_t left = packed_bytes - 13; left > 0;) {
    const std::size_t bytes = left > 2048 ? 1024 : left > 1024 ? left / 2 : left;
    std::string name = std::to_string(names.size()) + "_";
    name.resize(bytes - 5, 'n');
    names.push_back(name);
    left -= bytes;
  }
  return Files(static_cast<std::size_t>(count), names);
}

TEST(Rank2FileTest, APartEndsWhereARankWouldCrossABlock) {
  // Four ranks of 2^18 fill the first block exactly: the fifth lies in the second, and crosses no border.
  Files files = Ranks(9, 1 << 18);
  EXPECT_EQ(MakeRank2File(files).size(), 2u);
  // One byte more in front: rank 3 now ends in the second block and begins a part, and so does rank 7 in the third.
  files[0][0] += "x";
  const Trees trees = MakeRank2File(files);
  ASSERT_EQ(trees.size(), 4u);
  EXPECT_EQ(trees.at(".0.0").Find("RANK")->size(), 3u);
  EXPECT_EQ(trees.at(".0.3").Find("RANK")->size(), 4u);
  EXPECT_EQ(trees.at(".0.7").Find("RANK")->size(), 2u);
  EXPECT_EQ(trees.at("").Find("RANK")->size(), 3u);
  EXPECT_EQ(trees.at(".0.7").Get("RANKS"), "9");  // SCR's fetch compares it with its own number
  EXPECT_EQ(trees.at(".0.7").Get("LEVEL"), "0");
  ExpectComesBack(files, trees);
}

TEST(Rank2FileTest, AListOfManyPartsIsSplitInTheSameWay) {
  const Files files = Ranks(2000, 100);
  const Trees trees = MakeRank2File(files, 128);
  const auto level = trees.at("").GetUnsigned("LEVEL");
  ASSERT_TRUE(level.ok());
  EXPECT_GE(*level, 3u);
  EXPECT_TRUE(trees.contains(".2.0"));
  EXPECT_EQ(trees.at(".1.0").Get("LEVEL"), "1");
  ExpectComesBack(files, trees);
}

TEST(Rank2FileTest, ARunWithoutRanksOrFilesHasARoot) {
  ExpectComesBack({}, MakeRank2File({}));
  ExpectComesBack({{}, {}}, MakeRank2File({{}, {}}));
}

TEST(Rank2FileTest, AReaderBearsWhatADrainWrites) {
  Trees trees = MakeRank2File({{"a"}, {"b", "c"}});
  trees[".0.0"].At("RANK").At("1").Set("FILES", "2");
  trees[".0.0"].Set("RANKS", "1");  // entries of this part, not ranks of the run
  trees[".0.0"].Erase("LEVEL");
  trees[""].At("RANK").At("0").Erase("OFFSET");
  ExpectComesBack({{"a"}, {"b", "c"}}, trees);
}

TEST(Rank2FileTest, WithoutRanksInTheRootTheHighestRankCounts) {
  Trees trees = MakeRank2File({{"a"}, {"b"}});
  trees[""].Erase("RANKS");
  EXPECT_EQ(Read(trees)->ranks, 2u);
}

TEST(Rank2FileTest, AMissingPartIsTheErrorOfItsLoad) {
  Trees trees = MakeRank2File({{"a"}});
  trees.erase(".0.0");
  EXPECT_EQ(Read(trees).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Read({}).status().code(), absl::StatusCode::kNotFound);
}

TEST(Rank2FileTest, PathsThatLeadOutOfThePrefixAreRefused) {
  for (const char* path : {"", "/etc/passwd", "../x", "a/../../x", ".."}) {
    const absl::Status status = Read(MakeRank2File({{path}})).status();
    EXPECT_EQ(status.code(), kDataLoss) << path;
    EXPECT_NE(status.ToString().find("rank2file.0.0: rank 0: '" + std::string(path) + "'"), std::string::npos)
        << status;
  }
}

TEST(Rank2FileTest, OnlyThePartsOfItsOwnAreOpened) {
  for (const char* suffix : {"/../../secret", ".0.1", ".1.0", "", ".0.0 "}) {
    Trees trees = MakeRank2File({{"a"}});
    trees[""].At("RANK").At("0").Set("FILE", suffix);
    int loads = 0;
    EXPECT_EQ(Read(trees, &loads).status().code(), kDataLoss) << suffix;
    EXPECT_EQ(loads, 1) << suffix;
  }
}

TEST(Rank2FileTest, WhatCannotBeIsRefused) {
  const Trees good = MakeRank2File({{"a"}, {"b"}});
  const auto expect_refused = [](const Trees& trees, const char* what) {
    EXPECT_EQ(Read(trees).status().code(), kDataLoss) << what;
  };
  Trees trees = good;
  trees[""].Set("LEVEL", "9");
  expect_refused(trees, "depth");
  trees = good;
  trees[".0.0"].Set("LEVEL", "1");
  expect_refused(trees, "a part of another level");
  trees = good;
  trees[""].Set("RANKS", "1");
  expect_refused(trees, "a rank beyond the run");
  trees = good;
  trees[""].Set("RANKS", "many");
  expect_refused(trees, "no number of ranks");
  trees = good;
  trees[".0.0"].At("RANK").At("-1").At("FILE").At("c");
  expect_refused(trees, "no rank");
  trees = good;
  trees[""].At("RANK").At("0").Set("OFFSET", "20");
  expect_refused(trees, "a part inside a file");
  trees = good;
  trees[""].At("RANK").At("1").Set("FILE", ".0.1");
  trees[".0.1"] = trees[".0.0"];
  expect_refused(trees, "a rank in two parts");
}

// Eight levels whose parts list the same parts below: read again and again they would be eight to the eighth.
TEST(Rank2FileTest, PartsThatAreListedTwiceAreRefusedAtOnce) {
  Trees trees;
  trees[""].Set("LEVEL", "8");
  for (int level = 8; level > 0; --level) {
    for (int writer = 0; writer < 8; ++writer) {
      Tree& tree = level == 8 ? trees[""] : trees["." + std::to_string(level) + "." + std::to_string(writer)];
      tree.Set("LEVEL", static_cast<std::uint64_t>(level));
      for (int below = 0; below < 8; ++below) {
        tree.At("RANK")
            .At(std::to_string(below))
            .Set("FILE", "." + std::to_string(level - 1) + "." + std::to_string(below));
      }
    }
  }
  for (int writer = 0; writer < 8; ++writer) trees[".0." + std::to_string(writer)].Set("LEVEL", "0");
  int loads = 0;
  EXPECT_EQ(Read(trees, &loads).status().code(), kDataLoss);
  EXPECT_LT(loads, 100);
}

}  // namespace
}  // namespace cairn::scr
