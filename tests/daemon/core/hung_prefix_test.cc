// A file system that hangs: the run that has its prefix there waits, and no other does.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "storage/base/clock.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/gate.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class HungPrefixTest : public ::testing::Test {
 protected:
  void SetUp() override {
    daemon_.config.flush.stalled_ms = 500;
    ASSERT_TRUE(daemon_.Start().ok());
  }
  void TearDown() override { gate_.Open(); }  // else the daemon could not end here

  std::string bad(int number) const { return daemon_.root() + "/bad/" + std::to_string(number); }
  std::uint64_t SendOpen(FakeClient& client, const std::string& prefix) {
    local::Request request;
    request.mutable_open()->set_prefix(prefix);
    request.mutable_open()->set_nranks(1);
    request.mutable_open()->set_launch_key("job.of." + prefix);
    return client.Send(std::move(request));
  }
  DatasetId Make(FakeClient& client, std::uint64_t step) {
    const local::Reply done = client.Checkpoint(step, memory_);
    EXPECT_SAYS(done, local::OK, "");
    EXPECT_SAYS(client.Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
    return done.committed().dataset();
  }

  const Memory memory_ = {PlainOf(1, RandomBytes(1, 50'000))};
  FakeDisk prefix_disk_;
  Gate gate_{FakeOp::kAny, "/bad/"};
  CoreHarness daemon_{nullptr, &prefix_disk_};
};

TEST_F(HungPrefixTest, ManyOpeningsThatHangHoldUpNoOtherRun) {
  prefix_disk_.SetHook(gate_.hook());
  std::vector<std::unique_ptr<FakeClient>> waiting;
  for (int i = 0; i < 20; ++i) {
    waiting.push_back(std::make_unique<FakeClient>(daemon_));
    SendOpen(*waiting.back(), bad(i % 5));
  }
  gate_.AwaitArrival();
  FakeClient client(daemon_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const DatasetId id = Make(client, 1);
  ASSERT_EQ(daemon_.Flush(id).code(), local::OK);
  EXPECT_SAYS(client.Wait(id, local::PREFIX), local::OK, "");
}

// It takes longer each time than anybody waits who can do without it. Nobody here can.
TEST_F(HungPrefixTest, APrefixThatIsSlowAndDoesNotHangIsOpened) {
  std::atomic<int> looks = 0;
  prefix_disk_.SetHook([&](FakeOp op, const std::string& path) {
    if (op != FakeOp::kRealPath || path != bad(0)) return;
    ++looks;
    std::this_thread::sleep_for(std::chrono::milliseconds(2'300));
  });
  FakeClient client(daemon_);
  EXPECT_SAYS(client.Open({.key = "job.1", .prefix = bad(0)}), local::OK, "");
  EXPECT_EQ(looks, 1) << "what it was answered at last is used";
  prefix_disk_.SetHook(nullptr);
}

TEST_F(HungPrefixTest, FlushesThatHangHoldUpNoOthersForLong) {
  std::vector<std::unique_ptr<FakeClient>> hanging;
  std::vector<DatasetId> ids;
  for (int i = 0; i < 3; ++i) {  // more than flush.parallel
    hanging.push_back(std::make_unique<FakeClient>(daemon_));
    ASSERT_SAYS(hanging.back()->Open({.key = "job.1", .prefix = bad(i)}), local::OK, "");
    ids.push_back(Make(*hanging.back(), 1));
  }
  prefix_disk_.SetHook(gate_.hook());
  for (std::size_t i = 0; i < ids.size(); ++i) hanging[i]->SendWait(ids[i], local::PREFIX);  // which flushes it
  gate_.AwaitArrival();
  FakeClient client(daemon_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const DatasetId id = Make(client, 1);
  ASSERT_EQ(daemon_.Flush(id).code(), local::OK);
  EXPECT_SAYS(client.Wait(id, local::PREFIX), local::OK, "");
}

TEST_F(HungPrefixTest, APrefixThatHangsGetsNoFurtherCopies) {
  daemon_.Stop();
  daemon_.config.flush.stalled_ms = 3'600'000;
  ASSERT_TRUE(daemon_.Start().ok());
  std::vector<std::unique_ptr<FakeClient>> hanging;
  std::vector<std::uint64_t> flushed;
  std::vector<DatasetId> ids;
  for (int i = 0; i < 3; ++i) {  // more than flush.parallel
    hanging.push_back(std::make_unique<FakeClient>(daemon_));
    ASSERT_SAYS(hanging.back()->Open({.key = "job.1", .prefix = bad(i)}), local::OK, "");
    ids.push_back(Make(*hanging.back(), 1));
  }
  prefix_disk_.SetHook(gate_.hook());
  ASSERT_TRUE(daemon_.Eventually([&] {  // the leases' writes hang
    const admin::StatusReply status = daemon_.Status();
    return std::ranges::all_of(status.runs(), [](const auto& run) { return run.hung_since_us() != 0; });
  }));
  for (std::size_t i = 0; i < ids.size(); ++i) flushed.push_back(hanging[i]->SendWait(ids[i], local::PREFIX));
  FakeClient client(daemon_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const DatasetId id = Make(client, 1);
  EXPECT_SAYS(client.Wait(id, local::PREFIX), local::OK, "");
  gate_.Open();
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_SAYS(hanging[i]->Next(flushed[i]), local::OK, "");
}

// More of them than there are threads for all captures on a prefix.
TEST_F(HungPrefixTest, CheckpointsPastTheCacheThatHangHoldUpNoOthers) {
  daemon_.Stop();
  daemon_.config.cache.bytes_max = 10'000;
  ASSERT_TRUE(daemon_.Start().ok());
  std::vector<std::unique_ptr<FakeClient>> hanging;
  for (int i = 0; i < 20; ++i) {
    hanging.push_back(std::make_unique<FakeClient>(daemon_));
    ASSERT_SAYS(hanging.back()->Open({.key = "job.1", .prefix = bad(i)}), local::OK, "");
  }
  prefix_disk_.SetHook([hang = gate_.hook()](FakeOp op, const std::string& path) {
    if (path.find("/Ckpt") != std::string::npos) hang(op, path);
  });
  std::vector<DatasetId> ids;
  for (const auto& client : hanging) {
    const local::Reply done = client->Checkpoint(1, memory_);
    ASSERT_SAYS(done, local::OK, "");
    ids.push_back(done.committed().dataset());
  }
  gate_.AwaitArrival();
  FakeClient client(daemon_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const DatasetId id = Make(client, 1);
  Memory back = Blank(memory_);
  EXPECT_EQ(client.Restore(id, back).code, local::OK);
  gate_.Open();
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_SAYS(hanging[i]->Wait(ids[i], local::PREFIX), local::OK, "");
}

TEST_F(HungPrefixTest, AStopWaitsForNoneAndNamesThem) {
  FakeClient client(daemon_), other(daemon_);
  ASSERT_SAYS(client.Open({.key = "job.1", .prefix = bad(1)}), local::OK, "");
  const DatasetId id = Make(client, 1);
  prefix_disk_.SetHook(gate_.hook());
  client.SendWait(id, local::PREFIX);
  SendOpen(other, bad(2));
  gate_.AwaitArrival();
  EXPECT_STATUS(absl::StatusCode::kUnavailable, daemon_.TryStop(), bad(1));
  EXPECT_STATUS(absl::StatusCode::kUnavailable, daemon_.TryStop(), bad(2));
  gate_.Open();
  EXPECT_TRUE(daemon_.Eventually([&] { return daemon_.TryStop().ok(); }));
}

TEST_F(HungPrefixTest, StatusTellsOfAFlushThatDoesNotGetOn) {
  FakeClient client(daemon_);
  ASSERT_SAYS(client.Open({.key = "job.1", .prefix = bad(1)}), local::OK, "");
  const DatasetId id = Make(client, 1);
  prefix_disk_.SetHook([hang = gate_.hook()](FakeOp op, const std::string& path) {
    if (path.find("/ckpt.") != std::string::npos) hang(op, path);
  });
  const std::uint64_t flushed = client.SendWait(id, local::PREFIX);
  EXPECT_TRUE(daemon_.Eventually([&] { return daemon_.Status().runs(0).hung_since_us() != 0; }));
  gate_.Open();
  EXPECT_SAYS(client.Next(flushed), local::OK, "");
  EXPECT_EQ(daemon_.Status().runs(0).hung_since_us(), 0);
}

// Its run is not known: nobody has come so far.
TEST_F(HungPrefixTest, StatusTellsOfAnOpeningThatHangs) {
  const std::int64_t before = NowMicros();
  FakeClient client(daemon_);
  prefix_disk_.SetHook(gate_.hook());
  SendOpen(client, bad(1));
  EXPECT_TRUE(daemon_.Eventually([&] { return daemon_.Status().hung_size() > 0; }));
  const admin::StatusReply status = daemon_.Status();
  ASSERT_EQ(status.hung_size(), 1);
  EXPECT_EQ(status.hung(0).prefix(), bad(1));
  EXPECT_GE(status.hung(0).since_us(), before);
  EXPECT_LT(status.hung(0).since_us(), NowMicros());
  gate_.Open();
  EXPECT_TRUE(daemon_.Eventually([&] { return daemon_.Status().hung_size() == 0; }));
}

TEST_F(HungPrefixTest, StatusTellsSinceWhen) {
  FakeClient client(daemon_);
  ASSERT_SAYS(client.Open({.key = "job.1", .prefix = bad(1)}), local::OK, "");
  const DatasetId id = Make(client, 1);
  EXPECT_EQ(daemon_.Status().runs(0).hung_since_us(), 0);
  prefix_disk_.SetHook(gate_.hook());
  client.SendWait(id, local::PREFIX);
  SendOpen(client, bad(1));
  EXPECT_TRUE(daemon_.Eventually([&] { return daemon_.Status().runs(0).hung_since_us() != 0; }));
  gate_.Open();
  EXPECT_TRUE(daemon_.Eventually([&] { return daemon_.Status().runs(0).hung_since_us() == 0; }));
}

// The first checkpoint is in the cache, and nothing can make room for the next. It is refused at once, not after the
// call's deadline, and what is there stays; when the prefix answers again, the next one works.
TEST_F(HungPrefixTest, AFullCacheRefusesAtOnceWhileThePrefixHangs) {
  daemon_.Stop();
  daemon_.config.cache.bytes_max = 70'000;
  ASSERT_TRUE(daemon_.Start().ok());
  FakeClient client(daemon_);
  ASSERT_SAYS(client.Open({.key = "job.1", .prefix = bad(1)}), local::OK, "");
  const DatasetId first = Make(client, 1);
  prefix_disk_.SetHook(gate_.hook());
  const std::uint64_t flushed = client.SendWait(first, local::PREFIX);
  FakeClient other(daemon_);
  SendOpen(other, bad(1));
  ASSERT_TRUE(daemon_.Eventually([&] { return daemon_.Status().runs(0).hung_since_us() != 0; }));
  EXPECT_SAYS(client.Checkpoint(2, memory_), local::RESOURCE_EXHAUSTED, "goes once it is on the prefix");
  EXPECT_SAYS(client.Test(first, local::LOCAL), local::OK, "");
  gate_.Open();
  EXPECT_SAYS(client.Next(flushed), local::OK, "");
  EXPECT_SAYS(client.Checkpoint(3, memory_), local::OK, "");
}

}  // namespace
}  // namespace cairn
