// What is lost or damaged of an SCR cache is found, and made good or not taken.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/file/trees/tree_file.h"
#include "storage/job/adopt/scr_sets.h"
#include "tests/storage/job/adopt/adopt_scr_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

TEST_F(AdoptScrTest, AnyTwoNodesOfRsMayBeLost) {
  unverified_ = true;
  for (int first = 0; first < 4; ++first) {
    for (int second = first + 1; second < 4; ++second) {
      SCOPED_TRACE(fmt::format("{} and {}", first, second));
      if (!Put("rs_np4_k2")) return;
      LoseNode(first);
      LoseNode(second);
      ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
      ExpectWhole(adopted, "step_000010", 4, 7);
    }
  }
}

TEST_F(AdoptScrTest, OneNodeTooManyIsDataLossAndLeavesNothing) {
  if (!Put("xor_np4")) return;
  LoseNode(1);
  LoseNode(2);
  EXPECT_STATUS(absl::StatusCode::kDataLoss, AdoptOne(), "filemaps of 2 of 4 ranks are lost: rank 1");
  EXPECT_TRUE(Committed().empty());
  EXPECT_FALSE(disk_.Info(std::string(kPrefix) + "/step_000010").ok());
  if (!Put("single_np2")) return;
  LoseNode(1);
  EXPECT_STATUS(absl::StatusCode::kDataLoss, AdoptOne(2), "rank 1: no filemap");
}

TEST_F(AdoptScrTest, SingleFilesThatAreMissedOrOfAnotherSizeAreNamed) {
  if (!Put("single_np2")) return;
  unverified_ = true;
  PutBytes(disk_, Dataset(1, 2) + "/rank_1.ckpt", "short");
  EXPECT_STATUS(absl::StatusCode::kDataLoss, AdoptOne(2), Dataset(1, 2) + "/rank_1.ckpt is not there as it was");
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  EXPECT_EQ(adopted.from.id, 1u) << "the next older one";
  EXPECT_EQ(adopted.verified.size(), 1u);
  EXPECT_TRUE(adopted.verified.contains(catalogue::NOTHING)) << "SCR keeps nothing of SINGLE to verify by";
}

TEST_F(AdoptScrTest, DamageThatScrDoesNotNoticeSendsToTheNextOlderCheckpoint) {
  if (!Put("partner_np3")) return;
  Flip(Dataset(0, 2) + "/rank_0.ckpt", 700);
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  EXPECT_EQ(adopted.from.id, 1u);
  EXPECT_NE(notes_.find("dataset 2 (step_000020) is not whole"), std::string::npos) << notes_;
  EXPECT_NE(notes_.find("data or parity are damaged"), std::string::npos) << notes_;
  ExpectWhole(adopted, "step_000010", 3, 6);
}

TEST_F(AdoptScrTest, WithRsTheDamagedMemberIsFoundAndMadeGood) {
  if (!Put("rs_np4_k2")) return;
  Flip(Dataset(0, 1) + "/rank_0.ckpt", 1000);
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  EXPECT_NE(notes_.find("rank 0: "), std::string::npos) << notes_;
  EXPECT_EQ(adopted.rebuilt, 2u);
  ExpectWhole(adopted, "step_000010", 4, 7);
}

TEST_F(AdoptScrTest, AFilemapWithADamagedByteIsRebuilt) {
  if (!Put("xor_np4")) return;
  Flip(Dataset(3, 1) + "/.scr/filemap_3", 100);
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  EXPECT_NE(notes_.find("rank 3: "), std::string::npos) << notes_;
  ExpectWhole(adopted, "step_000010", 4, 7);
}

TEST_F(AdoptScrTest, AStrayFilemapOfARankThatTheJobDidNotHaveIsPassedOver) {
  for (const bool damaged : {true, false}) {
    if (!Put("xor_np4")) return;
    const std::string records = Dataset(1, 1) + "/.scr/";
    PutBytes(disk_, records + "filemap_99999", damaged ? "damaged" : GetBytes(disk_, records + "filemap_1"));
    ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
    EXPECT_NE(notes_.find("filemap_99999"), std::string::npos) << notes_;
    EXPECT_EQ(adopted.rebuilt, 0u);
    ExpectWhole(adopted, "step_000010", 4, 7);
  }
}

