// A run's nodes of which the node was lost that coordinated them, while new nodes come that do not know who has what.
// For tests.
#ifndef CAIRN_TESTS_DAEMON_CORE_TAKE_OVER_FIXTURE_H_
#define CAIRN_TESTS_DAEMON_CORE_TAKE_OVER_FIXTURE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/redundancy_fixture.h"

namespace cairn {

// Node 0 coordinates. Nodes 1 and 2 have the ranks of the job; nodes 3 and 4 are for the next one.
class TakeOverTest : public RedundancyTest {
 protected:
  using milliseconds = std::chrono::milliseconds;
  using seconds = std::chrono::seconds;
  static constexpr seconds kTerm{12};
  static constexpr seconds kSoon{4};                             // sooner than a table is waited for
  static constexpr std::uint64_t kOnThePrefix = 3, kNewest = 5;  // steps

  TakeOverTest() : RedundancyTest(5) {}
  void SetUp() override {
    for (int i = 0; i < nodes.count(); ++i) {
      nodes[i].config.flush.every = 0;
      nodes[i].config.lease.term_ms = 10'000;
      nodes[i].config.peers.term_ms = static_cast<std::uint64_t>(milliseconds(kTerm).count());
      nodes[i].config.redundancy.scheme = "partner";
    }
  }
  void TearDown() override {
    if (nodes[3].running()) nodes[3].PrefixHangs(false);
    RedundancyTest::TearDown();
  }
  void RanksAt(int first, int second) {
    for (Rank rank = 0; rank < kMany; ++rank) moved_to[rank] = rank % 2 == 0 ? first : second;
  }
  void CoordinateAtZero() {
    nodes[0].Start();
    FakeClient before(nodes[0]);
    ASSERT_SAYS(before.Open({.key = "job.0"}), local::OK, "");
    ASSERT_SAYS(before.Close(), local::OK, "");
    nodes.Pass(seconds(1));
  }
  // One step is on the prefix, the newest one in the caches of the job's nodes only.
  void MakeSteps(int first, int second) {
    ASSERT_NO_FATAL_FAILURE(CoordinateAtZero());
    for (const int node : {1, 2}) nodes[node].Start();
    RanksAt(first, second);
    ASSERT_NO_FATAL_FAILURE(OpenMany("slurm:7.0.0"));
    const DatasetId old = Redundant(kOnThePrefix);
    ASSERT_EQ(nodes[first].Flush(old).code(), local::OK);
    EXPECT_SAYS(clients[0]->Wait(old, local::PREFIX), local::OK, "");
    newest = Redundant(kNewest);
    nodes.Pass(seconds(3));
    clients.clear();
  }
  // The same, and one node has all of it.
  void MakeStepsOnNode(int node) {
    for (int i = 0; i < nodes.count(); ++i) nodes[i].config.redundancy.scheme = "single";
    ASSERT_NO_FATAL_FAILURE(CoordinateAtZero());
    nodes[node].Start();
    RanksAt(node, node);
    ASSERT_NO_FATAL_FAILURE(OpenMany("slurm:7.0.0"));
    ASSERT_NO_FATAL_FAILURE(MakeStepOnThePrefix(node));
    newest = Checkpoint(kNewest);
    EXPECT_SAYS(clients[0]->Wait(newest, local::LOCAL), local::OK, "");
    nodes.Pass(seconds(3));
    clients.clear();
  }
  void CutOffFromTheCoordinator(int node) {
    nodes.network.Block(nodes[0].address(), nodes[node].address());
    nodes.network.Block(nodes[node].address(), nodes[0].address());
    PassFor(kTerm);
  }
  void EndInGoodOrder(int node) {
    const auto ended = nodes[node].Quiesce();
    ASSERT_TRUE(nodes.AdvanceUntil([&] { return ended->has_value(); }));
    PassFor(milliseconds(500));  // then the others know it
    nodes[node].Kill();
  }
  void GoesOnAfterSilences(int count) {
    ASSERT_NO_FATAL_FAILURE(MakeStepsOnNode(1));
    nodes[0].Kill();
    nodes[3].Start();
    RanksAt(3, 3);
    const std::uint64_t call = SendOpen(180'000);
    nodes.Pass(seconds(3));
    for (int i = 0; i < count; ++i) {
      for (const int node : {1, 3}) nodes[node].PrefixHangs(true);
      nodes.Pass(seconds(20));
      EXPECT_FALSE(clients[0]->HasReply(call));
      for (const int node : {1, 3}) nodes[node].PrefixHangs(false);
      nodes.Pass(milliseconds(500));
    }
    ASSERT_SAYS(clients[0]->Next(call), local::OK, "");
    ASSERT_NO_FATAL_FAILURE(OpenOtherRanks());
    EXPECT_EQ(RestoreLatest().step, kNewest);
  }
  void PassFor(milliseconds time) {
    nodes.loop().After(time, [] {});  // else it goes on to a daemon's next timer, or stands still
    nodes.Pass(time);
  }
  // A step that is nowhere else. Rank 0 is at this node.
  void MakeStepOnThePrefix(int node) {
    const DatasetId old = Checkpoint(kOnThePrefix);
    ASSERT_EQ(nodes[node].Flush(old).code(), local::OK);
    EXPECT_SAYS(clients[0]->Wait(old, local::PREFIX), local::OK, "");
  }
  // What a run on one node has left, whose daemon coordinates.
  void MakeStepOnOneNode() {
    nodes[0].Start();
    RanksAt(0, 0);
    ASSERT_NO_FATAL_FAILURE(OpenMany("slurm:7.0.0"));
    ASSERT_NO_FATAL_FAILURE(MakeStepOnThePrefix(0));
    nodes.Pass(seconds(1));
    clients.clear();
  }
  // The same; that daemon lives, and cannot be reached.
  void LeaveStepOnThePrefix() {
    ASSERT_NO_FATAL_FAILURE(MakeStepOnOneNode());
    nodes.network.Vanish(nodes[0].address());
    nodes[3].Start();
  }
  // The prefix answers node 3 only every so often, but then all that was asked.
  milliseconds OpenWherePrefixAnswersEvery(milliseconds pause, std::uint32_t deadline_ms) {
    const auto began = nodes.now();
    nodes[3].PrefixHangs(true);
    const std::uint64_t call = SendOpen(deadline_ms);
    while (!clients[0]->HasReply(call)) {
      PassFor(pause);
      nodes[3].PrefixHangs(false);
      PassFor(milliseconds(1));
      nodes[3].PrefixHangs(true);
    }
    EXPECT_SAYS(clients[0]->Next(call), local::OK, "");
    return std::chrono::duration_cast<milliseconds>(nodes.now() - began);
  }
  // On nodes 3 and 4, whose daemons are new.
  milliseconds OpenOnNewNodes(const std::string& key = "slurm:7.0.1", int second = 4) {
    const auto began = nodes.now();
    for (const int node : {3, 4}) {
      if (!nodes[node].running()) nodes[node].Start();
    }
    RanksAt(3, second);
    OpenMany(key);
    return std::chrono::duration_cast<milliseconds>(nodes.now() - began);
  }
  // The node has ended, and the others know it no more: the next launch begins soon, from this step.
  std::uint64_t GoOnAfterTheEndOf(int node) {
    EndInGoodOrder(node);
    EXPECT_LE(OpenOnNewNodes("slurm:7.0.1", /*second=*/3), kSoon);
    return RestoreLatest().step;
  }
  // As a warning names it that made the newest launch.
  std::string UnheardMaker(int node) { return "not heard of " + nodes[node].host() + " (process "; }
  // The first rank.
  std::uint64_t SendOpen(std::uint32_t deadline_ms, int node = 3) {
    clients.push_back(std::make_unique<FakeClient>(nodes[node]));
    local::Request request;
    request.set_deadline_ms(deadline_ms);
    request.mutable_open()->set_prefix(nodes[node].prefix());
    request.mutable_open()->set_nranks(kMany);
    request.mutable_open()->set_launch_key("slurm:7.0.1");
    return clients[0]->Send(std::move(request));
  }
  // After it.
  void OpenOtherRanks() {
    for (Rank rank = 1; rank < kMany; ++rank) {
      clients.push_back(std::make_unique<FakeClient>(nodes[NodeOf(rank)]));
      ASSERT_SAYS(clients.back()->Open({.rank = rank, .nranks = kMany, .key = "slurm:7.0.1"}), local::OK, "");
    }
  }

  DatasetId newest = 0;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_TAKE_OVER_FIXTURE_H_
