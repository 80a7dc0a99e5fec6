// What ranks keep for others is written over what they kept for a dataset that has left the cache
// (daemon/core/spares.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "storage/base/path.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/redundancy_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class SparesTest : public RedundancyTest {
 protected:
  void Begin(const std::string& scheme, std::uint32_t keep, std::uint64_t bytes_max = 1 << 30,
             bool differential = false) {
    for (int i = 0; i < nodes.count(); ++i) {
      nodes[i].config.cache.keep = keep;
      nodes[i].config.ftiff.differential = differential;
      nodes[i].config.cache.bytes_max = bytes_max;
    }
    Start(scheme);
    ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  }
  // It is redundant, and all nodes have done what follows from that.
  DatasetId Next(std::uint64_t step) {
    const DatasetId id = Redundant(step);
    nodes.Pass(std::chrono::seconds(1));
    return id;
  }
  std::uint64_t InodeOf(int node, DatasetId id) {
    const auto info = nodes[node].cache.Info(KeptOf(node, id));
    EXPECT_OK(info.status()) << node;
    return info.ok() ? info->inode : 0;
  }
  // The redundancy file of data.
  std::string KeptOf(int node, DatasetId id) { return FindFile(nodes[node], id, ".grp_"); }
  std::vector<std::string> SparesOf(int node, DatasetId id) {
    std::vector<std::string> spares;
    const auto names = nodes[node].cache.List(ParentOf(nodes[node].FolderOf(id)));
    EXPECT_OK(names.status());
    if (!names.ok()) return spares;
    for (const std::string& name : *names) {
      if (name.find("spare") != std::string::npos) spares.push_back(name);
    }
    return spares;
  }
  // Of all files in the run's folder.
  std::uint64_t BytesIn(FakeDisk& disk, const std::string& folder) {
    std::uint64_t bytes = 0;
    const auto names = disk.List(folder);
    if (!names.ok()) return 0;
    for (const std::string& name : *names) {
      const auto info = disk.Info(folder + "/" + name);
      if (!info.ok()) continue;
      bytes += info->is_directory() ? BytesIn(disk, folder + "/" + name) : info->bytes;
    }
    return bytes;
  }
};

class SchemeSparesTest : public SparesTest, public ::testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Schemes, SchemeSparesTest, ::testing::Values("partner", "xor", "rs"));

TEST_P(SchemeSparesTest, OnEachNodeTheFileOfADatasetThatHasLeftIsWrittenOver) {
  ASSERT_NO_FATAL_FAILURE(Begin(GetParam(), /*keep=*/0));
  std::map<int, std::uint64_t> inodes;
  const DatasetId first = Next(1);
  for (int node = 0; node < nodes.count(); ++node) inodes[node] = InodeOf(node, first);
  const DatasetId second = Next(2);  // the first leaves
  for (int node = 0; node < nodes.count(); ++node) {
    EXPECT_THAT(SparesOf(node, second), SizeIs(1)) << node;
    EXPECT_EQ(KeptOf(node, first), "") << node;
  }
  const DatasetId third = Next(3);
  for (int node = 0; node < nodes.count(); ++node) EXPECT_EQ(InodeOf(node, third), inodes[node]) << node;
}

TEST_F(SparesTest, WhatWasWrittenOverBringsBackWhatIsLost) {
  ASSERT_NO_FATAL_FAILURE(Begin("rs", 0));
  for (std::uint64_t step = 1; step <= 4; ++step) Next(step);
  const DatasetId last = Next(5);
  ExpectBackWithout({1, 4}, last, 5);
}

TEST_F(SparesTest, ItCountsAsUsedAndGoesWithTheLaunch) {
  ASSERT_NO_FATAL_FAILURE(Begin("partner", 0));
  Next(1);
  const DatasetId second = Next(2);
  for (int node = 0; node < nodes.count(); ++node) {
    const std::string folder = ParentOf(nodes[node].FolderOf(second));
    const std::string spare = folder + "/" + SparesOf(node, second).at(0);
    ASSERT_OK_AND_ASSIGN(const FileInfo info, nodes[node].cache.Info(spare));
    const std::uint64_t with = nodes[node].Status().cache_bytes_used();
    EXPECT_GE(with, info.bytes);
  }
  const std::uint64_t with = nodes[1].Status().cache_bytes_used();
  Close();
  nodes.Pass(std::chrono::seconds(1));
  for (int node = 0; node < nodes.count(); ++node) EXPECT_THAT(SparesOf(node, second), IsEmpty()) << node;
  EXPECT_LT(nodes[1].Status().cache_bytes_used() + 9'000, with);
}

TEST_F(SparesTest, AStartRemovesIt) {
  ASSERT_NO_FATAL_FAILURE(Begin("partner", 0));
  Next(1);
  const DatasetId second = Next(2);
  ASSERT_THAT(SparesOf(2, second), SizeIs(1));
  nodes[2].Kill();
  nodes[2].Start();
  EXPECT_THAT(SparesOf(2, second), IsEmpty());
  EXPECT_THAT(nodes[2].Status().warnings(), IsEmpty());
}

// By default a checkpoint's files are written over those of one that leaves for that.
TEST_F(SparesTest, WhatGivesItsFilesToACheckpointGivesThese) {
  ASSERT_NO_FATAL_FAILURE(Begin("partner", 0, 1 << 30, /*differential=*/true));
  std::map<std::uint64_t, int> uses;
  for (std::uint64_t step = 1; step <= 8; ++step) ++uses[InodeOf(3, Next(step))];
  EXPECT_LE(uses.size(), 4u);
}

// What a node has of a dataset takes some 33 000 bytes, and 131 072 more while it is planned what is kept.
TEST_F(SparesTest, ACacheThatIsFullNeverHoldsMoreThanItMay) {
  constexpr std::uint64_t kMax = 255'000;
  ASSERT_NO_FATAL_FAILURE(Begin("partner", /*keep=*/100, kMax));
  DatasetId first = 0;
  for (std::uint64_t step = 1; step <= 8; ++step) {
    const DatasetId id = Next(step);
    ASSERT_NE(id, 0u);
    if (first == 0) first = id;
    EXPECT_LE(nodes[1].Status().cache_bytes_used(), kMax);
    EXPECT_LE(BytesIn(nodes[1].cache, ParentOf(nodes[1].FolderOf(id))), kMax) << step;
  }
  EXPECT_TRUE(nodes[1].RanksInCache(first).empty()) << "it was full";
}

}  // namespace
}  // namespace cairn