TEST_F(AdoptScrTest, WhatCannotBeReachedIsRebuiltFromParity) {
  unverified_ = true;
  for (const absl::Status& status : {absl::PermissionDeniedError("closed"), absl::UnavailableError("input/output")}) {
    if (!Put("xor_np4")) return;
    disk_.FailOn({.op = FakeOp::kInfo, .path_part = Node(2) + "/alice", .times = 1, .status = status});
    ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
    EXPECT_NE(notes_.find("rebuilt from the"), std::string::npos) << notes_;
    ExpectWhole(adopted, "step_000010", 4, 7);
    disk_.ClearFaults();
  }
  if (!Put("xor_np4")) return;
  disk_.FailOn({.op = FakeOp::kOpen,
                .path_part = Dataset(2, 1) + "/",
                .times = 1000,
                .status = absl::PermissionDeniedError("closed")});
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  EXPECT_GT(adopted.rebuilt, 0u);
}

// Header of member `member` of group `group`: two ranks are a set, the rank's neighbour is `neighbour`.
ScrHeader PartnerHeader(std::uint32_t group, std::uint32_t member, Rank rank, Rank neighbour) {
  ScrHeader header{.path = fmt::format("header of rank {}", rank), .header = {}};
  header.header.rank = member;
  for (const std::uint32_t one : {member, 1 - member}) {
    scr::SetDescriptor& descriptor = header.header.members[one].descriptor;
    descriptor.scheme = scr::Scheme::kPartner;
    descriptor.groups = 2;
    descriptor.group = group;
    descriptor.ranks = 2;
    descriptor.rank = one;
    descriptor.world_ranks = 4;
    descriptor.world_rank = one == member ? rank : neighbour;
    descriptor.replicas = 1;
  }
  return header;
}

TEST(ScrSetsTest, ARankIsOneMemberOfOneSet) {
  ScrPart part;
  auto& headers = part.headers[scr::RedsetKind::kData];
  headers[0] = PartnerHeader(0, 0, 0, 1);
  headers[1] = PartnerHeader(0, 1, 1, 0);
  headers[2] = PartnerHeader(1, 0, 2, 1);  // 1 is in the other set
  headers[3] = PartnerHeader(1, 1, 3, 2);
  std::vector<std::string> warnings;
  const auto sets = MakeSets({&part}, scr::RedsetKind::kData, 4, &warnings);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0], "passed over: header of rank 2: it contradicts others of its set");
  EXPECT_EQ(sets.at(0).members[1].rank, 1u);
  EXPECT_EQ(sets.at(1).members[1].rank, 3u);
}

TEST_F(AdoptScrTest, ALostRedundancyFileIsNoLostRank) {
  unverified_ = true;
  if (!Put("xor_np4")) return;
  ASSERT_OK(disk_.Remove(Dataset(2, 1) + "/.scr/reddesc.er.2.xor.grp_1_of_1.mem_3_of_4.redset"));
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  EXPECT_EQ(adopted.rebuilt, 0u);
  ExpectWhole(adopted, "step_000010", 4, 7);
}

TEST_F(AdoptScrTest, ACrcInMetaIsCheckedAndTellsTheDamagedFile) {
  for (const bool damaged : {false, true}) {
    if (!Put("xor_np4")) return;
    const std::string map = Dataset(1, 1) + "/.scr/filemap_1", file = Dataset(1, 1) + "/rank_1.ckpt";
    ASSERT_OK_AND_ASSIGN(kvtree::Tree tree, ReadTree(disk_, map));
    const std::string bytes = GetBytes(disk_, file);
    tree.At("FILE")
        .At("/mnt/ssd/alice/scr.4242/scr.dataset.1/rank_1.ckpt")
        .At("META")
        .SetCrc32("CRC", Crc32(std::as_bytes(std::span(bytes))));
    ASSERT_OK(ReplaceTree(disk_, map, tree));
    if (damaged) Flip(file, 4000);
    ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
    EXPECT_EQ(adopted.rebuilt, damaged ? 1u : 0u);
    // That the rebuilt file has its CRC proves all that it was made of.
    EXPECT_EQ(adopted.verified, (VerifiedCounts{{catalogue::CHECKSUM, 1}, {catalogue::PARITY, 5}}));
    EXPECT_EQ(notes_.find("its CRC is") != std::string::npos, damaged) << notes_;
    ExpectWhole(adopted, "step_000010", 4, 7);
  }
}

