// Datasets of SCR caches as datasets of a run: every scheme, with nodes lost, damage found, once only, whole or not at
// all. On caches that SCR wrote, and on some of our own.
#include "client/cli/adopt_scr.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/cache/tree_file.h"
#include "storage/prefix/prefix.h"
#include "storage/scr/records.h"
#include "storage/transfer/transfer.h"
#include "tests/storage/redundancy/sample_cache.h"
#include "tests/storage/redundancy/scr_cache.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn::cli {
namespace {

using How = AdoptedScr::How;
using testing::FilesBelow;
using testing::GetBytes;
using testing::PutBytes;

constexpr char kPrefix[] = "/pfs/demo";
constexpr char kCache[] = "/cache";

std::map<std::string, std::string> TreeOf(Disk& disk, const std::string& path) {
  std::map<std::string, std::string> tree;
  for (const std::string& file : FilesBelow(disk, path)) tree[file] = GetBytes(disk, file);
  return tree;
}

class AdoptScrTest : public ::testing::Test {
 protected:
  // A fresh disk's worth of a scenario. `prefix`: SCR's prefix comes with it.
  bool Put(std::string_view scenario, bool prefix = false) {
    EXPECT_OK(RemoveTree(disk_, kCache));
    EXPECT_OK(RemoveTree(disk_, "/pfs"));
    notes_.clear();
    return testing::PutScenario(disk_, scenario, "nodes", kCache) &&
           (!prefix || testing::PutScenario(disk_, scenario, "pfs", "/pfs"));
  }
  static std::string Node(int node) { return fmt::format("{}/node{}", kCache, node); }
  static std::string Dataset(int node, int id) {
    return fmt::format("{}/alice/scr.4242/scr.dataset.{}", Node(node), id);
  }
  void LoseNode(int node) { ASSERT_OK(RemoveTree(disk_, Node(node))); }
  void Flip(const std::string& path, std::uint64_t byte) { disk_.FlipBit(path, byte * 8 + 3); }

  AdoptScrRequest Request() {
    AdoptScrRequest request;
    request.note = [this](const std::string& text) { notes_ += text + "\n"; };
    return request;
  }
  absl::StatusOr<std::vector<AdoptedScr>> Adopt(const AdoptScrRequest& request,
                                                const std::string& prefix_path = kPrefix) {
    CAIRN_ASSIGN_OR_RETURN(const ScrCache cache, FindScrCache(disk_, {kCache}, ""));
    CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Prefix> prefix, Prefix::Open(disk_, prefix_path));
    return AdoptScr(disk_, *prefix, cache, request);
  }
  absl::StatusOr<AdoptedScr> AdoptOne(std::optional<DatasetId> id = std::nullopt) {
    AdoptScrRequest request = Request();
    request.dataset = id;
    CAIRN_ASSIGN_OR_RETURN(const std::vector<AdoptedScr> adopted, Adopt(request));
    EXPECT_EQ(adopted.size(), 1u);
    return adopted.front();
  }
  std::map<DatasetId, CommittedDataset> Committed(const std::string& path = kPrefix) {
    const auto prefix = Prefix::Open(disk_, path);
    EXPECT_OK(prefix);
    auto committed = (*prefix)->Committed();
    EXPECT_OK(committed);
    return *std::move(committed);
  }
  // Every file where the application had it, with the bytes that it wrote.
  void ExpectWhole(const AdoptedScr& adopted, std::string_view name, std::uint32_t ranks, std::size_t files) {
    const auto prefix = Prefix::OpenReadOnly(disk_, kPrefix);
    ASSERT_OK(prefix);
    const auto committed = (*prefix)->Committed();
    ASSERT_OK(committed);
    ASSERT_TRUE(committed->contains(adopted.dataset)) << adopted.dataset;
    const scr::Descriptor& descriptor = committed->at(adopted.dataset).descriptor;
    EXPECT_EQ(descriptor.name, name);
    EXPECT_EQ(descriptor.launch, 0u);
    EXPECT_EQ(descriptor.ranks, ranks);
    EXPECT_EQ(descriptor.step, adopted.step);
    EXPECT_TRUE(descriptor.own_files);
    EXPECT_EQ(descriptor.user, "alice");
    const auto catalogues = (*prefix)->Catalogues(adopted.dataset);
    ASSERT_OK(catalogues);
    std::size_t count = 0;
    for (const catalogue::Catalogue& catalogue : *catalogues) {
      EXPECT_TRUE(catalogue.files());
      for (const catalogue::FileEntry& file : catalogue.file()) {
        ++count;
        ExpectFile(**prefix, file, name);
      }
    }
    EXPECT_EQ(count, files);
    EXPECT_FALSE(disk_.Info(fmt::format("{}/ckpt.{}/adopting", kPrefix, adopted.dataset)).ok()) << "was left";
  }
  void ExpectFile(const Prefix& prefix, const catalogue::FileEntry& file, std::string_view dataset) {
    EXPECT_TRUE(file.prefix_name().starts_with(std::string(dataset) + "/")) << file.prefix_name();
    const std::string path = prefix.FilePath(file.prefix_name());
    EXPECT_OK(VerifyFile(disk_, path, file));
    const std::string bytes = GetBytes(disk_, path);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      ASSERT_EQ(static_cast<std::byte>(bytes[at]), testing::ScrByteOf(dataset, BaseOf(path), at)) << path << ", " << at;
    }
    ASSERT_OK_AND_ASSIGN(const FileInfo info, disk_.Info(path));
    EXPECT_EQ(info.mode & 07777, 0640u);
    EXPECT_EQ(info.mtime.tv_sec, file.mtime_s());
    EXPECT_GT(file.mtime_s(), 1700000000);
  }

  FakeDisk disk_;
  std::string notes_;
};

