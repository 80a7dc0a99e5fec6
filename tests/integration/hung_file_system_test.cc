// A file system hangs: the runs that have their prefixes there wait for it, each call within its deadline. Nobody else
// does: no other run, no `cairn` command, no stop of the daemon. Nothing that was promised is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/cairn.h"
#include "tests/integration/harness.h"
#include "tests/support/fuse/fuse_test.h"

namespace cairn::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kForGood = UINT32_MAX;
constexpr std::uint32_t kPatienceMs = 10'000;

// A run of one rank, in this process.
class Application {
 public:
  Application(const Harness& harness, std::string prefix) : address_(harness.address()), prefix_(std::move(prefix)) {}
  ~Application() { Close(); }

  int Open(std::uint32_t deadline_ms = kPatienceMs) {
    Close();
    cairn_options options = CAIRN_OPTIONS_INIT;
    options.address = address_.c_str();
    options.prefix = prefix_.c_str();
    options.rank = 0;
    options.nranks = 1;
    options.deadline_ms = deadline_ms;
    const int code = cairn_open(&options, &session_);
    if (code != CAIRN_OK) return code;
    return cairn_protect(session_, 1, field_.data(), field_.size(), CAIRN_UINT64);
  }
  void Close() {
    cairn_close(session_);
    session_ = nullptr;
  }

  std::uint64_t Checkpoint(std::uint64_t step) {
    std::uint64_t dataset = 0;
    std::fill(field_.begin(), field_.end(), step);
    EXPECT_EQ(cairn_checkpoint(session_, step, &dataset), CAIRN_OK) << prefix_ << ": " << cairn_error(session_);
    return dataset;
  }
  int Wait(std::uint64_t dataset, std::int32_t level, std::uint32_t timeout_ms = kPatienceMs) {
    return cairn_wait(session_, dataset, level, timeout_ms);
  }
  void ExpectReaches(std::uint64_t dataset, std::int32_t level) {
    EXPECT_EQ(Wait(dataset, level), CAIRN_OK) << prefix_ << ": " << cairn_error(session_);
  }
  void ExpectRestart(std::uint64_t step, std::int32_t tier) {
    std::uint64_t restored = 0;
    std::int32_t from = CAIRN_TIER_NONE;
    std::fill(field_.begin(), field_.end(), 0);
    ASSERT_EQ(cairn_resume(session_, &restored), CAIRN_OK) << prefix_ << ": " << cairn_error(session_);
    EXPECT_EQ(restored, step) << prefix_;
    EXPECT_EQ(std::count(field_.begin(), field_.end(), step), static_cast<std::ptrdiff_t>(field_.size())) << prefix_;
    ASSERT_EQ(cairn_restored_tier(session_, &from), CAIRN_OK);
    EXPECT_EQ(from, tier) << prefix_;
  }
  const std::string& prefix() const { return prefix_; }
  std::string error() const { return cairn_error(session_); }

 private:
  const std::string address_, prefix_;
  std::vector<std::uint64_t> field_ = std::vector<std::uint64_t>(300'000);  // 2.3 MiB
  cairn_session* session_ = nullptr;
};
using ApplicationPtr = std::unique_ptr<Application>;

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
  std::string Prefix(int number, std::size_t i = 0) {
    return folder(i).mount_point() + "/run" + std::to_string(number);
  }
  void Hang(std::uint32_t opcode = 0, std::size_t i = 0) { folder(i).Hang({.opcode = opcode, .times = kForGood}); }
  bool AwaitHanging(std::uint32_t requests, std::size_t i = 0) {
    for (int tries = 0; tries < 60'000; ++tries) {
      if (folder(i).hanging() >= requests) return true;
      ::usleep(1000);
    }
    return false;
  }

  // With a run whose only copy is on the ordinary file system's prefix.
  bool StartDaemon() {
    if (!harness_.StartDaemon()) return false;
    {
      Application old(harness_, harness_.prefix() + "/old");
      EXPECT_EQ(old.Open(), CAIRN_OK);
      old.ExpectReaches(old.Checkpoint(3), CAIRN_LEVEL_PREFIX);
    }
    EXPECT_EQ(harness_.StopDaemon().exit_code, 0);
    harness_.DeleteCache();
    return StartDaemonAnew();
  }
  bool StartDaemonAnew() { return harness_.StartDaemon({"--flush-stalled", "1s", "--quiesce", "2s"}); }

