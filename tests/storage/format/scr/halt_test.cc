// When a run is to stop, and on how many nodes it ran.
#include "storage/format/scr/halt.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>

#include "storage/format/scr/nodes.h"
#include "tests/storage/format/scr/scr_vectors.h"

namespace cairn::scr {
namespace {

using kvtree::Tree;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr std::int64_t kLatest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kEarliest = std::numeric_limits<std::int64_t>::min();
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

Halt Full() {
  return {.reason = "JOB_HALTED",
          .checkpoints_left = 5,
          .exit_before_s = 1893456000,
          .exit_after_s = -1,
          .halt_seconds = 900};
}

TEST(HaltTest, WhatIsPutIsGot) {
  for (const Halt& halt :
       {Full(), Halt(), Halt{.checkpoints_left = 0, .exit_before_s = kEarliest, .halt_seconds = kMost}}) {
    Tree tree;
    PutHalt(halt, tree);
    const auto got = GetHalt(tree);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(*got, halt);
  }
}

TEST(HaltTest, AbsentFieldsAreRemovedAndUnknownKeysStay) {
  Tree tree;
  tree.Set("Other", "1");
  PutHalt(Full(), tree);
  EXPECT_EQ(tree.size(), 6u);
  PutHalt(Halt(), tree);
  EXPECT_EQ(kvtree::Print(tree), "  Other\n    1\n");
}

TEST(HaltTest, ABadFieldIsNamed) {
  for (const std::string key : {"CheckpointsLeft", "ExitBefore", "ExitAfter", "HaltSeconds"}) {
    for (const std::string text : {"", "x", "-", "-x", "1 ", "1.5", "99999999999999999999", "-99999999999999999999"}) {
      Tree tree;
      tree.Set(key, text);
      const auto got = GetHalt(tree);
      EXPECT_EQ(got.status().code(), kDataLoss) << key << " = '" << text << "'";
      EXPECT_NE(got.status().ToString().find(key), std::string::npos) << got.status();
    }
  }
}

TEST(HaltTest, ACountThatScrTookBelowZeroIsZero) {
  Tree tree;
  tree.Set("CheckpointsLeft", "-1");
  tree.Set("HaltSeconds", "-2147483648");
  const auto got = GetHalt(tree);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->checkpoints_left, 0u);
  EXPECT_EQ(got->halt_seconds, 0u);
}

TEST(WhyHaltTest, WithoutConditionsTheRunGoesOn) {
  for (const std::int64_t now : {kEarliest, std::int64_t{0}, kLatest}) {
    EXPECT_EQ(WhyHalt({}, now, std::nullopt), std::nullopt);
    EXPECT_EQ(WhyHalt({}, now, now), std::nullopt);
  }
  EXPECT_EQ(WhyHalt({.checkpoints_left = 1}, 0, std::nullopt), std::nullopt);
}

TEST(WhyHaltTest, ACleanEndOfTheRunBeforeIsNoReason) {
  EXPECT_EQ(WhyHalt({.reason = "SCR_FINALIZE_CALLED"}, 0, std::nullopt), std::nullopt);
  EXPECT_EQ(WhyHalt({.reason = "SCR_FINALIZE_CALLED", .checkpoints_left = 0}, 0, std::nullopt), "NO_CHECKPOINTS_LEFT");
  EXPECT_EQ(WhyHalt({.reason = "JOB_HALTED", .checkpoints_left = 0}, 0, std::nullopt), "JOB_HALTED");
}

TEST(WhyHaltTest, TheAllocationEndsWithinTheSeconds) {
  const Halt halt{.reason = "JOB_HALTED", .halt_seconds = 60};
  const Halt quiet{.halt_seconds = 60};
  EXPECT_EQ(WhyHalt(halt, 940, 1000), "TIME_LIMIT");
  EXPECT_EQ(WhyHalt(quiet, 939, 1000), std::nullopt);
  EXPECT_EQ(WhyHalt(quiet, 1000, 1000), "TIME_LIMIT");
  EXPECT_EQ(WhyHalt(quiet, 1001, 1000), std::nullopt);  // the end is another allocation's
  EXPECT_EQ(WhyHalt(quiet, 1000, std::nullopt), std::nullopt);
  EXPECT_EQ(WhyHalt({.halt_seconds = 0}, 1000, 1000), std::nullopt);
  EXPECT_EQ(WhyHalt(quiet, kEarliest, kLatest), std::nullopt);
  EXPECT_EQ(WhyHalt({.halt_seconds = kMost}, kEarliest, kLatest), "TIME_LIMIT");
  EXPECT_EQ(WhyHalt({.halt_seconds = kMost - 1}, kEarliest, kLatest), std::nullopt);
}

TEST(WhyHaltTest, BeforeATimeTheSecondsCountToo) {
  EXPECT_EQ(WhyHalt({.exit_before_s = 1000}, 999, std::nullopt), std::nullopt);
  EXPECT_EQ(WhyHalt({.exit_before_s = 1000}, 1000, std::nullopt), "EXIT_BEFORE_TIME");
  EXPECT_EQ(WhyHalt({.exit_before_s = 1000, .halt_seconds = 60}, 939, std::nullopt), std::nullopt);
  EXPECT_EQ(WhyHalt({.exit_before_s = 1000, .halt_seconds = 60}, 940, std::nullopt), "EXIT_BEFORE_TIME");
  EXPECT_EQ(WhyHalt({.exit_before_s = 1000}, kLatest, std::nullopt), "EXIT_BEFORE_TIME");
  EXPECT_EQ(WhyHalt({.exit_before_s = kLatest, .halt_seconds = 60}, kEarliest, std::nullopt), std::nullopt);
  EXPECT_EQ(WhyHalt({.exit_before_s = kEarliest, .halt_seconds = kMost}, kEarliest, std::nullopt), "EXIT_BEFORE_TIME");
}

TEST(WhyHaltTest, AfterATimeTheSecondsDoNotCount) {
  EXPECT_EQ(WhyHalt({.exit_after_s = 1000, .halt_seconds = 60}, 999, std::nullopt), std::nullopt);
  EXPECT_EQ(WhyHalt({.exit_after_s = 1000, .halt_seconds = 60}, 1000, std::nullopt), "EXIT_AFTER_TIME");
}

TEST(NodesTest, WhatIsPutIsGotAndOtherKeysStay) {
  Tree tree;
  tree.Set("Other", "1");
  EXPECT_EQ(GetNodes(tree).status().code(), absl::StatusCode::kNotFound);
  PutNodes(3, tree);
  PutNodes(2, tree);
  ASSERT_TRUE(GetNodes(tree).ok());
  EXPECT_EQ(*GetNodes(tree), 2u);
  EXPECT_EQ(kvtree::Print(tree), "  NODES\n    2\n  Other\n    1\n");
}

TEST(NodesTest, ABadNumberIsNamed) {
  for (const std::string text : {"", "-1", "two", "2147483648"}) {
    Tree tree;
    tree.Set("NODES", text);
    EXPECT_EQ(GetNodes(tree).status().code(), kDataLoss) << text;
    EXPECT_NE(GetNodes(tree).status().ToString().find("NODES"), std::string::npos);
  }
}

TEST(HaltVectorTest, HaltFilesOfScrAreReadAndPutAgainAreTheSame) {
  const std::map<std::string, Halt> known = {
      {"halt_checkpoints.scr", {.checkpoints_left = 5}},
      {"halt_reason.scr", {.reason = "JOB_HALTED"}},
      {"halt_times.scr", {.exit_before_s = 1893456000, .exit_after_s = 1893459600, .halt_seconds = 900}},
      {"halt_unset.scr", {.halt_seconds = 60}},
      {"halt.scr", {.reason = "SCR_FINALIZE_CALLED"}},
  };
  for (const testing::ScrVector& vector : testing::ScrVectors("halt file")) {
    const auto before = kvtree::Decode(vector.path, vector.bytes);
    ASSERT_TRUE(before.ok()) << before.status();
    const auto halt = GetHalt(*before);
    ASSERT_TRUE(halt.ok()) << vector.path << ": " << halt.status();
    if (before->empty()) {
      EXPECT_EQ(*halt, Halt()) << vector.path;
      continue;
    }
    EXPECT_EQ(*halt, known.at(vector.path.substr(vector.path.rfind('/') + 1))) << vector.path;
    Tree after;
    PutHalt(*halt, after);
    EXPECT_TRUE(after.SameAs(*before)) << vector.path;
  }
}

TEST(HaltVectorTest, NodesFilesOfScrAreReadAndPutAgainAreTheSame) {
  for (const testing::ScrVector& vector : testing::ScrVectors("nodes file")) {
    const auto before = kvtree::Decode(vector.path, vector.bytes);
    ASSERT_TRUE(before.ok()) << before.status();
    const auto nodes = GetNodes(*before);
    ASSERT_TRUE(nodes.ok()) << vector.path << ": " << nodes.status();
    Tree after;
    PutNodes(*nodes, after);
    EXPECT_TRUE(after.SameAs(*before)) << vector.path;
  }
}

}  // namespace
}  // namespace cairn::scr
