#include "storage/io/disk_probe.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/clock.h"
#include "storage/io/posix_disk.h"
#include "storage/io/scratch.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr char kPath[] = "/cache/disk.cairn";
constexpr DiskProbeLimits kSmall{.file_bytes = 16 << 20};  // for a disk in memory

bool Never() {
  return false;
}

// A disk on which each transfer takes the time that it is told to, by a clock that nothing else turns.
class DiskProbeTest : public ::testing::Test {
 protected:
  explicit DiskProbeTest(FakeDiskOptions options = {.direct = true}) : disk_(options) {
    EXPECT_OK(disk_.MakeDirectory("/cache", 0700));
    disk_.SyncAll();
    disk_.SetHook([this](FakeOp op, const std::string&) {
      if (op == FakeOp::kWrite || op == FakeOp::kRead) now_ += transfer_time_;
    });
  }

  void ExpectNothingLeft() { EXPECT_EQ(*disk_.List("/cache"), std::vector<std::string>()); }

  std::chrono::nanoseconds transfer_time_ = std::chrono::microseconds(500);
  std::chrono::nanoseconds now_{0};
  ScopedClock clock_{{.wall =
                          [this] {
                            return std::chrono::system_clock::time_point(
                                std::chrono::duration_cast<std::chrono::microseconds>(now_));
                          },
                      .steady = [this] { return std::chrono::steady_clock::time_point(now_); },
                      .sleep = [this](std::chrono::nanoseconds time) { now_ += time; }}};
  FakeDisk disk_;
};

TEST_F(DiskProbeTest, MeasuresEachShapeOfWritesAndReadsAndLeavesNothing) {
  const auto speeds = ProbeDisk(disk_, kPath, kSmall, Never);
  ASSERT_OK(speeds);
  ASSERT_EQ(speeds->write.size(), ProbedShapes().size());
  ASSERT_EQ(speeds->read.size(), ProbedShapes().size());
  EXPECT_NEAR(speeds->bytes_per_s, (1 << 20) / 0.0005, 1);
  for (std::size_t i = 0; i < ProbedShapes().size(); ++i) {
    EXPECT_TRUE(ProbedShapes()[i].valid());
    EXPECT_EQ(speeds->write[i].shape, ProbedShapes()[i]);
    EXPECT_NEAR(speeds->write[i].bytes_per_s, ProbedShapes()[i].bytes / 0.0005, 1);
    EXPECT_NEAR(speeds->read[i].bytes_per_s, ProbedShapes()[i].bytes / 0.0005, 1);
  }
  ExpectNothingLeft();
}

TEST_F(DiskProbeTest, WhatADiskOfWhichNothingIsKnownUsesIsAmongThem) {
  EXPECT_NE(std::ranges::find(ProbedShapes(), TransferShape()), ProbedShapes().end());
}

TEST_F(DiskProbeTest, TheBetterOfTwoMeasurementsCounts) {
  // The first round is disturbed.
  transfer_time_ = std::chrono::microseconds(700);
  int syncs = 0;
  disk_.SetHook([&](FakeOp op, const std::string&) {
    if (op == FakeOp::kSync && ++syncs > static_cast<int>(ProbedShapes().size())) {
      transfer_time_ = std::chrono::microseconds(400);
    }
    if (op == FakeOp::kWrite || op == FakeOp::kRead) now_ += transfer_time_;
  });
  const auto speeds = ProbeDisk(disk_, kPath, kSmall, Never);
  ASSERT_OK(speeds);
  for (const ShapeSpeed& read : speeds->read) EXPECT_NEAR(read.bytes_per_s, read.shape.bytes / 0.0004, 1);
}

TEST_F(DiskProbeTest, TheFasterTheDiskTheMoreIsTransferredForAMeasurement) {
  // The first shape: one transfer of 1 MiB at a time. For 15 ms, but 8 MiB at least and 32 MiB at most.
  const std::vector<std::pair<int, int>> transfers_of = {{4000, 8}, {1400, 10}, {900, 16}, {470, 31}, {100, 32}};
  for (const auto& [us, transfers] : transfers_of) {
    int syncs = 0, seen = 0;
    disk_.SetHook([&](FakeOp op, const std::string&) {
      if (op == FakeOp::kSync) ++syncs;
      if (op == FakeOp::kWrite && syncs == 1) ++seen;
      if (op == FakeOp::kWrite || op == FakeOp::kRead) now_ += std::chrono::microseconds(us);
    });
    ASSERT_OK(ProbeDisk(disk_, kPath, kSmall, Never));
    EXPECT_EQ(seen, transfers) << us;
  }
}