  // A whole life of a run, and a restart of the one from before, on the ordinary file system.
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
  std::string Status() const {
    const Ending ending = RunProcess(Cairn({"status"}));
    EXPECT_EQ(ending.exit_code, 0) << ending.output;
    return ending.output;
  }
  std::string StatusThatSays(std::string_view text) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    std::string status;
    do {
      status = Status();
    } while (status.find(text) == std::string::npos && std::chrono::steady_clock::now() < end);
    EXPECT_THAT(status, HasSubstr(std::string(text)));
    return status;
  }
  void ExpectWhole(const std::string& prefix) const {
    const Ending ending = RunProcess(Cairn({"verify", prefix}));
    EXPECT_EQ(ending.exit_code, 0) << ending.output;
  }

  Harness harness_;
  std::vector<std::unique_ptr<FuseFolder>> folders_;
  int others_ = 0;
};

// A file system for each kind of request; all of them hang at once.
TEST_F(HungFileSystemTest, WhateverRequestHangsOthersGoOnAndTheRunItselfReachesLocal) {
  const std::vector<std::uint32_t> kinds = {FUSE_LOOKUP, FUSE_OPENDIR, FUSE_READDIR, FUSE_READ,
                                            FUSE_WRITE,  FUSE_FSYNC,   FUSE_RENAME,  0};
  CAIRN_MOUNT_OR_SKIP(kinds.size());
  ASSERT_TRUE(StartDaemon());
  std::vector<ApplicationPtr> runs;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    runs.push_back(Opened(Prefix(1, i)));
    runs.back()->ExpectReaches(runs.back()->Checkpoint(1), CAIRN_LEVEL_PREFIX);
  }
  std::vector<std::uint64_t> datasets;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    Hang(kinds[i], i);
    datasets.push_back(runs[i]->Checkpoint(2));
    runs[i]->ExpectReaches(datasets[i], CAIRN_LEVEL_LOCAL);
    ASSERT_TRUE(AwaitHanging(1, i)) << kinds[i];
    EXPECT_EQ(runs[i]->Wait(datasets[i], CAIRN_LEVEL_PREFIX, 50), CAIRN_DEADLINE_EXCEEDED) << kinds[i];
    EXPECT_THAT(runs[i]->error(), HasSubstr("prefix"));
  }
  ExpectOthersGoOn();
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    EXPECT_EQ(runs[i]->Wait(datasets[i], CAIRN_LEVEL_PREFIX, 50), CAIRN_DEADLINE_EXCEEDED) << kinds[i];
    folder(i).Release();
    runs[i]->ExpectReaches(datasets[i], CAIRN_LEVEL_PREFIX);
    runs[i]->ExpectRestart(2, CAIRN_TIER_IMAGE);
    runs[i]->Close();
    ExpectWhole(runs[i]->prefix());
  }
}

TEST_F(HungFileSystemTest, ManyPrefixesAndOpeningsOnOneHoldUpNobodyElse) {
  constexpr int kRuns = 6;
  CAIRN_MOUNT_OR_SKIP(1);
  ASSERT_TRUE(StartDaemon());
  std::vector<ApplicationPtr> runs;
  for (int i = 0; i < kRuns; ++i) {
    runs.push_back(Opened(Prefix(i)));
    runs.back()->ExpectReaches(runs.back()->Checkpoint(1), CAIRN_LEVEL_PREFIX);
  }
  Hang();
  std::vector<std::uint64_t> datasets;
  for (const ApplicationPtr& run : runs) datasets.push_back(run->Checkpoint(2));
  std::vector<std::unique_ptr<Process>> opening;
  for (int i = 0; i < kRuns; ++i) {
    const std::string number = std::to_string(kRuns + i);
    auto options = harness_.Client("tests/integration/crash_client",
                                   {"--promises", harness_.folder() + "/" + number, "--mib", "1", "--steps", "2"});
    options.environment["CAIRN_PREFIX"] = Prefix(kRuns + i);
    opening.push_back(Process::Start(options));
  }
  ASSERT_TRUE(AwaitHanging(2 * kRuns));  // of each prefix one at least
  ExpectOthersGoOn();
  Application late(harness_, Prefix(2 * kRuns));
  EXPECT_EQ(late.Open(200), CAIRN_DEADLINE_EXCEEDED);
  EXPECT_THAT(cairn_error(nullptr), HasSubstr(late.prefix()));
  ExpectOthersGoOn();
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i]->ExpectReaches(datasets[i], CAIRN_LEVEL_LOCAL);
  folder().Release();
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i]->ExpectReaches(datasets[i], CAIRN_LEVEL_PREFIX);
  for (const auto& client : opening) EXPECT_EQ(client->Wait().exit_code, 0);
  EXPECT_EQ(late.Open(), CAIRN_OK) << cairn_error(nullptr);
}

