// A job comes back on another node: it goes on from what only the first node's cache has, if that node lives; else from
// what the prefix has. The state that it goes on with is the one of the step that it says, and its promise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "client/cairn.h"
#include "tests/integration/jobs_on_nodes.h"

namespace cairn::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class MovedJobTest : public JobsOnNodes {
 protected:
  // Its own, on the prefix.
  bool IsOnPrefix(std::uint64_t dataset) {
    return std::filesystem::exists(cluster_->prefix() + "/ckpt." + std::to_string(dataset));
  }
  // A bit of the checkpoint file in the node's cache, in the last MiB of it.
  void Damage(int node, std::uint64_t dataset) {
    const std::string name = "Ckpt" + std::to_string(dataset) + "-Rank0.fti";
    int damaged = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(cluster_->node(node).cache())) {
      if (entry.path().filename() != name) continue;
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(6 << 20);
      const char was = static_cast<char>(file.get());
      file.seekp(6 << 20);
      file.put(static_cast<char>(was ^ 1));
      ++damaged;
    }
    EXPECT_EQ(damaged, 1);
  }
};

TEST_F(MovedJobTest, GoesOnFromWhatOnlyTheFirstNodeHas) {
  StartDaemon(1);
  StartDaemon(2);
  EXPECT_THAT(Compute(1, 3), StartsWith("fresh"));
  const std::uint64_t newest = Newest(1);
  EXPECT_THAT(Compute(2, 3), StartsWith(Resumed(3, newest, CAIRN_TIER_CACHE)));
  EXPECT_FALSE(IsOnPrefix(newest));
  EXPECT_THAT(cluster_->node(2).DaemonLog(), HasSubstr("in the cache of n1 (10.77.0.1:17600): is whole here, too"));
  EXPECT_THAT(Cairn(2, {"ls", cluster_->prefix()}), HasSubstr("n2, n1"));
  EXPECT_THAT(Compute(2, 5), StartsWith(Resumed(3, newest, CAIRN_TIER_CACHE)));
  // And back again, to a node that has seen an older line.
  EXPECT_THAT(Compute(1, 6), StartsWith(Resumed(5, Newest(2), CAIRN_TIER_CACHE)));
  // A node that comes back empty has it all the same.
  EXPECT_EQ(cluster_->node(2).StopDaemon().exit_code, 0);
  cluster_->node(2).DeleteCache();
  StartDaemon(2);
  EXPECT_THAT(Compute(2, 7), StartsWith(Resumed(6, Newest(1), CAIRN_TIER_CACHE)));
}

