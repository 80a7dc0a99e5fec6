#include "storage/place/cache/node_life.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "storage/base/clock.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr char kPath[] = "/cache/ada/life.cairn";

class NodeLifeTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(MakeDirectories(disk_, "/cache/ada", 0700)); }
  std::uint64_t Begin() {
    const auto life = BeginLife(disk_, "/cache", "ada", &warnings_);
    EXPECT_OK(life);
    return life.ok() ? *life : 0;
  }
  void Record(std::uint64_t version, std::uint64_t life) {
    kvtree::Tree tree;
    tree.Set("VERSION", version);
    tree.Set("LIFE", life);
    ASSERT_OK(ReplaceTree(disk_, kPath, tree));
  }

  std::chrono::microseconds now_{1'000'000};
  ScopedClock clock_{{.wall = [this] { return std::chrono::system_clock::time_point(now_); },
                      .steady = [this] { return std::chrono::steady_clock::time_point(now_); },
                      .sleep =
                          [this](std::chrono::nanoseconds time) {
                            now_ += std::chrono::duration_cast<std::chrono::microseconds>(time);
                          }}};
  FakeDisk disk_;
  std::vector<std::string> warnings_;
};

TEST_F(NodeLifeTest, GrowsWithTheClockAndWithoutIt) {
  EXPECT_EQ(Begin(), 1'000'000u);
  EXPECT_EQ(Begin(), 1'000'001u);
  now_ = std::chrono::microseconds(5);  // the clock was set back
  EXPECT_EQ(Begin(), 1'000'002u);
  now_ = std::chrono::microseconds(2'000'000);
  EXPECT_EQ(Begin(), 2'000'000u);
}

TEST_F(NodeLifeTest, IsDurableWhenItIsTold) {
  const std::uint64_t first = Begin();
  now_ = std::chrono::microseconds(1);
  disk_.Restart(1);
  EXPECT_GT(Begin(), first);
}

TEST_F(NodeLifeTest, AFullDiskIsNoReasonNotToLive) {
  Begin();
  now_ = std::chrono::microseconds(2'000'000);
  disk_.FailOn({.op = FakeOp::kWrite, .path_part = "life.cairn", .times = 1000, .status = ResourceExhausted("full")});
  EXPECT_EQ(Begin(), 2'000'000u);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_.front().find("full"), std::string::npos);
  now_ = std::chrono::microseconds(2'000'001);
  EXPECT_EQ(Begin(), 2'000'001u) << "by the clock";
  disk_.ClearFaults();
  disk_.FailOn({.op = FakeOp::kWrite, .path_part = "life.cairn", .times = 1000});
  EXPECT_EQ(BeginLife(disk_, "/cache", "ada", &warnings_).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(NodeLifeTest, ARecordThatIsDamagedOrAtItsEndGivesWayToTheClock) {
  Record(1, UINT64_MAX);
  EXPECT_EQ(Begin(), 1'000'000u);
  ASSERT_OK(disk_.Remove(kPath));
  Begin();
  Record(1, 7);
  ASSERT_OK(ReplaceFile(disk_, kPath, "no tree"));
  EXPECT_EQ(Begin(), 1'000'000u);
}

TEST_F(NodeLifeTest, ANewerProgramsRecordIsNotWrittenOver) {
  Record(2, 7);
  EXPECT_EQ(BeginLife(disk_, "/cache", "ada", &warnings_).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace cairn