TEST_F(AdoptScrTest, WhatWasNotEncodedOrNotCompleteIsNotTaken) {
  unverified_ = true;
  if (!Put("xor_np4")) return;
  kvtree::Tree corrupt;
  corrupt.Set("STATE", std::uint64_t{1});
  ASSERT_OK(ReplaceTree(disk_, Dataset(1, 1) + "/.scr/reddesc.er.er", corrupt));
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  EXPECT_NE(notes_.find("was encoding or rebuilding"), std::string::npos) << notes_;
  EXPECT_EQ(adopted.rebuilt, 1u) << "its node counts as lost";
  ExpectWhole(adopted, "step_000010", 4, 7);

  if (!Put("xor_np4")) return;
  for (int node = 0; node < 4; ++node) ASSERT_OK(disk_.Remove(Dataset(node, 1) + "/.scr/reddescmap.er.er"));
  EXPECT_STATUS(absl::StatusCode::kDataLoss, AdoptOne(), "has not finished encoding its filemaps");

  if (!Put("xor_np4")) return;
  for (int node = 0; node < 4; ++node) ASSERT_OK(ReplaceTree(disk_, Dataset(node, 1) + "/.scr/reddesc.er.er", corrupt));
  EXPECT_STATUS(absl::StatusCode::kDataLoss, AdoptOne(), "passed over: " + Dataset(0, 1));

  if (!Put("xor_np4")) return;
  for (int node = 0; node < 4; ++node) {
    const std::string path = Node(node) + "/alice/scr.4242/cindex.scrinfo";
    ASSERT_OK_AND_ASSIGN(kvtree::Tree index, ReadTree(disk_, path));
    index.At("DSET").At("1").At("DSETDESC").SetBool("COMPLETE", false);
    ASSERT_OK(ReplaceTree(disk_, path, index));
  }
  EXPECT_STATUS(absl::StatusCode::kDataLoss, AdoptOne(), "not complete when the job ended");

  if (!Put("xor_np4")) return;
  for (int node = 0; node < 4; ++node) Flip(Node(node) + "/alice/scr.4242/cindex.scrinfo", 50);
  EXPECT_STATUS(absl::StatusCode::kDataLoss, AdoptOne(), "no cache index knows it");
}

// Every record of one node cut short and with bits flipped: taken whole, or not at all.
TEST_F(AdoptScrTest, DamagedRecordsNeverMakeAWrongDataset) {
  unverified_ = true;
  if (!Put("xor_np4")) return;
  const std::vector<std::string> records = FilesBelow(disk_, Dataset(1, 1) + "/.scr");
  ASSERT_EQ(records.size(), 9u);
  for (const std::string& path : records) {
    const std::string whole = GetBytes(disk_, path);
    for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 23) {
      SCOPED_TRACE(fmt::format("{} at {}", path, at));
      PutBytes(disk_, path, at % 2 == 0 ? whole.substr(0, at) : std::string_view(whole));
      if (at % 2 != 0) Flip(path, at);
      ASSERT_OK(RemoveTree(disk_, "/pfs"));
      const auto adopted = AdoptOne();
      if (adopted.ok()) {
        ExpectWhole(*adopted, "step_000010", 4, 7);
      } else {
        EXPECT_TRUE(absl::IsDataLoss(adopted.status())) << adopted.status();
      }
    }
    PutBytes(disk_, path, whole);
  }
}

}  // namespace
}  // namespace cairn
