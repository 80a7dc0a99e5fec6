// Conditions that stop a run, as people set and unset them.
#include "storage/job/halt/halt.h"

#include <gtest/gtest.h>

#include <string>

#include "storage/io/disk.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;

class HaltTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(MakeDirectories(disk_, "/pfs/demo/.scr")); }
  scr::Halt Apply(const HaltChange& change) {
    auto halt = ApplyHaltChange(disk_, "/pfs/demo", change);
    EXPECT_OK(halt.status());
    return halt.ok() ? *halt : scr::Halt();
  }

  FakeDisk disk_;
};

TEST_F(HaltTest, WhatIsSetStaysUntilItIsUnset) {
  HaltChange set;
  set.checkpoints = 5;
  set.before_s = 1000;
  set.seconds = 60;
  Apply(set);
  HaltChange reason;
  reason.reason = "JOB_HALTED";
  const scr::Halt both = Apply(reason);
  EXPECT_EQ(both.reason, "JOB_HALTED");
  EXPECT_EQ(both.checkpoints_left, 5u);
  EXPECT_EQ(both.exit_before_s, 1000);
  HaltChange unset;
  unset.unset_reason = unset.unset_checkpoints = true;
  const scr::Halt rest = Apply(unset);
  EXPECT_TRUE(rest.reason.empty());
  EXPECT_EQ(rest.checkpoints_left, std::nullopt);
  EXPECT_EQ(rest.halt_seconds, 60u);
}

TEST_F(HaltTest, NoChangeOnlyReadsAndMakesNoFile) {
  EXPECT_FALSE(HaltChange().changes());
  Apply({});
  EXPECT_FALSE(disk_.Info("/pfs/demo/.scr/halt.scr").ok());
}

TEST_F(HaltTest, RemovingLeavesNoConditions) {
  HaltChange set;
  set.after_s = 7;
  EXPECT_EQ(Apply(set).exit_after_s, 7);
  HaltChange remove;
  remove.remove = true;
  EXPECT_EQ(Apply(remove).exit_after_s, std::nullopt);
  EXPECT_FALSE(disk_.Info("/pfs/demo/.scr/halt.scr").ok());
}

TEST(HaltReasonTest, WhatStopsNothingOrCannotBeReadIsRefused) {
  EXPECT_OK(CheckHaltReason("maintenance at noon"));
  EXPECT_OK(CheckHaltReason(std::string(1023, 'x')));
  for (const std::string& reason : {std::string(), std::string("SCR_FINALIZE_CALLED"), std::string(1024, 'x'),
                                    std::string("a\nb"), std::string("\x7f")}) {
    EXPECT_EQ(CheckHaltReason(reason).code(), StatusCode::kInvalidArgument) << reason;
  }
}

}  // namespace
}  // namespace cairn
