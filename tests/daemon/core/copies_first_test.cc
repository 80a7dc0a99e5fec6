// While ranks copy, the daemon makes no file of theirs: daemon/core/captures.h.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/data/plan.h"
#include "proto/admin.pb.h"
#include "tests/daemon/core/core_harness.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/simulated_daemon.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

class CopiesFirstTest : public testing::Test {
 protected:
  CopiesFirstTest() {
    daemon_.config = harness_.config;
    EXPECT_TRUE(daemon_.Start().ok());
    for (Rank rank = 0; rank < 2; ++rank) {
      ranks_.push_back(std::make_unique<FakeClient>(daemon_));
      EXPECT_EQ(CodeOfReply(ranks_.back()->Open({.rank = rank, .nranks = 2, .prefix = harness_.prefix()})), local::OK);
    }
    RunAll();
    disk_.SetHook([this](FakeOp, const std::string&) { ++operations_; });
  }
  ~CopiesFirstTest() override {
    disk_.SetHook(nullptr);
    ranks_.clear();
    daemon_.StopCleanly();
  }

  // All that is to be done at this instant.
  void RunAll() {
    while (daemon_.stepper().Step()) {
    }
  }
  void Begin(Rank rank, std::uint64_t step) {
    EXPECT_EQ(CodeOfReply(ranks_[rank]->Begin(step, memory_)), local::OK);
    RunAll();
  }
  void CopyAndCommit(Rank rank) {
    EXPECT_TRUE(ranks_[rank]->Fill(memory_));
    EXPECT_EQ(CodeOfReply(ranks_[rank]->Commit()), local::OK);
    RunAll();
  }
  std::vector<std::string> Warnings() {
    const auto status = daemon_.Answered<admin::StatusReply>(
        [this](auto done) { daemon_.core().Status(admin::StatusRequest(), std::move(done)); });
    return {status.warnings().begin(), status.warnings().end()};
  }
  int TakeOperations() { return std::exchange(operations_, 0); }

  FakeDisk disk_;
  CoreHarness harness_{&disk_, &disk_};  // for its folders and settings
  SimulatedDaemon daemon_{1, disk_, disk_};
  std::vector<std::unique_ptr<FakeClient>> ranks_;
  const Memory memory_{PlainOf(1, RandomBytes(1, 3 * kWindowBytes))};
  int operations_ = 0;
};

TEST_F(CopiesFirstTest, NothingIsWrittenBeforeTheLastRankHasCopied) {
  Begin(0, 1);
  Begin(1, 1);
  CopyAndCommit(0);
  EXPECT_EQ(TakeOperations(), 0);
  CopyAndCommit(1);
  EXPECT_GT(TakeOperations(), 0);
  for (auto& rank : ranks_) EXPECT_EQ(CodeOfReply(rank->Wait(1, local::LOCAL)), local::OK);
}

TEST_F(CopiesFirstTest, CopiesThatTakeLongAreNotWaitedFor) {
  Begin(0, 1);
  Begin(1, 1);
  EXPECT_EQ(TakeOperations(), 0);
  daemon_.stepper().Turn(std::chrono::milliseconds(6));
  RunAll();
  EXPECT_GT(TakeOperations(), 0) << "its folder and file are there when it ends";
  CopyAndCommit(0);
  CopyAndCommit(1);
  for (auto& rank : ranks_) EXPECT_EQ(CodeOfReply(rank->Wait(1, local::LOCAL)), local::OK);
}

TEST_F(CopiesFirstTest, ALastRankWithoutVariablesEndsAtItsCommitIfTheFolderIsThere) {
  const std::vector<std::string> before = Warnings();
  Begin(0, 1);
  EXPECT_EQ(CodeOfReply(ranks_[1]->Begin(1, {})), local::OK);
  const std::uint64_t captured = ranks_[0]->SendWait(1, local::CAPTURED);
  daemon_.stepper().Turn(std::chrono::milliseconds(6));
  RunAll();
  CopyAndCommit(0);
  EXPECT_FALSE(ranks_[0]->HasReply(captured));
  EXPECT_EQ(CodeOfReply(ranks_[1]->Commit()), local::OK);
  RunAll();
  ASSERT_TRUE(ranks_[0]->HasReply(captured));
  EXPECT_EQ(CodeOfReply(ranks_[0]->Next(captured)), local::OK);
  for (auto& rank : ranks_) EXPECT_EQ(CodeOfReply(rank->Wait(1, local::LOCAL)), local::OK);
  EXPECT_EQ(Warnings(), before);
}

TEST_F(CopiesFirstTest, WhatGoesThroughARingIsWrittenAtOnce) {
  daemon_.StopCleanly();
  daemon_.config.image.bytes_max = 2 << 20;
  ASSERT_TRUE(daemon_.Start().ok());
  FakeClient rank(daemon_);
  ASSERT_EQ(CodeOfReply(rank.Open({.nranks = 1, .key = "job.2", .prefix = harness_.prefix()})), local::OK);
  RunAll();
  TakeOperations();
  ASSERT_EQ(CodeOfReply(rank.Begin(1, memory_)), local::OK);
  RunAll();
  EXPECT_GT(TakeOperations(), 0) << "its client waits for the disk";
  rank.Abort("for the test");
}

}  // namespace
}  // namespace cairn
