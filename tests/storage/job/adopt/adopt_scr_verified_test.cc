// By what the bytes of an SCR cache were verified is told and kept; what nothing verifies is refused, or taken as such.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "storage/file/trees/tree_file.h"
#include "storage/job/verify/verify_prefix.h"
#include "tests/storage/job/adopt/adopt_scr_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using catalogue::VerifiedBy;

class AdoptScrVerifiedTest : public AdoptScrTest {
 protected:
  // By the catalogues on the prefix; without empty files, which have nothing to verify.
  std::map<std::string, VerifiedBy> Noted(DatasetId id) {
    std::map<std::string, VerifiedBy> noted;
    const auto prefix = Prefix::OpenReadOnly(disk_, kPrefix);
    EXPECT_OK(prefix);
    const auto catalogues = (*prefix)->Catalogues(id);
    EXPECT_OK(catalogues);
    for (const catalogue::Catalogue& catalogue : *catalogues) {
      for (const auto& file : catalogue.file()) {
        if (file.bytes() > 0) noted[file.prefix_name()] = file.verified_by();
        EXPECT_EQ(file.verified_by() == catalogue::NOT_NOTED, file.bytes() == 0) << file.prefix_name();
      }
    }
    return noted;
  }
  void ExpectNothingTaken() {
    EXPECT_TRUE(Committed().empty());
    for (const auto& [path, bytes] : TreeOf(disk_, kPrefix)) {
      EXPECT_EQ(path.find("step_"), std::string::npos) << path;
      EXPECT_EQ(path.find("ckpt."), std::string::npos) << path;
    }
  }
  std::vector<verify::CheckedDataset> Verified() {
    std::vector<verify::CheckedDataset> checked;
    verify::VerifyPrefix(disk_, kPrefix, 0, [&](const verify::Finding& finding) {
      EXPECT_OK(finding.status);
      if (const auto* dataset = std::get_if<verify::CheckedDataset>(&finding.what)) checked.push_back(*dataset);
    });
    return checked;
  }
};

// Losses that take all redundancy, and a bit that flipped in what is left: so the rebuilt files are wrong.
struct Case {
  const char* scenario;
  std::vector<int> lost;
  std::string flipped;  // below the cache
  std::uint64_t byte;
  std::string wrong;  // below the prefix
  const char* why;
};
std::vector<Case> Cases() {
  const std::string in = "/alice/scr.4242/scr.dataset.", header = "/.scr/reddesc.er.";
  return {
      {"xor_np4",
       {1},
       "/node0" + in + "1/rank_0.ckpt",
       700,
       "step_000010/rank_1.ckpt",
       "the XOR set of ranks 0, 1, 2, 3 has nothing left over to compare with, since rank 1 lacked data or parity"},
      {"rs_np4_k2",
       {1, 2},
       "/node0" + in + "1/rank_0.ckpt",
       100,
       "step_000010/rank_1.ckpt",
       "the RS set of ranks 0, 1, 2, 3 has nothing left over to compare with, since ranks 1, 2 lacked data or parity"},
      {"partner_np3",
       {1},
       "/node2" + in + "2" + header + "2.partner.grp_1_of_1.mem_3_of_3.redset",
       2000,
       "step_000020/rank_1.ckpt",
       "the PARTNER set of ranks 0, 1, 2 has nothing left over to compare with, since rank 1 lacked data or copies"},
  };
}

TEST_F(AdoptScrVerifiedTest, WhereAllRedundancyWentIntoRebuildingTheDatasetIsRefused) {
  for (const Case& one : Cases()) {
    for (const bool flipped : {false, true}) {  // nobody can tell
      SCOPED_TRACE(fmt::format("{}, flipped: {}", one.scenario, flipped));
      if (!Put(one.scenario)) return;
      for (const int node : one.lost) LoseNode(node);
      if (flipped) Flip(kCache + one.flipped, one.byte);
      EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, AdoptOne(), one.why);
      EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, AdoptOne(), "nothing verifies the bytes of ");
      EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, AdoptOne(), "--unverified takes them as they are");
      ExpectNothingTaken();
    }
  }
}

