#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "storage/base/clock.h"
#include "storage/file/transfer/transfer.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr auto kCancelled = absl::StatusCode::kCancelled;
constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr auto kNotFound = absl::StatusCode::kNotFound;

constexpr std::size_t kMiB = 1 << 20;

// On a file system to which several go at once.
class TransfersAtOnceTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kFiles = 9;

  TransfersAtOnceTest() {
    EXPECT_OK(source_.MakeDirectory("/cache", 0700));
    for (std::size_t i = 0; i < kFiles; ++i) {
      const std::string name = fmt::format("file_{}", i);
      contents_.push_back(TestContent(i + 1, i % 2 == 0 ? kMiB + i : 11 * kMiB + i));  // one piece, or several
      entries_.push_back(TestEntry(name, "ckpt.1/" + name, contents_.back()));
      EXPECT_OK(WriteTestFile(source_, "/cache/" + name, contents_.back()));
    }
  }

  absl::Status Copy() {
    std::vector<CopyJob> jobs;
    for (const catalogue::FileEntry& entry : entries_) {
      jobs.push_back({.from = "/cache/" + entry.name(), .to = "/pfs/ckpt.1/" + entry.name(), .entry = &entry});
    }
    return CopyFiles(source_, target_, jobs, throttle_, progress_, &damaged_);
  }

  FakeDisk source_{{.direct = true, .syncs_at_once = 8}}, target_{{.direct = true, .syncs_at_once = 8}};
  std::vector<std::string> contents_;
  std::vector<catalogue::FileEntry> entries_;
  Throttle throttle_{0};
  TransferProgress progress_;
  std::size_t damaged_ = SIZE_MAX;
};

TEST_F(TransfersAtOnceTest, SyncsOfSeveralFilesWaitAtTheSameTime) {
  std::atomic<int> came{0};
  std::latch four{4};
  target_.SetHook([&](FakeOp op, const std::string&) {
    if (op == FakeOp::kSync && ++came <= 4) four.arrive_and_wait();  // for ever, if they came one after the other
  });
  ASSERT_OK(Copy());
  target_.SetHook(nullptr);
  for (std::size_t i = 0; i < kFiles; ++i) {
    ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadWhole(target_, "/pfs/ckpt.1/" + entries_[i].name(), 1 << 30));
    EXPECT_EQ(bytes, contents_[i]);
  }
}

// The first file is stopped for it, and comes before it.
TEST_F(TransfersAtOnceTest, TheDamagedFileIsNamedAndNotOneThatWasStoppedForIt) {
  source_.FlipBit("/cache/file_1", 99);
  std::latch found{1};
  source_.SetHook([&](FakeOp op, const std::string& path) {
    if (op == FakeOp::kOpen && path == "/cache/file_2") found.wait();
  });
  target_.SetHook([&](FakeOp op, const std::string& path) {
    if (op == FakeOp::kWrite && path.find("file_0") != std::string::npos) found.wait();
  });
  std::thread let_go([&] {
    SleepFor(std::chrono::milliseconds(300));
    found.count_down();
  });
  EXPECT_STATUS(kDataLoss, Copy(), "source: /cache/file_1: offset 0");
  let_go.join();
  EXPECT_EQ(damaged_, 1u);
  for (const catalogue::FileEntry& entry : entries_) {
    EXPECT_STATUS(kNotFound, target_.Info("/pfs/ckpt.1/" + entry.name()), "");
  }
}

// Also one that only compares what is there already.
TEST_F(TransfersAtOnceTest, OnceOneHasFailedTheOthersCompareNoMore) {
  ASSERT_OK(Copy());
  ASSERT_OK(target_.Remove("/pfs/ckpt.1/file_1"));
  ASSERT_OK(source_.Remove("/cache/file_1"));
  progress_.compared = 0;
  std::latch fails{1};
  source_.SetHook([&](FakeOp op, const std::string& path) {
    if (op == FakeOp::kOpen && path == "/cache/file_1") fails.count_down();
  });
  target_.SetHook([&](FakeOp op, const std::string& path) {
    if (op != FakeOp::kRead || path != "/pfs/ckpt.1/file_3") return;
    fails.wait();
    SleepFor(std::chrono::milliseconds(200));
  });
  EXPECT_STATUS(kNotFound, Copy(), "source: ");
  EXPECT_LT(progress_.compared, 11 * kMiB) << "file_3 alone has as many";
}

TEST_F(TransfersAtOnceTest, StoppedAllAreCancelled) {
  target_.SetHook([&](FakeOp op, const std::string&) {
    if (op == FakeOp::kWrite) progress_.stop = true;
  });
  EXPECT_STATUS(kCancelled, Copy(), "");
  EXPECT_EQ(damaged_, SIZE_MAX);
}

}  // namespace
}  // namespace cairn
