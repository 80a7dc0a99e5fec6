// The prefix on a real distributed file system: GlusterFS with three bricks that hold the same, mounted by FUSE; the
// cache on the local disk; and a tier that is redundant itself there. Bricks are killed while checkpoints are flushed
// and restored. Clients log outside the daemon what they were promised. Instants are drawn from CAIRN_TEST_SEED;
// CAIRN_SOAK=1 draws many more. Skipped, saying why, where there is no GlusterFS.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "client/cairn.h"
#include "tests/integration/application.h"
#include "tests/integration/harness.h"
#include "tests/integration/promises.h"
#include "tests/support/gluster.h"

namespace cairn::testing {
namespace {

using std::chrono::microseconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const auto* const kOneGluster = ::testing::AddGlobalTestEnvironment(new OneGluster);

// What cannot be flushed just now is tried again soon.
const std::vector<std::string> kFlags = {"--flush-retry-min", "100ms", "--flush-retry-max", "1s"};

int Rounds() {
  return std::getenv("CAIRN_SOAK") != nullptr ? 60 : 2;
}

class GlusterPrefixTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(gluster_.StartBricks());
    harness_ = MakeHarness();
  }
  void TearDown() override {
    if (harness_ && harness_->daemon() != nullptr) harness_->KillDaemon();
    EXPECT_TRUE(gluster_.StartBricks());
    harness_.reset();
    if (HasFailure()) std::cerr << "CAIRN_TEST_SEED=" << seed_ << " repeats this\n";
  }

  // A node with an empty cache.
  std::unique_ptr<Harness> MakeHarness() const {
    std::string folder = "/tmp/cairn-test.XXXXXX";  // a socket's path must be short
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    return std::make_unique<Harness>(Harness::Place{.folder = folder, .prefix = prefix_}, Process::Start);
  }
  // The same node, as if it had never seen the run.
  void StartDaemonWithEmptyCache() {
    harness_->KillDaemon();
    harness_->DeleteCache();
    ASSERT_TRUE(harness_->StartDaemon(kFlags));
  }

  std::string PromisesOf(int rank) const { return harness_->folder() + "/promises." + std::to_string(rank); }
  Process::Options Client(const Harness& on, std::vector<std::string> arguments, const std::string& launch,
                          int rank = 0, int nranks = 1) const {
    arguments.insert(arguments.end(), {"--promises", PromisesOf(rank)});
    Process::Options options = on.Client("tests/integration/crash_client", std::move(arguments));
    options.environment["CAIRN_LAUNCH"] = launch;
    options.environment["CAIRN_RANK"] = std::to_string(rank);
    options.environment["CAIRN_NRANKS"] = std::to_string(nranks);
    return options;
  }
  // All ranks of a launch to their end; what each has said.
  std::vector<std::string> Run(const Harness& on, const std::vector<std::string>& arguments, const std::string& launch,
                               int nranks) const {
    std::vector<std::unique_ptr<Process>> ranks;
    for (int rank = 0; rank < nranks; ++rank) {
      ranks.push_back(Process::Start(Client(on, arguments, launch, rank, nranks)));
    }
    std::vector<std::string> said;
    for (const auto& rank : ranks) {
      const Ending ending = rank->Wait();
      EXPECT_EQ(ending.exit_code, 0) << ending.output;
      said.push_back(ending.output);
    }
    return said;
  }
  std::string Cairn(const Harness& on, std::vector<std::string> arguments) const {
    const Ending ending = RunProcess(on.Client("client/cli/cairn", std::move(arguments)));
    EXPECT_EQ(ending.exit_code, 0) << ending.output;
    return ending.output;
  }
  static std::string Resumed(std::uint64_t step, std::uint64_t dataset) {
    return "resumed " + std::to_string(step) + " " + std::to_string(dataset) + " " + std::to_string(CAIRN_TIER_PREFIX) +
           "\n";
  }

