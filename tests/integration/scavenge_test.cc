// A node whose daemon was killed before it could flush: what is in its cache is saved by hand, and a launch with an
// empty cache restores it from the prefix.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/cairn.h"
#include "tests/integration/harness.h"
#include "tests/integration/rank_session.h"

namespace cairn::testing {
namespace {

using nlohmann::json;

constexpr std::uint32_t kRanks = 2;
constexpr std::size_t kCount = 300000;

class ScavengeTest : public ::testing::Test {
 protected:
  static std::vector<double> FieldOf(std::uint32_t rank, std::uint64_t step) {
    std::vector<double> field(kCount);
    for (std::size_t i = 0; i < kCount; ++i)
      field[i] = static_cast<double>(i) * 0.25 + rank + 1000.0 * static_cast<double>(step);
    return field;
  }
  cairn_session* Open(std::uint32_t rank, const std::string& key) const {
    cairn_session* session = nullptr;
    EXPECT_EQ(OpenRank(harness_, key, rank, kRanks, &session), CAIRN_OK) << cairn_error(nullptr);
    return session;
  }
  template <typename Rank>
  static void OnAllRanks(Rank rank_main) {
    std::vector<std::thread> ranks;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) ranks.emplace_back([&, rank] { rank_main(rank); });
    for (std::thread& rank : ranks) rank.join();
  }

  // Two checkpoints, `local`; then power and daemon are gone.
  void CheckpointAndKill() {
    harness_.WriteSettings("[flush]\nevery = 0\n");
    ASSERT_TRUE(harness_.StartDaemon());
    OnAllRanks([&](std::uint32_t rank) {
      cairn_session* const session = Open(rank, "job.1");
      for (std::uint64_t step = 1; step <= 2; ++step) {
        std::vector<double> field = FieldOf(rank, step);
        std::uint64_t dataset = 0;
        EXPECT_EQ(cairn_protect(session, 3, field.data(), field.size(), CAIRN_DOUBLE), CAIRN_OK);
        EXPECT_EQ(cairn_checkpoint(session, step, &dataset), CAIRN_OK) << cairn_error(session);
        EXPECT_EQ(cairn_wait(session, dataset, CAIRN_LEVEL_LOCAL, 60000), CAIRN_OK) << cairn_error(session);
      }
      cairn_close(session);
    });
  }
  void ExpectRestored(std::uint64_t wanted_step) {
    harness_.DeleteCache();
    ASSERT_TRUE(harness_.StartDaemon());
    OnAllRanks([&](std::uint32_t rank) {
      cairn_session* const session = Open(rank, "job.2");
      std::vector<double> field(kCount);
      std::uint64_t dataset = 0, step = 0;
      std::int32_t tier = CAIRN_TIER_NONE;
      EXPECT_EQ(cairn_protect(session, 3, field.data(), field.size(), CAIRN_DOUBLE), CAIRN_OK);
      EXPECT_EQ(cairn_latest(session, &dataset, &step), CAIRN_OK) << cairn_error(session);
      EXPECT_EQ(cairn_restore(session, dataset), CAIRN_OK) << cairn_error(session);
      EXPECT_EQ(cairn_restored_tier(session, &tier), CAIRN_OK);
      EXPECT_EQ(tier, CAIRN_TIER_PREFIX);
      EXPECT_EQ(step, wanted_step);
      EXPECT_EQ(field, FieldOf(rank, wanted_step));
      cairn_close(session);
    });
  }
  Ending Scavenge(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"scavenge", "--cache", harness_.cache()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunProcess(harness_.Client("client/cli/cairn", std::move(arguments)));
  }
  static void ExpectSaid(const Ending& ending, int exit_code, std::string_view part) {
    EXPECT_EQ(ending.exit_code, exit_code) << ending.output;
    EXPECT_NE(ending.output.find(part), std::string::npos) << part << "\n--\n" << ending.output;
  }

  Harness harness_;
};

TEST_F(ScavengeTest, WhatAKilledDaemonLeftIsRestoredFromThePrefix) {
  CheckpointAndKill();
  ExpectSaid(Scavenge(), 1, "A daemon flushes by itself what it has");
  harness_.KillDaemon();
  ExpectSaid(Scavenge(), 0, "(checkpoint, step 2): saved: 2 ranks are on the prefix");
  ExpectSaid(Scavenge(), 0, "nothing to save");
  ExpectRestored(2);
}

TEST_F(ScavengeTest, TheNextDaemonOnTheNodeSeesThatItIsFlushed) {
  CheckpointAndKill();
  harness_.KillDaemon();
  ExpectSaid(Scavenge({harness_.prefix()}), 0, "saved");
  ASSERT_TRUE(harness_.StartDaemon());
  OnAllRanks([&](std::uint32_t rank) {
    cairn_session* const session = Open(rank, "job.2");
    std::uint64_t dataset = 0, step = 0;
    EXPECT_EQ(cairn_latest(session, &dataset, &step), CAIRN_OK) << cairn_error(session);
    EXPECT_EQ(step, 2u);
    EXPECT_EQ(cairn_wait(session, dataset, CAIRN_LEVEL_PREFIX, 60000), CAIRN_OK) << cairn_error(session);
    cairn_close(session);
  });
}

TEST_F(ScavengeTest, SaysInJsonWhatIsMissing) {
  CheckpointAndKill();
  harness_.KillDaemon();
  std::string catalogue;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(harness_.cache())) {
    if (entry.path().string().ends_with("scr.dataset.2/rank_1.cat")) catalogue = entry.path();
  }
  ASSERT_TRUE(std::filesystem::remove(catalogue));
  const Ending ending = Scavenge({"--json"});
  EXPECT_EQ(ending.exit_code, 5) << ending.output;
  const json said = json::parse(ending.output, nullptr, false);
  ASSERT_TRUE(said.is_object()) << ending.output;
  ASSERT_EQ(said["runs"].size(), 1u);
  const json& datasets = said["runs"][0]["datasets"];
  ASSERT_EQ(datasets.size(), 2u);
  EXPECT_EQ(datasets[0]["state"], "saved");
  EXPECT_EQ(datasets[1]["state"], "incomplete");
  EXPECT_EQ(datasets[1]["saved_ranks"], json::array({0}));
  EXPECT_EQ(datasets[1]["missing"][0]["rank"], 1);
  ExpectRestored(1);
}

}  // namespace
}  // namespace cairn::testing