TEST_F(AdoptScrVerifiedTest, WhatIsTakenUnverifiedIsKnownAsSuchFromThenOn) {
  for (const Case& one : Cases()) {
    SCOPED_TRACE(one.scenario);
    if (!Put(one.scenario)) return;
    for (const int node : one.lost) LoseNode(node);
    Flip(kCache + one.flipped, one.byte);
    unverified_ = true;
    ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
    unverified_ = false;
    const auto noted = Noted(adopted.dataset);
    EXPECT_EQ(noted.at(one.wrong), catalogue::NOTHING);
    std::size_t by_nothing = 0;
    for (const auto& [name, by] : noted) by_nothing += by == catalogue::NOTHING;
    EXPECT_EQ(adopted.unverified.size(), by_nothing);
    EXPECT_EQ(adopted.verified.at(catalogue::NOTHING), by_nothing);
    EXPECT_EQ(Committed().at(adopted.dataset).descriptor.unverified_files, by_nothing);
    const auto verified = Verified();
    ASSERT_EQ(verified.size(), 1u);
    EXPECT_EQ(verified[0].unverified, adopted.unverified);
    ASSERT_OK_AND_ASSIGN(const AdoptedScr again, AdoptOne());
    EXPECT_EQ(again.how, How::kBefore);
    EXPECT_EQ(again.unverified, adopted.unverified) << "it is no better the second time";
  }
}

// Of PARTNER with one node lost only those are affected whose copy or whose own files are gone.
TEST_F(AdoptScrVerifiedTest, FilesThatStillHaveASecondCopyAreVerifiedByIt) {
  if (!Put("partner_np3")) return;
  LoseNode(1);
  unverified_ = true;
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  for (const auto& [name, by] : Noted(adopted.dataset)) {
    const bool of_rank_2 = name.find("rank_2.") != std::string::npos || name.find("extra_2_") != std::string::npos;
    EXPECT_EQ(by, of_rank_2 ? catalogue::COPY : catalogue::NOTHING) << name;
  }
}

TEST_F(AdoptScrVerifiedTest, WithALossFewerThanRsBearsAllIsVerifiedAndAFlippedBitShows) {
  for (int lost = 0; lost < 4; ++lost) {
    SCOPED_TRACE(lost);
    if (!Put("rs_np4_k2")) return;
    LoseNode(lost);
    ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
    EXPECT_GT(adopted.rebuilt, 0u);
    EXPECT_EQ(adopted.verified, (VerifiedCounts{{catalogue::PARITY, 6}}));
    ExpectWhole(adopted, "step_000010", 4, 7);
    for (const auto& [name, by] : Noted(adopted.dataset)) EXPECT_EQ(by, catalogue::PARITY) << name;
    EXPECT_TRUE(Verified().at(0).unverified.empty());

    if (!Put("rs_np4_k2")) return;
    LoseNode(lost);
    const int other = lost == 1 ? 3 : (lost + 1) % 4;  // the file of rank 2 is empty
    Flip(fmt::format("{}/rank_{}.ckpt", Dataset(other, 1), other), 300);
    for (const bool unverified : {false, true}) {
      unverified_ = unverified;
      EXPECT_STATUS(absl::StatusCode::kDataLoss, AdoptOne(), "data or parity are damaged");
    }
    unverified_ = false;
    ExpectNothingTaken();
  }
}

