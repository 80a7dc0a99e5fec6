#include "storage/place/prefix/record_edits.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "storage/base/status.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

kvtree::Tree Index() {
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{2});
  tree.Set("CURRENT", "ckpt.7");
  tree.At("NAME").At("ckpt.7").Set("DSET", "7");
  tree.At("DSET").At("7").Set("COMPLETE", "1");
  return tree;
}

TEST(RecordEditsTest, WhatIsTheSameNeedsNone) {
  EXPECT_TRUE(record_edits::Between(Index(), Index()).empty());
}

TEST(RecordEditsTest, LinesOfATableAreEditedAlone) {
  kvtree::Tree mine = Index(), theirs = Index();
  mine.At("DSET").At("8").Set("COMPLETE", "0");
  theirs.At("DSET").At("9").Set("COMPLETE", "1");
  theirs.At("NAME").Erase("ckpt.7");
  kvtree::Tree tree = Index();
  ASSERT_OK(record_edits::Apply("a", record_edits::Between(Index(), mine), tree));
  ASSERT_OK(record_edits::Apply("b", record_edits::Between(Index(), theirs), tree));
  EXPECT_EQ(tree.At("DSET").size(), 3u);
  EXPECT_NE(tree.FindPath({"DSET", "8", "COMPLETE", "0"}), nullptr);
  EXPECT_NE(tree.FindPath({"DSET", "9", "COMPLETE", "1"}), nullptr);
  EXPECT_EQ(tree.FindPath({"NAME", "ckpt.7"}), nullptr);
  EXPECT_EQ(tree.Get("CURRENT"), "ckpt.7");
}

TEST(RecordEditsTest, OfALaterVersionTheyAreRefusedAndChangeNothing) {
  kvtree::Tree edits = record_edits::Between(kvtree::Tree(), Index()), tree;
  edits.Set("VERSION", std::uint64_t{2});
  const absl::Status refused = record_edits::Apply("/p/.scr/index.changes/4", edits, tree);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(refused.message().find("index.changes/4"), std::string::npos) << refused;
  EXPECT_TRUE(tree.empty());
  EXPECT_EQ(record_edits::Apply("x", kvtree::Tree(), tree).code(), absl::StatusCode::kDataLoss);
}

kvtree::Tree RandomTree(std::mt19937_64& random) {
  kvtree::Tree tree;
  for (const char* key : {"DSET", "NAME", "CURRENT", "OTHER", "CAIRN_COMMITTED"}) {
    if (random() % 4 == 0) continue;
    kvtree::Tree& child = tree.At(key);
    for (std::uint64_t i = random() % 4; i > 0; --i) {
      child.At(std::to_string(random() % 5)).Set("A", random() % 3);
    }
  }
  return tree;
}

// Any history of changes, and any end of it once more.
TEST(RecordEditsTest, MakeTheOneOfTheOtherAndDoNoHarmAgain) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<kvtree::Tree> states = {RandomTree(random)}, edits;
    for (int i = 0; i < 4; ++i) {
      states.push_back(RandomTree(random));
      edits.push_back(record_edits::Between(states[states.size() - 2], states.back()));
    }
    kvtree::Tree tree = states.front();
    for (std::size_t i = 0; i < edits.size(); ++i) {
      if (!edits[i].empty()) {
        ASSERT_OK(record_edits::Apply("x", edits[i], tree));
      }
      ASSERT_TRUE(tree.SameAs(states[i + 1])) << round;
    }
    for (std::size_t i = random() % edits.size(); i < edits.size(); ++i) {
      if (edits[i].empty()) continue;
      ASSERT_OK(record_edits::Apply("x", edits[i], tree));
    }
    ASSERT_TRUE(tree.SameAs(states.back())) << round;
  }
}

}  // namespace
}  // namespace cairn