// --- Caches of our own making ---

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
      EXPECT_EQ(adopted->verified, scheme != scr::Scheme::kSingle);
      ExpectSample(*adopted, sample);
    }
  }
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
  const char* const given = std::getenv("CAIRN_TEST_SEED");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  for (std::uint64_t seed = first; seed < first + (given != nullptr ? 1 : 40); ++seed) {
    SCOPED_TRACE(fmt::format("CAIRN_TEST_SEED={}", seed));
    std::mt19937_64 random(seed);
    testing::SampleCache sample;
    const auto ranks = static_cast<std::uint32_t>(2 + random() % 6);
    constexpr scr::Scheme kSchemes[] = {scr::Scheme::kPartner, scr::Scheme::kXor, scr::Scheme::kRs};
    sample.scheme = kSchemes[random() % 3];
    if (sample.scheme == scr::Scheme::kRs) sample.checksums = static_cast<std::uint32_t>(1 + random() % (ranks - 1));
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      sample.files.emplace_back(random() % 4);
      for (std::uint64_t& bytes : sample.files.back()) bytes = random() % 5 == 0 ? 0 : random() % 2000;
    }
    ASSERT_OK(RemoveTree(disk_, kCache));
    ASSERT_OK(RemoveTree(disk_, "/pfs"));
    testing::PutSampleCache(disk_, kCache, sample);
    const std::uint32_t bears = std::max(1u, sample.checksums);
    std::vector<Rank> lost(ranks);
    for (Rank rank = 0; rank < ranks; ++rank) lost[rank] = rank;
    std::shuffle(lost.begin(), lost.end(), random);
    lost.resize(random() % (bears + 1));
    for (const Rank rank : lost) LoseSampleNode(rank);
    ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
    ExpectSample(adopted, sample);
    if (HasFailure()) return;
  }
}

// --- Caches that SCR wrote ---

struct Scenario {
  const char* name;
  const char* dataset;
  std::uint32_t ranks;
  std::size_t files;
  std::uint64_t step;
  int nodes;
};
constexpr Scenario kScenarios[] = {
    {"partner_np3", "step_000020", 3, 6, 2, 3},
    {"xor_np4", "step_000010", 4, 7, 1, 4},
    {"xor_np4_two_sets", "step_000010", 4, 6, 1, 4},
    {"xor_np4_ppn2", "step_000010", 4, 6, 1, 2},
    {"rs_np4_k2", "step_000010", 4, 7, 1, 4},
    {"xor_np4_after_rebuild", "step_000010", 4, 7, 1, 4},
    {"crash_before_flush_np3", "step_000020", 3, 4, 2, 3},
};