// One stripe's parity is gone: files with a part in it are not all verified, the others are.
TEST_F(AdoptScrVerifiedTest, ALostRedundancyFileLeavesItsStripeToNothing) {
  if (!Put("xor_np4")) return;
  ASSERT_OK(disk_.Remove(Dataset(2, 1) + "/.scr/reddesc.er.2.xor.grp_1_of_1.mem_3_of_4.redset"));
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, AdoptOne(), "since rank 2 lacked data or parity");
  unverified_ = true;
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  ExpectWhole(adopted, "step_000010", 4, 7);
  EXPECT_EQ(adopted.verified.at(catalogue::NOTHING) + adopted.verified.at(catalogue::PARITY), 6u);
  for (const auto& [name, by] : Noted(adopted.dataset)) {
    const bool of_rank_2 = name.find("_2_") != std::string::npos;
    EXPECT_TRUE(!of_rank_2 || by == catalogue::PARITY) << name << " has no part in the stripe of its own rank";
  }
}

TEST_F(AdoptScrVerifiedTest, WhatScrKeptNoRedundancyOfIsRefused) {
  if (!Put("single_np2")) return;
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, AdoptOne(), "there are no redundancy data of ranks 0, 1");
  AdoptScrRequest all = Request();
  all.all = true;
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, Adopt(all), "dataset 1 (step_000010): nothing verifies");
  ExpectNothingTaken();
}

TEST_F(AdoptScrVerifiedTest, AnOlderDatasetThatIsVerifiedIsNotTakenInsteadOfOneThatIsRefused) {
  if (!Put("partner_np3")) return;
  ASSERT_OK(disk_.Remove(Dataset(0, 2) + "/.scr/reddesc.er.0.partner.grp_1_of_1.mem_1_of_3.redset"));
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, AdoptOne(), "dataset 2 (step_000020): nothing verifies");
  ExpectNothingTaken();
  ASSERT_OK_AND_ASSIGN(const AdoptedScr older, AdoptOne(1));
  EXPECT_EQ(older.verified, (VerifiedCounts{{catalogue::COPY, 5}}));
}

// The newest is to get the highest number: so what is refused holds up those that are newer.
TEST_F(AdoptScrVerifiedTest, AllEndsWithTheOldestThatIsRefusedAndGoesOnFromThere) {
  for (const int refused : {1, 2}) {
    SCOPED_TRACE(refused);
    if (!Put("partner_np3")) return;
    ASSERT_OK(disk_.Remove(Dataset(0, refused) + "/.scr/reddesc.er.0.partner.grp_1_of_1.mem_1_of_3.redset"));
    AdoptScrRequest request = Request();
    request.all = true;
    EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, Adopt(request), fmt::format("dataset {} (step_", refused));
    EXPECT_EQ(Committed().size(), refused == 1 ? 0u : 1u);
    EXPECT_EQ(notes_, refused == 1 ? "" : "dataset 1 (step_000010) was adopted as dataset 1\n");
    request.unverified = true;
    ASSERT_OK_AND_ASSIGN(const auto both, Adopt(request));
    ASSERT_EQ(both.size(), 2u);
    EXPECT_EQ(both[0].how, refused == 1 ? How::kNow : How::kBefore);
    EXPECT_EQ(both[1].how, How::kNow);
    EXPECT_EQ(both[0].unverified.empty(), refused == 2);
    EXPECT_TRUE(Committed().at(both[1].dataset).current);
  }
}

// What was adopted before this was noted has no field.
TEST_F(AdoptScrVerifiedTest, CataloguesWithoutTheFieldAreReadAsBefore) {
  if (!Put("xor_np4")) return;
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Prefix> prefix, Prefix::Open(disk_, kPrefix));
    ASSERT_OK_AND_ASSIGN(auto catalogues, prefix->Catalogues(adopted.dataset));
    for (catalogue::Catalogue& catalogue : catalogues) {
      for (auto& file : *catalogue.mutable_file()) file.clear_verified_by();
      ASSERT_OK(prefix->StoreCatalogue(catalogue));
    }
  }
  const auto verified = Verified();
  ASSERT_EQ(verified.size(), 1u);
  EXPECT_TRUE(verified[0].unverified.empty());
  ASSERT_OK_AND_ASSIGN(const AdoptedScr again, AdoptOne());
  EXPECT_EQ(again.how, How::kBefore);
  EXPECT_TRUE(again.verified.empty());
}

}  // namespace
}  // namespace cairn
