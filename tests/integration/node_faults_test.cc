// What happens to the nodes of a run while jobs come and go on them: daemons are killed at any instant, stand still,
// are cut off, have clocks of their own, come back with old caches; launches race. Clients log outside the daemons what
// they were promised, and no restart is older than that. Instants are drawn from CAIRN_TEST_SEED; CAIRN_SOAK makes it
// long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "client/cairn.h"
#include "tests/integration/jobs_on_nodes.h"

namespace cairn::testing {
namespace {

using ::testing::StartsWith;

constexpr std::chrono::seconds kDeadline(60);
constexpr int kShutOut = 6;  // crash_client's exit code

class NodeFaultsTest : public JobsOnNodes {
 protected:
  void SetUp() override {
    JobsOnNodes::SetUp();
    std::cerr << "CAIRN_TEST_SEED=" << seed_ << "\n";
  }
  static int Rounds() { return std::getenv("CAIRN_SOAK") != nullptr ? 300 : 20; }
  std::uint64_t Draw(std::uint64_t below) {
    return std::uniform_int_distribution<std::uint64_t>(0, below - 1)(random_);
  }
  std::uint64_t NewestPromised(const std::string& kind) {
    std::uint64_t newest = 0;
    for (int node = 1; node <= cluster_->nodes(); ++node) {
      const auto promised = Promised(node, kind);
      if (!promised.empty()) newest = std::max(newest, promised.rbegin()->first);
    }
    return newest;
  }
  void StartAll() {
    for (int node = 1; node <= cluster_->nodes(); ++node) {
      if (cluster_->node(node).daemon() == nullptr) StartDaemon(node);
    }
  }

