// Launches that begin while the prefix hangs: what they may rest on, and what becomes of them when it answers again.
// design.md, "Identity"; daemon/core/openings_offline.cc.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "storage/place/prefix/prefix.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/gate.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

constexpr std::uint32_t kNeverOver = 600'000;  // ms: a lease that outlives the test

class OfflineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    daemon_.config.lease.term_ms = kNeverOver;
    ASSERT_TRUE(daemon_.Start().ok());
  }
  // A hanging operation would keep the daemon from ending.
  void TearDown() override { Answers(); }

  // For all but this thread: another node, which is the test, still reaches it.
  void Hangs() {
    prefix_disk_.SetHook([hung = hung_->hook(), self = std::this_thread::get_id()](FakeOp op, const std::string& path) {
      if (std::this_thread::get_id() != self) hung(op, path);
    });
  }
  void Answers() {
    prefix_disk_.SetHook({});
    hung_->Open();
    hung_ = std::make_unique<Gate>(FakeOp::kAny, "");
  }
  DatasetId Make(FakeClient& client, std::uint64_t step, local::Level level) {
    const local::Reply done = client.Checkpoint(step, memory_);
    EXPECT_SAYS(done, local::OK, "");
    EXPECT_SAYS(client.Wait(done.committed().dataset(), level), local::OK, "");
    return done.committed().dataset();
  }
  // A first launch that has one dataset on the prefix and one in the cache.
  void BeginOnline(FakeClient& client) {
    ASSERT_SAYS(client.Open({.key = "job.1"}), local::OK, "");
    const DatasetId first = Make(client, 1, local::LOCAL);
    ASSERT_EQ(daemon_.Flush(first).code(), local::OK);
    ASSERT_SAYS(client.Wait(first, local::PREFIX), local::OK, "");
    Make(client, 2, local::LOCAL);
  }
  admin::RunStatus TheRun() {
    const admin::StatusReply status = daemon_.Status();
    return status.runs_size() == 1 ? status.runs(0) : admin::RunStatus();
  }
  std::unique_ptr<Prefix> OpenPrefix() {
    auto prefix = Prefix::Open(prefix_disk_, daemon_.prefix());
    EXPECT_TRUE(prefix.ok()) << prefix.status();
    return prefix.ok() ? *std::move(prefix) : nullptr;
  }
  bool IsConfirmed() {
    return daemon_.Eventually([&] { return TheRun().run() != "" && !TheRun().provisional(); });
  }

  const Memory memory_ = {ValueOf(1, "step", 7), PlainOf(2, RandomBytes(2, 50'000))};
  FakeDisk prefix_disk_;
  std::unique_ptr<Gate> hung_ = std::make_unique<Gate>(FakeOp::kAny, "");
  CoreHarness daemon_{nullptr, &prefix_disk_};
};

TEST_F(OfflineTest, ALaunchBeginsFromWhatIsHereWhileTheLeaseHolds) {
  FakeClient one(daemon_), two(daemon_);
  BeginOnline(one);
  Hangs();
  one.Drop();
  const local::Reply opened = two.Open({.key = "job.2"});
  ASSERT_SAYS(opened, local::OK, "");
  EXPECT_EQ(opened.open().launch(), 2u);
  EXPECT_TRUE(TheRun().provisional());
  EXPECT_TRUE(daemon_.Warned("does not answer: launch 2 begins without it"));
  const local::Reply latest = two.Latest();
  ASSERT_SAYS(latest, local::OK, "");
  EXPECT_EQ(latest.latest().step(), 2u);
  Memory back = Blank(memory_);
  const FakeClient::Restored restored = two.Restore(latest.latest().dataset(), back);
  EXPECT_EQ(restored.code, local::OK) << restored.message;
  EXPECT_TRUE(restored.tier == local::TIER_IMAGE || restored.tier == local::TIER_CACHE) << restored.tier;
  EXPECT_EQ(back[1].bytes, memory_[1].bytes);
}

// Release 0.1.0 ended after the 64 ids of its block.
TEST_F(OfflineTest, LocalCheckpointsGoOnAndAreFlushedWhenThePrefixAnswers) {
  FakeClient one(daemon_), two(daemon_);
  BeginOnline(one);
  Hangs();
  one.Drop();
  ASSERT_SAYS(two.Open({.key = "job.2"}), local::OK, "");
  DatasetId last = 0;
  for (std::uint64_t step = 3; step < 3 + 70; ++step) last = Make(two, step, local::LOCAL);
  ASSERT_FALSE(HasFailure());
  ASSERT_EQ(daemon_.Flush(last).code(), local::OK);
  Answers();
  ASSERT_SAYS(two.Wait(last, local::PREFIX), local::OK, "");
  EXPECT_TRUE(IsConfirmed());
  const auto prefix = OpenPrefix();
  ASSERT_NE(prefix, nullptr);
  const auto launch = prefix->FindLaunch(2);
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_EQ(launch->predecessor, 1u);
  EXPECT_FALSE(launch->abandoned);
  const auto lease = prefix->FindLease(2);
  ASSERT_TRUE(lease.ok() && *lease && (*lease)->record) << lease.status();
  EXPECT_EQ((*lease)->record->state, LeaseRecord::State::kLive);
  const auto committed = prefix->Committed();
  ASSERT_TRUE(committed.ok()) << committed.status();
  EXPECT_TRUE(committed->contains(last));
}

// Its lease said that nobody lives there: another node may have begun since.
TEST_F(OfflineTest, AfterAnEndedLeaseOnlyTakeOverBegins) {
  FakeClient one(daemon_), two(daemon_), three(daemon_);
  BeginOnline(one);
  // The daemon looks for newer launches as soon as it knows that its lease is written.
  const auto written = std::make_shared<std::atomic<bool>>(false), known = std::make_shared<std::atomic<bool>>(false);
  prefix_disk_.SetHook([written, known](FakeOp op, const std::string& path) {
    if (op == FakeOp::kSync && path.ends_with(".lease")) *written = true;
    if (op == FakeOp::kList && path.ends_with("/.cairn") && *written) *known = true;
  });
  one.Drop();
  ASSERT_TRUE(daemon_.Eventually([&] { return known->load(); }));
  Hangs();
  local::Request request;
  request.set_deadline_ms(4000);
  request.mutable_open()->set_prefix(daemon_.prefix());
  request.mutable_open()->set_nranks(1);
  request.mutable_open()->set_launch_key("job.2");
  EXPECT_SAYS(two.Ask(std::move(request)), local::DEADLINE_EXCEEDED, "");
  ASSERT_SAYS(three.Open({.key = "job.3", .takeover = true}), local::OK, "");
  const local::Reply latest = three.Latest();
  ASSERT_SAYS(latest, local::OK, "");
  EXPECT_EQ(latest.latest().step(), 2u);
}

TEST_F(OfflineTest, SeveralInARowAreMadeInTheirOrder) {
  FakeClient one(daemon_), two(daemon_), three(daemon_);
  BeginOnline(one);
  Hangs();
  one.Drop();
  ASSERT_SAYS(two.Open({.key = "job.2"}), local::OK, "");
  const DatasetId of_two = Make(two, 3, local::LOCAL);
  two.Drop();
  ASSERT_SAYS(three.Open({.key = "job.3"}), local::OK, "");
  EXPECT_EQ(three.launch(), 3u);
  const local::Reply latest = three.Latest();
  ASSERT_SAYS(latest, local::OK, "");
  EXPECT_EQ(latest.latest().dataset(), of_two);
  const DatasetId of_three = Make(three, 4, local::LOCAL);
  ASSERT_EQ(daemon_.Flush(of_three).code(), local::OK);
  Answers();
  ASSERT_SAYS(three.Wait(of_three, local::PREFIX), local::OK, "");
  const auto prefix = OpenPrefix();
  ASSERT_NE(prefix, nullptr);
  for (const LaunchId id : {2u, 3u}) {
    const auto launch = prefix->FindLaunch(id);
    ASSERT_TRUE(launch.ok()) << launch.status();
    EXPECT_EQ(launch->key, "job." + std::to_string(id));
    EXPECT_EQ(launch->predecessor, id - 1);
    EXPECT_FALSE(launch->abandoned);
  }
}

// Another node could reach the prefix: what was computed here meanwhile is not the run's line, and is not lost.
TEST_F(OfflineTest, OneThatCameTooLateCountsForNobody) {
  FakeClient one(daemon_), two(daemon_), three(daemon_);
  BeginOnline(one);
  Hangs();
  one.Drop();
  ASSERT_SAYS(two.Open({.key = "job.2"}), local::OK, "");
  const DatasetId stray = Make(two, 9, local::LOCAL);
  const auto prefix = OpenPrefix();
  ASSERT_NE(prefix, nullptr);
  const auto made = prefix->MakeLaunch({.key = "job.elsewhere",
                                        .nranks = 1,
                                        .run = {},
                                        .maker = {.cache = "ab", .host = "elsewhere"}});  // another node's
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->id, 2u);
  Answers();
  EXPECT_TRUE(daemon_.Eventually([&] { return CodeOfReply(two.Latest()) == local::FENCED; }));
  const auto late = prefix->FindLaunch(3);
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_TRUE(late->abandoned);
  ASSERT_SAYS(three.Open({.key = "job.4", .takeover = true}), local::OK, "");
  const local::Reply latest = three.Latest();
  ASSERT_SAYS(latest, local::OK, "");
  EXPECT_EQ(latest.latest().step(), 2u);  // step 9 is of another line
  Memory back = Blank(memory_);
  const FakeClient::Restored restored = three.Restore(stray, back);  // by its number
  EXPECT_EQ(restored.code, local::OK) << restored.message;
  EXPECT_EQ(back[1].bytes, memory_[1].bytes);
}

// What the cache's record says is enough.
TEST_F(OfflineTest, TheNextDaemonMakesItBeforeAnythingElse) {
  DatasetId of_two = 0;
  {
    FakeClient one(daemon_), two(daemon_);
    BeginOnline(one);
    Hangs();
    one.Drop();
    ASSERT_SAYS(two.Open({.key = "job.2"}), local::OK, "");
    of_two = Make(two, 3, local::LOCAL);
    // Whatever this daemon would still do there fails.
    prefix_disk_.FailOn({.times = UINT64_MAX});
    hung_->Open();
  }
  daemon_.Stop();
  prefix_disk_.ClearFaults();
  Answers();
  ASSERT_FALSE(OpenPrefix()->FindLaunch(2).ok());
  ASSERT_TRUE(daemon_.Start().ok());
  FakeClient three(daemon_);
  ASSERT_SAYS(three.Open({.key = "job.3"}), local::OK, "");
  EXPECT_EQ(three.launch(), 3u);
  const auto launch = OpenPrefix()->FindLaunch(2);
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_EQ(launch->key, "job.2");
  const local::Reply latest = three.Latest();
  ASSERT_SAYS(latest, local::OK, "");
  EXPECT_EQ(latest.latest().dataset(), of_two);
  Memory back = Blank(memory_);
  EXPECT_EQ(three.Restore(of_two, back).tier, local::TIER_CACHE);
}

}  // namespace
}  // namespace cairn
