// A file system hangs: the runs that have their prefixes there wait for it, each call within its deadline. Nobody else
// does: no other run, no `cairn` command, no stop of the daemon. Nothing that was promised is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "client/cairn.h"
#include "storage/base/clock.h"
#include "tests/integration/application.h"
#include "tests/integration/harness.h"
#include "tests/support/fuse/fuse_test.h"

namespace cairn::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint32_t kForGood = UINT32_MAX;

// Requests that hang: `name_part` as in FuseFault.
struct Kind {
  std::uint32_t opcode = 0;
  std::string name_part = {};
};

class HungFileSystemTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (harness_.daemon() != nullptr) harness_.KillDaemon();
    folders_.clear();
  }

  // So many file systems of their own. Before the daemon is started: it and its clients are to see them.
  absl::Status MountFolder(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::string at = harness_.folder() + "/fuse" + std::to_string(i);
      std::filesystem::create_directories(at + "/real");
      std::filesystem::create_directories(at + "/shown");
      auto folder = FuseFolder::Mount(at + "/real", at + "/shown");
      if (!folder.ok()) return folder.status();
      folders_.push_back(*std::move(folder));
    }
    return absl::OkStatus();
  }
  FuseFolder& folder(std::size_t i = 0) { return *folders_[i]; }
  std::string Prefix(std::size_t number, std::size_t i = 0) {
    return folder(i).mount_point() + "/run" + std::to_string(number);
  }
  void Hang(const Kind& kind = {}, std::size_t i = 0) {
    folder(i).Hang({.opcode = kind.opcode, .name_part = kind.name_part, .times = kForGood});
  }
  bool AwaitHanging(std::uint32_t requests, std::size_t i = 0) {
    for (int tries = 0; tries < 60'000; ++tries) {
      if (folder(i).hanging() >= requests) return true;
      ::usleep(1000);
    }
    return false;
  }

  // With a run whose only copy is on the ordinary file system's prefix.
  bool StartDaemon(const std::vector<std::string>& more = {}) {
    if (!harness_.StartDaemon()) return false;
    {
      Application old(harness_, harness_.prefix() + "/old");
      EXPECT_EQ(old.Open(), CAIRN_OK) << cairn_error(nullptr);
      old.ExpectReaches(old.Checkpoint(3), CAIRN_LEVEL_PREFIX);
    }
    EXPECT_EQ(harness_.StopDaemon().exit_code, 0);
    harness_.DeleteCache();
    return StartDaemonAnew(more);
  }
  bool StartDaemonAnew(const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = {"--flush-stalled", "300ms", "--quiesce", "1s"};
    flags.insert(flags.end(), more.begin(), more.end());
    return harness_.StartDaemon(flags);
  }

  // The whole life of a run, and, the first time, a restart from the prefix, on the ordinary file system.
  void ExpectOthersGoOn() {
    Application other(harness_, harness_.prefix() + "/other" + std::to_string(++others_));
    ASSERT_EQ(other.Open(), CAIRN_OK) << cairn_error(nullptr);
    const std::uint64_t dataset = other.Checkpoint(7);
    other.ExpectReaches(dataset, CAIRN_LEVEL_LOCAL);
    other.ExpectReaches(dataset, CAIRN_LEVEL_PREFIX);
    ASSERT_EQ(other.Open(), CAIRN_OK) << cairn_error(nullptr);
    other.ExpectRestart(7, CAIRN_TIER_IMAGE);
    if (others_ > 1) return;
    Application old(harness_, harness_.prefix() + "/old");
    ASSERT_EQ(old.Open(), CAIRN_OK) << cairn_error(nullptr);
    old.ExpectRestart(3, CAIRN_TIER_PREFIX);
  }

  ApplicationPtr Opened(const std::string& prefix) {
    auto application = std::make_unique<Application>(harness_, prefix);
    EXPECT_EQ(application->Open(), CAIRN_OK) << prefix << ": " << cairn_error(nullptr);
    return application;
  }
  Process::Options Cairn(std::vector<std::string> arguments) const {
    return harness_.Client("client/cli/cairn", std::move(arguments));
  }
  std::string Said(std::vector<std::string> arguments) const {
    const Ending ending = RunProcess(Cairn(std::move(arguments)));
    EXPECT_EQ(ending.exit_code, 0) << ending.output;
    return ending.output;
  }
  // Asks until the status says so: that a file system hangs is known after some seconds.
  std::string StatusThatSays(const std::string& text) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    std::string status;
    do {
      status = Said({"status"});
    } while (status.find(text) == std::string::npos && std::chrono::steady_clock::now() < end);
    EXPECT_THAT(status, HasSubstr(text));
    return status;
  }

  Harness harness_;
  std::vector<std::unique_ptr<FuseFolder>> folders_;
  int others_ = 0;
};

