// Datasets of SCR caches of our own making: each scheme with nodes lost, as far as it bears.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "storage/format/scr/records.h"
#include "tests/storage/file/redundancy/sample_cache.h"
#include "tests/storage/job/adopt/adopt_scr_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

testing::SampleCache RandomSample(std::mt19937_64& random) {
  testing::SampleCache sample;
  const auto ranks = static_cast<std::uint32_t>(2 + random() % 6);
  constexpr scr::Scheme kSchemes[] = {scr::Scheme::kPartner, scr::Scheme::kXor, scr::Scheme::kRs};
  sample.scheme = kSchemes[random() % 3];
  if (sample.scheme == scr::Scheme::kRs) sample.checksums = static_cast<std::uint32_t>(1 + random() % (ranks - 1));
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    sample.files.emplace_back(random() % 4);
    for (std::uint64_t& bytes : sample.files.back()) bytes = random() % 5 == 0 ? 0 : random() % 2000;
  }
  return sample;
}

// As many as the scheme bears, or fewer.
std::vector<Rank> RandomLosses(const testing::SampleCache& sample, std::mt19937_64& random) {
  std::vector<Rank> lost(sample.files.size());
  for (Rank rank = 0; rank < lost.size(); ++rank) lost[rank] = rank;
  std::shuffle(lost.begin(), lost.end(), random);
  lost.resize(random() % (std::max(1u, sample.checksums) + 1));
  return lost;
}

class SampleCacheTest : public AdoptScrTest {
 protected:
  void ExpectSample(const AdoptedScr& adopted, const testing::SampleCache& sample) {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Prefix> prefix, Prefix::OpenReadOnly(disk_, kPrefix));
    ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix->Catalogues(adopted.dataset));
    ASSERT_EQ(catalogues.size(), sample.files.size());
    for (Rank rank = 0; rank < catalogues.size(); ++rank) {
      ASSERT_EQ(catalogues[rank].file_size(), static_cast<int>(sample.files[rank].size()));
      for (std::size_t i = 0; i < sample.files[rank].size(); ++i) {
        EXPECT_EQ(GetBytes(disk_, fmt::format("{}/{}/{}", kPrefix, rank, i)),
                  testing::SampleBytes(rank, i, sample.files[rank][i]))
            << rank << ", " << i;
      }
      for (const auto& file : catalogues[rank].file()) {
        EXPECT_OK(VerifyFile(disk_, prefix->FilePath(file.prefix_name()), file));
      }
    }
  }
  void LoseSampleNode(Rank rank) { ASSERT_OK(RemoveTree(disk_, fmt::format("{}/node{}", kCache, rank))); }
};

TEST_F(SampleCacheTest, EverySchemeIsAdoptedWithAllNodesAndWithOneLost) {
  unverified_ = true;
  for (const auto& [scheme, checksums] : {std::pair{scr::Scheme::kSingle, 0u},
                                          {scr::Scheme::kPartner, 0u},
                                          {scr::Scheme::kXor, 0u},
                                          {scr::Scheme::kRs, 2u}}) {
    for (const bool lost : {false, true}) {
      SCOPED_TRACE(fmt::format("scheme {}, a node lost: {}", static_cast<int>(scheme), lost));
      ASSERT_OK(RemoveTree(disk_, kCache));
      ASSERT_OK(RemoveTree(disk_, "/pfs"));
      const testing::SampleCache sample{
          .scheme = scheme, .checksums = checksums, .files = {{700, 0, 41}, {}, {2000}, {5, 6}}};
      testing::PutSampleCache(disk_, kCache, sample);
      if (lost) LoseSampleNode(2);
      const auto adopted = AdoptOne();
      if (lost && scheme == scr::Scheme::kSingle) {
        EXPECT_STATUS(absl::StatusCode::kDataLoss, adopted, "rank 2: no filemap");
        continue;
      }
      ASSERT_OK(adopted);
      EXPECT_EQ(adopted->rebuilt, lost ? 1u : 0u);
      EXPECT_EQ(adopted->unverified.empty(), scheme == scr::Scheme::kRs || (!lost && scheme != scr::Scheme::kSingle));
      ExpectSample(*adopted, sample);
    }
  }
}

TEST_F(SampleCacheTest, CrcsOfScrsVerifyEvenWhereAllParityWentIntoRebuilding) {
  const testing::SampleCache sample{
      .scheme = scr::Scheme::kXor, .files = {{700, 0, 41}, {}, {2000}, {5, 6}}, .crcs = true};
  testing::PutSampleCache(disk_, kCache, sample);
  LoseSampleNode(2);
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  EXPECT_EQ(adopted.rebuilt, 1u);
  EXPECT_EQ(adopted.verified, (VerifiedCounts{{catalogue::CHECKSUM, 5}})) << "the empty file has nothing to verify";
  ExpectSample(adopted, sample);
  ASSERT_OK(RemoveTree(disk_, "/pfs"));
  Flip(std::string(kCache) + "/node0/me/scr.7/scr.dataset.1/0", 99);
  EXPECT_STATUS(absl::StatusCode::kDataLoss, AdoptOne(), "are lost");
}

