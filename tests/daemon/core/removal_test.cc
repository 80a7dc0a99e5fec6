// What leaves the prefix, by the user's hand or for a newer one's files, and what a failure or a crash in between
// means.
#include <gtest/gtest.h>

#include "storage/place/prefix/prefix.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/scr_writer.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

class RemovalTest : public ::testing::Test {
 protected:
  void Start() {
    ASSERT_TRUE(harness_.Start().ok());
    client_ = std::make_unique<FakeClient>(harness_);
    ASSERT_SAYS(client_->Open({.key = "job." + std::to_string(++launches_)}), local::OK, "");
  }
  void TearDown() override { client_ = nullptr; }
  void Restart() {
    client_ = nullptr;
    harness_.Stop();
    Start();
  }
  DatasetId MakeFiles(std::uint64_t step, local::Level level) {
    const DatasetId id = client_->OutputBegin(step).output_begin().dataset();
    const local::Reply routed = client_->RouteFile("out/x");
    EXPECT_SAYS(routed, local::OK, "");
    harness_.Write(harness_.cache_disk(), routed.route_file().path(), "bytes of step " + std::to_string(step));
    EXPECT_SAYS(client_->OutputEnd(), local::OK, "");
    EXPECT_SAYS(client_->Wait(id, level), local::OK, "");
    return id;
  }

  FakeDisk prefix_disk_;
  CoreHarness harness_{nullptr, &prefix_disk_};
  std::unique_ptr<FakeClient> client_;
  int launches_ = 0;
};

TEST_F(RemovalTest, ScrsOwnIsRefusedAndStaysKnown) {
  ASSERT_TRUE(MakeDirectories(prefix_disk_, harness_.prefix()).ok());
  PutScr(prefix_disk_, harness_.prefix(), 3, {{"step_30/rank_0.ckpt"}});
  Start();
  ASSERT_EQ(client_->Latest().latest().dataset(), 3u);
  ASSERT_SAYS(client_->Close(), local::OK, "");
  client_ = std::make_unique<FakeClient>(harness_);
  EXPECT_EQ(harness_.Remove(3).code(), local::FAILED_PRECONDITION);
  ASSERT_SAYS(client_->Open({.key = "the next"}), local::OK, "");
  EXPECT_EQ(client_->Latest().latest().dataset(), 3u);
  EXPECT_TRUE(harness_.Row(3).in_prefix());
}

TEST_F(RemovalTest, OneThatFailsLeavesTheDatasetInTheCacheAndKnown) {
  Start();
  const DatasetId id = client_->Checkpoint(1, {PlainOf(1, "abc")}).committed().dataset();
  ASSERT_SAYS(client_->Wait(id, local::PREFIX), local::OK, "");
  prefix_disk_.FailOn({.op = FakeOp::kRename, .path_part = "removed.cairn", .times = UINT64_MAX});
  EXPECT_EQ(harness_.Remove(id).code(), local::UNAVAILABLE);
  EXPECT_TRUE(harness_.Row(id).in_cache());
  EXPECT_TRUE(harness_.Row(id).in_prefix());
  prefix_disk_.ClearFaults();
  EXPECT_EQ(harness_.Remove(id).code(), local::OK);
  EXPECT_SAYS(client_->Test(id, local::LOCAL), local::NOT_FOUND, "");
  EXPECT_FALSE(harness_.IsThere(prefix_disk_, harness_.PrefixFile(id, 0)));
}

// The daemon dies after it has withdrawn the older one, and before it could note that.
TEST_F(RemovalTest, WhatWasWithdrawnForANewerOneStaysInTheCache) {
  Start();
  const DatasetId first = MakeFiles(1, local::PREFIX), second = MakeFiles(2, local::LOCAL);
  prefix_disk_.FailOn({.op = FakeOp::kAny, .path_part = "out/", .times = UINT64_MAX});
  ASSERT_EQ(harness_.Flush(second).code(), local::OK);
  ASSERT_TRUE(harness_.Eventually([&] { return harness_.Warned("flush of dataset " + std::to_string(second)); }));
  client_ = nullptr;
  harness_.Stop();
  {
    const auto prefix = Prefix::Open(prefix_disk_, harness_.prefix());
    ASSERT_TRUE(prefix.ok()) << prefix.status();
    const auto withdrawn = (*prefix)->Withdraw(second, {"out/x"});
    ASSERT_TRUE(withdrawn.ok()) << withdrawn.status();
    ASSERT_EQ(withdrawn->size(), 1u);
  }
  for (int i = 0; i < 2; ++i) {
    Restart();
    EXPECT_TRUE(harness_.Row(first).in_cache());
    EXPECT_FALSE(harness_.Row(first).in_prefix());
    EXPECT_SAYS(client_->Test(first, local::PREFIX), local::SUPERSEDED, "");
    Memory none;
    EXPECT_EQ(client_->Restore(first, none).code, local::OK);
  }
}

TEST_F(RemovalTest, WhatTheUserHasTakenOutLeavesTheCache) {
  Start();
  const DatasetId first = MakeFiles(1, local::PREFIX);
  client_ = nullptr;
  harness_.Stop();
  {
    const auto prefix = Prefix::Open(prefix_disk_, harness_.prefix());
    ASSERT_TRUE(prefix.ok()) << prefix.status();
    const auto withdrawn = (*prefix)->Withdraw(first + 1, {"out/x"});
    ASSERT_TRUE(withdrawn.ok()) << withdrawn.status();
  }
  Restart();
  EXPECT_TRUE(harness_.Eventually([&] { return !harness_.Row(first).in_cache(); }));
}

}  // namespace
}  // namespace cairn
