// A file system that hangs: the run that has its prefix there waits, and no other does.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/gate.h"
#include "tests/support/fake_disk.h"

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