// A bit flips anywhere, with or without losses: whoever adopts without --unverified gets the right bytes or none.
TEST_F(SampleCacheTest, WhatIsTakenAsVerifiedIsNeverWrong) {
  const char* const given = std::getenv("CAIRN_TEST_SEED");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  int taken = 0, refused = 0, damaged = 0;
  for (std::uint64_t seed = first; seed < first + (given != nullptr ? 1 : 120); ++seed) {
    SCOPED_TRACE(fmt::format("CAIRN_TEST_SEED={}", seed));
    std::mt19937_64 random(seed);
    const testing::SampleCache sample = RandomSample(random);
    ASSERT_OK(RemoveTree(disk_, kCache));
    ASSERT_OK(RemoveTree(disk_, "/pfs"));
    testing::PutSampleCache(disk_, kCache, sample);
    for (const Rank rank : RandomLosses(sample, random)) LoseSampleNode(rank);
    std::vector<std::string> left;
    for (const std::string& path : FilesBelow(disk_, kCache)) {
      const bool parity = path.find(".redset") != std::string::npos && path.find("reddesc.er.") != std::string::npos;
      if ((parity || path.find("/.scr/") == std::string::npos) && !GetBytes(disk_, path).empty()) left.push_back(path);
    }
    if (left.empty()) continue;
    const std::string& path = left[random() % left.size()];
    Flip(path, random() % GetBytes(disk_, path).size());
    const auto adopted = AdoptOne();
    if (adopted.ok()) ExpectSample(*adopted, sample);
    taken += adopted.ok();
    refused += absl::IsFailedPrecondition(adopted.status());
    damaged += absl::IsDataLoss(adopted.status());
    EXPECT_TRUE(adopted.ok() || absl::IsFailedPrecondition(adopted.status()) || absl::IsDataLoss(adopted.status()))
        << adopted.status();
    if (HasFailure()) return;
  }
  EXPECT_TRUE(given != nullptr || (taken > 0 && refused > 0 && damaged > 0))
      << taken << " " << refused << " " << damaged;
}

// One member lost and one damaged: three checksums rebuild the one, find the other, and prove it.
TEST_F(SampleCacheTest, WithChecksumsToSpareALostAndADamagedMemberAreMadeGood) {
  const testing::SampleCache sample{
      .scheme = scr::Scheme::kRs, .checksums = 3, .files = {{700}, {800}, {900, 3}, {1000}, {1100}, {12}}};
  testing::PutSampleCache(disk_, kCache, sample);
  LoseSampleNode(1);
  Flip(std::string(kCache) + "/node4/me/scr.7/scr.dataset.1/0", 1099);
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  EXPECT_EQ(adopted.rebuilt, 2u) << notes_;
  EXPECT_NE(notes_.find("rank 4: "), std::string::npos) << notes_;
  ExpectSample(adopted, sample);
}

TEST_F(SampleCacheTest, OfDatasetsWithTheSameNamesAllTakesTheNewest) {
  for (const DatasetId id : {1, 2, 3}) {
    testing::PutSampleCache(disk_, kCache, {.id = id, .files = {{id * 100}, {30}}});
  }
  AdoptScrRequest request = Request();
  request.all = true;
  ASSERT_OK_AND_ASSIGN(const auto adopted, Adopt(request));
  ASSERT_EQ(adopted.size(), 1u);
  EXPECT_EQ(adopted[0].from.id, 3u);
  EXPECT_NE(notes_.find("dataset 2 (step.2) is passed over: a newer one has a file of the same name, 0/0"),
            std::string::npos)
      << notes_;
  ExpectSample(adopted[0], {.id = 3, .files = {{300}, {30}}});
}

TEST_F(SampleCacheTest, RandomCachesAreMadeGoodAsFarAsTheirSchemeBears) {
  unverified_ = true;
  const char* const given = std::getenv("CAIRN_TEST_SEED");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  for (std::uint64_t seed = first; seed < first + (given != nullptr ? 1 : 40); ++seed) {
    SCOPED_TRACE(fmt::format("CAIRN_TEST_SEED={}", seed));
    std::mt19937_64 random(seed);
    const testing::SampleCache sample = RandomSample(random);
    ASSERT_OK(RemoveTree(disk_, kCache));
    ASSERT_OK(RemoveTree(disk_, "/pfs"));
    testing::PutSampleCache(disk_, kCache, sample);
    for (const Rank rank : RandomLosses(sample, random)) LoseSampleNode(rank);
    ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
    ExpectSample(adopted, sample);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace cairn
