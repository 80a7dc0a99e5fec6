#include "storage/place/prefix/stale_work.h"
#include "storage/base/path.h"

#include <gtest/gtest.h>

#include "storage/place/prefix/prefix.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr std::time_t kNow = 1'700'000'000;

class StaleWorkTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(MakeDirectories(disk_, "/p/.scr/scr.dataset.7")); }
  std::string Put(const std::string& path, std::time_t written) {
    EXPECT_OK(ReplaceFile(disk_, path, "bytes"));
    EXPECT_OK(disk_.SetModeAndTimes(path, 0600, {written, 0}, {written, 0}));
    return path;
  }
  bool IsThere(const std::string& path) { return disk_.Info(path).ok(); }

  FakeDisk disk_;
};

TEST_F(StaleWorkTest, OldWorkFilesGoFromTheRecordsAndTheirFolders) {
  const std::time_t old = kNow - kStaleWorkSeconds - 1;
  const std::string index = Put(WorkName("/p/.scr/index.scr"), old);
  const std::string summary = Put(WorkName("/p/.scr/scr.dataset.7/summary.scr"), old);
  RemoveStaleWork(disk_, "/p", kNow);
  EXPECT_FALSE(IsThere(index));
  EXPECT_FALSE(IsThere(summary));
}

TEST_F(StaleWorkTest, WhatSomeoneMayBeWritingNowAndWhatIsNoWorkFileStays) {
  const std::time_t old = kNow - kStaleWorkSeconds - 1;
  const std::string young = Put(WorkName("/p/.scr/index.scr"), kNow - kStaleWorkSeconds);
  const std::string ahead = Put(WorkName("/p/.scr/index.scr"), kNow + 100);
  const std::string unknown = Put(WorkName("/p/.scr/index.scr"), 0);
  const std::string record = Put("/p/.scr/index.scr", old);
  const std::string like = Put("/p/.scr/index.scr.cairn-work", old);
  const std::string elsewhere = Put(WorkName("/p/a"), old);
  RemoveStaleWork(disk_, "/p", kNow);
  for (const std::string& path : {young, ahead, unknown, record, like, elsewhere}) EXPECT_TRUE(IsThere(path)) << path;
  RemoveStaleWork(disk_, "/nothing", kNow);
}

TEST_F(StaleWorkTest, WhoOpensThePrefixToWriteTidies) {
  const std::string old = Put(WorkName("/p/.scr/scr.dataset.7/commit.cairn"), kNow);  // years ago
  ASSERT_OK(Prefix::Open(disk_, "/p").status());
  EXPECT_FALSE(IsThere(old));
}

}  // namespace
}  // namespace cairn
