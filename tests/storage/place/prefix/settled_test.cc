// Records that SCR writes in place: who reads them meanwhile reads again.
#include "storage/place/prefix/settled.h"

#include <gtest/gtest.h>

#include "storage/file/trees/tree_file.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/prefix.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using enum absl::StatusCode;

const std::string kPath = "/pfs/demo";
const std::string kIndex = kPath + "/.scr/index.scr";

class SettledTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(prefix_, Prefix::Open(disk_, kPath, {.pause = pause_}));
    scr::IndexEntry entry;
    entry.descriptor.id = 4;
    entry.descriptor.name = "step_4";
    kvtree::Tree index;
    scr::PutIndexEntry(entry, index);
    ASSERT_OK(ReplaceTree(disk_, kIndex, index));
    ASSERT_OK_AND_ASSIGN(whole_, ReadWhole(disk_, kIndex, 1 << 20));
  }
  // Leaves the index as SCR has it after so many bytes, and whole after some pauses.
  void Cut(std::size_t bytes, int whole_after) {
    ASSERT_OK(WriteTestFile(disk_, kIndex, whole_.substr(0, bytes)));
    pauses_ = 0;
    whole_after_ = whole_after;
  }
  bool IsAside() { return disk_.Info(kIndex + ".damaged.1").ok(); }

  FakeDisk disk_;
  std::string whole_;
  int pauses_ = 0;
  int whole_after_ = 0;
  const Pause pause_ = [this](std::chrono::milliseconds pause) {
    EXPECT_LE(pause.count(), 100);
    if (++pauses_ == whole_after_) {
      EXPECT_OK(WriteTestFile(disk_, kIndex, whole_));
    }
  };
  std::unique_ptr<Prefix> prefix_;
};

TEST_F(SettledTest, AnIndexThatIsBeingWrittenIsChangedWhenItIsWhole) {
  for (const std::size_t cut : {std::size_t{0}, std::size_t{10}, whole_.size() - 1}) {
    Cut(cut, 2);
    ASSERT_OK(prefix_->BeginFlush(TestDescriptor(5, 1)));
    EXPECT_EQ(pauses_, 2) << cut;
    EXPECT_TRUE(prefix_->TakeWarnings().empty()) << cut;
    EXPECT_FALSE(IsAside()) << cut;
    ASSERT_OK_AND_ASSIGN(const kvtree::Tree index, ReadTree(disk_, kIndex));
    EXPECT_NE(index.FindPath({"DSET", "4"}), nullptr) << cut;
    EXPECT_NE(index.FindPath({"DSET", "5"}), nullptr) << cut;
  }
}

TEST_F(SettledTest, AReaderWaitsForItToo) {
  ASSERT_OK_AND_ASSIGN(const auto reader, Prefix::OpenReadOnly(disk_, kPath, {.pause = pause_}));
  Cut(10, 1);
  EXPECT_OK(reader->Committed());
  EXPECT_EQ(pauses_, 1);
  EXPECT_TRUE(reader->TakeWarnings().empty());
}

TEST_F(SettledTest, WhatStaysDamagedIsReadThreeTimesAndMovedAside) {
  Cut(10, 0);
  ASSERT_OK(prefix_->BeginFlush(TestDescriptor(5, 1)));
  EXPECT_EQ(pauses_, 2);
  EXPECT_TRUE(IsAside());
  EXPECT_FALSE(prefix_->TakeWarnings().empty());
}

TEST_F(SettledTest, WhatIsNotThereOrStaysEmptyIsNotFound) {
  EXPECT_STATUS(kNotFound, ReadSettled(disk_, kPath + "/none", pause_), "none");
  EXPECT_EQ(pauses_, 0);
  Cut(0, 0);
  EXPECT_STATUS(kNotFound, ReadSettled(disk_, kIndex, pause_), "empty");
  EXPECT_EQ(pauses_, 2);
}

TEST_F(SettledTest, TroubleOfTheStorageIsAnsweredAtOnce) {
  disk_.FailOn({.op = FakeOp::kRead, .path_part = "index.scr"});
  EXPECT_STATUS(kUnavailable, ReadSettled(disk_, kIndex, pause_), "");
  EXPECT_EQ(pauses_, 0);
}

}  // namespace
}  // namespace cairn
