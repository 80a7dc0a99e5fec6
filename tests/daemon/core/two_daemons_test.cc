// Two daemons, each with a cache of its own, at one prefix: one line of checkpoints comes of it. design.md, "Identity".
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "storage/base/host_name.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/kvtree/tree.h"
#include "storage/place/arbiter/arbiter_record.h"
#include "storage/place/prefix/id_blocks.h"
#include "storage/place/prefix/lease.h"
#include "storage/place/prefix/prefix.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/gate.h"
#include "tests/support/fake_arbiters.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

// Whoever decides which of them was first: the prefix itself, or a service beside it.
enum class Decides { kPrefix, kService };

class TwoDaemonsTest : public ::testing::TestWithParam<Decides> {
 protected:
  void Start(std::uint32_t term_ms = 300) {
    second_.shared_prefix = first_.prefix();
    first_.config.lease.term_ms = second_.config.lease.term_ms = term_ms;
    first_.arbiters = second_.arbiters = arbiters();
    ASSERT_TRUE(first_.Start().ok());
    ASSERT_TRUE(second_.Start().ok());
  }
  const Arbiters* arbiters() const { return GetParam() == Decides::kService ? &service_ : &PrefixArbiters(); }
  // At `level`.
  DatasetId Make(FakeClient& client, std::uint64_t step, local::Level level) {
    const local::Reply done = client.Checkpoint(step, memory_);
    EXPECT_SAYS(done, local::OK, "");
    EXPECT_SAYS(client.Wait(done.committed().dataset(), level), local::OK, "");
    return done.committed().dataset();
  }
  // By the first daemon, which flushes it.
  DatasetId MakeOnThePrefix(FakeClient& client, std::uint64_t step) {
    const DatasetId id = Make(client, step, local::LOCAL);
    EXPECT_EQ(first_.Flush(id).code(), local::OK);
    EXPECT_SAYS(client.Wait(id, local::PREFIX), local::OK, "");
    return id;
  }
  std::uint64_t SendOpen(FakeClient& client, const std::string& key, std::uint32_t deadline_ms) {
    local::Request request;
    request.set_deadline_ms(deadline_ms);
    request.mutable_open()->set_prefix(first_.prefix());
    request.mutable_open()->set_nranks(1);
    request.mutable_open()->set_launch_key(key);
    return client.Send(std::move(request));
  }

  // The first daemon's launch is over, and its only checkpoint on its way to the prefix, held up by `gate_`.
  void HoldUpAFlush() {
    FakeClient one(first_);
    ASSERT_SAYS(one.Open({.key = "job.1"}), local::OK, "");
    flushed_ = Make(one, 1, local::LOCAL);
    prefix_disk_.SetHook(gate_.hook());
    ASSERT_EQ(first_.Flush(flushed_).code(), local::OK);
    gate_.AwaitArrival();
    ASSERT_SAYS(one.Close(), local::OK, "");
  }
  std::optional<LeaseRecord> Lease() {
    const auto prefix = Prefix::Open(prefix_disk_, first_.prefix(), {.arbiters = arbiters()});
    if (!prefix.ok()) return std::nullopt;
    const auto lease = (*prefix)->FindLease(1);
    return lease.ok() && *lease ? (*lease)->record : std::nullopt;
  }
  std::uint64_t LeaseCounter() { return Lease().value_or(LeaseRecord{}).counter; }
  bool SaysThatNothingIsLeft() { return Lease().value_or(LeaseRecord{}).what == lease::kLeftNothing; }
  bool LeaseHasEnded() { return Lease().value_or(LeaseRecord{}).state == LeaseRecord::State::kEnded; }
  // The first daemon's launch is over, and its only checkpoint is in its cache alone.
  void LeaveInTheCache() {
    FakeClient one(first_);
    EXPECT_SAYS(one.Open({.key = "job.1"}), local::OK, "");
    Make(one, 1, local::LOCAL);
    EXPECT_SAYS(one.Close(), local::OK, "");
  }
  // The same, on the prefix.
  DatasetId LeaveOnThePrefix() {
    FakeClient one(first_);
    EXPECT_SAYS(one.Open({.key = "job.1"}), local::OK, "");
    const DatasetId id = MakeOnThePrefix(one, 1);
    EXPECT_SAYS(one.Close(), local::OK, "");
    return id;
  }
  // Then the lease says this of what is left.
  void StopTheFirstAndSay(const std::string& what) {
    ASSERT_TRUE(first_.Eventually([this] { return LeaseHasEnded(); }));
    first_.Stop();
    const auto prefix = Prefix::Open(prefix_disk_, first_.prefix(), {.arbiters = arbiters()});
    ASSERT_TRUE(prefix.ok()) << prefix.status();
    LeaseRecord lease = *Lease();
    lease.what = what;
    ASSERT_TRUE((*prefix)->WriteLease(lease).ok());
  }

