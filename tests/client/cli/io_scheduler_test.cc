#include "client/cli/io_scheduler.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/status_matchers.h"

namespace cairn::cli {
namespace {

// As /sys/dev/block is: links to folders of disks, and to those of partitions within them.
class IoSchedulerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/io_scheduler.XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    std::filesystem::create_directories(root_ + "/sda/queue");
    std::filesystem::create_directory(root_ + "/sda/sda1");
    std::filesystem::create_directory(root_ + "/block");
    std::filesystem::create_directory_symlink("../sda", root_ + "/block/8:0");
    std::filesystem::create_directory_symlink("../sda/sda1", root_ + "/block/8:1");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Has(const std::string& line) { std::ofstream(root_ + "/sda/queue/scheduler") << line << "\n"; }
  absl::StatusOr<std::string> Of(unsigned minor) { return IoSchedulerOf(makedev(8, minor), root_ + "/block"); }

  std::string root_;
};

TEST_F(IoSchedulerTest, IsThatOfTheDiskAlsoForItsPartitions) {
  for (const std::string name : {"none", "mq-deadline", "bfq"}) {
    std::string line;
    for (const std::string one : {"none", "mq-deadline", "bfq"}) line += (one == name ? "[" + one + "]" : one) + " ";
    Has(line);
    EXPECT_EQ(Of(0).value(), name);
    EXPECT_EQ(Of(1).value(), name);
  }
}

TEST_F(IoSchedulerTest, WhatIsNoDiskOrSaysNothingHasNone) {
  EXPECT_STATUS(absl::StatusCode::kNotFound, Of(2), "names no scheduler for device 8:2");
  for (const std::string line : {"", "none", "]none["}) {
    Has(line);
    EXPECT_STATUS(absl::StatusCode::kNotFound, Of(0), "names no scheduler for device 8:0");
  }
}

}  // namespace
}  // namespace cairn::cli