// A file system for each kind of request; all of them hang at once.
TEST_F(HungFileSystemTest, WhateverRequestHangsOthersGoOnAndTheRunItselfReachesLocal) {
  const std::vector<Kind> kinds = {{FUSE_LOOKUP}, {FUSE_OPENDIR},       {FUSE_READDIR}, {FUSE_READ}, {FUSE_WRITE},
                                   {FUSE_FSYNC},  {FUSE_WRITE, "Ckpt"}, {FUSE_RENAME},  {}};
  CAIRN_MOUNT_OR_SKIP(kinds.size());
  ASSERT_TRUE(StartDaemon());
  std::vector<ApplicationPtr> runs;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    runs.push_back(Opened(Prefix(1, i)));
    runs[i]->ExpectReaches(runs[i]->Checkpoint(1), CAIRN_LEVEL_PREFIX);
  }
  std::vector<std::uint64_t> datasets;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    Hang(kinds[i], i);
    datasets.push_back(runs[i]->Checkpoint(2));
    runs[i]->ExpectReaches(datasets[i], CAIRN_LEVEL_LOCAL);
    ASSERT_TRUE(AwaitHanging(1, i)) << kinds[i].opcode;
  }
  ExpectOthersGoOn();
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    EXPECT_EQ(runs[i]->Wait(datasets[i], CAIRN_LEVEL_PREFIX, 500), CAIRN_DEADLINE_EXCEEDED) << kinds[i].opcode;
    EXPECT_THAT(runs[i]->error(), HasSubstr("level prefix of dataset"));
    folder(i).Release();
    runs[i]->ExpectReaches(datasets[i], CAIRN_LEVEL_PREFIX);
    runs[i]->Close();
    EXPECT_THAT(Said({"verify", runs[i]->prefix()}), Not(HasSubstr("damaged")));
  }
}

TEST_F(HungFileSystemTest, ManyPrefixesAndOpeningsOnOneHoldUpNobodyElse) {
  constexpr std::size_t kRuns = 6;
  CAIRN_MOUNT_OR_SKIP(1);
  ASSERT_TRUE(StartDaemon());
  std::vector<ApplicationPtr> runs;
  for (std::size_t i = 0; i < kRuns; ++i) runs.push_back(Opened(Prefix(i)));
  Hang();
  std::vector<std::uint64_t> datasets;
  for (const ApplicationPtr& run : runs) datasets.push_back(run->Checkpoint(2));
  std::vector<std::unique_ptr<Process>> opening;
  for (std::size_t i = kRuns; i < 2 * kRuns; ++i) {
    auto options = harness_.Client("tests/integration/crash_client",
                                   {"--promises", harness_.folder() + "/promises" + std::to_string(i), "--mib", "1",
                                    "--steps", "2", "--flush-every", "1"});
    options.environment["CAIRN_PREFIX"] = Prefix(i);
    opening.push_back(Process::Start(options));
  }
  ASSERT_TRUE(AwaitHanging(2 * kRuns));  // no prefix has to wait for another's threads
  ExpectOthersGoOn();
  Application late(harness_, Prefix(2 * kRuns));
  EXPECT_EQ(late.Open(200), CAIRN_DEADLINE_EXCEEDED);
  EXPECT_THAT(cairn_error(nullptr), HasSubstr(late.prefix()));
  ExpectOthersGoOn();
  for (std::size_t i = 0; i < kRuns; ++i) runs[i]->ExpectReaches(datasets[i], CAIRN_LEVEL_LOCAL);
  folder().Release();
  for (std::size_t i = 0; i < kRuns; ++i) runs[i]->ExpectReaches(datasets[i], CAIRN_LEVEL_PREFIX);
  for (const auto& client : opening) {
    const Ending ending = client->Wait();
    EXPECT_EQ(ending.exit_code, 0) << ending.output;
  }
  EXPECT_EQ(late.Open(), CAIRN_OK) << cairn_error(nullptr);
}

// Past the cache, on three file systems: more of them than there are threads for one, and than one queue of transfers
// has workers.
TEST_F(HungFileSystemTest, CheckpointsThatGoStraightThereHoldUpNoOthers) {
  constexpr std::size_t kRuns = 6;
  const std::vector<Kind> kinds = {{FUSE_CREATE, "Ckpt"}, {FUSE_WRITE, "Ckpt"}, {FUSE_FSYNC, "Ckpt"}};
  CAIRN_MOUNT_OR_SKIP(kinds.size());
  ASSERT_TRUE(StartDaemon({"--cache-bytes-max", "1MiB"}));
  std::vector<ApplicationPtr> runs;
  for (std::size_t i = 0; i < kinds.size() * kRuns; ++i) runs.push_back(Opened(Prefix(i, i / kRuns)));
  for (std::size_t i = 0; i < kinds.size(); ++i) Hang(kinds[i], i);
  std::vector<std::uint64_t> datasets;
  for (const ApplicationPtr& run : runs) datasets.push_back(run->Checkpoint(1));
  for (std::size_t i = 0; i < kinds.size(); ++i) ASSERT_TRUE(AwaitHanging(kRuns, i)) << kinds[i].opcode;
  ExpectOthersGoOn();
  for (const auto& at : folders_) at->Release();
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i]->ExpectReaches(datasets[i], CAIRN_LEVEL_PREFIX);
}