TEST_F(AdoptScrTest, TheNewestCheckpointOfEverySchemeBecomesADataset) {
  for (const Scenario& scenario : kScenarios) {
    SCOPED_TRACE(scenario.name);
    if (!Put(scenario.name)) return;
    const auto before = TreeOf(disk_, kCache);
    ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
    EXPECT_EQ(adopted.how, How::kNow);
    EXPECT_EQ(adopted.ranks, scenario.ranks);
    EXPECT_EQ(adopted.step, scenario.step);
    EXPECT_EQ(adopted.rebuilt, 0u);
    EXPECT_TRUE(adopted.verified);
    ExpectWhole(adopted, scenario.dataset, scenario.ranks, scenario.files);
    EXPECT_TRUE(Committed().at(adopted.dataset).current);
    EXPECT_EQ(notes_, "");
    EXPECT_TRUE(TreeOf(disk_, kCache) == before) << "SCR's folders were changed";
  }
}

TEST_F(AdoptScrTest, ALostNodeIsMadeGood) {
  for (const Scenario& scenario : kScenarios) {
    for (int node = 0; node < scenario.nodes; ++node) {
      SCOPED_TRACE(fmt::format("{}, node {}", scenario.name, node));
      if (!Put(scenario.name)) return;
      LoseNode(node);
      ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
      EXPECT_GT(adopted.rebuilt, 0u);
      EXPECT_NE(notes_.find("rebuilt from the"), std::string::npos) << notes_;
      ExpectWhole(adopted, scenario.dataset, scenario.ranks, scenario.files);
      EXPECT_FALSE(disk_.Info(std::string(kPrefix) + "/.cairn/adopt.scratch").ok()) << "rebuilt files were left";
    }
  }
}

