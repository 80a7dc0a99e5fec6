// Datasets of SCR caches as datasets of a run: every scheme, with nodes lost, once only, from wherever they lie.
#include "storage/job/adopt/adopt_scr.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "storage/file/trees/tree_file.h"
#include "storage/format/scr/records.h"
#include "tests/storage/job/adopt/adopt_scr_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

struct Scenario {
  const char* name;
  const char* dataset;
  std::uint32_t ranks;
  std::size_t files;
  std::uint64_t step;
  int nodes;
  catalogue::VerifiedBy by = catalogue::PARITY;
  const char* note = "";
};
constexpr Scenario kScenarios[] = {
    {"partner_np3", "step_000020", 3, 6, 2, 3, catalogue::COPY},
    {"xor_np4", "step_000010", 4, 7, 1, 4},
    {"xor_np4_two_sets", "step_000010", 4, 6, 1, 4},
    {"xor_np4_ppn2", "step_000010", 4, 6, 1, 2},
    {"rs_np4_k2", "step_000010", 4, 7, 1, 4},
    {"xor_np4_after_rebuild", "step_000010", 4, 7, 1, 4, catalogue::PARITY,
     "XOR set of ranks 0, 1, 2, 3: SCR itself had rebuilt rank 1 from it: parity says that nothing has changed "
     "since\n"},
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
    EXPECT_EQ(adopted.verified.size(), 1u) << "all in one way";
    EXPECT_TRUE(adopted.verified.contains(scenario.by));
    EXPECT_TRUE(adopted.unverified.empty());
    ExpectWhole(adopted, scenario.dataset, scenario.ranks, scenario.files);
    EXPECT_TRUE(Committed().at(adopted.dataset).current);
    EXPECT_EQ(notes_, scenario.note);
    EXPECT_TRUE(TreeOf(disk_, kCache) == before) << "SCR's folders were changed";
  }
}

TEST_F(AdoptScrTest, ALostNodeIsMadeGood) {
  unverified_ = true;
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

TEST_F(AdoptScrTest, ARankWithoutFilesIsARank) {
  unverified_ = true;
  if (!Put("xor_np3_rank_without_files")) return;
  LoseNode(1);
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  ExpectWhole(adopted, "step_000010", 3, 2);
}

TEST_F(AdoptScrTest, AllTakesOutputsTooInTheirOrder) {
  unverified_ = true;
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

TEST_F(AdoptScrTest, NothingIsWrittenThroughALinkOutOfThePrefix) {
  if (!Put("xor_np4")) return;
  ASSERT_OK(MakeDirectories(disk_, kPrefix));
  ASSERT_OK(disk_.MakeDirectory("/elsewhere", 0755));
  ASSERT_OK(disk_.Symlink("/elsewhere", std::string(kPrefix) + "/step_000010"));
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, AdoptOne(), "step_000010");
  EXPECT_TRUE(TreeOf(disk_, "/elsewhere").empty());
  EXPECT_TRUE(Committed().empty());
  EXPECT_STATUS(absl::StatusCode::kNotFound, disk_.Info(std::string(kPrefix) + "/ckpt.1"), "");
}

// SCR has fetched it: the names that it keeps then are whole paths.
TEST_F(AdoptScrTest, AFetchedDatasetIsOnThePrefixOrNamedAsItLayTogether) {
  unverified_ = true;
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
  unverified_ = true;
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
  unverified_ = true;
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

TEST_F(AdoptScrTest, TheNumberAskedForHasToBeThere) {
  if (!Put("xor_np4")) return;
  EXPECT_STATUS(absl::StatusCode::kNotFound, AdoptOne(7), "has no dataset 7");
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

TEST_F(AdoptScrTest, NodesThatWereFoundTwiceCountOnce) {
  if (!Put("xor_np4_after_rebuild")) return;
  ASSERT_TRUE(testing::PutScenario(disk_, "xor_np4_after_rebuild", "node1_before_loss", std::string(kCache) + "/old"));
  ASSERT_OK(disk_.Remove(Dataset(1, 1) + "/rank_1.ckpt"));
  ASSERT_OK_AND_ASSIGN(const AdoptedScr adopted, AdoptOne());
  EXPECT_EQ(adopted.rebuilt, 0u) << "it is in the other copy";
  ExpectWhole(adopted, "step_000010", 4, 7);
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
}  // namespace cairn
