// What a stop, a kill and a new start of the daemon leave to an application that lives on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <numeric>

#include "client/cairn.h"
#include "tests/integration/harness.h"

namespace cairn::testing {
namespace {

constexpr std::size_t kElements = 4 << 20;  // 32 MiB

class StopTest : public ::testing::Test {
 protected:
  ~StopTest() override { cairn_close(session); }

  // A launch of one rank, with all of `field` protected.
  void Open() {
    cairn_close(session);
    session = nullptr;
    const std::string address = harness.address(), prefix = harness.prefix();
    cairn_options options = CAIRN_OPTIONS_INIT;
    options.address = address.c_str();
    options.prefix = prefix.c_str();
    options.rank = 0;
    options.nranks = 1;
    ASSERT_EQ(cairn_open(&options, &session), CAIRN_OK) << cairn_error(nullptr);
    ASSERT_EQ(cairn_protect(session, 1, field.data(), field.size(), CAIRN_UINT64), CAIRN_OK) << cairn_error(session);
  }

  std::uint64_t Checkpoint(std::uint64_t step) {
    std::iota(field.begin(), field.end(), step << 32);
    std::uint64_t dataset = 0;
    EXPECT_EQ(cairn_checkpoint(session, step, &dataset), CAIRN_OK) << cairn_error(session);
    return dataset;
  }

  // The newest checkpoint is `dataset` of `step`, whole; the tier that served it.
  int RestoredTier(std::uint64_t dataset, std::uint64_t step) {
    std::uint64_t latest = 0, label = 0;
    EXPECT_EQ(cairn_latest(session, &latest, &label), CAIRN_OK) << cairn_error(session);
    EXPECT_EQ(latest, dataset);
    EXPECT_EQ(label, step);
    std::fill(field.begin(), field.end(), 0);
    EXPECT_EQ(cairn_restore(session, latest), CAIRN_OK) << cairn_error(session);
    std::vector<std::uint64_t> expected(kElements);
    std::iota(expected.begin(), expected.end(), step << 32);
    EXPECT_TRUE(field == expected);
    std::int32_t tier = CAIRN_TIER_NONE;
    EXPECT_EQ(cairn_restored_tier(session, &tier), CAIRN_OK);
    return tier;
  }

  Harness harness;
  std::vector<std::uint64_t> field = std::vector<std::uint64_t>(kElements);
  cairn_session* session = nullptr;
};

TEST_F(StopTest, SigtermBringsWhatWasJustCapturedToTheCache) {
  ASSERT_TRUE(harness.StartDaemon({"--flush-every", "0"}));
  Open();
  const std::uint64_t dataset = Checkpoint(7);
  EXPECT_EQ(harness.StopDaemon().exit_code, 0);
  ASSERT_TRUE(harness.StartDaemon());
  Open();
  EXPECT_EQ(RestoredTier(dataset, 7), CAIRN_TIER_CACHE);
}

TEST_F(StopTest, ASecondSignalEndsAtOnceAndSaysSo) {
  ASSERT_TRUE(harness.StartDaemon());
  Open();
  Checkpoint(1);
  harness.daemon()->Signal(SIGSTOP);  // so that both are there when it looks
  harness.daemon()->Signal(SIGINT);
  harness.daemon()->Signal(SIGTERM);
  harness.daemon()->Signal(SIGCONT);
  EXPECT_EQ(harness.daemon()->Wait().exit_code, 4);
  EXPECT_THAT(harness.DaemonLog(), ::testing::HasSubstr("second signal"));
}

TEST_F(StopTest, AfterAKillTheSameSessionGoesOnWithTheNextDaemon) {
  ASSERT_TRUE(harness.StartDaemon());
  Open();
  const std::uint64_t first = Checkpoint(1);
  ASSERT_EQ(cairn_wait(session, first, CAIRN_LEVEL_LOCAL, 60000), CAIRN_OK) << cairn_error(session);
  harness.KillDaemon();
  ASSERT_TRUE(harness.StartDaemon());
  const std::uint64_t second = Checkpoint(2);
  EXPECT_GT(second, first);
  EXPECT_EQ(cairn_wait(session, second, CAIRN_LEVEL_LOCAL, 60000), CAIRN_OK) << cairn_error(session);
  EXPECT_EQ(cairn_wait(session, first, CAIRN_LEVEL_LOCAL, 60000), CAIRN_OK) << cairn_error(session);
}

TEST_F(StopTest, AFlushThatAStopCutOffIsFinishedByTheNextDaemon) {
  ASSERT_TRUE(harness.StartDaemon({"--flush-bandwidth", "1MiB/s"}));
  Open();
  const std::uint64_t dataset = Checkpoint(1);
  ASSERT_EQ(cairn_wait(session, dataset, CAIRN_LEVEL_LOCAL, 60000), CAIRN_OK) << cairn_error(session);
  EXPECT_EQ(harness.StopDaemon().exit_code, 0);
  ASSERT_TRUE(harness.StartDaemon());
  Open();
  EXPECT_EQ(cairn_wait(session, dataset, CAIRN_LEVEL_PREFIX, 60000), CAIRN_OK) << cairn_error(session);
  EXPECT_FALSE(std::filesystem::is_empty(harness.prefix() + "/ckpt." + std::to_string(dataset)));
}

TEST_F(StopTest, SighupChangesTheFlushBandwidthOfADaemonAtWork) {
  ASSERT_TRUE(harness.StartDaemon());
  harness.WriteSettings("[flush]\nbandwidth = \"1kB/s\"\n");
  harness.daemon()->Signal(SIGHUP);
  ASSERT_TRUE(harness.WaitForLog("settings reloaded"));
  Open();
  const std::uint64_t dataset = Checkpoint(1);
  EXPECT_EQ(cairn_wait(session, dataset, CAIRN_LEVEL_PREFIX, 200), CAIRN_DEADLINE_EXCEEDED);
  harness.WriteSettings("[flush]\nbandwidth = \"0\"\n");
  harness.daemon()->Signal(SIGHUP);
  EXPECT_EQ(cairn_wait(session, dataset, CAIRN_LEVEL_PREFIX, 60000), CAIRN_OK) << cairn_error(session);
}

TEST_F(StopTest, WithoutADaemonACallEndsAtItsDeadline) {
  ASSERT_TRUE(harness.StartDaemon());
  Open();
  const std::uint64_t dataset = Checkpoint(1);
  harness.KillDaemon();
  EXPECT_THAT(cairn_wait(session, dataset, CAIRN_LEVEL_PREFIX, 200),
              ::testing::AnyOf(CAIRN_DEADLINE_EXCEEDED, CAIRN_UNAVAILABLE));
}

}  // namespace
}  // namespace cairn::testing