TEST_F(AdoptScrTest, AnyTwoNodesOfRsMayBeLost) {
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

TEST_F(AdoptScrTest, ARankWithoutFilesIsARank) {
  if (!Put("xor_np3_rank_without_files")) return;
  LoseNode(1);
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  ExpectWhole(adopted, "step_000010", 3, 2);
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
  PutBytes(disk_, Dataset(1, 2) + "/rank_1.ckpt", "short");
  EXPECT_STATUS(absl::StatusCode::kDataLoss, AdoptOne(2), Dataset(1, 2) + "/rank_1.ckpt is not there as it was");
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  EXPECT_EQ(adopted.from.id, 1u) << "the next older one";
  EXPECT_FALSE(adopted.verified) << "SCR keeps nothing of SINGLE to verify by";
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

TEST_F(AdoptScrTest, ALostRedundancyFileIsNoLostRank) {
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
    EXPECT_EQ(notes_.find("its CRC is") != std::string::npos, damaged) << notes_;
    ExpectWhole(adopted, "step_000010", 4, 7);
  }
}

TEST_F(AdoptScrTest, WhatWasNotEncodedOrNotCompleteIsNotTaken) {
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

TEST_F(AdoptScrTest, AllTakesOutputsTooInTheirOrder) {
  if (!Put("single_np2")) return;
  AdoptScrRequest request = Request();
  request.all = true;
  ASSERT_OK_AND_ASSIGN(const auto all, Adopt(request));
  ASSERT_EQ(all.size(), 3u) << notes_;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(all[i].from.id, i + 1);
    EXPECT_TRUE(i == 0 || all[i].dataset > all[i - 1].dataset);
  }
  ExpectWhole(all[1], "step_000020", 2, all[1].files);
  const auto committed = Committed();
  EXPECT_TRUE(committed.at(all[1].dataset).current) << "the newest checkpoint";
  EXPECT_TRUE(committed.at(all[1].dataset).descriptor.output);
  EXPECT_FALSE(committed.at(all[2].dataset).descriptor.checkpoint);
  ASSERT_OK_AND_ASSIGN(const auto again, Adopt(request));
  for (const AdoptedScr& one : again) EXPECT_EQ(one.how, How::kBefore);
  EXPECT_EQ(Committed().size(), 3u);
}

TEST_F(AdoptScrTest, WhatScrHasFlushedIsUsedFromThere) {
  if (!Put("crash_before_flush_np3", /*prefix=*/true)) return;
  AdoptScrRequest request = Request();
  request.all = true;
  ASSERT_OK_AND_ASSIGN(const auto all, Adopt(request));
  ASSERT_EQ(all.size(), 3u) << notes_;
  EXPECT_EQ(all[1].how, How::kOnPrefix);
  EXPECT_EQ(all[1].dataset, 2u);
  EXPECT_EQ(all[0].how, How::kNow);
  EXPECT_EQ(all[2].how, How::kNow);
  EXPECT_EQ(Committed().size(), 3u);
  ExpectWhole(all[2], "step_000020", 3, 4);
}

// SCR has fetched it: the names that it keeps then are whole paths.
TEST_F(AdoptScrTest, AFetchedDatasetIsOnThePrefixOrNamedAsItLayTogether) {
  if (!Put("prefix_lifecycle_np2", /*prefix=*/true)) return;
  ASSERT_OK_AND_ASSIGN(const AdoptedScr fetched, AdoptOne());
  EXPECT_EQ(fetched.how, How::kOnPrefix);
  EXPECT_EQ(fetched.from.name, "step_000010");
  ASSERT_OK(Adopt(Request(), "/pfs/another"));
  EXPECT_NE(notes_.find("--prefix-was"), std::string::npos) << notes_;
  EXPECT_OK(disk_.Info("/pfs/another/rank_1.ckpt"));
  AdoptScrRequest request = Request();
  request.prefix_was = "/mnt/pfs/demo";
  ASSERT_OK(Adopt(request, "/pfs/third"));
  EXPECT_OK(disk_.Info("/pfs/third/step_000010/rank_1.ckpt"));
}

TEST_F(AdoptScrTest, ADatasetThatBypassedTheCacheIsUsedFromThePrefixOrStaysInItsPlace) {
  if (!Put("bypass_np3", /*prefix=*/true)) return;
  ASSERT_OK_AND_ASSIGN(const AdoptedScr flushed, AdoptOne());
  EXPECT_EQ(flushed.how, How::kOnPrefix);

  // SCR's index is lost: the files are there, and the filemaps of the cache know them.
  if (!Put("bypass_np3", /*prefix=*/true)) return;
  LoseNode(2);
  ASSERT_OK(RemoveTree(disk_, std::string(kPrefix) + "/.scr"));
  const auto before = TreeOf(disk_, std::string(kPrefix) + "/step_000020");
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  EXPECT_EQ(adopted.how, How::kNow);
  EXPECT_EQ(TreeOf(disk_, std::string(kPrefix) + "/step_000020"), before);
  const auto committed = Committed();
  EXPECT_TRUE(committed.contains(adopted.dataset));

  // A file that is gone cannot be had from anywhere.
  if (!Put("bypass_np3", /*prefix=*/true)) return;
  ASSERT_OK(RemoveTree(disk_, std::string(kPrefix) + "/.scr"));
  ASSERT_OK(disk_.Remove(std::string(kPrefix) + "/step_000020/rank_1.ckpt"));
  const auto left = TreeOf(disk_, std::string(kPrefix));
  ASSERT_OK_AND_ASSIGN(const AdoptedScr older, AdoptOne());
  EXPECT_EQ(older.from.id, 1u);
  for (const auto& [path, bytes] : left) EXPECT_EQ(GetBytes(disk_, path), bytes) << path;
}

TEST_F(AdoptScrTest, ABypassedDatasetIsCopiedFromWhereItIsSaidToBe) {
  if (!Put("bypass_np3")) return;
  ASSERT_TRUE(testing::PutScenario(disk_, "bypass_np3", "pfs", "/mnt/pfs"));
  const auto before = TreeOf(disk_, "/mnt/pfs");
  EXPECT_STATUS(absl::StatusCode::kDataLoss, AdoptOne(), "files of 3 of 3 ranks are lost");
  AdoptScrRequest request = Request();
  request.prefix_was = "/mnt/pfs/demo";
  ASSERT_OK_AND_ASSIGN(const auto adopted, Adopt(request));
  ExpectWhole(adopted.front(), "step_000020", 3, 6);
  EXPECT_EQ(TreeOf(disk_, "/mnt/pfs"), before);
  request.prefix_was = "/mnt/other";
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, Adopt(request, "/pfs/another"), "is not below /mnt/other");
}

