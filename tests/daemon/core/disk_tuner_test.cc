#include "daemon/core/disk_tuner.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/clock.h"
#include "storage/io/device_identity.h"
#include "storage/io/disk_probe.h"
#include "tests/daemon/core/by_hand.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr std::uint32_t kMi = 1 << 20;
constexpr TransferShape kFound{.bytes = kMi, .depth = 4}, kDeep{.bytes = 4 * kMi, .depth = 8};

DiskSpeeds Speeds() {
  return {.write = {{.shape = kFound, .bytes_per_s = 1e9}, {.shape = kDeep, .bytes_per_s = 1e9}},
          .read = {{.shape = kFound, .bytes_per_s = 1e9}, {.shape = kDeep, .bytes_per_s = 2e9}},
          .bytes_per_s = 1e9};
}

class DiskTunerTest : public ::testing::Test {
 protected:
  DiskTunerTest() {
    by_hand_.context.config.cache.path = "/ssd";
    EXPECT_OK(MakeDirectories(by_hand_.cache_disk, "/ssd/me"));
  }

  // Another life of the daemon on the same disk.
  void Start() {
    tuner_ = nullptr;
    by_hand_.cache_disk.UseShapes({});
    tuner_ = std::make_unique<DiskTuner>(by_hand_.context, [this] { return flushing_; });
    by_hand_.context.transfers->OnBegun([this] { tuner_->GiveWay(); });
    tuner_->Begin();
    by_hand_.RunAll();
  }
  void Turn(milliseconds by) {
    by_hand_.Turn(by);
    by_hand_.RunAll();
  }
  admin::CacheTransfers Told() {
    admin::CacheTransfers told;
    tuner_->Describe(told);
    return told;
  }
  TransferShapes Used() { return by_hand_.cache_disk.shapes(); }
  bool IsRecorded() { return ReadDiskRecord(by_hand_.cache_disk, kRecord).ok(); }

  static constexpr char kRecord[] = "/ssd/me/disk.cairn";
  int measured_ = 0;
  std::function<absl::StatusOr<DiskSpeeds>(const std::function<bool()>& stop)> probe_ = [](const auto&) {
    return Speeds();
  };
  bool flushing_ = false;
  std::vector<ProbeTurn> turns_;
  ByHand by_hand_{nullptr, [this](const std::string& path, ProbeTurn turn, const std::function<bool()>& stop) {
                    ++measured_;
                    turns_.push_back(turn);
                    EXPECT_EQ(path, kRecord);
                    return probe_(stop);
                  }};
  std::unique_ptr<DiskTuner> tuner_;
};

