// The folder that is redundant itself hangs, under a daemon with threads of its own: nobody waits for it who need not.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "storage/io/disk.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/gate.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class RedundantTierHangsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EXPECT_OK(MakeDirectories(prefix_disk_, "/burst"));
    prefix_disk_.Mount("/burst");
    daemon_.config.redundant.path = "/burst";
    daemon_.config.flush.stalled_ms = 500;
    daemon_.config.flush.retry_ms_min = 100;
    daemon_.config.flush.retry_ms_max = 200;
    ASSERT_TRUE(daemon_.Start().ok());
  }
  void TearDown() override { gate_.Open(); }  // else the daemon could not end here

  DatasetId Make(FakeClient& client, std::uint64_t step) {
    const local::Reply done = client.Checkpoint(step, memory_);
    EXPECT_SAYS(done, local::OK, "");
    EXPECT_SAYS(client.Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
    return done.committed().dataset();
  }

  const Memory memory_ = {ValueOf(1, "step", 7), PlainOf(2, RandomBytes(1, 3'000'000))};
  FakeDisk prefix_disk_;
  Gate gate_{FakeOp::kAny, "/burst"};
  CoreHarness daemon_{nullptr, &prefix_disk_};
};

TEST_F(RedundantTierHangsTest, NeitherCapturesNorFlushesNorOtherRunsWaitForACopy) {
  FakeClient client(daemon_), other(daemon_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  ASSERT_SAYS(client.Wait(Make(client, 1), local::REDUNDANT), local::OK, "");
  prefix_disk_.SetHook(gate_.hook());
  const DatasetId id = Make(client, 2);
  gate_.AwaitArrival();
  EXPECT_TRUE(daemon_.Eventually([this] { return daemon_.Warned("does not answer"); }));
  ASSERT_EQ(daemon_.Flush(id).code(), local::OK);
  EXPECT_SAYS(client.Wait(id, local::PREFIX), local::OK, "");
  ASSERT_EQ(daemon_.Flush(Make(client, 3)).code(), local::OK);
  ASSERT_SAYS(other.Open({.key = "job.2", .prefix = daemon_.root() + "/other"}), local::OK, "");
  EXPECT_SAYS(other.Wait(Make(other, 1), local::LOCAL), local::OK, "");
  gate_.Open();
  EXPECT_SAYS(client.Wait(Make(client, 4), local::REDUNDANT), local::OK, "");
}

TEST_F(RedundantTierHangsTest, TheDaemonStops) {
  FakeClient client(daemon_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  prefix_disk_.SetHook(gate_.hook());
  Make(client, 1);
  gate_.AwaitArrival();
  EXPECT_TRUE(daemon_.Quiesce()) << "what was captured is local";
  const absl::Status stopped = daemon_.TryStop();
  EXPECT_TRUE(absl::IsUnavailable(stopped)) << stopped;
  EXPECT_NE(stopped.message().find("/burst (redundant.path)"), stopped.message().npos) << stopped;
}

// What is only there is not waited for longer than some seconds: the launch goes on with what is known.
TEST_F(RedundantTierHangsTest, AnOpeningGoesOnWithoutIt) {
  {
    FakeClient client(daemon_);
    ASSERT_SAYS(client.Open({}), local::OK, "");
    const DatasetId id = Make(client, 1);
    ASSERT_EQ(daemon_.Flush(id).code(), local::OK);
    ASSERT_SAYS(client.Wait(id, local::PREFIX), local::OK, "");
  }
  daemon_.Stop();
  prefix_disk_.SetHook(gate_.hook());
  daemon_.config.cache.path = daemon_.root() + "/another";
  ASSERT_TRUE(daemon_.Start().ok());
  FakeClient client(daemon_);
  EXPECT_SAYS(client.Open({.key = "job.2", .takeover = true}), local::OK, "");
  EXPECT_SAYS(client.Latest(), local::OK, "");
  EXPECT_TRUE(daemon_.Warned("does not answer: what is only there is not known"));
}

TEST_F(RedundantTierHangsTest, TwoRunsHaveFoldersOfTheirOwn) {
  FakeClient client(daemon_), other(daemon_);
  const std::string prefix = daemon_.root() + "/other";
  ASSERT_SAYS(client.Open({}), local::OK, "");
  ASSERT_SAYS(other.Open({.key = "job.2", .prefix = prefix}), local::OK, "");
  const Memory another = {ValueOf(1, "step", 8), PlainOf(2, RandomBytes(2, 3'000'000))};
  const DatasetId id = Make(client, 1);
  const local::Reply done = other.Checkpoint(1, another);
  ASSERT_SAYS(client.Wait(id, local::REDUNDANT), local::OK, "");
  ASSERT_SAYS(other.Wait(done.committed().dataset(), local::REDUNDANT), local::OK, "");
  client.Drop();
  other.Drop();
  daemon_.Stop();
  daemon_.config.cache.path = daemon_.root() + "/another";
  ASSERT_TRUE(daemon_.Start().ok());
  FakeClient again(daemon_), other_again(daemon_);
  ASSERT_SAYS(again.Open({.key = "job.3", .takeover = true}), local::OK, "");
  ASSERT_SAYS(other_again.Open({.key = "job.4", .takeover = true, .prefix = prefix}), local::OK, "");
  for (const auto& [who, wanted] : {std::pair(&again, &memory_), std::pair(&other_again, &another)}) {
    const local::Reply latest = who->Latest();
    ASSERT_SAYS(latest, local::OK, "");
    Memory back = Blank(*wanted);
    const FakeClient::Restored restored = who->Restore(latest.latest().dataset(), back);
    EXPECT_EQ(restored.code, local::OK) << restored.message;
    EXPECT_EQ(restored.tier, local::TIER_REDUNDANT);
    EXPECT_EQ(back[1].bytes, (*wanted)[1].bytes);
  }
}

}  // namespace
}  // namespace cairn