// A run with an application, one without whose flush alone hangs, and one that no daemon has ever seen.
TEST_F(HungFileSystemTest, StatusTellsWhichPrefixesHangAndSinceWhenWhateverElseIsAsked) {
  CAIRN_MOUNT_OR_SKIP(2);
  ASSERT_TRUE(StartDaemon());
  const std::int64_t before_us = NowMicros();
  const ApplicationPtr run = Opened(Prefix(1));
  {
    const ApplicationPtr ended = Opened(Prefix(2, 1));
    Hang({FUSE_WRITE, "Ckpt"}, 1);
    ended->ExpectReaches(ended->Checkpoint(1), CAIRN_LEVEL_LOCAL);
  }
  Hang();
  const std::uint64_t dataset = run->Checkpoint(1);
  Application unknown(harness_, Prefix(3));
  EXPECT_EQ(unknown.Open(200), CAIRN_DEADLINE_EXCEEDED);
  // These need not come to an end.
  std::vector<std::unique_ptr<Process>> asking;
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"ls", Prefix(1)},
                                             {"verify", Prefix(1)},
                                             {"index", "list", Prefix(1)},
                                             {"show", "run1", "1"},
                                             {"flush", "run1", "--wait"},
                                             {"wait", "run1", "1", "prefix"}}) {
    asking.push_back(Process::Start(Cairn(arguments)));
  }
  const std::string status = StatusThatSays("prefix " + Prefix(3) + " has hung since 2");
  EXPECT_THAT(StatusThatSays(Prefix(1) + "\n  launch 1: 1 of 1 ranks connected; newest whole step: 1\n"
                                         "  the prefix has hung since 2"),
              HasSubstr("its file system does not answer; checkpoints stay in the cache until it does"));
  StatusThatSays(Prefix(2, 1) +
                 "\n  launch 1: 0 of 1 ranks connected; newest whole step: 1\n"
                 "  the prefix has hung since 2");
  const json all = json::parse(Said({"status", "--json"}));
  for (const json& one : all["runs"]) {
    EXPECT_GE(one["hung_since_us"].get<std::int64_t>(), before_us) << one;
    EXPECT_LT(one["hung_since_us"].get<std::int64_t>(), NowMicros()) << one;
  }
  ExpectOthersGoOn();
  for (const auto& at : folders_) at->Release();
  run->ExpectReaches(dataset, CAIRN_LEVEL_PREFIX);
  for (const auto& command : asking) command->Wait();
  EXPECT_THAT(Said({"status"}), Not(HasSubstr("has hung")));
}

TEST_F(HungFileSystemTest, AStopDoesNotWaitForItAndTheNextDaemonGoesOn) {
  CAIRN_MOUNT_OR_SKIP(1);
  ASSERT_TRUE(StartDaemon());
  std::uint64_t dataset = 0;
  {
    const ApplicationPtr run = Opened(Prefix(1));
    run->ExpectReaches(run->Checkpoint(1), CAIRN_LEVEL_PREFIX);
    Hang();
    dataset = run->Checkpoint(2);  // captured: the stop brings it to `local`
    ASSERT_TRUE(AwaitHanging(1));
    Application unknown(harness_, Prefix(2));
    EXPECT_EQ(unknown.Open(200), CAIRN_DEADLINE_EXCEEDED);
    const Ending ending = harness_.StopDaemon();
    EXPECT_EQ(ending.exit_code, 0) << ending.output;
  }
  EXPECT_THAT(harness_.DaemonLog(), HasSubstr("hang: no answer from " + Prefix(1)));
  EXPECT_FALSE(std::filesystem::exists(harness_.runtime_dir() + "/cairnd.sock"));
  ASSERT_TRUE(StartDaemonAnew());  // it still hangs
  ExpectOthersGoOn();
  Application run(harness_, Prefix(1));
  EXPECT_EQ(run.Open(200), CAIRN_DEADLINE_EXCEEDED);
  folder().Release();
  ASSERT_EQ(run.Open(), CAIRN_OK) << cairn_error(nullptr);
  run.ExpectRestart(2, CAIRN_TIER_CACHE);
  run.ExpectReaches(dataset, CAIRN_LEVEL_PREFIX);
  run.Close();
  EXPECT_THAT(Said({"verify", Prefix(1)}), Not(HasSubstr("damaged")));
  EXPECT_EQ(harness_.StopDaemon().exit_code, 0);
  harness_.DeleteCache();
  ASSERT_TRUE(StartDaemonAnew());
  ASSERT_EQ(run.Open(), CAIRN_OK) << cairn_error(nullptr);
  run.ExpectRestart(2, CAIRN_TIER_PREFIX);
}

}  // namespace
}  // namespace cairn::testing