  const std::uint64_t seed_ = TestSeed();
  std::mt19937_64 random_{seed_};
};

// Numbers of datasets grow from launch to launch, so that a restart from a lower number than a promised one has lost
// that. All daemons come back before the next job begins. In half of the rounds it begins when all are linked: then
// what was local on any node is not lost. In the others links and coordinator are on their way, and what is on the
// prefix is not lost.
TEST_F(NodeFaultsTest, NoPromiseIsLostWhoeverIsKilledAtAnyInstant) {
  std::uint64_t steps = 0;
  int moved = 0;
  StartAll();
  for (int node = 1; node <= 3; ++node) Compute(node, ++steps);
  for (int round = 1; round <= Rounds(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round) + ", CAIRN_TEST_SEED=" + std::to_string(seed_));
    StartAll();
    const bool linked = Draw(2) == 0;
    if (linked) {
      ASSERT_TRUE(AwaitLinked());
    }
    const int node = 1 + static_cast<int>(Draw(3));
    const std::uint64_t promised = NewestPromised(linked ? "local" : "prefix");
    const auto before = Promised(node, "captured");
    auto job = cluster_->StartProgram(
        node, Client(node, steps + 1 + Draw(12), {"--wait-busy", "--no-check", "--flush-every", "4"}));
    ASSERT_NE(job, nullptr);
    if (Draw(4) != 0) {  // else it is killed while it begins, with its membership and its launch
      ASSERT_TRUE(job->WaitForOutput("\n", kDeadline)) << job->Wait(std::chrono::seconds(0)).output;
    }
    LetItWorkFor(std::chrono::microseconds(Draw(400'000)));
    for (int other = 1; other <= 3; ++other) {
      if (other == node || Draw(2) == 0) cluster_->node(other).KillDaemon();
    }
    job->Signal(SIGKILL);
    const std::string said = job->Wait(kDeadline).output;
    if (said.empty()) continue;
    const Point from = PointOf(said);
    EXPECT_GE(from.dataset, promised) << said;
    moved += from.tier == CAIRN_TIER_CACHE && !before.contains(from.dataset);
    steps = std::max(from.step, steps);
    for (const auto& [dataset, step] : Promised(node, "captured")) steps = std::max(steps, step);
  }
  std::cerr << moved << " restarts from another node's checkpoint\n";
  EXPECT_GT(moved, 0) << "nothing was ever brought: this tests nothing";
}

TEST_F(NodeFaultsTest, OfLaunchesThatTakeOverFromEachOtherOneHistoryComes) {
  StartAll();
  for (int round = 1; round <= (std::getenv("CAIRN_SOAK") != nullptr ? 50 : 4); ++round) {
    SCOPED_TRACE("round " + std::to_string(round) + ", CAIRN_TEST_SEED=" + std::to_string(seed_));
    std::vector<std::unique_ptr<Process>> jobs;
    for (int node = 1; node <= 3; ++node) {
      jobs.push_back(
          cluster_->StartProgram(node, Client(node, 1'000'000, {"--takeover", "--no-check", "--flush-every", "1"})));
      LetItWorkFor(std::chrono::microseconds(Draw(300'000)));
    }
    const auto living = [&jobs] { return std::ranges::count_if(jobs, [](const auto& job) { return job->running(); }); };
    for (const auto end = std::chrono::steady_clock::now() + kDeadline;
         living() > 1 && std::chrono::steady_clock::now() < end;) {
      LetItWorkFor(std::chrono::milliseconds(20));
    }
    EXPECT_EQ(living(), 1) << "of three launches, each of which has taken over";
    for (int node = 1; node <= 3; ++node) {
      Process& job = *jobs[static_cast<std::size_t>(node - 1)];
      if (job.running()) {
        EXPECT_TRUE(AwaitPromises(PromisesOf(node), "prefix", Promised(node, "prefix").size() + 1)) << node;
      } else {
        EXPECT_EQ(job.Wait(kDeadline).exit_code, kShutOut);
      }
      job.Signal(SIGKILL);
    }
    const std::uint64_t committed = NewestPromised("prefix");
    EXPECT_GE(PointOf(Compute(1 + static_cast<int>(Draw(3)), 1)).dataset, committed);
  }
}

TEST_F(NodeFaultsTest, ADaemonThatWakesAfterItsLaunchWasTakenOverChangesNothing) {
  StartAll();
  auto first = cluster_->StartProgram(1, Client(1, 1'000'000, {"--no-check", "--flush-every", "1"}));
  ASSERT_NE(first, nullptr);
  ASSERT_TRUE(AwaitPromises(PromisesOf(1), "prefix", 2));
  cluster_->PauseDaemon(1);
  const std::uint64_t committed = Promised(1, "prefix").rbegin()->first;
  const Point from = PointOf(Compute(2, 0));
  EXPECT_GE(from.dataset, committed);
  const std::uint64_t last_step = from.step + 3;
  Compute(2, last_step, {"--wait-busy", "--flush-every", "1"});
  const std::uint64_t newest = Promised(2, "prefix").rbegin()->first;
  cluster_->ResumeDaemon(1);
  EXPECT_EQ(first->Wait(kDeadline).exit_code, kShutOut);
  EXPECT_THAT(Compute(3, 1), StartsWith("resumed " + std::to_string(last_step) + " " + std::to_string(newest)));
  EXPECT_THAT(Compute(1, 1), StartsWith("resumed " + std::to_string(last_step) + " " + std::to_string(newest)));
}

TEST_F(NodeFaultsTest, AnOldCacheThatComesBackIsNotTheNewestHoweverHighItsSteps) {
  StartAll();
  Compute(1, 1, {"--wait-busy", "--flush-every", "1"});
  Compute(1, 9, {"--wait-busy", "--no-check"});  // the cache keeps the newest ones
  cluster_->PowerOff(1);
  EXPECT_THAT(Compute(2, 3), StartsWith("resumed 1 ")) << "node 1 alone had more";
  const std::uint64_t newest = Newest(2);
  cluster_->PowerOn(1);
  StartDaemon(1);
  EXPECT_THAT(Compute(3, 3), StartsWith(Resumed(3, newest, CAIRN_TIER_CACHE)));
  EXPECT_THAT(Compute(1, 3), StartsWith(Resumed(3, newest, CAIRN_TIER_CACHE)));
}

TEST_F(NodeFaultsTest, ANodeThatIsCutOffGoesOnWithThePrefixAndHasItsPlaceAgainAfterwards) {
  StartAll();
  Compute(1, 2, {"--wait-busy", "--flush-every", "1"});
  const std::uint64_t committed = Newest(1);
  Compute(1, 4);
  const std::uint64_t local = Newest(1);
  cluster_->Cut(2);
  EXPECT_THAT(Compute(2, 2), StartsWith("resumed 2 " + std::to_string(committed)));
  cluster_->Heal();
  EXPECT_THAT(Compute(3, 4), StartsWith(Resumed(4, local, CAIRN_TIER_CACHE))) << "node 2 has added nothing";
}

TEST_F(NodeFaultsTest, CalendarsThatAreAnHourApartDoNotMatter) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's run-time wants to be loaded before what moves the calendar";
#endif
  StartDaemon(1);
  StartDaemon(2, {"--flush-every", "0"}, Cluster::CalendarAhead(std::chrono::hours(1)));
  StartDaemon(3, {"--flush-every", "0"}, Cluster::CalendarAhead(-std::chrono::hours(1)));
  Compute(1, 2);
  EXPECT_THAT(Compute(2, 4), StartsWith(Resumed(2, Newest(1), CAIRN_TIER_CACHE)));
  EXPECT_THAT(Compute(3, 6), StartsWith(Resumed(4, Newest(2), CAIRN_TIER_CACHE)));
  EXPECT_THAT(Compute(1, 6), StartsWith(Resumed(6, Newest(3), CAIRN_TIER_CACHE)));
}

}  // namespace
}  // namespace cairn::testing
