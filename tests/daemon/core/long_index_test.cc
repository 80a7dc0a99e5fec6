// An index.scr that is too long to be written anew with each flush: it follows.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "storage/file/trees/tree_file.h"
#include "storage/format/kvtree/tree.h"
#include "storage/place/prefix/changed_file.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class LongIndexTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(harness_.Start().ok());
    Make(1);
    harness_.Stop();
    ASSERT_OK_AND_ASSIGN(kvtree::Tree record, ReadTree(harness_.prefix_disk(), Index()));
    record.Set("SITE", std::string(ChangedFile::kLongBytes, 'x'));  // what is not ours stays
    ASSERT_OK(ReplaceTree(harness_.prefix_disk(), Index(), record));
    ASSERT_TRUE(harness_.Start().ok());
    Make(2);  // until its first flush the daemon does not know yet
  }
  DatasetId Make(std::uint64_t step) {
    FakeClient client(harness_);
    EXPECT_SAYS(client.Open({.key = "job." + std::to_string(step)}), local::OK, "");
    const local::Reply done = client.Checkpoint(step, {PlainOf(1, RandomBytes(step, 1000))});
    EXPECT_SAYS(client.Wait(done.committed().dataset(), local::PREFIX), local::OK, "");
    EXPECT_SAYS(client.Close(), local::OK, "");
    return done.committed().dataset();
  }
  // As SCR reads it.
  bool ScrSees(DatasetId id) {
    const auto record = ReadTree(harness_.prefix_disk(), Index());
    EXPECT_OK(record.status());
    const kvtree::Tree* entry = record->FindPath({"DSET", std::to_string(id)});
    return entry != nullptr && entry->Get("COMPLETE") == "1";
  }
  std::string Index() { return harness_.prefix() + "/.scr/index.scr"; }

  FakeDisk prefix_disk_;
  CoreHarness harness_{nullptr, &prefix_disk_};
};

TEST_F(LongIndexTest, ItFollowsSoon) {
  const DatasetId id = Make(3);
  for (int i = 0; i < 1000 && !ScrSees(id); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(ScrSees(id));
}

TEST_F(LongIndexTest, ItHasFollowedWhenTheDaemonHasEnded) {
  DatasetId last = 0;
  for (std::uint64_t step = 3; step < 8; ++step) last = Make(step);
  EXPECT_TRUE(harness_.Quiesce());
  harness_.Stop();
  EXPECT_TRUE(ScrSees(last));
}

TEST_F(LongIndexTest, WhatCannotFollowIsThereAllTheSameAndFollowsLater) {
  prefix_disk_.FailOn({.op = FakeOp::kRename, .path_part = "index.scr", .nth = 1, .times = 1000});
  DatasetId last = 0;
  for (std::uint64_t step = 3; step < 8; ++step) last = Make(step);
  for (int i = 0; i < 1000 && !harness_.Warned("SCR does not see"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(harness_.Warned("SCR does not see the newest datasets yet"));
  harness_.Stop();
  EXPECT_FALSE(ScrSees(last));
  prefix_disk_.ClearFaults();
  ASSERT_TRUE(harness_.Start().ok());
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "after"}), local::OK, "");
  EXPECT_EQ(client.Latest().latest().dataset(), last);
  EXPECT_TRUE(harness_.Row(last).in_prefix());
  client.Close();
  EXPECT_TRUE(harness_.Quiesce());
  harness_.Stop();
  EXPECT_TRUE(ScrSees(last));
}

}  // namespace
}  // namespace cairn
