// A run's directory that is copied, moved, renamed or set back, as the daemon that holds its cache sees it. What counts
// is whose state a restart gets. design.md, "Identity"; storage/place/prefix/identity.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "storage/place/prefix/identity.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

class BranchesTest : public ::testing::Test {
 protected:
  enum class From { kThisNode, kPrefix };

  void SetUp() override { ASSERT_TRUE(daemon_.Start().ok()); }
  // Step 1 is on the prefix, step 2 in this node's cache only.
  void MakeTwo() {
    FakeClient client(daemon_);
    ASSERT_SAYS(client.Open({.key = "job.1"}), local::OK, "");
    run_ = client.run();
    on_prefix_ = Make(client, 1, local::LOCAL);
    ASSERT_EQ(daemon_.Flush(on_prefix_).code(), local::OK);
    ASSERT_SAYS(client.Wait(on_prefix_, local::PREFIX), local::OK, "");
    cached_ = Make(client, 2, local::LOCAL);
    ASSERT_SAYS(client.Close(), local::OK, "");
  }
  DatasetId Make(FakeClient& client, std::uint64_t step, local::Level level) {
    const Memory memory = MemoryAt(step);
    const local::Reply done = client.Checkpoint(step, memory);
    EXPECT_SAYS(done, local::OK, "");
    EXPECT_SAYS(client.Wait(done.committed().dataset(), level), local::OK, "");
    return done.committed().dataset();
  }
  static Memory MemoryAt(std::uint64_t step) { return {PlainOf(1, RandomBytes(step, 30'000))}; }
  // What a restart there gets: its step, from there, with the right bytes.
  void ExpectRestart(FakeClient& client, std::uint64_t step, From from) {
    const local::Reply latest = client.Latest();
    ASSERT_SAYS(latest, local::OK, "");
    EXPECT_EQ(latest.latest().step(), step);
    Memory back = Blank(MemoryAt(step));
    const FakeClient::Restored restored = client.Restore(latest.latest().dataset(), back);
    EXPECT_EQ(restored.code, local::OK) << restored.message;
    EXPECT_EQ(restored.tier == local::TIER_PREFIX ? From::kPrefix : From::kThisNode, from);
    EXPECT_EQ(back[0].bytes, MemoryAt(step)[0].bytes);
  }
  admin::RunStatus RunAt(const std::string& prefix) {
    const admin::StatusReply status = daemon_.Status();
    for (const admin::RunStatus& run : status.runs()) {
      if (run.prefix() == prefix) return run;
    }
    return {};
  }
  std::vector<std::string> NamesIn(const std::string& path) {
    auto names = prefix_disk_.List(path);
    EXPECT_TRUE(names.ok()) << names.status();
    std::sort(names->begin(), names->end());
    return *std::move(names);
  }
  std::string Beside(const std::string& name) const { return daemon_.root() + "/" + name; }

  FakeDisk prefix_disk_;
  CoreHarness daemon_{nullptr, &prefix_disk_};
  std::string run_;
  DatasetId on_prefix_ = 0, cached_ = 0;
};

TEST_F(BranchesTest, ACopyIsABranchAndLeavesItsParentAlone) {
  MakeTwo();
  const std::string copy = Beside("branch");
  prefix_disk_.CopyTree(daemon_.prefix(), copy);
  const std::vector<std::string> before = NamesIn(daemon_.prefix());
  {
    FakeClient client(daemon_);
    ASSERT_SAYS(client.Open({.key = "job.2", .prefix = copy}), local::OK, "");
    EXPECT_NE(client.run(), run_);
    EXPECT_TRUE(daemon_.Warned("is a copy of run " + run_));
    EXPECT_EQ(RunAt(copy).branch_of(), run_);
    ExpectRestart(client, 1, From::kPrefix);  // step 2 is the parent's
    const DatasetId own = Make(client, 3, local::LOCAL);
    ASSERT_SAYS(client.Close(), local::OK, "");
    EXPECT_TRUE(
        daemon_.IsThere(daemon_.cache_disk(), RunAt(copy).cache_folder() + "/scr.dataset." + std::to_string(own)));
  }
  EXPECT_EQ(NamesIn(daemon_.prefix()), before);
  FakeClient parent(daemon_);
  ASSERT_SAYS(parent.Open({.key = "job.3"}), local::OK, "");
  EXPECT_EQ(parent.run(), run_);
  ExpectRestart(parent, 2, From::kThisNode);
}

// The next daemon tells the two apart as well, whichever is opened first.
TEST_F(BranchesTest, AfterARestartEachStillHasItsOwn) {
  MakeTwo();
  const std::string copy = Beside("branch");
  prefix_disk_.CopyTree(daemon_.prefix(), copy);
  {
    FakeClient client(daemon_);
    ASSERT_SAYS(client.Open({.key = "job.2", .prefix = copy}), local::OK, "");
    Make(client, 3, local::LOCAL);
    ASSERT_SAYS(client.Close(), local::OK, "");
  }
  daemon_.Restart();
  FakeClient branch(daemon_), parent(daemon_);
  ASSERT_SAYS(parent.Open({.key = "job.3"}), local::OK, "");
  ASSERT_SAYS(branch.Open({.key = "job.4", .prefix = copy}), local::OK, "");
  EXPECT_EQ(parent.run(), run_);
  ExpectRestart(parent, 2, From::kThisNode);
  ExpectRestart(branch, 3, From::kThisNode);
}

// What rsync makes has new inodes, and its owner says that it has moved.
TEST_F(BranchesTest, AMovedOneThatIsTakenBackHasItsCacheAgain) {
  MakeTwo();
  const std::string moved = Beside("moved");
  prefix_disk_.CopyTree(daemon_.prefix(), moved);
  ASSERT_TRUE(prefix_disk_.Rename(daemon_.prefix(), Beside("removed")).ok());
  {
    FakeClient client(daemon_);
    ASSERT_SAYS(client.Open({.key = "job.2", .prefix = moved}), local::OK, "");
    ExpectRestart(client, 1, From::kPrefix);
    ASSERT_SAYS(client.Close(), local::OK, "");
  }
  const auto taken_back = identity::TakeBack(prefix_disk_, moved);
  ASSERT_TRUE(taken_back.ok()) << taken_back.status();
  FakeClient client(daemon_);
  ASSERT_SAYS(client.Open({.key = "job.3", .prefix = moved}), local::OK, "");
  EXPECT_EQ(client.run(), run_);
  ExpectRestart(client, 2, From::kThisNode);
}

TEST_F(BranchesTest, ARenamedOneGoesOnUnderItsNewName) {
  MakeTwo();
  const std::string renamed = Beside("renamed");
  ASSERT_TRUE(prefix_disk_.Rename(daemon_.prefix(), renamed).ok());
  FakeClient client(daemon_);
  ASSERT_SAYS(client.Open({.key = "job.2", .prefix = renamed}), local::OK, "");
  EXPECT_EQ(client.run(), run_);
  EXPECT_EQ(RunAt(renamed).run(), run_);
  EXPECT_EQ(RunAt(renamed).branch_of(), "");
  ExpectRestart(client, 2, From::kThisNode);
  const DatasetId next = Make(client, 3, local::LOCAL);
  daemon_.shared_prefix = renamed;
  ASSERT_EQ(daemon_.Flush(next).code(), local::OK);
  ASSERT_SAYS(client.Wait(next, local::PREFIX), local::OK, "");
  EXPECT_TRUE(daemon_.IsThere(prefix_disk_, renamed + "/ckpt." + std::to_string(next)));
  EXPECT_FALSE(daemon_.IsThere(prefix_disk_, Beside("prefix/ckpt.") + std::to_string(next)));
}

// A backup was put over it: the launch that made step 2 never was, and another one has its number now.
TEST_F(BranchesTest, WhatASetBackPrefixDoesNotKnowIsNotRestored) {
  {
    FakeClient client(daemon_);
    ASSERT_SAYS(client.Open({.key = "job.0"}), local::OK, "");
    ASSERT_SAYS(client.Close(), local::OK, "");
  }
  MakeTwo();
  daemon_.Stop();
  const std::string folder = daemon_.prefix() + "/.cairn/";
  ASSERT_TRUE(prefix_disk_.Remove(folder + "launch.2").ok());
  for (const std::string& name : NamesIn(folder)) {
    if (name.starts_with("launch.2.")) {
      ASSERT_TRUE(prefix_disk_.Remove(folder + name).ok());
    }
  }
  CoreHarness other(nullptr, &prefix_disk_);
  other.shared_prefix = daemon_.prefix();
  ASSERT_TRUE(other.Start().ok());
  {
    FakeClient client(other);
    ASSERT_SAYS(client.Open({.key = "job.elsewhere", .takeover = true}), local::OK, "");
    EXPECT_EQ(client.launch(), 2u);
    ASSERT_SAYS(client.Close(), local::OK, "");
  }
  ASSERT_TRUE(daemon_.Start().ok());
  FakeClient client(daemon_);
  ASSERT_SAYS(client.Open({.key = "job.3", .takeover = true}), local::OK, "");
  EXPECT_TRUE(daemon_.Warned("dataset " + std::to_string(cached_) + " (step 2) of the cache is not of"));
  const local::Reply latest = client.Latest();
  EXPECT_FALSE(CodeOfReply(latest) == local::OK && latest.latest().step() == 2) << latest.DebugString();
  EXPECT_FALSE(daemon_.Row(cached_).dataset() == cached_ && daemon_.Row(cached_).level() == local::PREFIX);
  EXPECT_TRUE(daemon_.Row(cached_).in_cache());  // nor dropped
}

// A cache that another node's daemon has made is left alone, unless this one is told to take it.
TEST_F(BranchesTest, AnotherNodesCacheIsRefusedUntilItIsTaken) {
  MakeTwo();
  daemon_.Stop();
  const std::string made_by = daemon_.config.cache.node;
  daemon_.config.cache.node = "another-node";
  const absl::Status refused = daemon_.Start();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_NE(refused.message().find("--take-cache"), std::string::npos) << refused;
  daemon_.config.cache.take = true;
  ASSERT_TRUE(daemon_.Start().ok());
  daemon_.config.cache.take = false;
  daemon_.Restart();  // it is its own now
  FakeClient client(daemon_);
  ASSERT_SAYS(client.Open({.key = "job.2", .takeover = true}), local::OK, "");
  ExpectRestart(client, 2, From::kThisNode);
  daemon_.Stop();
  daemon_.config.cache.node = made_by;
  EXPECT_FALSE(daemon_.Start().ok());
}

}  // namespace
}  // namespace cairn
