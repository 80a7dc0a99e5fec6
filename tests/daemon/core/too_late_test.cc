// A flush whose names a newer dataset has taken by then: it is given up, and leaves nothing on the prefix.
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "storage/file/trees/tree_file.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

class TooLateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    harness_.config.flush.every = 0;
    harness_.config.flush.retry_ms_min = harness_.config.flush.retry_ms_max = 20;
    ASSERT_TRUE(harness_.Start().ok());
  }
  DatasetId MakeFile(FakeClient& client, std::uint64_t step, const std::string& name = "out/x") {
    const local::Reply begun = client.OutputBegin(step, /*checkpoint=*/true, /*output=*/false);
    EXPECT_SAYS(begun, local::OK, "");
    const local::Reply routed = client.RouteFile(name);
    EXPECT_SAYS(routed, local::OK, "");
    harness_.Write(harness_.cache_disk(), routed.route_file().path(), RandomBytes(step, 1000));
    EXPECT_SAYS(client.OutputEnd(), local::OK, "");
    const DatasetId id = begun.output_begin().dataset();
    EXPECT_SAYS(client.Wait(id, local::LOCAL), local::OK, "");
    return id;
  }
  bool IsInIndex(DatasetId id) {
    const auto tree = ReadTree(prefix_disk_, harness_.prefix() + "/.scr/index.scr");
    return tree.ok() && tree->FindPath({"DSET", std::to_string(id)}) != nullptr;
  }

  bool IsCommitted(DatasetId id) {
    const std::string folder = "/.scr/scr.dataset." + std::to_string(id);
    return harness_.IsThere(prefix_disk_, harness_.prefix() + folder + "/commit.cairn");
  }

  // A newer dataset of the same name, which may not replace the older one yet.
  void ReplaceWithoutANote(FakeClient& client) {
    older_ = MakeFile(client, 1);
    ASSERT_SAYS(client.Wait(older_, local::PREFIX), local::OK, "");
    cache_disk_.FailOn(
        {.path_part = "flush.cairn", .times = UINT64_MAX, .status = absl::ResourceExhaustedError("full")});
    newer_ = MakeFile(client, 2);
    waits_ = client.SendWait(newer_, local::PREFIX);
    ASSERT_TRUE(harness_.Eventually([&] { return harness_.Warned("cannot be noted"); }));
  }

  FakeDisk cache_disk_, prefix_disk_;
  CoreHarness harness_{&cache_disk_, &prefix_disk_};
  DatasetId older_ = 0, newer_ = 0;
  std::uint64_t waits_ = 0;  // for the newer one on the prefix
};

// The next daemon would take the older one for removed, and would give it up in the cache, too.
TEST_F(TooLateTest, NobodyGivesWayBeforeThisNodeHasNotedToWhom) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  ASSERT_NO_FATAL_FAILURE(ReplaceWithoutANote(client));
  EXPECT_FALSE(client.HasReply(waits_));
  EXPECT_FALSE(IsCommitted(newer_));
  EXPECT_TRUE(IsCommitted(older_));
  cache_disk_.ClearFaults();
  EXPECT_SAYS(client.Next(waits_), local::OK, "");
  EXPECT_TRUE(IsCommitted(newer_));
}

// Nothing would leave a cache that is full, and it would stay full.
TEST_F(TooLateTest, WhatReplacesNobodyDoesNotWaitForTheNote) {
  harness_.Stop();
  harness_.config.flush.parallel = 1;
  ASSERT_TRUE(harness_.Start().ok());
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  ASSERT_NO_FATAL_FAILURE(ReplaceWithoutANote(client));
  std::atomic<int> reads = 0, tries = 0;
  prefix_disk_.SetHook([&](FakeOp op, const std::string& path) {
    reads += (op == FakeOp::kRead || op == FakeOp::kWrite) && path.find("/out/") != std::string::npos;
  });
  cache_disk_.SetHook([&](FakeOp, const std::string& path) { tries += path.find("flush.cairn") != std::string::npos; });
  EXPECT_TRUE(harness_.Eventually([&] { return tries >= 3; }));
  EXPECT_EQ(reads, 0) << "what is copied stays so";
  const DatasetId of_nobody_else = MakeFile(client, 3, "other/y");
  EXPECT_SAYS(client.Wait(of_nobody_else, local::PREFIX), local::OK, "");
  EXPECT_FALSE(IsCommitted(newer_));
  EXPECT_TRUE(IsCommitted(older_));
  cache_disk_.ClearFaults();
  EXPECT_SAYS(client.Next(waits_), local::OK, "");
  EXPECT_TRUE(IsCommitted(newer_));
  cache_disk_.SetHook(nullptr);
  prefix_disk_.SetHook(nullptr);
}

// Once it is noted, later failures are no matter: a cache that is full must not keep datasets from the prefix.
TEST_F(TooLateTest, WhatIsNotedNeedNotBeNotedAgain) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const DatasetId older = MakeFile(client, 1);
  ASSERT_SAYS(client.Wait(older, local::PREFIX), local::OK, "");
  prefix_disk_.FailOn({.op = FakeOp::kWrite, .path_part = "/out/", .times = UINT64_MAX});
  const DatasetId id = MakeFile(client, 2);
  const std::uint64_t waits = client.SendWait(id, local::PREFIX);
  ASSERT_TRUE(harness_.Eventually([&] {
    const auto record = ReadTree(cache_disk_, harness_.CacheFolderPath() + "/flush.cairn");
    return record.ok() && record->FindPath({"DATASET", std::to_string(id), "BEGUN"}) != nullptr;
  }));
  cache_disk_.FailOn({.path_part = "flush.cairn", .times = UINT64_MAX, .status = absl::ResourceExhaustedError("full")});
  prefix_disk_.ClearFaults();
  EXPECT_SAYS(client.Next(waits), local::OK, "");
  EXPECT_TRUE(IsCommitted(id));
}

TEST_F(TooLateTest, NothingOfItIsLeft) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const DatasetId older = MakeFile(client, 1);
  const DatasetId newer = MakeFile(client, 2);
  ASSERT_SAYS(client.Wait(newer, local::PREFIX), local::OK, "");
  EXPECT_EQ(CodeOfReply(client.Wait(older, local::PREFIX)), local::SUPERSEDED);
  EXPECT_TRUE(harness_.Eventually([&] { return !IsInIndex(older); }));
  EXPECT_TRUE(IsInIndex(newer));
  EXPECT_TRUE(harness_.Eventually([&] {
    const auto names = prefix_disk_.List(harness_.prefix() + "/out");
    return names.ok() && *names == std::vector<std::string>{"x"};
  }));
  EXPECT_TRUE(harness_.Read(prefix_disk_, harness_.prefix() + "/out/x") == RandomBytes(2, 1000));
}

}  // namespace
}  // namespace cairn
