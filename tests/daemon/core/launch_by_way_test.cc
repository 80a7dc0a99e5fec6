// A launch over nodes of which only one has a connection to the home: the others reach it by way of each other
// (daemon/relay).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/simulated_nodes.h"

namespace cairn {
namespace {

using ::testing::AnyOf;

constexpr int kNodes = 5;

Memory MemoryOf(Rank rank, std::uint64_t step) {
  return {PlainOf(1, RandomBytes(1000 * step + rank, 5'000 + 100 * rank))};
}

// Rank r runs on node r; the first one is the home.
class LaunchByWayTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < kNodes; ++i) nodes[i].config.peers.fan_in = 1;
    nodes.StartAll();
  }
  void TearDown() override { clients.clear(); }

  void Open(const std::string& key) {
    clients.clear();
    for (int i = 0; i < kNodes; ++i) {
      clients.push_back(std::make_unique<FakeClient>(nodes[i]));
      const local::Reply opened = clients[i]->Open({.rank = static_cast<Rank>(i), .nranks = kNodes, .key = key});
      ASSERT_EQ(CodeOfReply(opened), local::OK) << i << ": " << opened.status().message();
    }
  }
  void Everybody(const std::function<void(Rank rank)>& does) {
    std::vector<std::function<void()>> all;
    for (Rank rank = 0; rank < kNodes; ++rank) all.push_back([&does, rank] { does(rank); });
    nodes.Together(std::move(all));
  }
  // All ranks at once, and something besides. The dataset, or 0.
  DatasetId Checkpoint(
      std::uint64_t step, const std::function<void()>& meanwhile = [] {}) {
    DatasetId id = 0;
    std::vector<std::function<void()>> all;
    for (Rank rank = 0; rank < kNodes; ++rank) {
      all.push_back([this, rank, step, &id] {
        const local::Reply committed = clients[rank]->Checkpoint(step, MemoryOf(rank, step));
        ASSERT_EQ(CodeOfReply(committed), local::OK) << rank << ": " << committed.status().message();
        ASSERT_EQ(CodeOfReply(clients[rank]->Wait(committed.committed().dataset(), local::LOCAL)), local::OK) << rank;
        id = committed.committed().dataset();
      });
    }
    all.push_back(meanwhile);
    nodes.Together(std::move(all));
    return id;
  }
  void ExpectRestored(DatasetId id, std::uint64_t step) {
    Everybody([&](Rank rank) {
      Memory memory = Blank(MemoryOf(rank, step));
      EXPECT_EQ(clients[rank]->Latest().latest().dataset(), id);
      const FakeClient::Restored restored = clients[rank]->Restore(id, memory);
      EXPECT_EQ(restored.code, local::OK) << rank << ": " << restored.message;
      EXPECT_THAT(restored.tier, AnyOf(local::TIER_IMAGE, local::TIER_CACHE)) << rank;
      EXPECT_EQ(memory[0].bytes, MemoryOf(rank, step)[0].bytes) << rank;
    });
  }

  SimulatedNodes nodes{21, kNodes};
  std::vector<std::unique_ptr<FakeClient>> clients;
};

TEST_F(LaunchByWayTest, ItWorksAsIfAllHadAConnection) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  const auto links = nodes.network.links();
  const auto to_home =
      std::ranges::count_if(links, [this](const auto& link) { return link.second == nodes[0].address(); });
  EXPECT_LE(to_home, 3) << "one of the launch, two of the members' tree";
  DatasetId id = 0;
  for (std::uint64_t step : {1, 2}) id = Checkpoint(step);
  ASSERT_NE(id, 0u);
  Everybody([&](Rank rank) { EXPECT_EQ(CodeOfReply(clients[rank]->Wait(id, local::PREFIX)), local::OK) << rank; });
  Everybody([&](Rank rank) { EXPECT_EQ(CodeOfReply(clients[rank]->Close()), local::OK) << rank; });
  ASSERT_NO_FATAL_FAILURE(Open("job.2"));
  ExpectRestored(id, 2);
}

TEST_F(LaunchByWayTest, BrokenConnectionsCostNoCheckpoint) {
  ASSERT_NO_FATAL_FAILURE(Open("job.1"));
  DatasetId id = 0;
  for (std::uint64_t step = 1; step <= 30; ++step) {
    id = Checkpoint(step, [this, step] {
      for (int cut = 0; cut < 4; ++cut) {
        nodes.PassInScript(static_cast<int>(30 + 7 * step));
        for (int i = 0; i < kNodes; ++i) {
          nodes.network.BreakLinks(nodes[(cut + step) % kNodes].address(), nodes[i].address());
        }
      }
    });
    ASSERT_NE(id, 0u) << "step " << step;
  }
  for (const auto& client : clients) EXPECT_FALSE(client->closed());
  ExpectRestored(id, 30);
}

}  // namespace
}  // namespace cairn