  microseconds Draw(microseconds below) {
    return microseconds(std::uniform_int_distribution<microseconds::rep>(0, below.count())(random_));
  }
  // Always the same one, and with `count` 2 the next one as well, some time later. GlusterFS answers for no name that
  // was replaced without one brick before that was healed, if another dies then.
  void KillBricks(int count) {
    for (int i = 0; i < count; ++i) {
      if (i > 0) LetItWorkFor(Draw(std::chrono::milliseconds(50)));
      gluster_.KillBrick((first_ + i) % Gluster::kBricks);
    }
  }

  const std::uint64_t seed_ = TestSeed();
  std::mt19937_64 random_{seed_};
  const int first_ = std::uniform_int_distribution<int>(0, Gluster::kBricks - 1)(random_);
  Gluster& gluster_ = *OneGluster::gluster;
  inline static int runs_ = 0;
  const std::string prefix_ = gluster_.mount_point() + "/run" + std::to_string(++runs_);
  std::unique_ptr<Harness> harness_;
};

TEST_F(GlusterPrefixTest, WhatSeveralRanksBroughtThereAnotherNodeRestoresBitForBit) {
  constexpr int kRanks = 3;
  ASSERT_TRUE(harness_->StartDaemon(kFlags));
  Run(*harness_, {"--mib", "6", "--steps", "3", "--flush-every", "3", "--outputs"}, "one", kRanks);
  std::uint64_t dataset = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    const Promises promised = ReadPromises(PromisesOf(rank));
    EXPECT_THAT(promised.refused, IsEmpty());
    ASSERT_EQ(promised.by_kind.at("prefix").size(), 1u) << rank;
    EXPECT_EQ(promised.by_kind.at("prefix").begin()->second, 3u) << rank;
    dataset = promised.by_kind.at("prefix").begin()->first;
  }
  EXPECT_EQ(harness_->StopDaemon().exit_code, 0);

  const auto other = MakeHarness();
  ASSERT_TRUE(other->StartDaemon(kFlags));
  for (const std::string& rank : Run(*other, {"--mib", "6", "--steps", "0", "--wait-busy"}, "two", kRanks)) {
    EXPECT_EQ(rank, Resumed(3, dataset));
  }
  EXPECT_THAT(Cairn(*other, {"verify", prefix_}), Not(HasSubstr("damaged")));
}

class BricksTest : public GlusterPrefixTest, public ::testing::WithParamInterface<int> {};