TEST_F(AdoptScrTest, ASecondTimeSaysSoWhereverTheCacheIsNow) {
  if (!Put("xor_np4")) return;
  ASSERT_OK_AND_ASSIGN(const AdoptedScr first, AdoptOne());
  const auto before = TreeOf(disk_, kPrefix);
  ASSERT_OK(disk_.Rename(kCache, "/elsewhere"));
  ASSERT_OK_AND_ASSIGN(const ScrCache cache, FindScrCache(disk_, {"/elsewhere/node0", "/elsewhere"}, "4242"));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Prefix> prefix, Prefix::Open(disk_, kPrefix));
  ASSERT_OK_AND_ASSIGN(const auto second, AdoptScr(disk_, *prefix, cache, Request()));
  EXPECT_EQ(second.front().how, How::kBefore);
  EXPECT_EQ(second.front().dataset, first.dataset);
  EXPECT_EQ(TreeOf(disk_, kPrefix), before);
}

TEST_F(AdoptScrTest, WhatWasMarkedFailedIsTakenAgain) {
  if (!Put("xor_np4")) return;
  ASSERT_OK_AND_ASSIGN(const AdoptedScr first, AdoptOne());
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Prefix> prefix, Prefix::Open(disk_, kPrefix));
  ASSERT_OK(prefix->MarkFailed(first.dataset));
  ASSERT_OK_AND_ASSIGN(const AdoptedScr second, AdoptOne());
  EXPECT_EQ(second.how, How::kNow);
  EXPECT_GT(second.dataset, first.dataset);
  ExpectWhole(second, "step_000010", 4, 7);
}

TEST_F(AdoptScrTest, NamesOfOtherDatasetsAreNotTaken) {
  if (!Put("xor_np4")) return;
  ASSERT_OK(AdoptOne());
  // The same names, but another dataset.
  const std::string index = Node(0) + "/alice/scr.4242/cindex.scrinfo";
  for (int node = 0; node < 4; ++node) {
    const std::string path = Node(node) + "/alice/scr.4242/cindex.scrinfo";
    ASSERT_OK_AND_ASSIGN(kvtree::Tree tree, ReadTree(disk_, path));
    tree.At("DSET").At("1").At("DSETDESC").Set("CREATED", std::uint64_t{1});
    ASSERT_OK(ReplaceTree(disk_, path, tree));
  }
  EXPECT_STATUS(absl::StatusCode::kAlreadyExists, AdoptOne(), "belongs to dataset 1");
  EXPECT_EQ(Committed().size(), 1u);
}

TEST_F(AdoptScrTest, WhatAnInterruptedFlushLeftIsReplaced) {
  if (!Put("xor_np4")) return;
  PutBytes(disk_, std::string(kPrefix) + "/step_000010/rank_1.ckpt", "half");
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  ExpectWhole(adopted, "step_000010", 4, 7);
}

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
  disk_.SetCapacity((1 << 20) - free_bytes);
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, AdoptOne(), "are free");
  disk_.SetCapacity(UINT64_MAX);
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  ExpectWhole(adopted, "step_000010", 4, 7);
}

TEST_F(AdoptScrTest, TheNumberAskedForHasToBeThere) {
  if (!Put("xor_np4")) return;
  EXPECT_STATUS(absl::StatusCode::kNotFound, AdoptOne(7), "has no dataset 7");
}

TEST_F(AdoptScrTest, NodesThatWereFoundTwiceCountOnce) {
  if (!Put("xor_np4_after_rebuild")) return;
  ASSERT_TRUE(testing::PutScenario(disk_, "xor_np4_after_rebuild", "node1_before_loss", std::string(kCache) + "/old"));
  ASSERT_OK(disk_.Remove(Dataset(1, 1) + "/rank_1.ckpt"));
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  EXPECT_EQ(adopted.rebuilt, 0u) << "it is in the other copy";
  ExpectWhole(adopted, "step_000010", 4, 7);
}

