// Outputs of files by ranks on several nodes, on simulated ones.
#ifndef CAIRN_TESTS_DAEMON_CORE_OUTPUTS_OVER_NODES_H_
#define CAIRN_TESTS_DAEMON_CORE_OUTPUTS_OVER_NODES_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/prefix.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/launch_over_nodes.h"
#include "tests/daemon/core/simulated_nodes.h"
#include "tests/support/status_matchers.h"

namespace cairn {

// Ranks 0 and 3 are on the home's node, 1 and 2 on a node each.
class OutputsOverNodesTest : public LaunchOverNodesTest {
 protected:
  OutputsOverNodesTest() : LaunchOverNodesTest(3) {}
  void TearDown() override {
    nodes.network.on_send = nullptr;
    nodes.prefix.SetHook(nullptr);
    LaunchOverNodesTest::TearDown();
  }

  static std::string NameOf(Rank rank) { return "out/rank" + std::to_string(rank) + ".dat"; }
  static std::string BytesOf(std::uint64_t step, Rank rank) { return RandomBytes(step * 100 + rank, 30'000 + rank); }
  static std::string AtPrefix(const std::string& name) { return std::string(SimulatedNodes::kPrefix) + "/" + name; }

  DatasetId Begin(std::uint64_t step, bool checkpoint = false, bool growing = false) {
    DatasetId id = 0;
    for (const auto& client : clients) {
      const local::Reply begun = client->OutputBegin(step, checkpoint, !checkpoint, growing);
      EXPECT_SAYS(begun, local::OK, "");
      EXPECT_TRUE(id == 0 || begun.output_begin().dataset() == id);
      id = begun.output_begin().dataset();
    }
    return id;
  }
  void Write(Rank rank, const std::string& path, const std::string& bytes) {
    FakeDisk& disk = nodes[NodeOf(rank)].cache;
    ASSERT_OK(MakeDirectories(disk, ParentOf(path)));
    ASSERT_OK(ReplaceFile(disk, path, bytes));
  }
  // Routed, and written by the application where it was told.
  void Put(Rank rank, const std::string& name, const std::string& bytes) {
    const local::Reply routed = clients[rank]->RouteFile(name);
    ASSERT_SAYS(routed, local::OK, "");
    Write(rank, routed.route_file().path(), bytes);
  }
  void PutAll(std::uint64_t step) {
    for (Rank rank = 0; rank < clients.size(); ++rank) Put(rank, NameOf(rank), BytesOf(step, rank));
  }
  void EndAll() {
    for (const auto& client : clients) EXPECT_SAYS(client->OutputEnd(), local::OK, "");
  }
  DatasetId Make(std::uint64_t step, bool checkpoint = false) {
    const DatasetId id = Begin(step, checkpoint);
    PutAll(step);
    EndAll();
    return id;
  }

  std::string OnPrefix(const std::string& name) {
    const auto bytes = ReadWhole(nodes.prefix, AtPrefix(name), 1 << 20);
    return bytes.ok() ? *bytes : std::string(MessageOf(bytes.status()));
  }
  bool IsCommitted(DatasetId id) {
    const auto prefix = Prefix::OpenReadOnly(nodes.prefix, SimulatedNodes::kPrefix);
    EXPECT_OK(prefix.status());
    const auto contents = (*prefix)->Contents();
    EXPECT_OK(contents.status());
    return contents.ok() && contents->datasets.contains(id);
  }
  // As one dataset, with nothing beside its files.
  void ExpectOnPrefix(DatasetId id, std::uint64_t step) {
    EXPECT_TRUE(IsCommitted(id));
    std::vector<std::string> names;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      EXPECT_TRUE(OnPrefix(NameOf(rank)) == BytesOf(step, rank)) << "rank " << rank;
      names.push_back(BaseOf(NameOf(rank)));
    }
    const auto listed = nodes.prefix.List(AtPrefix("out"));
    ASSERT_OK(listed.status());
    EXPECT_EQ(*listed, names);
  }
  // From now on, until ClearFaults.
  void FailOnPrefix(const std::string& path_part, FakeOp op = FakeOp::kAny) {
    nodes.prefix.FailOn({.op = op, .path_part = path_part, .times = 1'000'000, .status = ResourceExhausted("no room")});
  }
  void FailCommits() { FailOnPrefix("commit.cairn", FakeOp::kLink); }
  bool AwaitFailedTry() {
    return nodes.AdvanceUntil([this] { return nodes[0].Warnings().find("next try in") != std::string::npos; });
  }
  // There is no way to the home for so long that nobody waits for one any more.
  void EndLinkOf(Rank rank) {
    const std::string there = nodes[NodeOf(rank)].address(), home = nodes[0].address();
    nodes.network.Block(there, home);
    nodes.network.Block(home, there);
    nodes.network.BreakLinks(there, home);
    ASSERT_TRUE(nodes.AdvanceUntil([&] { return clients[rank]->closed(); }));
    nodes.network.UnblockAll();
  }
  void ComeAgainOn(int node) {
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      if (NodeOf(rank) != node) continue;
      ASSERT_NO_FATAL_FAILURE(ComeAgain(rank));
    }
  }
  std::vector<FakeClient::Restored> RestoreAll(DatasetId id) {
    std::vector<FakeClient::Restored> restored(clients.size());
    std::vector<std::function<void()>> all;
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      all.push_back([this, id, rank, &restored] {
        Memory none;
        restored[rank] = clients[rank]->Restore(id, none);
      });
    }
    nodes.Together(std::move(all));
    return restored;
  }
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_OUTPUTS_OVER_NODES_H_
