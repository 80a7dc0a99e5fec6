// `adopt --scr` cut short: none or all, and leftovers go.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/storage/job/adopt/adopt_scr_fixture.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

TEST_F(AdoptScrTest, AFullDiskSaysSoAndLeavesNothing) {
  if (!Put("xor_np4")) return;
  for (const char* place : {"adopting/2.1", "step_000010"}) {
    disk_.FailOn({.op = FakeOp::kAny,
                  .path_part = place,
                  .nth = 2,
                  .status = absl::ResourceExhaustedError("injected: no room")});
    EXPECT_STATUS(absl::StatusCode::kResourceExhausted, AdoptOne(), "no room");
    disk_.ClearFaults();
    EXPECT_TRUE(Committed().empty());
    for (const auto& [path, bytes] : TreeOf(disk_, kPrefix)) {
      EXPECT_EQ(path.find("step_"), std::string::npos) << path;
      EXPECT_EQ(path.find("ckpt."), std::string::npos) << path;
    }
  }
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  ExpectWhole(adopted, "step_000010", 4, 7);
}

TEST_F(AdoptScrTest, WithoutRoomForAllOfItNothingIsBegun) {
  if (!Put("xor_np4")) return;
  ASSERT_OK(Prefix::Open(disk_, kPrefix));
  disk_.SetCapacity(1 << 20);
  ASSERT_OK_AND_ASSIGN(const std::uint64_t free_bytes, disk_.FreeBytes(kPrefix));
  disk_.SetCapacity((1 << 20) - free_bytes + 3000);
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, AdoptOne(), "bytes, 3000 are free");
  LoseNode(1);
  unverified_ = true;
  disk_.SetCapacity((1 << 20) - free_bytes);
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, AdoptOne(), "are free");
  disk_.SetCapacity(UINT64_MAX);
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  ExpectWhole(adopted, "step_000010", 4, 7);
}

TEST_F(AdoptScrTest, WhatAnInterruptedFlushLeftIsReplaced) {
  if (!Put("xor_np4")) return;
  PutBytes(disk_, std::string(kPrefix) + "/step_000010/rank_1.ckpt", "half");
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  ExpectWhole(adopted, "step_000010", 4, 7);
}

// What a cut short adopt had put in place goes with the next, whatever that is about; what others put there stays.
TEST_F(AdoptScrTest, LeftoversGoWithTheNextAdopt) {
  if (!Put("partner_np3")) return;
  disk_.FailOn({.op = FakeOp::kSyncDirectory, .path_part = "/step_000020/sub1"});
  disk_.FailOn({.op = FakeOp::kRemove, .path_part = "/step_000020", .times = 1000});
  EXPECT_FALSE(AdoptOne().ok());
  disk_.ClearFaults();
  ASSERT_FALSE(FilesBelow(disk_, std::string(kPrefix) + "/step_000020").empty()) << "nothing was left to be removed";
  PutBytes(disk_, std::string(kPrefix) + "/step_000020/rank_1.ckpt", "somebody else's");
  ASSERT_OK_AND_ASSIGN(const AdoptedScr older, AdoptOne(1));
  EXPECT_EQ(FilesBelow(disk_, std::string(kPrefix) + "/step_000020"),
            std::vector<std::string>{std::string(kPrefix) + "/step_000020/rank_1.ckpt"});
  ExpectWhole(older, "step_000010", 3, 6);
}

// The power fails at each operation in turn: afterwards the prefix is without the dataset or has it whole, and the next
// adopt ends with it there once.
void CrashEverywhere(std::string_view scenario, bool prefix_too, int lost_node) {
  bool crashed = true;
  int none = 0, whole = 0;
  for (std::uint64_t n = 1; crashed; ++n) {
    SCOPED_TRACE(fmt::format("{}, operation {}", scenario, n));
    FakeDisk disk;
    if (!testing::PutScenario(disk, scenario, "nodes", kCache)) return;
    ASSERT_OK(RemoveTree(disk, fmt::format("{}/node{}", kCache, lost_node)));
    if (prefix_too) {
      ASSERT_TRUE(testing::PutScenario(disk, scenario, "pfs", "/pfs"));
      ASSERT_OK(RemoveTree(disk, std::string(kPrefix) + "/.scr"));
    }
    disk.SyncAll();
    const auto found_before = TreeOf(disk, std::string(kPrefix));
    ASSERT_OK_AND_ASSIGN(const ScrCache cache, FindScrCache(disk, {kCache}, ""));
    const auto adopt = [&]() -> absl::StatusOr<AdoptedScr> {
      CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Prefix> prefix, Prefix::Open(disk, kPrefix));
      AdoptScrRequest request;
      request.note = [](const std::string&) {};
      request.unverified = true;
      CAIRN_ASSIGN_OR_RETURN(const auto adopted, AdoptScr(disk, *prefix, cache, request));
      return adopted.front();
    };
    disk.CrashAt(n);
    const bool answered = adopt().ok();
    crashed = disk.crashed();
    disk.Restart(/*seed=*/n);

    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Prefix> prefix, Prefix::Open(disk, kPrefix));
    ASSERT_OK_AND_ASSIGN(const auto committed, prefix->Committed());
    ASSERT_LE(committed.size(), 1u);
    EXPECT_TRUE(!answered || committed.size() == 1) << "said to be there";
    for (const auto& [id, dataset] : committed) {
      ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix->Catalogues(id));
      for (const catalogue::Catalogue& catalogue : catalogues) {
        for (const auto& file : catalogue.file())
          EXPECT_OK(VerifyFile(disk, prefix->FilePath(file.prefix_name()), file));
      }
    }
    (committed.empty() ? none : whole) += 1;

    ASSERT_OK_AND_ASSIGN(const AdoptedScr again, adopt());
    EXPECT_EQ(again.how, committed.empty() ? How::kNow : How::kBefore);
    ASSERT_OK_AND_ASSIGN(const auto after, prefix->Committed());
    ASSERT_EQ(after.size(), 1u);
    EXPECT_TRUE(after.contains(again.dataset));
    for (const auto& [path, bytes] : found_before) EXPECT_EQ(GetBytes(disk, path), bytes) << path;
    ASSERT_OK_AND_ASSIGN(const auto names, disk.List(kPrefix));
    const auto of_datasets = [](const std::string& name) { return name.starts_with("ckpt."); };
    EXPECT_EQ(std::count_if(names.begin(), names.end(), of_datasets), 1) << "an unfinished one was left";
    EXPECT_FALSE(disk.Info(fmt::format("{}/ckpt.{}/adopting", kPrefix, again.dataset)).ok()) << "was left";
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(none, 10);
  EXPECT_GT(whole, 1);
}

TEST(AdoptScrCrashTest, APowerFailureAtAnyInstantLeavesNoneOrAll) {
  CrashEverywhere("xor_np3_rank_without_files", false, 2);
}

TEST(AdoptScrCrashTest, FilesThatAreInTheirPlaceAreNeverTakenAway) {
  CrashEverywhere("bypass_np3", true, 1);
}

}  // namespace
}  // namespace cairn