// Every record of one node cut short and with bits flipped: taken whole, or not at all.
TEST_F(AdoptScrTest, DamagedRecordsNeverMakeAWrongDataset) {
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

// --- Finding caches ---

TEST_F(AdoptScrTest, SeveralJobsHaveToBeToldApart) {
  if (!Put("xor_np4")) return;
  ASSERT_TRUE(testing::PutScenario(disk_, "partner_np3", "nodes", "/cache2"));
  for (int node = 0; node < 3; ++node) {
    const std::string user = fmt::format("/cache2/node{}/alice", node);
    ASSERT_OK(disk_.Rename(user + "/scr.4242", user + "/scr.77"));
  }
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, FindScrCache(disk_, {kCache, "/cache2"}, ""), "4242, 77");
  ASSERT_OK_AND_ASSIGN(const ScrCache cache, FindScrCache(disk_, {kCache, "/cache2"}, "77"));
  EXPECT_EQ(cache.job, "77");
  EXPECT_EQ(cache.datasets.size(), 2u);
  EXPECT_STATUS(absl::StatusCode::kNotFound, FindScrCache(disk_, {kCache}, "77"), "no cache of SCR's job 77");
  EXPECT_STATUS(absl::StatusCode::kNotFound, FindScrCache(disk_, {"/nowhere"}, ""), "/nowhere");
  EXPECT_STATUS(absl::StatusCode::kNotFound, FindScrCache(disk_, {Dataset(0, 1)}, ""), "name the one above it");
  EXPECT_OK(FindScrCache(disk_, {Node(0) + "/alice/scr.4242"}, ""));
}

TEST_F(AdoptScrTest, ControlAndCacheMayLieApart) {
  if (!Put("xor_np4")) return;
  for (int node = 0; node < 4; ++node) {
    PutBytes(disk_, fmt::format("/control/node{}/alice/scr.4242/cindex.scrinfo", node),
             GetBytes(disk_, Node(node) + "/alice/scr.4242/cindex.scrinfo"));
    ASSERT_OK(disk_.Remove(Node(node) + "/alice/scr.4242/cindex.scrinfo"));
  }
  ASSERT_OK_AND_ASSIGN(const ScrCache cache, FindScrCache(disk_, {kCache, "/control"}, ""));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Prefix> prefix, Prefix::Open(disk_, kPrefix));
  ASSERT_OK_AND_ASSIGN(const auto adopted, AdoptScr(disk_, *prefix, cache, Request()));
  ExpectWhole(adopted.front(), "step_000010", 4, 7);
}

TEST_F(AdoptScrTest, AStoreThatNodesShareHasAFolderOfEach) {
  if (!Put("xor_np4")) return;
  for (int node = 0; node < 4; ++node) {
    const std::string shared = fmt::format("/shared/alice/scr.4242/node.{}", node);
    ASSERT_OK(MakeDirectories(disk_, shared));
    ASSERT_OK(disk_.Rename(Dataset(node, 1), shared + "/scr.dataset.1"));
  }
  ASSERT_OK_AND_ASSIGN(const ScrCache cache, FindScrCache(disk_, {"/shared", kCache}, ""));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Prefix> prefix, Prefix::Open(disk_, kPrefix));
  ASSERT_OK_AND_ASSIGN(const auto adopted, AdoptScr(disk_, *prefix, cache, Request()));
  ExpectWhole(adopted.front(), "step_000010", 4, 7);
}

// An SCR job may have gone on in a cache of Cairn: both are in one index.
TEST_F(AdoptScrTest, DatasetsOfCairnInTheSameCacheArePassedOver) {
  if (!Put("partner_np3")) return;
  for (int node = 0; node < 3; ++node) {
    const std::string path = Node(node) + "/alice/scr.4242/cindex.scrinfo";
    ASSERT_OK_AND_ASSIGN(kvtree::Tree index, ReadTree(disk_, path));
    scr::CacheEntry entry;
    entry.descriptor.id = 2;
    entry.descriptor.name = "ckpt.2";
    entry.descriptor.launch = 1;
    entry.path = "/mnt/ssd/alice/scr.4242/scr.dataset.2";
    scr::PutCacheEntry(entry, index);
    ASSERT_OK(ReplaceTree(disk_, path, index));
  }
  ASSERT_OK_AND_ASSIGN(const ScrCache cache, FindScrCache(disk_, {kCache}, ""));
  EXPECT_EQ(cache.warnings, std::vector<std::string>{"dataset 2 is Cairn's own, and needs no adopting"});
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  EXPECT_EQ(adopted.from.id, 1u);
  ExpectWhole(adopted, "step_000010", 3, 6);
}

}  // namespace
}  // namespace cairn::cli
