#include "daemon/process/probe_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "storage/base/unique_fd.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class ProbeCacheTest : public ::testing::Test {
 protected:
  ProbeCacheTest() {
    EXPECT_NE(mkdtemp(cache_.data()), nullptr);
    std::filesystem::create_directory(cache_ + "/ada");
  }
  ~ProbeCacheTest() override { std::filesystem::remove_all(cache_); }
  // Stops at once: what counts is whether it begins.
  absl::Status Try(ProbeTurn turn = ProbeTurn::kAwaited) {
    asked_ = false;
    return ProbeCacheDisk(cache_, cache_ + "/ada/disk.cairn", turn, [this] { return asked_ = true; }).status();
  }

  std::string cache_ = std::filesystem::temp_directory_path() / "cairn-probe-XXXXXX";
  bool asked_ = false;
};

TEST_F(ProbeCacheTest, WhileAnotherDaemonMeasuresNothingIsWritten) {
  {
    const UniqueFd other(::open(cache_.c_str(), O_RDONLY | O_DIRECTORY));
    ASSERT_EQ(::flock(other.get(), LOCK_EX | LOCK_NB), 0);
    const absl::Status refused = Try();
    EXPECT_EQ(refused.code(), absl::StatusCode::kAborted);
    EXPECT_EQ(refused.message(), "another process has locked " + cache_ + ", as a daemon does that measures this disk");
    EXPECT_FALSE(asked_);
    const absl::Status without = Try(ProbeTurn::kGoneWithout);
    if (absl::IsFailedPrecondition(without)) GTEST_SKIP() << without;  // no direct I/O
    EXPECT_EQ(without.code(), absl::StatusCode::kCancelled) << without;
    EXPECT_TRUE(asked_);
  }
  const absl::Status alone = Try();
  EXPECT_EQ(alone.code(), absl::StatusCode::kCancelled) << alone;
  EXPECT_TRUE(asked_);
  EXPECT_NE(Try().code(), absl::StatusCode::kAborted);  // the turn was given back
}

TEST_F(ProbeCacheTest, CachesOfOneDeviceHaveOneFolderThatTellsWhoseTurnItIs) {
  const std::string folder = FolderOfDevice(cache_ + "/ada");
  EXPECT_EQ(FolderOfDevice(cache_), folder);
  struct stat of_cache {
  }, of_folder{}, above{};
  ASSERT_EQ(::stat(cache_.c_str(), &of_cache), 0);
  ASSERT_EQ(::stat(folder.c_str(), &of_folder), 0);
  EXPECT_EQ(of_folder.st_dev, of_cache.st_dev);
  ASSERT_EQ(::stat((folder + "/..").c_str(), &above), 0);
  const bool highest =
      folder == "/" || above.st_dev != of_cache.st_dev || ::access((folder + "/..").c_str(), R_OK) != 0;
  EXPECT_TRUE(highest) << folder;
  EXPECT_EQ(FolderOfDevice("/proc"), "/proc");
  EXPECT_EQ(FolderOfDevice("/nowhere/at/all"), "/nowhere/at/all");
}

TEST_F(ProbeCacheTest, RemovesWhatACrashHasLeftAndNothingElse) {
  const std::string ours = cache_ + "/ada/disk.cairn.cairn-work0123456789abcdef", other = cache_ + "/ada/disk.cairn";
  std::ofstream(ours) << "";
  std::ofstream(other) << "x";
  Try().IgnoreError();  // stopped
  EXPECT_FALSE(std::filesystem::exists(ours));
  EXPECT_TRUE(std::filesystem::exists(other));
}

TEST_F(ProbeCacheTest, WhatIsNoFileButHasSuchANameStaysAndEndsNothing) {
  const std::string folder = cache_ + "/ada/disk.cairn.cairn-work0123456789abcdef";
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/mine") << "x";
  const absl::Status begun = Try();
  if (absl::IsFailedPrecondition(begun)) GTEST_SKIP() << begun;  // no direct I/O
  EXPECT_EQ(begun.code(), absl::StatusCode::kCancelled) << begun;
  EXPECT_TRUE(asked_);
  EXPECT_TRUE(std::filesystem::exists(folder + "/mine"));
}

}  // namespace
}  // namespace cairn