TEST_F(MovedJobTest, DoesNotWaitForAFlushOfWhatItCanBring) {
  StartDaemon(1, {"--flush-bandwidth", "64KiB/s"});  // two minutes
  StartDaemon(2);
  Compute(1, 2);
  const std::uint64_t newest = Newest(1);
  ASSERT_TRUE(cluster_->node(1).WaitForLog("launch 1"));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(Compute(2, 3), StartsWith(Resumed(2, newest, CAIRN_TIER_CACHE)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  EXPECT_THAT(cluster_->node(2).DaemonLog(), Not(HasSubstr("is left behind")));
  // What the second node flushes of it is whole there, and counts.
  EXPECT_THAT(Cairn(2, {"flush", cluster_->prefix(), std::to_string(newest), "--wait"}), Not(HasSubstr("error")));
  cluster_->PowerOff(1);
  EXPECT_EQ(cluster_->node(2).StopDaemon().exit_code, 0);
  cluster_->node(2).DeleteCache();
  StartDaemon(3);
  EXPECT_THAT(Compute(3, 3), StartsWith(Resumed(2, newest, CAIRN_TIER_PREFIX)));
}

TEST_F(MovedJobTest, GoesOnFromThePrefixIfTheFirstNodeIsGone) {
  StartDaemon(1);
  StartDaemon(2);
  Compute(1, 2, {"--flush-every", "1"});
  const std::uint64_t on_prefix = Newest(1);
  Compute(1, 4);
  cluster_->PowerOff(1);
  EXPECT_THAT(Compute(2, 4), StartsWith(Resumed(2, on_prefix, CAIRN_TIER_PREFIX)));
}

// The lease of its launch would be waited for, for two minutes; but Slurm says that the job is over.
TEST_F(MovedJobTest, DoesNotWaitForTheLeaseOfAJobThatIsOver) {
  const std::string squeue = cluster_->folder() + "/squeue";
  std::ofstream(squeue) << "#!/bin/sh\ncase \"$*\" in *--jobs=7) echo NODE_FAIL;; *) echo RUNNING;; esac\n";
  std::filesystem::permissions(squeue, std::filesystem::perms::owner_all);
  StartDaemon(1);
  StartDaemon(2, {"--flush-every", "0", "--slurm-squeue", squeue});
  Process::Options client = Client(1, 100'000, {"--flush-every", "1"});
  client.environment["CAIRN_LAUNCH"] = "slurm:7.0.0";
  const auto first = cluster_->StartProgram(1, client);
  ASSERT_NE(first, nullptr);
  ASSERT_TRUE(AwaitPromises(PromisesOf(1), "prefix", 2));
  cluster_->PowerOff(1);
  const std::uint64_t newest = Promised(1, "prefix").rbegin()->first;
  const auto begun = std::chrono::steady_clock::now();
  const Point from = PointOf(Compute(2, 0));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(60));
  EXPECT_GE(from.dataset, newest);
}

TEST_F(MovedJobTest, NoDamagedBytesAreTakenFromAnotherNode) {
  StartDaemon(1);
  StartDaemon(2);
  Compute(1, 3);
  const auto promised = Promised(1, "local");
  const std::uint64_t newest = promised.rbegin()->first, before = std::next(promised.rbegin())->first;
  Damage(1, newest);
  EXPECT_THAT(Compute(2, 3), StartsWith(Resumed(2, before, CAIRN_TIER_CACHE)));
  EXPECT_THAT(cluster_->node(2).DaemonLog(), HasSubstr("could not be brought here: its copy is bad"));
}

TEST_F(MovedJobTest, AnotherNodeThatHasItTooGivesItIfTheFirstIsDamagedOrGone) {
  StartDaemon(1);
  StartDaemon(2);
  Compute(1, 2);
  const std::uint64_t newest = Newest(1);
  // To the second node, where no step is left to do.
  EXPECT_THAT(Compute(2, 2), StartsWith(Resumed(2, newest, CAIRN_TIER_CACHE)));
  Damage(1, newest);
  StartDaemon(3);
  EXPECT_THAT(Compute(3, 2), StartsWith(Resumed(2, newest, CAIRN_TIER_CACHE)));
  cluster_->PowerOff(1);
  EXPECT_EQ(cluster_->node(2).StopDaemon().exit_code, 0);
  cluster_->node(2).DeleteCache();
  StartDaemon(2);
  EXPECT_THAT(Compute(2, 2), StartsWith(Resumed(2, newest, CAIRN_TIER_CACHE)));
}

TEST_F(MovedJobTest, ATakeOverBringsWhatTheLivingLaunchHas) {
  StartDaemon(1);
  StartDaemon(2);
  auto first = cluster_->StartProgram(1, Client(1, 100'000, {}));
  ASSERT_NE(first, nullptr);
  ASSERT_TRUE(AwaitPromises(PromisesOf(1), "local", 3));
  const std::string said = Compute(2, 1, {"--takeover"});
  EXPECT_EQ(first->Wait(std::chrono::seconds(60)).exit_code, 6) << "the first launch goes on";
  const Point from = PointOf(said);
  EXPECT_EQ(from.tier, CAIRN_TIER_CACHE);
  EXPECT_GE(from.step, 3u);
  EXPECT_EQ(Promised(1, "captured").at(from.dataset), from.step);
}

TEST_F(MovedJobTest, ACacheThatCannotHoldItSaysSo) {
  StartDaemon(1);
  StartDaemon(2, {"--flush-every", "0", "--cache-bytes-max", "4MiB"});
  Compute(1, 2, {"--flush-every", "1"});
  Compute(1, 3);
  const Ending ending = cluster_->Run(2, Client(2, 2, {"--wait-busy"}));
  EXPECT_THAT(ending.output, HasSubstr("resumed 2 ")) << "from the prefix";
  EXPECT_THAT(cluster_->node(2).DaemonLog(), HasSubstr("(step 3) in the cache of n1 (10.77.0.1:17600): could not be "
                                                       "brought here"));
}

}  // namespace
}  // namespace cairn::testing
