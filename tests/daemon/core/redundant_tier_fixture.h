// Datasets that are redundant in a folder that is so itself, over simulated nodes. For tests.
#ifndef CAIRN_TESTS_DAEMON_CORE_REDUNDANT_TIER_FIXTURE_H_
#define CAIRN_TESTS_DAEMON_CORE_REDUNDANT_TIER_FIXTURE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "storage/base/status.h"
#include "storage/io/disk.h"
#include "storage/place/names.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/redundancy_fixture.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {

inline constexpr char kRoot[] = "/burst";
inline constexpr std::uint64_t kForGood = std::uint64_t{1} << 40;

class RedundantTierFixture : public RedundancyTest {
 protected:
  explicit RedundantTierFixture(int count) : RedundancyTest(count) { MountAt(kRoot); }
  void MountAt(const std::string& path) {
    EXPECT_OK(nodes.prefix.MakeDirectory(path, 0755));
    nodes.prefix.Mount(path);
  }
  void Start() {
    for (int i = 0; i < nodes.count(); ++i) nodes[i].config.redundant.path = kRoot;
    RedundancyTest::Start("single");
  }
  // With all that the disks of all nodes have; and new ones are started.
  void LoseAllCaches() {
    clients.clear();
    for (int i = 0; i < nodes.count(); ++i) nodes[i].Kill();
    for (int i = 0; i < nodes.count(); ++i) EXPECT_OK(RemoveTree(nodes[i].cache, nodes[i].config.cache.path));
    nodes.StartAll();
  }
  std::string RunFolder() {
    auto runs = nodes.prefix.List(std::string(kRoot) + "/tester");
    if (runs.ok()) std::erase(*runs, "folder.cairn");
    return runs.ok() && runs->size() == 1 ? std::string(kRoot) + "/tester/" + runs->front() : "";
  }
  std::string FolderThere(DatasetId id) { return RunFolder() + "/" + RecordsFolderName(id); }
  std::vector<std::string> NamesThere() {
    const std::string run = RunFolder();
    auto names =
        run.empty() ? std::vector<std::string>() : nodes.prefix.List(run).value_or(std::vector<std::string>{"?"});
    return names;
  }
  bool IsThere(DatasetId id) { return nodes.prefix.Info(FolderThere(id) + "/.scr/whole.cairn").ok(); }
  void ExpectBack(DatasetId id, std::uint64_t step, local::Tier tier) {
    const Back back = RestoreLatest();
    EXPECT_EQ(back.id, id);
    EXPECT_EQ(back.step, step);
    for (const auto& rank : back.ranks) EXPECT_EQ(rank.tier, tier);
  }
  void FlipThere(DatasetId id, Rank rank) {
    nodes.prefix.FlipBit(FolderThere(id) + "/Ckpt" + std::to_string(id) + "-Rank" + std::to_string(rank) + ".fti",
                         8 * 5000);
  }
  // While the daemons do not run; what they have noted stays.
  void LosePartsOfAll(DatasetId id) {
    clients.clear();
    for (int i = 0; i < nodes.count(); ++i) nodes[i].Kill();
    for (int i = 0; i < nodes.count(); ++i) EXPECT_OK(nodes[i].LoseParts(id));
    nodes.StartAll();
  }
  DatasetId Local(std::uint64_t step) {
    const DatasetId id = Checkpoint(step);
    for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::LOCAL), local::OK, "");
    return id;
  }
  bool IsRedundant(DatasetId id) { return clients[0]->Test(id, local::REDUNDANT).test().reached(); }
  // What is there of the datasets that are whole there, or were begun, besides what lies aside.
  std::vector<std::string> FoldersOf(const std::vector<DatasetId>& ids) {
    std::vector<std::string> names;
    for (const DatasetId id : ids) names.push_back(RecordsFolderName(id));
    return names;
  }
  void ExpectThereAreOnly(const std::vector<DatasetId>& ids) {
    nodes.Pass(std::chrono::seconds(1));
    EXPECT_EQ(NamesThere(), FoldersOf(ids));
  }
  // All that is done with the folder's files, and not with its directories.
  void FailThere(absl::Status status, FakeOp op = FakeOp::kAny) {
    nodes.prefix.FailOn({.op = op, .path_part = std::string(kRoot) + "/", .times = kForGood, .status = status});
  }
  void Eventually(const std::function<bool()>& holds) { EXPECT_TRUE(nodes.AdvanceUntil(holds)); }
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_REDUNDANT_TIER_FIXTURE_H_
