// A launch of four ranks over two nodes, or more, in one thread; for tests.
#ifndef CAIRN_TESTS_DAEMON_CORE_LAUNCH_OVER_NODES_H_
#define CAIRN_TESTS_DAEMON_CORE_LAUNCH_OVER_NODES_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/simulated_nodes.h"

namespace cairn {

inline constexpr std::uint32_t kRanks = 4;

inline Memory MemoryOf(Rank rank, std::uint64_t step, std::size_t bytes = 10'000) {
  return {PlainOf(1, RandomBytes(1000 * step + rank, bytes + 100 * rank)), ValueOf(2, "step", step)};
}

// Rank r runs on node r modulo the number of nodes, unless it was moved; node 0 is the launch's home.
class LaunchOverNodesTest : public ::testing::Test {
 protected:
  explicit LaunchOverNodesTest(int count = 2) : nodes(7, count) {}
  void SetUp() override { nodes.StartAll(); }
  void TearDown() override { clients.clear(); }

  int NodeOf(Rank rank) const {
    const auto moved = moved_to.find(rank);
    return moved != moved_to.end() ? moved->second : static_cast<int>(rank) % nodes.count();
  }
  void Open(const std::string& key, std::uint32_t nranks = kRanks) {
    clients.clear();
    for (Rank rank = 0; rank < nranks; ++rank) {
      clients.push_back(std::make_unique<FakeClient>(nodes[NodeOf(rank)]));
      const local::Reply opened = clients[rank]->Open({.rank = rank, .nranks = nranks, .key = key});
      ASSERT_EQ(CodeOfReply(opened), local::OK) << rank << ": " << opened.status().message();
      EXPECT_EQ(clients[rank]->launch(), clients[0]->launch());
    }
  }
  void Close() {
    for (const auto& client : clients) EXPECT_EQ(CodeOfReply(client->Close()), local::OK);
    clients.clear();
  }
  // All ranks; the dataset, or 0.
  DatasetId Checkpoint(std::uint64_t step) {
    DatasetId id = 0;
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      const local::Reply committed = clients[rank]->Checkpoint(step, MemoryOf(rank, step));
      EXPECT_EQ(CodeOfReply(committed), local::OK) << rank << ": " << committed.status().message();
      if (CodeOfReply(committed) != local::OK) return 0;
      EXPECT_TRUE(rank == 0 || committed.committed().dataset() == id);
      id = committed.committed().dataset();
    }
    return id;
  }
  // What the ranks need to come again.
  void RememberSessions() {
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      if (!clients[rank]) continue;
      launch = clients[rank]->launch();
      tokens[rank] = clients[rank]->token();
    }
  }
  // All connections to the node's daemon are gone; where it is the home, those of the other's ranks, too.
  void KillNode(int node) {
    RememberSessions();
    nodes[node].Kill();
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      if (NodeOf(rank) == node) clients[rank] = nullptr;
    }
    nodes[node].cache.Restart(3);
    if (node != 0) return;
    ASSERT_TRUE(nodes.AdvanceUntil([this] {
      return std::ranges::all_of(clients, [](const auto& client) { return !client || client->closed(); });
    })) << "their clients are to come again";
  }
  void ComeAgain(Rank rank, ClientOptions options = {}) {
    clients[rank] = std::make_unique<FakeClient>(nodes[NodeOf(rank)], options);
    const local::Reply opened = clients[rank]->Open({.rank = rank,
                                                     .nranks = static_cast<std::uint32_t>(clients.size()),
                                                     .key = "",
                                                     .launch = launch,
                                                     .token = tokens[rank]});
    ASSERT_EQ(CodeOfReply(opened), local::OK) << rank << ": " << opened.status().message();
  }
  // `near`: what serves ranks of the home. The step is a value, which comes from rank 0's file.
  void ExpectRestored(DatasetId id, std::uint64_t step, local::Tier near, local::Tier far) {
    std::vector<Memory> memory;
    std::vector<std::function<void()>> restores;
    std::vector<FakeClient::Restored> restored(clients.size());
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      memory.push_back(Blank(MemoryOf(rank, step)));
      const local::Reply latest = clients[rank]->Latest();
      ASSERT_EQ(CodeOfReply(latest), local::OK) << latest.status().message();
      EXPECT_EQ(latest.latest().dataset(), id);
      EXPECT_EQ(latest.latest().step(), step);
    }
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      restores.push_back([&, rank] { restored[rank] = clients[rank]->Restore(id, memory[rank]); });
    }
    nodes.Together(std::move(restores));
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      EXPECT_EQ(restored[rank].code, local::OK) << rank << ": " << restored[rank].message;
      EXPECT_EQ(restored[rank].tier, NodeOf(rank) == 0 ? near : far) << rank;
      const Memory wanted = MemoryOf(rank, step);
      for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(memory[rank][i].bytes, wanted[i].bytes) << rank;
    }
  }

  SimulatedNodes nodes;
  std::map<Rank, int> moved_to;
  std::vector<std::unique_ptr<FakeClient>> clients;
  LaunchId launch = 0;
  std::map<Rank, std::string> tokens;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_LAUNCH_OVER_NODES_H_
