#include "daemon/drain/folder_state.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "storage/base/clock.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

using std::chrono::seconds;

class FolderStateTest : public ::testing::Test {
 protected:
  admin::DrainStatus Status() const {
    admin::DrainStatus status;
    state_.Describe(status);
    return status;
  }
  std::string State() const { return Status().state(); }
  std::int64_t NowNs() const { return std::chrono::nanoseconds(now_.time_since_epoch()).count(); }
  void BeginPass() {
    state_.progress().open = true;
    state_.progress().bringing_ns = 0;
    state_.progress().began_ns = NowNs();
  }

  std::chrono::steady_clock::time_point now_{seconds(1000)};
  const ScopedClock clock_{{.wall = [this] { return std::chrono::system_clock::time_point(now_.time_since_epoch()); },
                            .steady = [this] { return now_; },
                            .sleep = [](std::chrono::nanoseconds) {}}};
  FolderState state_;
};

TEST_F(FolderStateTest, GoesThroughAPassByItsNames) {
  DrainProgress& progress = state_.progress();
  EXPECT_EQ(State(), "starting");
  BeginPass();
  EXPECT_EQ(State(), "looking");
  progress.files_all = 4;
  progress.bringing_ns = NowNs();
  EXPECT_EQ(State(), "bringing");
  progress.began_ns = 0;
  progress.left_files = 1;
  progress.settling = true;
  EXPECT_EQ(State(), "settling");
  progress.settling = false;
  EXPECT_EQ(State(), "waiting");
  progress.left_files = 0;
  EXPECT_EQ(State(), "idle");
  state_.Ending();
  EXPECT_EQ(State(), "ending");
  state_.Ended(absl::OkStatus());
  EXPECT_EQ(State(), "ending");
  EXPECT_EQ(Status().trouble(), "");
}

TEST_F(FolderStateTest, RateAndTimeLeftAreThoseSinceItCopies) {
  DrainProgress& progress = state_.progress();
  BeginPass();
  now_ += seconds(100);  // it has looked for so long
  EXPECT_EQ(Status().pass().began_us(), 1'000'000'000);
  EXPECT_EQ(Status().pass().files_all(), 0U);
  progress.files = 1;
  progress.files_all = 4;
  progress.bytes = 3000;
  progress.bytes_all = 12'000;
  progress.bringing_ns = NowNs();
  now_ += seconds(2);
  const admin::DrainStatus status = Status();
  EXPECT_EQ(status.pass().files(), 1U);
  EXPECT_EQ(status.pass().files_all(), 4U);
  EXPECT_EQ(status.pass().bytes_per_s(), 1500U);
  EXPECT_EQ(status.pass().left_ms(), 6000U);
  progress.bytes = 0;  // nobody knows
  EXPECT_EQ(Status().pass().left_ms(), 0U);
  progress.bytes = 15'000;  // something was copied twice
  EXPECT_EQ(Status().pass().bytes(), 12'000U);
  EXPECT_EQ(Status().pass().left_ms(), 0U);
  progress.began_ns = 0;
  EXPECT_FALSE(Status().has_pass());
}

TEST_F(FolderStateTest, ThatNothingCanBeBroughtIsToldFromWhatOnlyHampers) {
  now_ += seconds(5);
  state_.Trouble(NotFound("/bb: gone"));
  EXPECT_EQ(State(), "failed");
  EXPECT_EQ(Status().trouble(), "/bb: gone");
  EXPECT_EQ(Status().trouble_since_us(), 1'005'000'000);
  // It is tried again, with the same trouble in the end: that is told once.
  BeginPass();
  EXPECT_EQ(State(), "looking");
  state_.progress().began_ns = 0;
  state_.progress().open = false;
  EXPECT_EQ(State(), "failed");
  state_.progress().open = true;
  state_.Trouble(ResourceExhausted("no news, only looks"));
  EXPECT_EQ(State(), "idle");
  EXPECT_EQ(Status().trouble(), "no news, only looks");
  state_.Trouble(absl::OkStatus());
  EXPECT_EQ(Status().trouble(), "");
  EXPECT_EQ(Status().trouble_since_us(), 0);
  state_.Ended(Unavailable("thrown"));
  EXPECT_EQ(State(), "ended");
  EXPECT_EQ(Status().trouble(), "thrown");
}

TEST_F(FolderStateTest, WhatThePassHasLeftBehindIsThatOfTheLastOne) {
  EXPECT_EQ(Status().passed_us(), 0);
  DrainReport report;
  for (const char* name : {"first", "second"}) report.waiting.Add(name, "open");
  report.failed.Add("a", "not for you");
  report.failed.Add("b", "neither");
  report.damaged.Add("c", "differs");
  report.left_out.Add("pipe", "no file");
  state_.Passed(report);
  admin::DrainStatus status = Status();
  EXPECT_EQ(status.passed_us(), 1'000'000'000);
  EXPECT_EQ(status.waiting(), 2U);
  EXPECT_EQ(status.waits_first(), "first");
  EXPECT_EQ(status.waits_why(), "open");
  EXPECT_EQ(status.failed(), 3U);
  EXPECT_EQ(status.failed_last(), "c");
  EXPECT_EQ(status.failed_why(), "differs");
  EXPECT_EQ(status.left_out(), 1U);
  report.damaged = {};
  state_.Passed(report);
  EXPECT_EQ(Status().failed_last(), "b");
  state_.Passed({});
  status = Status();
  EXPECT_EQ(status.waiting() + status.failed() + status.left_out(), 0U);
  EXPECT_EQ(status.waits_first() + status.waits_why() + status.failed_last() + status.failed_why(), "");
}

TEST_F(FolderStateTest, NamesMayHaveAnyBytes) {
  DrainReport report;
  report.failed.Add("\xff\n", "\xfe");
  state_.Passed(report);
  admin::DrainStatus read;
  ASSERT_TRUE(read.ParseFromString(Status().SerializeAsString()));
  EXPECT_EQ(read.failed_last(), "\xff\n");
}

}  // namespace
}  // namespace cairn
