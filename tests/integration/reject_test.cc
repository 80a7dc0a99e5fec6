// What an application has rejected stays so when the daemon is killed at once, and names lead where they led.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "client/cairn.h"
#include "tests/integration/rank_session.h"

namespace cairn::testing {
namespace {

class RejectTest : public ::testing::Test {
 protected:
  ~RejectTest() override { cairn_close(session_); }

  // A launch of one rank, with `field_` protected.
  void Open() {
    cairn_close(session_);
    session_ = nullptr;
    ASSERT_EQ(OpenRank(harness_, "job." + std::to_string(++launches_), 0, 1, &session_), CAIRN_OK)
        << cairn_error(nullptr);
    ASSERT_EQ(cairn_protect(session_, 1, field_.data(), field_.size(), CAIRN_UINT64), CAIRN_OK);
  }
  void Checkpoint(std::uint64_t step, const std::string& name, std::int32_t level) {
    std::uint64_t dataset = 0;
    std::fill(field_.begin(), field_.end(), step);
    ASSERT_EQ(cairn_set_name(session_, name.c_str()), CAIRN_OK) << cairn_error(session_);
    ASSERT_EQ(cairn_checkpoint(session_, step, &dataset), CAIRN_OK) << cairn_error(session_);
    ASSERT_EQ(cairn_wait(session_, dataset, level, 60000), CAIRN_OK) << cairn_error(session_);
  }
  void RejectWhatWasRestored() {
    std::uint64_t dataset = 0;
    ASSERT_EQ(cairn_restored_dataset(session_, &dataset), CAIRN_OK);
    EXPECT_EQ(cairn_reject(session_, dataset), CAIRN_OK) << cairn_error(session_);
  }
  void ExpectRestart(std::uint64_t step, int tier) {
    std::uint64_t label = 0;
    std::int32_t from = CAIRN_TIER_NONE;
    std::fill(field_.begin(), field_.end(), 0);
    ASSERT_EQ(cairn_resume(session_, &label), CAIRN_OK) << cairn_error(session_);
    EXPECT_EQ(label, step);
    EXPECT_TRUE(std::all_of(field_.begin(), field_.end(), [step](std::uint64_t element) { return element == step; }));
    ASSERT_EQ(cairn_restored_tier(session_, &from), CAIRN_OK);
    EXPECT_EQ(from, tier);
  }
  std::uint64_t StepOf(const std::string& name) {
    std::uint64_t dataset = 0, step = 0;
    std::array<char, CAIRN_DATASET_NAME_MAX> told{};
    if (cairn_find(session_, name.c_str(), &dataset, &step) != CAIRN_OK) return 0;
    EXPECT_EQ(cairn_dataset_name(session_, dataset, told.data(), told.size()), CAIRN_OK) << cairn_error(session_);
    EXPECT_EQ(told.data(), name);
    return step;
  }

  Harness harness_;
  std::vector<std::uint64_t> field_ = std::vector<std::uint64_t>(100'000);
  cairn_session* session_ = nullptr;
  int launches_ = 0;
};

TEST_F(RejectTest, WhatIsOnlyInTheCacheIsNotChosenAfterAKill) {
  ASSERT_TRUE(harness_.StartDaemon({"--flush-every", "0"}));
  Open();
  for (const std::uint64_t step : {10, 20}) Checkpoint(step, "step " + std::to_string(step), CAIRN_LEVEL_LOCAL);
  Open();
  ExpectRestart(20, CAIRN_TIER_IMAGE);
  RejectWhatWasRestored();
  harness_.KillDaemon();
  ASSERT_TRUE(harness_.StartDaemon({"--flush-every", "0"}));
  ExpectRestart(10, CAIRN_TIER_CACHE);  // the same launch
  Open();
  ExpectRestart(10, CAIRN_TIER_CACHE);
  EXPECT_EQ(StepOf("step 10"), 10u);
  EXPECT_EQ(StepOf("step 20"), 0u);
}

TEST_F(RejectTest, WhatIsOnThePrefixIsNotChosenAfterAKillAlsoWithoutTheCache) {
  ASSERT_TRUE(harness_.StartDaemon());
  Open();
  for (const std::uint64_t step : {10, 20}) Checkpoint(step, "step " + std::to_string(step), CAIRN_LEVEL_PREFIX);
  Open();
  ExpectRestart(20, CAIRN_TIER_IMAGE);
  RejectWhatWasRestored();
  harness_.KillDaemon();
  ASSERT_TRUE(harness_.StartDaemon());
  ExpectRestart(10, CAIRN_TIER_CACHE);
  Open();
  ExpectRestart(10, CAIRN_TIER_CACHE);
  harness_.KillDaemon();
  harness_.DeleteCache();
  ASSERT_TRUE(harness_.StartDaemon());
  Open();
  ExpectRestart(10, CAIRN_TIER_PREFIX);
  EXPECT_EQ(StepOf("step 10"), 10u);
  EXPECT_EQ(StepOf("step 20"), 0u);
}

}  // namespace
}  // namespace cairn::testing
