#include "storage/io/scratch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "storage/io/posix_disk.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr char kPath[] = "/cache/disk.cairn";

// A file system that makes no files without names.
class NamedScratchTest : public ::testing::Test {
 protected:
  NamedScratchTest() { EXPECT_OK(disk_.MakeDirectory("/cache", 0700)); }
  std::vector<std::string> Names() { return *disk_.List("/cache"); }
  FakeDisk disk_;
};

TEST_F(NamedScratchTest, HasAWorkNameAsLongAsItIsOpen) {
  {
    auto scratch = ScratchFile::Open(disk_, kPath);
    ASSERT_OK(scratch);
    ASSERT_EQ(Names().size(), 1u);
    EXPECT_TRUE(IsWorkName(Names().front()));
    EXPECT_TRUE(Names().front().starts_with("disk.cairn.")) << Names().front();
    EXPECT_OK(scratch->Remove());
    EXPECT_TRUE(Names().empty());
  }
  {
    auto scratch = ScratchFile::Open(disk_, kPath);
    ASSERT_OK(scratch);
    const ScratchFile moved = *std::move(scratch);
    EXPECT_EQ(Names().size(), 1u);
  }
  EXPECT_TRUE(Names().empty());
}

// Else a network's file system would keep it under another name.
TEST_F(NamedScratchTest, ItsNameIsNeverTakenAwayWhileItIsOpen) {
  auto scratch = ScratchFile::Open(disk_, kPath);
  ASSERT_OK(scratch);
  ASSERT_OK(scratch->file().TryLock());  // goes with the open file
  bool removed = false;
  disk_.SetHook([&](FakeOp op, const std::string& path) {
    if (op != FakeOp::kRemove) return;
    removed = true;
    const auto again = disk_.Open(path, {.writable = true});
    ASSERT_OK(again);
    EXPECT_OK((*again)->TryLock());
  });
  EXPECT_OK(scratch->Remove());
  EXPECT_TRUE(removed);
}

TEST_F(NamedScratchTest, ANameThatCannotBeRemovedIsToldAndGoesLater) {
  auto scratch = ScratchFile::Open(disk_, kPath);
  ASSERT_OK(scratch);
  disk_.FailOn({.op = FakeOp::kRemove});
  EXPECT_EQ(scratch->Remove().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Names().size(), 1u);
  EXPECT_OK(RemoveScratch(disk_, kPath));
  EXPECT_TRUE(Names().empty());
}

TEST_F(NamedScratchTest, OnlyWhatIsScratchOfThatPathIsRemoved) {
  for (const char* name : {"/cache/disk.cairn", "/cache/node.cairn.cairn-work0123456789abcdef", "/cache/disk.cairn.old",
                           "/cache/disk.cairn.cairn-workshop", "/cache/disk.cairn.cairn-work01234567",
                           "/cache/disk.cairn.cairn-work0123456789abcdef0"}) {
    ASSERT_OK(ReplaceFile(disk_, name, "x"));
  }
  ASSERT_OK(disk_.MakeDirectory("/cache/disk.cairn.cairn-work0123456789abcdef", 0700));
  ASSERT_OK(disk_.Symlink("disk.cairn", "/cache/disk.cairn.cairn-workfedcba9876543210"));
  ASSERT_OK(RemoveScratch(disk_, kPath));
  EXPECT_EQ(Names().size(), 8u);
}

TEST_F(NamedScratchTest, WhatCannotBeRemovedKeepsNothingElse) {
  for (const char digit : {'1', '2', '3'}) {
    ASSERT_OK(ReplaceFile(disk_, "/cache/disk.cairn.cairn-work" + std::string(16, digit), "x"));
  }
  disk_.FailOn({.op = FakeOp::kRemove});
  EXPECT_EQ(RemoveScratch(disk_, kPath).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Names(), std::vector<std::string>{"disk.cairn.cairn-work1111111111111111"});
}

TEST(UnnamedScratchTest, NoFileIsEverSeen) {
  std::string folder = std::filesystem::temp_directory_path() / "cairn-scratch-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto disk = MakePosixDisk();
  if (const auto unnamed = disk->OpenUnnamed(folder); !unnamed.ok()) GTEST_SKIP() << unnamed.status();
  auto scratch = ScratchFile::Open(*disk, folder + "/disk.cairn");
  ASSERT_OK(scratch);
  EXPECT_OK(scratch->file().Truncate(1 << 20));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_OK(scratch->Remove());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace cairn