// Also while the opening of a prefix that no daemon has ever seen hangs.
TEST_F(HungFileSystemTest, StatusTellsWhichPrefixHangsAndSinceWhen) {
  CAIRN_MOUNT_OR_SKIP(1);
  ASSERT_TRUE(StartDaemon());
  const ApplicationPtr run = Opened(Prefix(1));
  Hang();
  run->Checkpoint(1);
  Application unknown(harness_, Prefix(2));
  EXPECT_EQ(unknown.Open(200), CAIRN_DEADLINE_EXCEEDED);
  const std::string status = StatusThatSays("the prefix hangs since ");
  EXPECT_THAT(status, HasSubstr(run->prefix()));
  folder().Release();
}

TEST_F(HungFileSystemTest, AStopDoesNotWaitForItAndTheNextDaemonGoesOn) {
  CAIRN_MOUNT_OR_SKIP(1);
  ASSERT_TRUE(StartDaemon());
  std::uint64_t dataset = 0;
  {
    const ApplicationPtr run = Opened(Prefix(1));
    run->ExpectReaches(run->Checkpoint(1), CAIRN_LEVEL_PREFIX);
    Hang();
    dataset = run->Checkpoint(2);
    ASSERT_TRUE(AwaitHanging(1));
    const Ending ending = harness_.StopDaemon();  // waits for 90 s at most
    EXPECT_EQ(ending.exit_code, 0) << ending.output;
  }
  ASSERT_TRUE(StartDaemonAnew());
  ExpectOthersGoOn();
  Application run(harness_, Prefix(1));
  EXPECT_EQ(run.Open(200), CAIRN_DEADLINE_EXCEEDED);
  folder().Release();
  ASSERT_EQ(run.Open(), CAIRN_OK) << cairn_error(nullptr);
  run.ExpectRestart(2, CAIRN_TIER_CACHE);
  run.ExpectReaches(dataset, CAIRN_LEVEL_PREFIX);
  run.Close();
  ExpectWhole(Prefix(1));
  EXPECT_EQ(harness_.StopDaemon().exit_code, 0);
  harness_.DeleteCache();
  ASSERT_TRUE(StartDaemonAnew());
  ASSERT_EQ(run.Open(), CAIRN_OK) << cairn_error(nullptr);
  run.ExpectRestart(2, CAIRN_TIER_PREFIX);
}

// Past the cache, more than there once were threads for all prefixes, and more than one queue's transfers.
class PastTheCacheTest : public HungFileSystemTest, public ::testing::WithParamInterface<std::uint32_t> {};
TEST_P(PastTheCacheTest, ManyCheckpointsThatHangHoldUpNoOthers) {
  constexpr int kRuns = 20;
  CAIRN_MOUNT_OR_SKIP(1);
  ASSERT_TRUE(StartDaemon());
  EXPECT_EQ(harness_.StopDaemon().exit_code, 0);
  ASSERT_TRUE(harness_.StartDaemon({"--cache-bytes-max", "1MiB"}));
  std::vector<ApplicationPtr> runs;
  for (int number = 0; number < kRuns; ++number) runs.push_back(Opened(Prefix(number)));
  folder().Hang({.opcode = GetParam(), .name_part = "Ckpt", .times = kForGood});
  std::vector<std::uint64_t> datasets;
  for (const ApplicationPtr& run : runs) datasets.push_back(run->Checkpoint(1));
  EXPECT_TRUE(AwaitHanging(1));
  ExpectOthersGoOn();
  folder().Release();
  for (int number = 0; number < kRuns; ++number) runs[number]->ExpectReaches(datasets[number], CAIRN_LEVEL_PREFIX);
}
INSTANTIATE_TEST_SUITE_P(Requests, PastTheCacheTest, ::testing::Values(FUSE_CREATE, FUSE_WRITE, FUSE_FSYNC));

}  // namespace
}  // namespace cairn::testing
