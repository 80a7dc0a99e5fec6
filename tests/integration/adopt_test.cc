// An application that moves from FTI to Cairn: its last FTI checkpoint is adopted, a real daemon is started, and the
// first launch restores it; also if the daemon has known the run before.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "client/cairn.h"
#include "storage/file/fti/execution.h"
#include "storage/io/posix_disk.h"
#include "tests/integration/harness.h"
#include "tests/integration/rank_session.h"
#include "tests/storage/file/fti/sample_export.h"
#include "tests/support/status_matchers.h"

namespace cairn::testing {
namespace {

constexpr std::uint32_t kRanks = 2;

// What one rank got back.
struct Restored {
  std::string error;  // of the call that failed; empty: none
  std::uint64_t dataset = 0, step = 0;
  std::int32_t tier = CAIRN_TIER_NONE, stored_type = -1;
  std::vector<std::byte> doubles, bytes;  // variables 1 and 40 of the sample
};

class AdoptTest : public ::testing::Test {
 protected:
  static SampleExport SampleOf(std::int32_t id) {
    return SampleExport({.ranks = kRanks, .node_size = 1, .group_size = 2, .heads = false}, fti::Level::kPartner,
                        ftiff::Letter::kF, id);
  }
  static std::size_t BytesOf(std::uint32_t rank, std::int32_t id) {
    std::size_t bytes = 0;
    const SampleExport sample = SampleOf(1);
    for (const ftiff::Container& container : sample.what.ranks.at(rank).layout.containers) {
      if (container.id == id) bytes += container.chunk_bytes;
    }
    return bytes;
  }
  // FTI's level 2 checkpoint of two nodes, of which one is lost.
  void PutCheckpoint(const std::string& folder, std::int32_t id) {
    SampleExport sample = SampleOf(id);
    sample.what.folder = folder;
    ASSERT_OK(fti::Write(*MakePosixDisk(), sample.what));
    std::filesystem::remove_all(folder + "/Local/node1");
  }
  void Adopt(const std::string& folder) {
    const Ending ending = RunProcess(harness_.Client(
        "client/cli/cairn", {"adopt", harness_.prefix(), "--fti", folder, "--config", folder + "/config.fti"}));
    ASSERT_EQ(ending.exit_code, 0) << ending.output;
  }
  // A launch of two ranks, each a thread of this process: what its newest checkpoint gives back.
  std::vector<Restored> Launch(const std::string& key) {
    std::vector<Restored> restored(kRanks);
    std::vector<std::thread> ranks;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      ranks.emplace_back([&, rank] { restored[rank] = Rank(key, rank); });
    }
    for (std::thread& rank : ranks) rank.join();
    return restored;
  }
  Restored Rank(const std::string& key, std::uint32_t rank) {
    Restored restored;
    restored.doubles.resize(BytesOf(rank, 1));
    restored.bytes.resize(BytesOf(rank, 40));
    cairn_session* session = nullptr;
    cairn_stored_info info{};
    info.struct_size = sizeof info;
    const bool done =
        OpenRank(harness_, key, rank, kRanks, &session) == CAIRN_OK &&
        cairn_protect(session, 1, restored.doubles.data(), restored.doubles.size(), CAIRN_BYTE) == CAIRN_OK &&
        cairn_protect(session, 40, restored.bytes.data(), restored.bytes.size(), CAIRN_UINT8) == CAIRN_OK &&
        cairn_latest(session, &restored.dataset, &restored.step) == CAIRN_OK &&
        cairn_stored_by_id(session, restored.dataset, 1, &info) == CAIRN_OK &&
        cairn_restore(session, restored.dataset) == CAIRN_OK &&
        cairn_restored_tier(session, &restored.tier) == CAIRN_OK;
    if (!done) restored.error = std::string("rank ") + std::to_string(rank) + ": " + cairn_error(session);
    restored.stored_type = info.type;
    cairn_close(session);
    return restored;
  }
  static void ExpectSample(const std::vector<Restored>& restored, std::uint64_t step) {
    for (std::size_t rank = 0; rank < restored.size(); ++rank) {
      const Restored& one = restored[rank];
      EXPECT_EQ(one.error, "");
      EXPECT_EQ(one.step, step);
      EXPECT_EQ(one.tier, CAIRN_TIER_PREFIX);
      EXPECT_EQ(one.stored_type, 0) << "of FTI's variables no type is known";
      ExpectBytes(rank, 1, one.doubles);
      ExpectBytes(rank, 40, one.bytes);
    }
  }
  static void ExpectBytes(std::size_t rank, std::int32_t id, const std::vector<std::byte>& bytes) {
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      ASSERT_EQ(bytes[at], SampleExport::ByteOf(rank, id, at)) << "rank " << rank << ", variable " << id;
    }
  }

