// Every call ends: at the latest at its deadline, with an error that says what was waited for; and what comes after is
// none the worse for it.
#include <gtest/gtest.h>

#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/gate.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

constexpr std::uint32_t kShortMs = 20;
const Memory kMemory = {ValueOf(1, "step", 7), PlainOf(2, RandomBytes(2, 300'000))};

class DeadlinesTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(harness_.Start().ok()); }
  // A request with a deadline that passes.
  static local::Reply AskShortly(FakeClient& client, local::Request request) {
    request.set_deadline_ms(kShortMs);
    return client.Ask(std::move(request));
  }

  FakeDisk cache_disk_, prefix_disk_;
  CoreHarness harness_{&cache_disk_, &prefix_disk_};
};

TEST_F(DeadlinesTest, OpenOnAPrefixThatHangs) {
  Gate gate(FakeOp::kAny, "/.cairn");
  prefix_disk_.SetHook(gate.hook());
  FakeClient client(harness_);
  local::Request open;
  open.mutable_open()->set_prefix(harness_.prefix());
  open.mutable_open()->set_nranks(1);
  open.mutable_open()->set_launch_key("job.1");
  EXPECT_SAYS(AskShortly(client, open), local::DEADLINE_EXCEEDED, "the prefix " + harness_.prefix());
  gate.Open();
  EXPECT_SAYS(client.Open({}), local::OK, "");
}

TEST_F(DeadlinesTest, LatestWhileAnEarlierLaunchsBytesAreOnTheirWay) {
  Gate gate(FakeOp::kWrite, "Ckpt");
  cache_disk_.SetHook(gate.hook());
  {
    FakeClient before(harness_);
    ASSERT_SAYS(before.Open({}), local::OK, "");
    ASSERT_SAYS(before.Checkpoint(1, kMemory), local::OK, "");  // captured: the disk's trouble is not its own
    gate.AwaitArrival();
  }
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "job.2"}), local::OK, "");
  EXPECT_SAYS(client.Latest(kShortMs), local::DEADLINE_EXCEEDED, "captured datasets on their way to `local`");
  gate.Open();
  EXPECT_EQ(client.Latest().latest().step(), 1u);
}

TEST_F(DeadlinesTest, LocalOnADiskThatHangs) {
  Gate gate(FakeOp::kSync, "Ckpt");
  cache_disk_.SetHook(gate.hook());
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const local::Reply done = client.Checkpoint(1, kMemory);
  ASSERT_SAYS(done, local::OK, "");
  const DatasetId id = done.committed().dataset();
  EXPECT_SAYS(client.Next(client.SendWait(id, local::LOCAL, kShortMs)), local::DEADLINE_EXCEEDED, "level local");
  EXPECT_TRUE(client.Test(id, local::CAPTURED).test().reached());
  EXPECT_FALSE(client.Test(id, local::LOCAL).test().reached());
  gate.Open();
  EXPECT_SAYS(client.Wait(id, local::LOCAL), local::OK, "");
}

TEST_F(DeadlinesTest, AnOutputOnADiskThatHangsAndTheNextOneWorks) {
  Gate gate(FakeOp::kMakeDirectory, "scr.dataset.");
  cache_disk_.SetHook(gate.hook());
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  local::Request begin;
  begin.mutable_output_begin()->set_step(1);
  begin.mutable_output_begin()->set_attempt(1);
  begin.mutable_output_begin()->set_checkpoint(true);
  EXPECT_SAYS(AskShortly(client, begin), local::DEADLINE_EXCEEDED, "within 20 ms");
  gate.Open();
  ASSERT_SAYS(client.Abort("it took too long"), local::OK, "");
  ASSERT_SAYS(client.OutputBegin(2), local::OK, "");
  ASSERT_SAYS(client.OutputEnd(), local::OK, "");
}

TEST_F(DeadlinesTest, ARestoreFromADiskThatHangs) {
  Gate gate(FakeOp::kRead, "Ckpt");
  DatasetId id = 0;
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    const local::Reply done = client.Checkpoint(1, kMemory);
    ASSERT_SAYS(done, local::OK, "");
    id = done.committed().dataset();
    ASSERT_SAYS(client.Wait(id, local::LOCAL), local::OK, "");
  }
  harness_.Restart();
  cache_disk_.SetHook(gate.hook());
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "job.2"}), local::OK, "");
  Memory back = Blank(kMemory);
  const FakeClient::Restored restored = client.TakeRestore(client.SendRestore(id, back, kShortMs), back);
  EXPECT_EQ(restored.code, local::DEADLINE_EXCEEDED) << restored.message;
  EXPECT_NE(restored.message.find("the restore of dataset"), std::string::npos) << restored.message;
  gate.Open();
  EXPECT_EQ(client.Restore(id, back).code, local::OK);
  EXPECT_EQ(NumberIn(back[0]), 7u);
}

TEST_F(DeadlinesTest, OneRequestTooManyIsRefusedNotQueued) {
  Ranks ranks(harness_, 2, "job.1");
  const local::Reply half = ranks[0].Checkpoint(1, kMemory);
  ASSERT_SAYS(half, local::OK, "");
  std::vector<std::uint64_t> waiting;
  for (int i = 0; i < 64; ++i) waiting.push_back(ranks[0].SendWait(half.committed().dataset(), local::LOCAL));
  EXPECT_SAYS(ranks[0].Wait(half.committed().dataset(), local::LOCAL), local::RESOURCE_EXHAUSTED, "64 requests");
  ASSERT_SAYS(ranks[1].Checkpoint(1, kMemory), local::OK, "");
  for (std::uint64_t call : waiting) EXPECT_SAYS(ranks[0].Next(call), local::OK, "");
  EXPECT_SAYS(ranks[0].Wait(half.committed().dataset(), local::LOCAL), local::OK, "");
}

// The local disk hangs or fails in many ways; the prefix keeps working, and the other way round.
TEST_F(DeadlinesTest, APrefixThatHangsHoldsUpNothingLocal) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  Gate gate(FakeOp::kAny, "/prefix");
  prefix_disk_.SetHook(gate.hook());
  for (std::uint64_t step = 1; step <= 3; ++step) {
    const local::Reply done = client.Checkpoint(step, kMemory);
    ASSERT_SAYS(done, local::OK, "");
    const std::uint64_t flushed = client.SendWait(done.committed().dataset(), local::PREFIX, kShortMs);
    ASSERT_SAYS(client.Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
    EXPECT_SAYS(client.Next(flushed), local::DEADLINE_EXCEEDED, "level prefix");
    Memory back = Blank(kMemory);
    EXPECT_EQ(client.Restore(done.committed().dataset(), back).code, local::OK);
  }
  gate.Open();
}

}  // namespace
}  // namespace cairn
