// Datasets that are redundant over simulated nodes, and what becomes of them. Nothing is ever flushed by itself here,
// so that what comes back comes from redundancy. For tests.
#ifndef CAIRN_TESTS_DAEMON_CORE_REDUNDANCY_FIXTURE_H_
#define CAIRN_TESTS_DAEMON_CORE_REDUNDANCY_FIXTURE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "storage/base/status.h"
#include "storage/io/disk.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/launch_over_nodes.h"
#include "tests/daemon/core/simulated_nodes.h"
#include "tests/support/status_matchers.h"

namespace cairn {

class RedundancyTest : public LaunchOverNodesTest {
 protected:
  static constexpr std::uint32_t kMany = 6;
  explicit RedundancyTest(int count = kMany) : LaunchOverNodesTest(count) {}
  void SetUp() override {}
  void TearDown() override {
    nodes.prefix.SetHook(nullptr);
    LaunchOverNodesTest::TearDown();
  }

  void Start(const std::string& scheme, std::uint32_t members = 6) {
    for (int i = 0; i < nodes.count(); ++i) {
      nodes[i].config.flush.every = 0;
      nodes[i].config.lease.term_ms = 10'000;  // of a home that is lost it is waited for
      nodes[i].config.redundancy.scheme = scheme;
      nodes[i].config.redundancy.members = members;
    }
    nodes.StartAll();
  }
  void OpenMany(const std::string& key) { Open(key, kMany); }
  DatasetId Redundant(std::uint64_t step) {
    const DatasetId id = Checkpoint(step);
    EXPECT_NE(id, 0u);
    for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::REDUNDANT), local::OK, "");
    return id;
  }
  // They do not come again; their ranks run on the next node that is left.
  void Lose(const std::set<int>& lost) {
    clients.clear();
    for (const int node : lost) {
      if (nodes[node].running()) nodes[node].Kill();
    }
    for (Rank rank = 0; rank < kMany; ++rank) {
      int node = static_cast<int>(rank) % nodes.count();
      while (lost.contains(node)) node = (node + 1) % nodes.count();
      moved_to[rank] = node;
    }
    nodes.Pass(std::chrono::minutes(5));  // leases end, and members are given up
  }
  struct Back {
    DatasetId id = 0;
    std::uint64_t step = 0;
    std::vector<FakeClient::Restored> ranks;
  };
  // What `cairn_latest` says, restored; each rank has what it had at that step.
  Back RestoreLatest() {
    Back back;
    back.ranks.resize(clients.size());
    for (const auto& client : clients) {
      const local::Reply latest = client->Latest();
      EXPECT_EQ(CodeOfReply(latest), local::OK) << latest.status().message();
      back.id = latest.latest().dataset();
      back.step = latest.latest().step();
    }
    std::vector<Memory> memory;
    std::vector<std::function<void()>> restores;
    for (Rank rank = 0; rank < clients.size(); ++rank) memory.push_back(Blank(MemoryOf(rank, back.step)));
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      restores.push_back([&, rank] { back.ranks[rank] = clients[rank]->Restore(back.id, memory[rank]); });
    }
    nodes.Together(std::move(restores));
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      EXPECT_EQ(back.ranks[rank].code, local::OK) << rank << ": " << back.ranks[rank].message;
      const Memory wanted = MemoryOf(rank, back.step);
      for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(memory[rank][i].bytes == wanted[i].bytes) << rank;
    }
    return back;
  }
  // All are told to ask again, since a part is damaged.
  void RestoreInVain(DatasetId id, std::uint64_t step) {
    std::vector<std::function<void()>> restores;
    for (Rank rank = 0; rank < kMany; ++rank) {
      EXPECT_EQ(clients[rank]->Latest().latest().dataset(), id);
      restores.push_back([this, rank, id, step] {
        Memory memory = Blank(MemoryOf(rank, step));
        EXPECT_EQ(clients[rank]->Restore(id, memory).code, local::RETRY);
      });
    }
    nodes.Together(std::move(restores));
  }
  // After these nodes were lost all ranks are back at `step`, those of these nodes rebuilt.
  void ExpectBackWithout(const std::set<int>& lost, DatasetId id, std::uint64_t step) {
    Lose(lost);
    ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
    const Back back = RestoreLatest();
    EXPECT_EQ(back.id, id);
    EXPECT_EQ(back.step, step);
    for (Rank rank = 0; rank < kMany; ++rank) {
      const bool gone = lost.contains(static_cast<int>(rank) % nodes.count());
      // The step is a value, which comes from rank 0's file.
      const local::Tier wanted = gone || lost.contains(0) ? local::TIER_REBUILT : back.ranks[rank].tier;
      EXPECT_EQ(back.ranks[rank].tier, wanted) << "rank " << rank;
      EXPECT_NE(back.ranks[rank].tier, local::TIER_PREFIX);
      if (!gone && !lost.contains(0)) {
        EXPECT_LE(back.ranks[rank].tier, local::TIER_PARTNER) << "rank " << rank;
      }
    }
  }
};

// A file of the dataset in the node's cache, by a part of its name; empty: none.
inline std::string FindFile(SimulatedNodes::Node& node, DatasetId id, const std::string& part) {
  const std::string folder = node.FolderOf(id);
  for (const std::string& in : {folder, folder + "/.scr"}) {
    const auto names = node.cache.List(in);
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      if (name.find(part) != std::string::npos) return in + "/" + name;
    }
  }
  return "";
}

inline void Damage(SimulatedNodes::Node& node, const std::string& path) {
  ASSERT_NE(path, "");
  ASSERT_OK_AND_ASSIGN(const auto file, node.cache.Open(path, {.writable = true}));
  ASSERT_OK_AND_ASSIGN(const FileInfo info, file->Info());
  std::byte last{};
  ASSERT_OK(file->ReadAt(info.bytes - 1, std::span(&last, 1)));
  last ^= std::byte{1};
  ASSERT_OK(file->WriteAt(info.bytes - 1, std::span(&last, 1)));
}

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_REDUNDANCY_FIXTURE_H_
