// What goes from node to node for copies of checkpoints of which little has changed.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/daemon/core/redundancy_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr std::size_t kMiB = 1 << 20;

class RedundancySendingTest : public RedundancyTest {
 protected:
  void SetUp() override {
    RedundancyTest::SetUp();
    nodes.files.on_read = [this](const std::string&, std::uint64_t bytes) { sent_ += bytes; };
  }
  // Of four MiB each step changes one.
  static Memory MemoryAt(Rank rank, std::uint64_t step) {
    std::string bytes = RandomBytes(rank, 4 * kMiB);
    bytes.replace(step % 3 * kMiB + 100, 1000, RandomBytes(1000 * step + rank, 1000));
    return {PlainOf(1, std::move(bytes))};
  }
  // What has gone for it.
  std::uint64_t SentFor(std::uint64_t step) {
    sent_ = 0;
    id_ = 0;
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      const local::Reply committed = clients[rank]->Checkpoint(step, MemoryAt(rank, step));
      EXPECT_EQ(CodeOfReply(committed), local::OK) << committed.status().message();
      id_ = committed.committed().dataset();
    }
    for (const auto& client : clients) EXPECT_SAYS(client->Wait(id_, local::REDUNDANT), local::OK, "");
    return sent_;
  }
  void ExpectBack(std::uint64_t step) {
    std::vector<Memory> memory;
    std::vector<std::function<void()>> restores;
    std::vector<FakeClient::Restored> restored(clients.size());
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      EXPECT_EQ(clients[rank]->Latest().latest().step(), step);
      memory.push_back(Blank(MemoryAt(rank, step)));
    }
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      restores.push_back([&, rank] { restored[rank] = clients[rank]->Restore(id_, memory[rank]); });
    }
    nodes.Together(std::move(restores));
    for (Rank rank = 0; rank < clients.size(); ++rank) {
      EXPECT_EQ(restored[rank].code, local::OK) << rank << ": " << restored[rank].message;
      EXPECT_TRUE(memory[rank][0].bytes == MemoryAt(rank, step)[0].bytes) << rank;
    }
    EXPECT_EQ(restored[2].tier, local::TIER_REBUILT);
  }

  std::uint64_t sent_ = 0;
  DatasetId id_ = 0;
};

TEST_F(RedundancySendingTest, OfACopyOnlyWhatHasChangedGoes) {
  Start("partner");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const std::uint64_t whole = SentFor(1);
  EXPECT_GT(whole, kMany * 4 * kMiB);
  for (const std::uint64_t step : {2, 3, 4}) {
    const std::uint64_t sent = SentFor(step);
    // Two blocks of four have changed since the step before; behind them metadata, and records.
    EXPECT_GT(sent, kMany * 2 * kMiB);
    EXPECT_LT(sent, kMany * 2 * kMiB + whole / 8);
  }
  Lose({2});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  ExpectBack(4);
}

TEST_F(RedundancySendingTest, ForParityAllGoes) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const std::uint64_t whole = SentFor(1);
  EXPECT_GT(SentFor(2), whole - whole / 8);
  Lose({2});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  ExpectBack(2);
}

// The nodes do it one after the other here, and time goes on only for what waits.
TEST_F(RedundancySendingTest, ItHasTheBackgroundsBudgetAsLongAsSomethingIsCaptured) {
  for (int i = 0; i < nodes.count(); ++i) nodes[i].config.background.beside_captures = 8 * kMiB;
  Start("partner");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const auto time_of = [this](std::uint64_t step, bool beside_captures) {
    const auto begin = nodes.now();
    DatasetId id = 0;
    for (const auto& client : clients) {
      const local::Reply committed = client->Checkpoint(step, MemoryAt(client->rank(), step));
      EXPECT_EQ(CodeOfReply(committed), local::OK) << committed.status().message();
      id = committed.committed().dataset();
      if (!beside_captures) continue;
      EXPECT_SAYS(client->Begin(step + 1, MemoryAt(client->rank(), step + 1)), local::OK, "");
    }
    for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::REDUNDANT), local::OK, "");
    return nodes.now() - begin;
  };
  const auto alone = time_of(1, false);
  // Two MiB of each differ: the first goes at once, the second when that is paid for, of which 50 ms are saved.
  EXPECT_GE(time_of(2, true), alone + std::chrono::milliseconds((kMany - 1) * (125 - 50)));
}

}  // namespace
}  // namespace cairn