  Harness harness_;
};

TEST_F(AdoptTest, TheFirstLaunchRestoresFtisLastCheckpoint) {
  PutCheckpoint(harness_.folder() + "/fti", 12);
  Adopt(harness_.folder() + "/fti");
  ASSERT_TRUE(harness_.StartDaemon());
  ExpectSample(Launch("job.1"), 12);
}

TEST_F(AdoptTest, ADaemonThatKnowsTheRunFindsItAtTheNextLaunch) {
  ASSERT_TRUE(harness_.StartDaemon());
  EXPECT_NE(Launch("job.1")[0].error, "") << "there is nothing to restore yet";
  PutCheckpoint(harness_.folder() + "/fti", 12);
  Adopt(harness_.folder() + "/fti");
  ExpectSample(Launch("job.2"), 12);
  PutCheckpoint(harness_.folder() + "/later", 13);
  Adopt(harness_.folder() + "/later");
  ExpectSample(Launch("job.3"), 13);
}

// The way back: what the daemon has in its cache only has to be flushed first, as the command says.
TEST_F(AdoptTest, WhatANativeApplicationStoredIsExportedAfterAFlush) {
  harness_.WriteSettings("[flush]\nevery = 0\n");
  ASSERT_TRUE(harness_.StartDaemon());
  const std::string address = harness_.address(), prefix = harness_.prefix();
  cairn_options options = CAIRN_OPTIONS_INIT;
  options.address = address.c_str();
  options.prefix = prefix.c_str();
  options.rank = 0;
  options.nranks = 1;
  std::vector<double> field(300000);
  for (std::size_t i = 0; i < field.size(); ++i) field[i] = static_cast<double>(i) * 0.25;
  std::int64_t step = 77;
  std::uint64_t dataset = 0;
  cairn_session* session = nullptr;
  ASSERT_EQ(cairn_open(&options, &session), CAIRN_OK) << cairn_error(nullptr);
  ASSERT_EQ(cairn_protect(session, 3, field.data(), field.size(), CAIRN_DOUBLE), CAIRN_OK);
  ASSERT_EQ(cairn_protect_value(session, 4, "step", &step, 1, CAIRN_INT64), CAIRN_OK);
  ASSERT_EQ(cairn_checkpoint(session, 77, &dataset), CAIRN_OK) << cairn_error(session);
  ASSERT_EQ(cairn_wait(session, dataset, CAIRN_LEVEL_LOCAL, 60000), CAIRN_OK) << cairn_error(session);

  const std::string out = harness_.folder() + "/out", id = std::to_string(dataset);
  const auto cairn_command = [&](std::vector<std::string> arguments) {
    return RunProcess(harness_.Client("client/cli/cairn", std::move(arguments)));
  };
  const Ending refused = cairn_command({"export", prefix, "--fti", out});
  EXPECT_EQ(refused.exit_code, 1) << refused.output;
  EXPECT_NE(refused.output.find("cairn flush " + prefix + " " + id + " --wait"), std::string::npos) << refused.output;
  ASSERT_EQ(cairn_command({"flush", prefix, id, "--wait"}).exit_code, 0);
  const Ending exported = cairn_command({"export", prefix, "--fti", out});
  EXPECT_EQ(exported.exit_code, 0) << exported.output;
  const Ending extracted = cairn_command(
      {"extract", out + "/Global/cairn/l4/Ckpt77-Rank0.fti", "--var", "3", "-o", harness_.folder() + "/field"});
  EXPECT_EQ(extracted.exit_code, 0) << extracted.output;
  const std::string bytes = ReadFile(harness_.folder() + "/field");
  ASSERT_EQ(bytes.size(), field.size() * sizeof(double));
  EXPECT_EQ(std::memcmp(bytes.data(), field.data(), bytes.size()), 0);
  EXPECT_EQ(cairn_close(session), CAIRN_OK);
}

}  // namespace
}  // namespace cairn::testing
