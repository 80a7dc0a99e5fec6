// What happens to the nodes of a launch whose ranks run on several of them: daemons are killed at any instant, a node
// is cut off for a moment or for long, the home stands still, calendars disagree, the prefix takes nothing. Ranks log
// outside the daemons what they were promised, and no restart is older than that. Instants are drawn from
// CAIRN_TEST_SEED; CAIRN_SOAK makes it long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/cairn.h"
#include "tests/integration/launch_faults.h"
#include "tests/support/fuse/fuse_test.h"

namespace cairn::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kShutOut = 6;  // crash_client's exit code

// All daemons come back before the next job begins. In half of the rounds it begins when all are linked: then what was
// local is not lost. In the others links and coordinator are on their way, and what is on the prefix is not lost.
TEST_F(LaunchFaultsTest, NoPromiseIsLostWhoeverIsKilledAtAnyInstant) {
  std::vector<int> nodes = {1, 2, 3};
  StartThree();
  Run("job.0", nodes, 1);
  std::uint64_t steps = 1;
  int compared = 0;
  const int rounds = IsSoak() ? 100 : 8;
  for (int round = 1; round <= rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round) + ", CAIRN_TEST_SEED=" + std::to_string(seed_));
    StartMissing();
    const bool linked = Draw(2) == 0;
    if (linked) {
      ASSERT_TRUE(AwaitLinked());
    }
    if (Draw(3) == 0) std::ranges::shuffle(nodes, random_);
    const std::uint64_t promised = NewestPromised(linked ? "local" : "prefix");
    const Job job = Start("job." + std::to_string(round), nodes, steps + 1'000,
                          {"--wait-busy", "--no-check", "--flush-every", "4"});
    if (Draw(4) != 0) {  // else daemons are killed while it begins
      ASSERT_TRUE(AllBegun(job));
    }
    LetItWorkFor(std::chrono::microseconds(Draw(400'000)));
    const int killed = 1 + static_cast<int>(Draw(3));
    cluster_->node(killed).KillDaemon();
    const bool again = Draw(2) == 0;  // and the launch goes on
    if (again) {
      StartDaemon(killed, kKeepAll);
      ASSERT_TRUE(AllBegun(job));
      LetItWorkFor(std::chrono::microseconds(Draw(1'000'000)));
    }
    for (int node = 1; node <= 3; ++node) {
      if (cluster_->node(node).daemon() != nullptr && Draw(2) == 0) cluster_->node(node).KillDaemon();
    }
    const std::vector<std::string> said = Kill(job);
    ExpectNothingLost(nodes.size());
    for (const std::string& rank : said) {
      if (WasKilledBefore(rank)) continue;
      const Point from = PointOf(rank);
      EXPECT_GE(from.dataset, promised) << rank;
      steps = std::max(from.step, steps);
      ++compared;
    }
    steps = std::max(steps, NewestStepCaptured());
  }
  EXPECT_GT(compared, rounds) << "hardly any launch came to its restart: this tests nothing";
}

TEST_F(LaunchFaultsTest, ANodeThatIsCutOffForAMomentComesBackToItsLaunch) {
  StartThree();
  const std::vector<int> nodes = {1, 2, 3};
  Job job = Start("a", nodes, 60);
  ASSERT_TRUE(AwaitPromises(PromisesOfRank(1), "local", 3));
  cluster_->Cut(FollowerOf(1));
  std::this_thread::sleep_for(std::chrono::seconds(3));
  cluster_->Heal();
  const std::uint64_t before = NewestPromised("local");
  End(std::move(job));
  ExpectNothingLost(nodes.size());
  EXPECT_GT(NewestPromised("local"), before) << "it has not gone on";
  EXPECT_THAT(Run("b", nodes, 60), Each(StartsWith("resumed 60 " + std::to_string(NewestOfRank(0)) + " ")));
}

// Its ranks are lost, and so the launch is: nobody hangs, and the next one goes on from what was promised.
TEST_F(LaunchFaultsTest, ANodeThatIsCutOffForLongEndsItsLaunchAndLosesNothing) {
  std::vector<std::string> flags = kKeepAll;
  flags.insert(flags.end(), {"--ingest-resume", "2s"});
  StartThree(flags);
  const std::vector<int> nodes = {1, 2, 3};
  Job job = Start("a", nodes, 100'000);
  ASSERT_TRUE(AwaitPromises(PromisesOfRank(1), "local", 3));
  const int home = HomeOf(1), follower = FollowerOf(1);
  cluster_->Cut(follower);
  const std::string others = PromisesOfRank(static_cast<std::size_t>(home - 1));
  const auto end = std::chrono::steady_clock::now() + kDeadline;
  while (ReadPromises(others).refused.empty() && std::chrono::steady_clock::now() < end) {
    LetItWorkFor(std::chrono::milliseconds(20));
  }
  EXPECT_THAT(ReadPromises(others).refused, Not(IsEmpty())) << "the others are told, and do not hang";
  const std::uint64_t promised = NewestPromised("local");
  cluster_->Heal();
  Kill(job);
  ASSERT_TRUE(AwaitLinked());
  for (const std::string& rank : Run("b", nodes, 1)) EXPECT_GE(PointOf(rank).dataset, promised) << rank;
  ExpectNothingLost(nodes.size());
}

// What it still holds of its launch changes nothing when it goes on.
TEST_F(LaunchFaultsTest, AHomeThatWakesAfterATakeOverChangesNothing) {
  StartThree();
  Job first = Start("a", {1, 2, 3}, 100'000, {"--no-check", "--flush-every", "1"});
  ASSERT_TRUE(AwaitPromises(PromisesOfRank(0), "prefix", 2));
  const int home = HomeOf(1);
  cluster_->PauseDaemon(home);
  const std::uint64_t committed = NewestPromised("prefix");
  const int one = 1 + home % 3, other = 1 + one % 3;
  // In its ranks' promises, besides those of the first job.
  const std::vector<std::string> said = Run("b", {one, other, one}, 0, {"--takeover", "--no-check"});
  for (const std::string& rank : said) EXPECT_GE(PointOf(rank).dataset, committed) << rank;
  const std::uint64_t step = PointOf(said[0]).step + 3;
  Run("c", {one, other, one}, step, {"--wait-busy", "--no-check", "--flush-every", "1"});
  const std::uint64_t newest = NewestOfRank(0, "prefix");
  cluster_->ResumeDaemon(home);
  for (const auto& rank : first.ranks) EXPECT_EQ(rank->Wait(kDeadline).exit_code, kShutOut);
  const std::string from = "resumed " + std::to_string(step) + " " + std::to_string(newest) + " ";
  EXPECT_THAT(Run("d", {1, 2, 3}, step, {"--wait-busy"}), Each(StartsWith(from)));
  EXPECT_THAT(Cairn(1, {"verify", cluster_->prefix()}), HasSubstr("ok"));
}

TEST_F(LaunchFaultsTest, CalendarsThatAreAnHourApartDoNotMatter) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's run-time wants to be loaded before what moves the calendar";
#endif
  StartDaemon(1, kKeepAll);
  StartDaemon(2, kKeepAll, Cluster::CalendarAhead(std::chrono::hours(1)));
  StartDaemon(3, kKeepAll, Cluster::CalendarAhead(-std::chrono::hours(1)));
  std::vector<int> nodes = {1, 2, 3};
  for (std::uint64_t step = 1; step <= 3; ++step) {
    const std::uint64_t newest = NewestOfRank(0);
    const std::string from =
        step == 1 ? "fresh" : "resumed " + std::to_string(step - 1) + " " + std::to_string(newest) + " ";
    EXPECT_THAT(Run("job." + std::to_string(step), nodes, step), Each(StartsWith(from)));
    std::ranges::rotate(nodes, nodes.begin() + 1);  // another home
  }
}

// On a file system of the test's own, which all nodes see since it is mounted before they are there.
class LaunchOnAFailingPrefixTest : public LaunchesOnNodes {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/fuse.XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    std::filesystem::create_directories(root_ + "/real");
    std::filesystem::create_directories(root_ + "/shown");
    CAIRN_MOUNT_OR_SKIP();
    prefix_ = root_ + "/shown";
    LaunchesOnNodes::SetUp();
  }
  void TearDown() override {
    cluster_.reset();
    folder_.reset();
    std::filesystem::remove_all(root_);
  }
  absl::Status MountFolder() {
    auto folder = FuseFolder::Mount(root_ + "/real", root_ + "/shown");
    if (folder.ok()) folder_ = *std::move(folder);
    return folder.status();
  }

  std::string root_;
  std::unique_ptr<FuseFolder> folder_;
};

TEST_F(LaunchOnAFailingPrefixTest, WhatIsLocalWaitsForThePrefixAndComesThere) {
  const int seconds = std::getenv("CAIRN_SOAK") != nullptr ? 60 : 10;
  StartThree();
  const std::vector<int> nodes = {1, 2, 3};
  Job job = Start("a", nodes, 6 * seconds, {"--flush-every", "6"});
  ASSERT_TRUE(AwaitPromises(PromisesOfRank(1), "prefix", 1));
  for (const std::uint32_t opcode : {FUSE_CREATE, FUSE_WRITE, FUSE_MKDIR, FUSE_RENAME2, FUSE_LINK}) {
    folder_->Fail({.opcode = opcode, .error = EROFS, .times = 1'000'000});
  }
  const std::size_t committed = ReadPromises(PromisesOfRank(0)).by_kind["prefix"].size();
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  EXPECT_LE(ReadPromises(PromisesOfRank(0)).by_kind["prefix"].size(), committed + 1) << "it did not fail";
  folder_->Release();
  End(std::move(job));
  ExpectNothingLost(nodes.size());
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    EXPECT_THAT(ReadPromises(PromisesOfRank(rank)).refused, IsEmpty()) << rank;
    EXPECT_EQ(NewestOfRank(rank, "prefix"), NewestOfRank(rank)) << rank;
  }
}

}  // namespace
}  // namespace cairn::testing