TEST_F(DiskTunerTest, MeasuresOnceItIsQuietUsesTheResultAndRemembersIt) {
  Start();
  EXPECT_EQ(Used(), TransferShapes());
  EXPECT_EQ(Told().why_not_measured(), "not measured yet");
  Turn(DiskTuner::kQuiet - milliseconds(1));
  EXPECT_EQ(measured_, 0);
  Turn(milliseconds(1));
  EXPECT_EQ(measured_, 1);
  EXPECT_EQ(Used(), (TransferShapes{.write = kFound, .read = kDeep}));
  EXPECT_EQ(Told().why_not_measured(), "");
  EXPECT_EQ(Told().write().bytes(), kMi);
  EXPECT_EQ(Told().write().depth(), 4u);
  EXPECT_EQ(Told().read_speed(), 2'000'000'000u);
  EXPECT_TRUE(Told().compared());
  Start();
  EXPECT_EQ(Used(), (TransferShapes{.write = kFound, .read = kDeep}));
  Turn(hours(1));
  EXPECT_EQ(measured_, 1);
}

TEST_F(DiskTunerTest, MeasuresAgainWhatIsOldAndUsesTheOldResultMeanwhile) {
  Start();
  Turn(DiskTuner::kQuiet);
  ASSERT_EQ(measured_, 1);
  for (int day = 1; day <= 29; ++day) Turn(hours(24));
  EXPECT_EQ(measured_, 1);
  probe_ = [](const auto&) { return absl::StatusOr<DiskSpeeds>(absl::UnavailableError("no")); };
  Turn(hours(25));
  Turn(hours(25));
  EXPECT_GE(measured_, 2);
  EXPECT_EQ(Used(), (TransferShapes{.write = kFound, .read = kDeep}));
}

TEST_F(DiskTunerTest, AnotherDeviceIsMeasuredAgain) {
  Start();
  Turn(DiskTuner::kQuiet);
  ASSERT_EQ(measured_, 1);
  by_hand_.cache_disk.Mount("/ssd/me");
  Start();
  EXPECT_EQ(Used(), TransferShapes());
  EXPECT_NE(Told().why_not_measured().find("another device"), std::string::npos) << Told().why_not_measured();
  Turn(DiskTuner::kQuiet);
  EXPECT_EQ(measured_, 2);
}

TEST_F(DiskTunerTest, ADamagedRecordIsMeasuredAgain) {
  Start();
  Turn(DiskTuner::kQuiet);
  by_hand_.cache_disk.FlipBit(kRecord, 100);
  Start();
  EXPECT_EQ(Used(), TransferShapes());
  Turn(DiskTuner::kQuiet);
  EXPECT_EQ(measured_, 2);
  EXPECT_TRUE(IsRecorded());
}

TEST_F(DiskTunerTest, DoesNotBeginBesideACaptureOrAFlushNorSoonAfterOne) {
  Start();
  by_hand_.context.transfers->Begun();
  Turn(DiskTuner::kQuiet);
  Turn(DiskTuner::kQuiet);
  EXPECT_EQ(measured_, 0);
  by_hand_.context.transfers->Ended();
  flushing_ = true;
  Turn(DiskTuner::kQuiet);
  EXPECT_EQ(measured_, 0);
  flushing_ = false;
  by_hand_.context.transfers->Begun();
  by_hand_.context.transfers->Ended();
  Turn(DiskTuner::kQuiet);  // since the last look something was captured
  EXPECT_EQ(measured_, 0);
  Turn(DiskTuner::kQuiet);
  EXPECT_EQ(measured_, 1);
}

TEST_F(DiskTunerTest, GivesWayToACaptureThatBeginsAndTriesAgain) {
  probe_ = [this](const std::function<bool()>& stop) -> absl::StatusOr<DiskSpeeds> {
    EXPECT_FALSE(stop());
    by_hand_.context.transfers->Begun();
    EXPECT_TRUE(stop());
    return absl::CancelledError("stopped");
  };
  Start();
  Turn(DiskTuner::kQuiet);
  EXPECT_EQ(measured_, 1);
  EXPECT_EQ(Used(), TransferShapes());
  EXPECT_FALSE(IsRecorded());
  EXPECT_NE(Told().why_not_measured().find("gave way"), std::string::npos);
  by_hand_.context.transfers->Ended();
  probe_ = [](const auto&) { return Speeds(); };
  Turn(DiskTuner::kQuiet);
  EXPECT_EQ(measured_, 2);
  EXPECT_EQ(Used().write, kFound);
}

TEST_F(DiskTunerTest, ASlowDiskIsNotComparedAndIsRemembered) {
  probe_ = [](const auto&) { return DiskSpeeds{.bytes_per_s = 1e8}; };
  Start();
  Turn(DiskTuner::kQuiet);
  EXPECT_EQ(Used(), TransferShapes());
  EXPECT_FALSE(Told().compared());
  EXPECT_NE(Told().measured_us(), 0);
  Start();
  Turn(hours(1));
  EXPECT_EQ(measured_, 1);
}

TEST_F(DiskTunerTest, WhatFailsIsToldAndTriedAgainLater) {
  probe_ = [](const auto&) { return absl::StatusOr<DiskSpeeds>(absl::ResourceExhaustedError("the disk is full")); };
  Start();
  Turn(DiskTuner::kQuiet);
  EXPECT_EQ(Told().why_not_measured(), "the disk is full");
  Turn(DiskTuner::kAfterFailure - milliseconds(1));
  EXPECT_EQ(measured_, 1);
  Turn(milliseconds(1));
  EXPECT_EQ(measured_, 2);
}

TEST_F(DiskTunerTest, WhileAnotherDaemonMeasuresItWaits) {
  probe_ = [](const auto&) { return absl::StatusOr<DiskSpeeds>(absl::AbortedError("another daemon")); };
  Start();
  Turn(DiskTuner::kQuiet);
  EXPECT_EQ(measured_, 1);
  EXPECT_EQ(Told().why_not_measured(),
            "not measured yet: another daemon (try 1; after 10 it is measured all the same)");
  Turn(DiskTuner::kBetweenTries - milliseconds(1));
  EXPECT_EQ(measured_, 1);
  Turn(milliseconds(1));
  EXPECT_EQ(measured_, 2);
}

TEST_F(DiskTunerTest, WhoeverKeepsTheTurnKeepsItFromMeasuringForSomeTriesOnly) {
  const auto aborted = [](const auto&) { return absl::StatusOr<DiskSpeeds>(absl::AbortedError("another process")); };
  probe_ = aborted;
  Start();
  Turn(DiskTuner::kQuiet);
  for (int i = 1; i < DiskTuner::kTurnsAwaited; ++i) Turn(DiskTuner::kBetweenTries);
  EXPECT_EQ(turns_, std::vector(DiskTuner::kTurnsAwaited, ProbeTurn::kAwaited));
  // Gives way the first time: that took no turn.
  probe_ = [](const auto&) { return absl::StatusOr<DiskSpeeds>(absl::CancelledError("stopped")); };
  Turn(DiskTuner::kBetweenTries);
  probe_ = [](const auto&) { return Speeds(); };
  Turn(DiskTuner::kQuiet);
  EXPECT_EQ(measured_, DiskTuner::kTurnsAwaited + 2);
  EXPECT_EQ(turns_[turns_.size() - 2], ProbeTurn::kGoneWithout);
  EXPECT_EQ(turns_.back(), ProbeTurn::kGoneWithout);
  EXPECT_EQ(Used().write, kFound);
  // A month later turns are awaited again.
  probe_ = aborted;
  for (int day = 0; day <= 30; ++day) Turn(hours(24));
  Turn(DiskTuner::kQuiet);
  EXPECT_EQ(turns_.back(), ProbeTurn::kAwaited);
}

TEST_F(DiskTunerTest, AResultThatCannotBeKeptIsUsed) {
  by_hand_.cache_disk.FailOn({.op = FakeOp::kSync, .times = 100});
  Start();
  Turn(DiskTuner::kQuiet);
  EXPECT_EQ(Used().write, kFound);
  EXPECT_FALSE(IsRecorded());
}

TEST_F(DiskTunerTest, SettingsSayMoreThanMeasurements) {
  by_hand_.context.config.cache.write_bytes = 2 * kMi;
  by_hand_.context.config.cache.read_depth = 3;
  Start();
  EXPECT_EQ(Used(), (TransferShapes{.write = {2 * kMi, 8}, .read = {4 * kMi, 3}}));
  Turn(DiskTuner::kQuiet);
  EXPECT_EQ(Used(), (TransferShapes{.write = {2 * kMi, 4}, .read = {4 * kMi, 3}}));
}

TEST_F(DiskTunerTest, WhatIsSwitchedOffIsNotMeasured) {
  Config::Cache& cache = by_hand_.context.config.cache;
  const auto expect_not = [this](const std::string& why) {
    Start();
    Turn(hours(1));
    EXPECT_EQ(measured_, 0) << why;
    EXPECT_EQ(Told().why_not_measured(), why);
  };
  cache.probe = false;
  expect_not("cache.probe is off");
  cache.probe = true;
  cache.direct = false;
  expect_not("cache.direct is off");
  cache.direct = true;
  cache.write_bytes = cache.read_bytes = kMi;
  cache.write_depth = cache.read_depth = 2;
  expect_not("the settings say all of it");
  EXPECT_EQ(Used(), (TransferShapes{.write = {kMi, 2}, .read = {kMi, 2}}));
}

TEST_F(DiskTunerTest, ADaemonThatGoesAwayStopsIt) {
  probe_ = [this](const std::function<bool()>& stop) -> absl::StatusOr<DiskSpeeds> {
    tuner_->Stop();
    EXPECT_TRUE(stop());
    return absl::CancelledError("stopped");
  };
  Start();
  Turn(DiskTuner::kQuiet);
  Turn(hours(48));
  EXPECT_EQ(measured_, 1);
  Start();
  tuner_->Stop();
  Turn(hours(48));
  EXPECT_EQ(measured_, 1);
}

}  // namespace
}  // namespace cairn
