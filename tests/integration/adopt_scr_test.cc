// An application that moves from SCR to Cairn: what SCR has left in the nodes' caches is adopted, a real daemon is
// started, and the first launch reads its files again, under their names.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "client/cairn.h"
#include "storage/io/posix_disk.h"
#include "tests/integration/harness.h"
#include "tests/integration/rank_session.h"
#include "tests/storage/file/redundancy/scr_cache.h"
#include "tests/support/status_matchers.h"

namespace cairn::testing {
namespace {

// What one rank got back.
struct Restored {
  std::string error;  // of the call that failed; empty: none
  std::uint64_t dataset = 0, step = 0;
  std::int32_t tier = CAIRN_TIER_NONE;
  std::map<std::string, std::string> files;  // name -> bytes
};

class AdoptScrTest : public ::testing::Test {
 protected:
  bool Put(std::string_view scenario) {
    return PutScenario(*MakePosixDisk(), scenario, "nodes", harness_.folder() + "/nodes");
  }
  void LoseNode(int node) { std::filesystem::remove_all(harness_.folder() + "/nodes/node" + std::to_string(node)); }
  void Adopt(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"adopt", harness_.prefix(), "--scr", harness_.folder() + "/nodes"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ending ending = RunProcess(harness_.Client("client/cli/cairn", arguments));
    ASSERT_EQ(ending.exit_code, 0) << ending.output;
  }
  void ExpectSaid(const std::vector<std::string>& arguments, const std::string& part) {
    const Ending ending = RunProcess(harness_.Client("client/cli/cairn", arguments));
    EXPECT_EQ(ending.exit_code, 0) << ending.output;
    EXPECT_NE(ending.output.find(part), std::string::npos) << part << "\n" << ending.output;
  }
  // A launch whose ranks, each a thread of this process, ask for these files.
  std::vector<Restored> Launch(const std::string& key, const std::vector<std::vector<std::string>>& names) {
    std::vector<Restored> restored(names.size());
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < names.size(); ++rank) {
      ranks.emplace_back([&, rank] { restored[rank] = Rank(key, rank, names); });
    }
    for (std::thread& rank : ranks) rank.join();
    return restored;
  }
  Restored Rank(const std::string& key, std::size_t rank, const std::vector<std::vector<std::string>>& names) {
    Restored restored;
    cairn_session* session = nullptr;
    bool done = OpenRank(harness_, key, rank, names.size(), &session) == CAIRN_OK &&
                cairn_latest(session, &restored.dataset, &restored.step) == CAIRN_OK &&
                cairn_restore(session, restored.dataset) == CAIRN_OK &&
                cairn_restored_tier(session, &restored.tier) == CAIRN_OK;
    for (const std::string& name : names[rank]) {
      char path[4096];
      done = done && cairn_restart_file(session, restored.dataset, name.c_str(), path, sizeof path) == CAIRN_OK;
      if (done) restored.files[name] = ReadFile(path);
    }
    if (!done) restored.error = "rank " + std::to_string(rank) + ": " + cairn_error(session);
    cairn_close(session);
    return restored;
  }
  static void ExpectFiles(const std::vector<Restored>& restored, std::string_view dataset, std::uint64_t step) {
    for (const Restored& one : restored) {
      EXPECT_EQ(one.error, "");
      EXPECT_EQ(one.step, step);
      EXPECT_EQ(one.tier, CAIRN_TIER_PREFIX);
      for (const auto& [name, bytes] : one.files) {
        const std::string base = std::filesystem::path(name).filename().string();
        for (std::size_t at = 0; at < bytes.size(); ++at) {
          ASSERT_EQ(static_cast<std::byte>(bytes[at]), ScrByteOf(dataset, base, at)) << name << ", " << at;
        }
      }
    }
  }

  Harness harness_;
};

TEST_F(AdoptScrTest, TheFirstLaunchReadsTheFilesOfALostNodeToo) {
  if (!Put("xor_np4")) return;
  LoseNode(1);
  Adopt({"--unverified"});
  ASSERT_TRUE(harness_.StartDaemon());
  const std::string folder = "step_000010/";
  const std::vector<Restored> restored =
      Launch("job.1", {{folder + "rank_0.ckpt", folder + "sub1/extra_0_1.dat"},
                       {folder + "rank_1.ckpt"},
                       {folder + "rank_2.ckpt", folder + "sub1/extra_2_1.dat", folder + "sub2/extra_2_2.dat"},
                       {folder + "rank_3.ckpt"}});
  ExpectFiles(restored, "step_000010", 1);
  EXPECT_EQ(restored[0].files.at(folder + "rank_0.ckpt").size(), 1500u);
  EXPECT_EQ(restored[1].files.at(folder + "rank_1.ckpt").size(), 4097u);
  ExpectSaid({"show", harness_.prefix(), "1", "--json"}, "\"from\": \"daemon\"");
  ExpectSaid({"show", harness_.prefix(), "1"}, "rank_1.ckpt  (adopted, verified by nothing)");
  ExpectSaid({"ls", harness_.prefix()}, "whole, unverified");
}

TEST_F(AdoptScrTest, OfAllThatIsAdoptedTheNewestCheckpointIsTheLatest) {
  if (!Put("crash_before_flush_np3")) return;
  Adopt({"--all"});
  ASSERT_TRUE(harness_.StartDaemon());
  const std::string folder = "step_000020/";
  const std::vector<Restored> restored =
      Launch("job.1", {{folder + "rank_0.ckpt"}, {folder + "rank_1.ckpt"}, {folder + "rank_2.ckpt"}});
  ExpectFiles(restored, "step_000020", 2);
  EXPECT_EQ(restored[2].files.at(folder + "rank_2.ckpt").size(), 2554u);
}

TEST_F(AdoptScrTest, ADaemonThatKnowsTheRunFindsItAtTheNextLaunch) {
  if (!Put("partner_np3")) return;
  ASSERT_TRUE(harness_.StartDaemon());
  EXPECT_NE(Launch("job.1", {{}, {}, {}})[0].error, "") << "there is nothing to restore yet";
  LoseNode(2);
  Adopt({"--unverified"});
  const std::string folder = "step_000020/";
  ExpectFiles(Launch("job.2", {{folder + "rank_0.ckpt"}, {folder + "rank_1.ckpt"}, {folder + "rank_2.ckpt"}}),
              "step_000020", 2);
}

}  // namespace
}  // namespace cairn::testing