// While one brick is missing, flushes go on. While two are, nothing can; then they go on by themselves.
TEST_P(BricksTest, AreKilledWhileCheckpointsAreFlushed) {
  std::vector<std::string> flags = {"--prefix-keep-last", "3"};
  flags.insert(flags.end(), kFlags.begin(), kFlags.end());
  ASSERT_TRUE(harness_->StartDaemon(flags));
  auto client = Process::Start(
      Client(*harness_, {"--mib", "8", "--steps", "1000000", "--flush-every", "1", "--no-check"}, "one launch"));
  const auto flushed = [this] { return ReadPromises(PromisesOf(0)).by_kind["prefix"].size(); };
  const auto await_flushes = [&](std::size_t more) { return AwaitPromises(PromisesOf(0), "prefix", flushed() + more); };
  for (int round = 0; round < Rounds(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    ASSERT_TRUE(await_flushes(1)) << (client->running() ? Cairn(*harness_, {"status"}) : client->Wait().output);
    LetItWorkFor(Draw(std::chrono::milliseconds(400)));
    KillBricks(GetParam());
    if (GetParam() == 1) {
      EXPECT_TRUE(await_flushes(2)) << Cairn(*harness_, {"status"});
    } else {
      LetItWorkFor(Draw(std::chrono::seconds(1)));
    }
    ASSERT_TRUE(gluster_.StartBricks());
  }
  ASSERT_TRUE(await_flushes(2)) << Cairn(*harness_, {"status"});
  client->Signal(SIGKILL);
  client->Wait();

  const Promises promised = ReadPromises(PromisesOf(0));
  EXPECT_THAT(promised.refused, IsEmpty());
  const std::uint64_t newest = NewestStep(promised.by_kind.at("prefix"));
  EXPECT_THAT(Cairn(*harness_, {"verify", prefix_}), Not(HasSubstr("damaged")));
  ASSERT_NO_FATAL_FAILURE(StartDaemonWithEmptyCache());
  const std::string said = Run(*harness_, {"--mib", "8", "--steps", "0", "--wait-busy"}, "next launch", 1)[0];
  std::uint64_t step = 0, dataset = 0;
  ASSERT_EQ(std::sscanf(said.c_str(), "resumed %lu %lu", &step, &dataset), 2) << said;
  EXPECT_EQ(said, Resumed(step, dataset));
  EXPECT_GE(step, newest);
}

// While one brick is missing nobody notices. While two are, the restore waits: it does not go on from something older,
// or from nothing, because the prefix is out of reach.
TEST_P(BricksTest, AreKilledWhileACheckpointIsRestored) {
  const std::vector<std::string> restores = {"--mib", "64", "--steps", "0", "--wait-busy"};
  ASSERT_TRUE(harness_->StartDaemon(kFlags));
  Run(*harness_, {"--mib", "64", "--steps", "2", "--flush-every", "1"}, "writes", 1);
  const std::uint64_t dataset = ReadPromises(PromisesOf(0)).by_kind.at("prefix").rbegin()->first;
  ASSERT_NO_FATAL_FAILURE(StartDaemonWithEmptyCache());
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(Run(*harness_, restores, "reads", 1)[0], Resumed(2, dataset));
  const auto whole = std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - begin);
  for (int round = 0; round < Rounds(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    ASSERT_NO_FATAL_FAILURE(StartDaemonWithEmptyCache());
    auto client = Process::Start(Client(*harness_, restores, "reads again " + std::to_string(round)));
    LetItWorkFor(Draw(whole));
    KillBricks(GetParam());
    if (GetParam() > 1) {
      LetItWorkFor(Draw(std::chrono::seconds(1)));
      ASSERT_TRUE(gluster_.StartBricks());
    }
    const Ending ending = client->Wait();
    EXPECT_EQ(ending.exit_code, 0) << ending.output;
    EXPECT_EQ(ending.output, Resumed(2, dataset));
    ASSERT_TRUE(gluster_.StartBricks());
  }
}

INSTANTIATE_TEST_SUITE_P(Killed, BricksTest, ::testing::Values(1, 2),
                         [](const auto& info) { return info.param == 1 ? "One" : "Two"; });

TEST_F(GlusterPrefixTest, WithoutTwoBricksCheckpointsBecomeLocalAndAreFlushedWhenTheBricksAreBack) {
  ASSERT_TRUE(harness_->StartDaemon(kFlags));
  Application run(*harness_, prefix_);
  ASSERT_EQ(run.Open(), CAIRN_OK) << cairn_error(nullptr);
  run.ExpectReaches(run.Checkpoint(1), CAIRN_LEVEL_PREFIX);
  KillBricks(2);
  std::vector<std::uint64_t> datasets;
  for (std::uint64_t step = 2; step <= 4; ++step) {
    datasets.push_back(run.Checkpoint(step));
    run.ExpectReaches(datasets.back(), CAIRN_LEVEL_LOCAL);
  }
  EXPECT_EQ(run.Wait(datasets.back(), CAIRN_LEVEL_PREFIX, 500), CAIRN_DEADLINE_EXCEEDED) << run.error();
  EXPECT_THAT(run.error(), HasSubstr("level prefix of dataset"));
  const std::string status = Cairn(*harness_, {"status"});
  EXPECT_THAT(status, HasSubstr("flush of dataset 4 (step 4): backing off"));
  EXPECT_THAT(status, HasSubstr("Transport endpoint is not connected"));
  ASSERT_TRUE(gluster_.StartBricks());
  run.ExpectReaches(datasets.back(), CAIRN_LEVEL_PREFIX);
  run.Close();
  EXPECT_THAT(Cairn(*harness_, {"verify", prefix_}), Not(HasSubstr("damaged")));
  StartDaemonWithEmptyCache();
  ASSERT_EQ(run.Open(), CAIRN_OK) << cairn_error(nullptr);
  run.ExpectRestart(4, CAIRN_TIER_PREFIX);
}

// The same as a tier that is redundant itself, behind a prefix on the local disk, to which nothing is ever flushed.
class GlusterTierTest : public GlusterPrefixTest {
 protected:
  void SetUp() override {
    GlusterPrefixTest::SetUp();
    std::filesystem::create_directory(tier_);
    flags_.insert(flags_.end(), {"--flush-every", "0", "--redundant-path", tier_, "--lease-term", "1s"});
  }
  void StartAnew() {
    harness_->KillDaemon();
    harness_->DeleteCache();
    ASSERT_TRUE(harness_->StartDaemon(flags_));
  }
  Process::Options ClientThere(const std::vector<std::string>& arguments, const std::string& launch) const {
    Process::Options client = Client(*harness_, arguments, launch);
    client.environment["CAIRN_PREFIX"] = harness_->folder() + "/local";
    return client;
  }
  std::string ToItsEnd(const std::vector<std::string>& arguments, const std::string& launch) const {
    const Ending ending = RunProcess(ClientThere(arguments, launch));
    EXPECT_EQ(ending.exit_code, 0) << ending.output;
    return ending.output;
  }
  static std::string ResumedThere(std::uint64_t step, std::uint64_t dataset) {
    return "resumed " + std::to_string(step) + " " + std::to_string(dataset) + " " +
           std::to_string(CAIRN_TIER_REDUNDANT) + "\n";
  }

  const std::string tier_ = gluster_.mount_point() + "/tier" + std::to_string(runs_);
  std::vector<std::string> flags_ = kFlags;
};

TEST_F(GlusterTierTest, ABrickIsKilledWhileCheckpointsAreBroughtAndRestored) {
  ASSERT_TRUE(harness_->StartDaemon(flags_));
  auto client =
      Process::Start(ClientThere({"--mib", "16", "--steps", "1000000", "--redundant", "--no-check"}, "one launch"));
  const auto said = [this] { return ReadPromises(PromisesOf(0)).by_kind["redundant"].size(); };
  const auto await = [&](std::size_t more) { return AwaitPromises(PromisesOf(0), "redundant", said() + more); };
  for (int round = 0; round < Rounds(); ++round) {
    ASSERT_TRUE(await(1)) << (client->running() ? Cairn(*harness_, {"status"}) : client->Wait().output);
    LetItWorkFor(Draw(std::chrono::milliseconds(200)));
    KillBricks(1);
    EXPECT_TRUE(await(2)) << Cairn(*harness_, {"status"});
    ASSERT_TRUE(gluster_.StartBricks());
  }
  client->Signal(SIGKILL);
  client->Wait();
  const Promises promised = ReadPromises(PromisesOf(0));
  EXPECT_THAT(promised.refused, IsEmpty());
  const std::uint64_t newest = NewestStep(promised.by_kind.at("redundant"));

  const std::vector<std::string> restores = {"--mib", "16", "--steps", "0", "--wait-busy"};
  ASSERT_NO_FATAL_FAILURE(StartAnew());
  const auto begin = std::chrono::steady_clock::now();
  const std::string first = ToItsEnd(restores, "reads");
  const auto whole = std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - begin);
  std::uint64_t step = 0, dataset = 0;
  ASSERT_EQ(std::sscanf(first.c_str(), "resumed %lu %lu", &step, &dataset), 2) << first;
  EXPECT_EQ(first, ResumedThere(step, dataset));
  EXPECT_GE(step, newest);
  for (int round = 0; round < Rounds(); ++round) {
    ASSERT_NO_FATAL_FAILURE(StartAnew());
    auto reader = Process::Start(ClientThere(restores, "reads again " + std::to_string(round)));
    LetItWorkFor(Draw(whole));
    KillBricks(1);
    const Ending ending = reader->Wait();
    EXPECT_EQ(ending.exit_code, 0) << ending.output;
    EXPECT_EQ(ending.output, ResumedThere(step, dataset));
    ASSERT_TRUE(gluster_.StartBricks());
  }
}

}  // namespace
}  // namespace cairn::testing