  const Memory memory_ = {ValueOf(1, "step", 7), PlainOf(2, RandomBytes(2, 100'000))};
  DatasetId flushed_ = 0;
  FakeArbiters service_;
  FakeDisk cache_disk_, prefix_disk_;
  Gate gate_{FakeOp::kWrite, "/ckpt."};
  CoreHarness first_{&cache_disk_, &prefix_disk_}, second_{nullptr, &prefix_disk_};
};

TEST_P(TwoDaemonsTest, ARankOfALaunchOfTheFirstIsRefusedByTheSecond) {
  Start();
  FakeClient one(first_), two(second_);
  ASSERT_SAYS(one.Open({.rank = 0, .nranks = 2, .key = "job.1"}), local::OK, "");
  const local::Reply refused = two.Open({.rank = 1, .nranks = 2, .key = "job.1"});
  EXPECT_SAYS(refused, local::FAILED_PRECONDITION, HostName());
  EXPECT_SAYS(refused, local::FAILED_PRECONDITION, "all ranks of the launch must use that one");
}

TEST_P(TwoDaemonsTest, AnotherLaunchIsBusyWhileTheFirstLives) {
  Start();
  FakeClient one(first_), two(second_);
  ASSERT_SAYS(one.Open({.key = "job.1"}), local::OK, "");
  const local::Reply busy = two.Open({.key = "job.2"});
  EXPECT_SAYS(busy, local::BUSY, HostName());
  EXPECT_SAYS(busy, local::BUSY, "launch 1");
  EXPECT_SAYS(one.Latest(), local::NOT_FOUND, "");  // it lives on
}

TEST_P(TwoDaemonsTest, ALaunchThatWasClosedIsNotWaitedFor) {
  Start(/*term_ms=*/20'000);
  const DatasetId id = LeaveOnThePrefix();
  FakeClient two(second_);
  const auto begun = std::chrono::steady_clock::now();
  ASSERT_SAYS(two.Open({.key = "job.2"}), local::OK, "");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
  const local::Reply latest = two.Latest();
  ASSERT_SAYS(latest, local::OK, "");
  EXPECT_EQ(latest.latest().dataset(), id);
  EXPECT_FALSE(second_.Warned("not heard of")) << "it has left nothing in its cache that the prefix lacks";
}

// There are no links between nodes here.
TEST_P(TwoDaemonsTest, TheDaemonThatMadeTheNewestLaunchIsNamedIfItsCacheAloneHasACheckpoint) {
  Start();
  LeaveInTheCache();
  FakeClient two(second_);
  ASSERT_SAYS(two.Open({.key = "job.2"}), local::OK, "");
  EXPECT_SAYS(two.Latest(), local::NOT_FOUND, "");
  EXPECT_TRUE(second_.Warned("not heard of " + HostName()));
  EXPECT_TRUE(second_.Warned("which made launch 1"));
}

// As releases before have written it, whatever they had left.
TEST_P(TwoDaemonsTest, ALeaseThatDoesNotSayWhatWasLeftIsNoWordThatNothingWas) {
  Start();
  LeaveOnThePrefix();
  ASSERT_NO_FATAL_FAILURE(StopTheFirstAndSay(""));
  FakeClient two(second_);
  ASSERT_SAYS(two.Open({.key = "job.2"}), local::OK, "");
  EXPECT_TRUE(second_.Warned("not heard of " + HostName()));
}

TEST_P(TwoDaemonsTest, AStepThatIsStillBeingWrittenWhenItsRanksHaveClosedIsNotNothing) {
  Start();
  Gate writing(FakeOp::kWrite, "Ckpt");
  cache_disk_.SetHook(writing.hook());
  FakeClient one(first_), two(second_);
  ASSERT_SAYS(one.Open({.key = "job.1"}), local::OK, "");
  EXPECT_SAYS(one.Checkpoint(1, memory_), local::OK, "");
  writing.AwaitArrival();
  EXPECT_SAYS(one.Close(), local::OK, "");
  EXPECT_TRUE(first_.Eventually([this] { return LeaseHasEnded(); }));
  EXPECT_SAYS(two.Open({.key = "job.2"}), local::OK, "");
  writing.Open();
  EXPECT_TRUE(second_.Warned("not heard of " + HostName()));
}

TEST_P(TwoDaemonsTest, ADaemonThatIsGoneIsWaitedForOneTerm) {
  Start();
  FakeClient one(first_), two(second_);
  ASSERT_SAYS(one.Open({.key = "job.1"}), local::OK, "");
  first_.Stop();
  const auto begun = std::chrono::steady_clock::now();
  const local::Reply opened = two.Open({.key = "job.2"});
  ASSERT_SAYS(opened, local::OK, "");
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(300));
  EXPECT_EQ(opened.open().launch(), 2u);
}

TEST_P(TwoDaemonsTest, TheSameSlurmJobAfterARestartIsNotBusy) {
  Start(/*term_ms=*/20'000);
  FakeClient one(first_), two(second_);
  ASSERT_SAYS(one.Open({.key = "slurm:17.0.0"}), local::OK, "");
  EXPECT_SAYS(two.Open({.key = "slurm:17.0.1"}), local::OK, "");
}

TEST_P(TwoDaemonsTest, TakeoverShutsTheFirstLaunchOut) {
  Start();
  FakeClient one(first_), two(second_);
  ASSERT_SAYS(one.Open({.key = "job.1"}), local::OK, "");
  ASSERT_SAYS(two.Open({.key = "job.2", .takeover = true}), local::OK, "");
  EXPECT_TRUE(first_.Eventually([&] { return CodeOfReply(one.Latest()) == local::FENCED; }));
  EXPECT_SAYS(two.Latest(), local::NOT_FOUND, "");
}

TEST_P(TwoDaemonsTest, ACommitAfterTheTakeoverIsChosenByNobody) {
  Start(/*term_ms=*/20'000);
  FakeClient one(first_), two(second_), three(second_);
  ASSERT_SAYS(one.Open({.key = "job.1"}), local::OK, "");
  const DatasetId counted = MakeOnThePrefix(one, 1);
  const DatasetId late = Make(one, 2, local::LOCAL);
  Gate gate(FakeOp::kAny, "scr.dataset." + std::to_string(late) + "/commit");
  prefix_disk_.SetHook(gate.hook());
  ASSERT_EQ(first_.Flush(late).code(), local::OK);
  gate.AwaitArrival();
  ASSERT_SAYS(two.Open({.key = "job.2", .takeover = true}), local::OK, "");
  const local::Reply latest = two.Latest();
  gate.Open();
  ASSERT_SAYS(latest, local::OK, "");
  EXPECT_EQ(latest.latest().dataset(), counted);
  EXPECT_TRUE(first_.Eventually([&] {
    return first_.IsThere(prefix_disk_,
                          first_.prefix() + "/.scr/scr.dataset." + std::to_string(late) + "/commit.cairn");
  }));
  EXPECT_TRUE(first_.Eventually([&] { return CodeOfReply(one.Latest()) == local::FENCED; }));
  ASSERT_SAYS(two.Close(), local::OK, "");
  ASSERT_SAYS(three.Open({.key = "job.3"}), local::OK, "");
  const local::Reply again = three.Latest();
  ASSERT_SAYS(again, local::OK, "");
  EXPECT_EQ(again.latest().dataset(), counted);  // though `late` is newer and whole
  Memory back = Blank(memory_);
  EXPECT_EQ(three.Restore(late, back).code, local::OK);  // by its number
}

TEST_P(TwoDaemonsTest, AFlushThatIsUnderWayIsWaitedFor) {
  Start();
  HoldUpAFlush();
  FakeClient two(second_);
  const std::uint64_t begun = LeaseCounter();
  const std::uint64_t opening = SendOpen(two, "job.2", 60'000);
  // Six to a term: the opening has outlasted three terms.
  EXPECT_TRUE(first_.Eventually([&] { return LeaseCounter() >= begun + 18; }));
  EXPECT_FALSE(two.HasReply(opening));
  gate_.Open();
  ASSERT_SAYS(two.Next(opening), local::OK, "");
  const local::Reply latest = two.Latest();
  ASSERT_SAYS(latest, local::OK, "");
  EXPECT_EQ(latest.latest().dataset(), flushed_);
}

TEST_P(TwoDaemonsTest, AFlushThatTakesTooLongIsLeftBehindWithAWarning) {
  Start();
  HoldUpAFlush();
  FakeClient two(second_);
  const local::Reply opened = two.Next(SendOpen(two, "job.2", 1500));
  gate_.Open();
  EXPECT_SAYS(opened, local::OK, "");
  EXPECT_TRUE(second_.Warned("is left behind before it was drained"));
  EXPECT_TRUE(second_.Warned("dataset " + std::to_string(flushed_) + " (step 1)"));
}

// What was committed too late is FENCED for whoever waits, and the first daemon keeps its hands off the new launch's.
TEST_P(TwoDaemonsTest, WhoWasShutOutRemovesNothingAndPromisesNothing) {
  first_.config.prefix.keep_last = 1;
  Start();
  FakeClient one(first_), two(second_);
  ASSERT_SAYS(one.Open({.key = "job.1"}), local::OK, "");
  const DatasetId counted = MakeOnThePrefix(one, 1);
  const DatasetId late = Make(one, 2, local::LOCAL);
  ASSERT_SAYS(two.Open({.key = "job.2", .takeover = true}), local::OK, "");
  ASSERT_EQ(first_.Flush(late).code(), local::OK);  // with keep_last, step 1 would go now
  EXPECT_EQ(first_.Wait(late, local::PREFIX).status().code(), local::FENCED);
  EXPECT_TRUE(first_.Row(late).in_cache());
  const local::Reply latest = two.Latest();
  ASSERT_SAYS(latest, local::OK, "");
  EXPECT_EQ(latest.latest().dataset(), counted);
  Memory back = Blank(memory_);
  EXPECT_EQ(two.Restore(counted, back).tier, local::TIER_PREFIX);
}

// The next launch goes on with the ids that the one before it had left, and after a crash above its block.
TEST_P(TwoDaemonsTest, IdsOfALaunchThatWasClosedAreGivenOutAgain) {
  Start();
  {
    FakeClient one(first_);
    ASSERT_SAYS(one.Open({.key = "job.1"}), local::OK, "");
    EXPECT_EQ(Make(one, 1, local::LOCAL), 1u);
    ASSERT_SAYS(one.Close(), local::OK, "");
  }
  const auto returned = [&] { return prefix_disk_.Info(first_.prefix() + "/.cairn/ids.0.rest").ok(); };
  ASSERT_TRUE(first_.Eventually(returned));
  FakeClient two(second_), three(first_);
  ASSERT_SAYS(two.Open({.key = "job.2"}), local::OK, "");
  EXPECT_EQ(Make(two, 2, local::LOCAL), 2u);
  second_.Stop();
  ASSERT_SAYS(three.Open({.key = "job.3", .takeover = true}), local::OK, "");
  EXPECT_EQ(Make(three, 3, local::LOCAL), 2u + id_blocks::kBlock);
}

INSTANTIATE_TEST_SUITE_P(Arbiters, TwoDaemonsTest, ::testing::Values(Decides::kPrefix, Decides::kService),
                         [](const auto& test) { return test.param == Decides::kService ? "Service" : "Prefix"; });

// --- What a service adds ---

class ServiceTest : public TwoDaemonsTest {};

TEST_P(ServiceTest, OneThatIsDownHoldsUpOpeningsAndNothingElse) {
  Start();
  FakeClient one(first_), two(second_);
  ASSERT_SAYS(one.Open({.key = "job.1"}), local::OK, "");
  service_.SetDown(true);
  const DatasetId id = Make(one, 1, local::LOCAL);
  ASSERT_EQ(first_.Flush(id).code(), local::OK);
  EXPECT_SAYS(one.Wait(id, local::PREFIX), local::OK, "");
  Memory back = Blank(memory_);
  EXPECT_EQ(one.Restore(id, back).code, local::OK);
  EXPECT_SAYS(two.Next(SendOpen(two, "job.2", 300)), local::DEADLINE_EXCEEDED, "fake:1");
  const std::uint64_t waiting = SendOpen(two, "job.3", 60'000);
  ASSERT_SAYS(one.Close(), local::OK, "");
  service_.SetDown(false);
  EXPECT_SAYS(two.Next(waiting), local::OK, "");
}

TEST_P(ServiceTest, HoweverOftenALaunchIsTriedItIsToldOnceWhoWasNotHeard) {
  Start();
  LeaveInTheCache();
  FakeClient two(second_);
  service_.RefuseRecords(true);
  const std::uint64_t waiting = SendOpen(two, "job.2", 60'000);
  ASSERT_TRUE(second_.Eventually([this] { return service_.refused() >= 4; }));
  service_.RefuseRecords(false);
  ASSERT_SAYS(two.Next(waiting), local::OK, "");
  const admin::StatusReply status = second_.Status();
  EXPECT_EQ(
      std::ranges::count_if(status.warnings(), [](const std::string& w) { return w.find("not heard of") != w.npos; }),
      1);
}

// It is on the prefix, with the base of whoever comes after, before anybody works under a later one.
TEST_P(ServiceTest, ALaunchWhoseMakerDiedBeforeThePrefixHadItIsNotLost) {
  Start();
  FakeClient one(first_), two(second_);
  ASSERT_SAYS(one.Open({.key = "job.1"}), local::OK, "");
  ASSERT_SAYS(one.Close(), local::OK, "");
  const std::string folder = first_.prefix() + "/.cairn/";
  auto record = ReadTree(prefix_disk_, folder + "launch.1");
  ASSERT_TRUE(record.ok());
  record->Set("LAUNCH", std::uint64_t{2});
  const auto run = Prefix::RunAt(prefix_disk_, first_.prefix());
  ASSERT_TRUE(run.ok());
  service_.Decide(*run, "launch.2", kvtree::Encode(*record));
  const local::Reply opened = two.Open({.key = "job.3", .takeover = true});
  ASSERT_SAYS(opened, local::OK, "");
  EXPECT_EQ(opened.open().launch(), 3u);
  EXPECT_TRUE(prefix_disk_.Info(folder + "launch.2").ok());
  EXPECT_TRUE(prefix_disk_.Info(folder + "launch.2.base").ok());
}

// A service that was emptied, or somebody who writes there, too.
TEST_P(ServiceTest, ALeaseThatWasRemovedIsMadeAgain) {
  Start();
  FakeClient one(first_), two(second_);
  ASSERT_SAYS(one.Open({.key = "job.1"}), local::OK, "");
  const auto run = Prefix::RunAt(prefix_disk_, first_.prefix());
  ASSERT_TRUE(run.ok());
  ASSERT_TRUE(service_.Has(*run, "launch.1.1.lease"));
  service_.Erase(*run, "launch.1.1.lease");
  EXPECT_TRUE(first_.Eventually([&] { return service_.Has(*run, "launch.1.2.lease"); }));
  EXPECT_SAYS(two.Open({.key = "job.2"}), local::BUSY, "launch 1");
}

// Longer than the lease's term: the holder could not write it, the other could not look.
TEST_P(ServiceTest, AnOutageLongerThanTheTermFencesNobody) {
  Start();
  FakeClient one(first_), two(second_);
  ASSERT_SAYS(one.Open({.key = "job.1"}), local::OK, "");
  EXPECT_SAYS(two.Open({.key = "job.2"}), local::BUSY, "launch 1");
  service_.SetDown(true);
  EXPECT_SAYS(two.Next(SendOpen(two, "job.2", 1000)), local::DEADLINE_EXCEEDED, "fake:1");
  service_.SetDown(false);
  EXPECT_SAYS(two.Open({.key = "job.2"}), local::BUSY, "launch 1");
  EXPECT_SAYS(one.Latest(), local::NOT_FOUND, "");
}

TEST_P(ServiceTest, ADaemonThatIsSetToAnotherArbiterIsRefused) {
  Start();
  second_.Stop();
  second_.arbiters = &PrefixArbiters();
  ASSERT_TRUE(second_.Start().ok());
  FakeClient one(first_), two(second_);
  ASSERT_SAYS(one.Open({.key = "job.1"}), local::OK, "");
  const local::Reply refused = two.Open({.key = "job.2"});
  EXPECT_SAYS(refused, local::FAILED_PRECONDITION, "the arbiter of this run is etcd (fake:1)");
  EXPECT_SAYS(refused, local::FAILED_PRECONDITION, "cairn run arbiter " + first_.prefix());
}

INSTANTIATE_TEST_SUITE_P(Arbiters, ServiceTest, ::testing::Values(Decides::kService));

}  // namespace
}  // namespace cairn