TEST_F(DiskProbeTest, TheSyncIsPartOfAWrite) {
  disk_.SetHook([this](FakeOp op, const std::string&) {
    if (op == FakeOp::kWrite || op == FakeOp::kRead) now_ += std::chrono::microseconds(500);
    if (op == FakeOp::kSync) now_ += std::chrono::milliseconds(8);
  });
  const auto speeds = ProbeDisk(disk_, kPath, kSmall, Never);
  ASSERT_OK(speeds);
  EXPECT_NEAR(speeds->bytes_per_s, (16 << 20) / 0.016, 1);
  ASSERT_FALSE(speeds->write.empty());
  EXPECT_NEAR(speeds->read[0].bytes_per_s, (1 << 20) / 0.0005, 1);
  EXPECT_LT(speeds->write[0].bytes_per_s, 0.7 * speeds->read[0].bytes_per_s);
}

TEST_F(DiskProbeTest, ADiskThatIsJustFastEnoughIsCompared) {
  transfer_time_ = std::chrono::nanoseconds(1'953'125);  // 16 of them are the 32nd part of a second
  DiskProbeLimits limits = kSmall;
  limits.speed_min = 512 << 20;
  auto speeds = ProbeDisk(disk_, kPath, limits, Never);
  ASSERT_OK(speeds);
  EXPECT_FALSE(speeds->write.empty());
  ++limits.speed_min;
  speeds = ProbeDisk(disk_, kPath, limits, Never);
  ASSERT_OK(speeds);
  EXPECT_TRUE(speeds->write.empty());
}

TEST_F(DiskProbeTest, ASlowDiskIsWrittenOnceAndNotCompared) {
  transfer_time_ = std::chrono::milliseconds(10);
  int writes = 0;
  disk_.SetHook([&](FakeOp op, const std::string&) {
    if (op == FakeOp::kWrite) ++writes, now_ += transfer_time_;
  });
  const auto speeds = ProbeDisk(disk_, kPath, kSmall, Never);
  ASSERT_OK(speeds);
  EXPECT_TRUE(speeds->write.empty() && speeds->read.empty());
  EXPECT_NEAR(speeds->bytes_per_s, (1 << 20) / 0.01, 1);
  EXPECT_EQ(writes, 16);
  ExpectNothingLeft();
}

TEST_F(DiskProbeTest, TimeThatIsOverEndsItWithoutAComparison) {
  // In the first write, in one of the others, in a read: no transfer begins later.
  for (const int transfers : {1, 3, 15, 16, 17, 40, 41, 60, 100, 139}) {
    int begun = 0, syncs = 0;
    disk_.SetHook([&](FakeOp op, const std::string&) {
      if (op == FakeOp::kSync) ++syncs;
      if (op != FakeOp::kWrite && op != FakeOp::kRead) return;
      ++begun;
      now_ += std::chrono::nanoseconds(kSmall.time) / transfers + std::chrono::nanoseconds(1);
    });
    DiskProbeLimits limits = kSmall;
    limits.speed_min = 0;
    const auto speeds = ProbeDisk(disk_, kPath, limits, Never);
    ASSERT_OK(speeds);
    EXPECT_TRUE(speeds->write.empty() && speeds->read.empty()) << transfers;
    EXPECT_GT(speeds->bytes_per_s, 0) << transfers;
    EXPECT_EQ(begun, transfers);
    EXPECT_TRUE(transfers >= 16 || syncs == 1) << transfers << " " << syncs;
    ExpectNothingLeft();
  }
}

TEST_F(DiskProbeTest, WhatWasWrittenUntilTheTimeWasOverTellsTheSpeed) {
  transfer_time_ = std::chrono::milliseconds(400);
  const auto speeds = ProbeDisk(disk_, kPath, kSmall, Never);
  ASSERT_OK(speeds);
  EXPECT_NEAR(speeds->bytes_per_s, (1 << 20) / 0.4, 1);
  EXPECT_EQ(now_, std::chrono::milliseconds(1600)) << "the transfer that was under way when the time was over";
}

TEST_F(DiskProbeTest, StopsBeforeAnyTransferOrSyncAndLeavesNothing) {
  std::size_t asked = 0;
  ASSERT_OK(ProbeDisk(disk_, kPath, kSmall, [&] { return ++asked == 0; }));
  const std::size_t all = asked;
  EXPECT_GT(all, 100u);
  // The 17th time is before the first sync.
  for (std::size_t stop_at = 1; stop_at <= all; stop_at += stop_at < 17 ? 4 : 1 + all / 20) {
    std::size_t after = 0;
    bool stopped = false;
    disk_.SetHook([&](FakeOp op, const std::string&) {
      if (op != FakeOp::kWrite && op != FakeOp::kRead && op != FakeOp::kSync) return;
      if (stopped) ++after;
      if (op != FakeOp::kSync) now_ += transfer_time_;
    });
    asked = 0;
    const auto speeds = ProbeDisk(disk_, kPath, kSmall, [&] { return stopped = ++asked >= stop_at; });
    EXPECT_EQ(speeds.status().code(), absl::StatusCode::kCancelled) << stop_at;
    EXPECT_EQ(after, 0u) << stop_at;
    ExpectNothingLeft();
  }
}

TEST_F(DiskProbeTest, ADiskThatIsNearlyFullIsNotMeasured) {
  disk_.SetCapacity(std::uint64_t{32} * (16 << 20) - 1);
  const auto refused = ProbeDisk(disk_, kPath, kSmall, Never);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refused.status().message().find("are needed to measure"), std::string::npos) << refused.status();
  ExpectNothingLeft();
  disk_.SetCapacity(std::uint64_t{32} * (16 << 20));
  EXPECT_OK(ProbeDisk(disk_, kPath, {}, Never).status());
}

TEST_F(DiskProbeTest, TheFileIsNoLargerThanItsShareOfWhatIsFree) {
  const auto file_mib = [this](std::uint64_t free_mib) {
    disk_.SetCapacity(free_mib << 20);
    std::uint64_t bytes = 0;
    EXPECT_OK(ProbeDisk(disk_, kPath, {}, [&] {
      bytes = disk_.Info("/cache/" + disk_.List("/cache")->front())->bytes;
      return false;
    }));
    return bytes >> 20;
  };
  EXPECT_EQ(file_mib(32 * 16), 16u);
  EXPECT_EQ(file_mib(32 * 24 - 1), 16u) << "in steps of 8 MiB";
  EXPECT_EQ(file_mib(32 * 24), 24u);
  EXPECT_EQ(file_mib(32 * 1000), 64u);
}

TEST_F(DiskProbeTest, WhateverTheDiskRefusesIsToldAndLeavesNothing) {
  const std::uint64_t before = disk_.operations();
  ASSERT_OK(ProbeDisk(disk_, kPath, kSmall, Never));
  const std::uint64_t all = disk_.operations() - before;
  for (std::uint64_t nth = 1; nth <= all; nth += nth < 10 ? 1 : 1 + all / 15) {
    disk_.FailOn({.nth = nth, .status = absl::ResourceExhaustedError("full")});
    const auto speeds = ProbeDisk(disk_, kPath, kSmall, Never);
    EXPECT_EQ(speeds.status().code(), absl::StatusCode::kResourceExhausted) << nth;
    disk_.ClearFaults();
    ASSERT_OK(RemoveScratch(disk_, kPath));  // a file whose removal failed goes now
    ExpectNothingLeft();
  }
}

TEST_F(DiskProbeTest, ACrashLeavesNothingThatALaterStartDoesNotRemove) {
  bool any = false;
  for (std::uint64_t nth = 1; nth < 60; ++nth) {
    disk_.CrashAt(nth);
    EXPECT_FALSE(ProbeDisk(disk_, kPath, kSmall, Never).ok());
    disk_.Restart(nth);
    const auto names = disk_.List("/cache");
    ASSERT_OK(names);
    any = any || !names->empty();
    ASSERT_OK(RemoveScratch(disk_, kPath));
    ExpectNothingLeft();
  }
  EXPECT_TRUE(any) << "no crash came in the moment that matters";
}

class BufferedDiskProbeTest : public DiskProbeTest {
 protected:
  BufferedDiskProbeTest() : DiskProbeTest({.direct = false}) {}
};

TEST_F(BufferedDiskProbeTest, WithoutDirectIoNothingIsMeasured) {
  const auto refused = ProbeDisk(disk_, kPath, kSmall, Never);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(refused.status().message().find("no direct I/O"), std::string::npos) << refused.status();
  ExpectNothingLeft();
}

TEST(RealDiskProbeTest, NoFileIsEverSeenInTheFolder) {
  std::string folder = std::filesystem::temp_directory_path() / "cairn-probe-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  for (const bool io_uring : {true, false}) {
    const auto disk = MakePosixDisk({.engine = {.io_uring = io_uring, .idle = true}});
    const auto unnamed = disk->OpenUnnamed(folder);
    if (!unnamed.ok()) GTEST_SKIP() << unnamed.status();
    std::size_t seen = 0;
    // No disk is too slow here, and there is always time.
    const DiskProbeLimits limits{.file_bytes = 16 << 20, .time = std::chrono::minutes(1), .speed_min = 0};
    const auto speeds = ProbeDisk(*disk, folder + "/disk.cairn", limits, [&] {
      seen += disk->List(folder)->size();
      return false;
    });
    EXPECT_EQ(seen, 0u);
    EXPECT_TRUE(std::filesystem::is_empty(folder));
    if (absl::IsFailedPrecondition(speeds.status())) continue;  // no direct I/O
    ASSERT_OK(speeds);
    EXPECT_EQ(speeds->write.size(), ProbedShapes().size());
    EXPECT_TRUE(ChooseShape(speeds->write).has_value());
    EXPECT_TRUE(ChooseShape(speeds->read).has_value());
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace cairn
