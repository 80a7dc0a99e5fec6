// A command waits for a launch that may live, and makes its own after it.
#include "storage/job/launch/launch_wait.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "storage/base/clock.h"
#include "storage/base/host_name.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/job/launch/own_launch.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using State = LeaseRecord::State;

constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr char kPath[] = "/pfs/demo";

// Its clock stands still but for sleeps; whoever sleeps may see others act meanwhile.
class LaunchWaitTest : public ::testing::Test {
 protected:
  LaunchWaitTest()
      : clock_({.wall = [this] { return std::chrono::system_clock::time_point(seconds(1'000'000)) + passed_; },
                .steady = [this] { return std::chrono::steady_clock::time_point(seconds(1000)) + passed_; },
                .sleep =
                    [this](std::chrono::nanoseconds time) {
                      passed_ += std::chrono::duration_cast<milliseconds>(time);
                      if (meanwhile_) meanwhile_();
                    }}) {
    auto opened = Prefix::Open(disk_, kPath);
    EXPECT_OK(opened.status());
    if (opened.ok()) prefix_ = *std::move(opened);
    note_ = [this](const std::string& text) { notes_ += text + "\n"; };
  }

  LaunchRecord Launch(const std::string& key = "job", const std::string& cache = "c0ffee") {
    const auto made = prefix_->MakeLaunch(
        {.key = key, .nranks = 1, .run = {}, .maker = {.cache = cache, .host = "node7", .pid = 42}});
    EXPECT_OK(made.status());
    return made.ok() ? *made : LaunchRecord();
  }
  LeaseRecord Lease(LaunchId launch, State state = State::kLive) {
    LeaseRecord lease;
    lease.launch = launch;
    lease.counter = 1;
    lease.cache = "c0ffee";
    lease.host = "node7";
    lease.pid = 42;
    lease.term_ms = 60'000;
    lease.state = state;
    const auto made = prefix_->MakeLease(lease);
    EXPECT_OK(made.status());
    return made.ok() ? *made : lease;
  }
  void MakeOld(const std::string& host) {
    const std::string path = std::string(kPath) + "/.cairn/launch.1";
    auto tree = ReadTree(disk_, path);
    ASSERT_OK(tree.status());
    for (const char* key : {"RUN", "PID", "CACHE"}) tree->Erase(key);
    tree->Set("HOST", host);
    ASSERT_OK(ReplaceTree(disk_, path, *tree));
    ASSERT_OK_AND_ASSIGN(prefix_, Prefix::Open(disk_, kPath));
  }
  absl::StatusOr<std::optional<LaunchId>> Wait(const LaunchWait& wait = {}) {
    return WaitUntilOver(*prefix_, wait, note_);
  }
  bool Said(std::string_view part) const { return notes_.find(part) != std::string::npos; }

  FakeDisk disk_;
  milliseconds passed_{0};
  std::function<void()> meanwhile_;
  const ScopedClock clock_;
  std::unique_ptr<Prefix> prefix_;
  std::function<void(const std::string&)> note_;
  std::string notes_;
};

TEST_F(LaunchWaitTest, WithoutALaunchThereIsNothingToWaitFor) {
  EXPECT_EQ(*Wait(), LaunchId{0});
  EXPECT_EQ(passed_, milliseconds(0));
}

TEST_F(LaunchWaitTest, ALaunchThatHasEndedIsOverAtOnce) {
  Launch();
  Lease(1, State::kEnded);
  EXPECT_EQ(*Wait(), LaunchId{1});
  EXPECT_EQ(passed_, milliseconds(0));
  EXPECT_EQ(notes_, "");
}

TEST_F(LaunchWaitTest, ALeaseThatDoesNotChangeForItsTermIsOver) {
  Launch();
  Lease(1);
  EXPECT_EQ(*Wait(), LaunchId{1});
  EXPECT_GE(passed_, seconds(60));
  EXPECT_LE(passed_, seconds(61));
  EXPECT_TRUE(Said("waiting until launch 1 of /pfs/demo is over: cairnd 42 on node7"));
  EXPECT_EQ(std::count(notes_.begin(), notes_.end(), '\n'), 1);
}

TEST_F(LaunchWaitTest, WithoutALeaseALaunchIsOverAfterTheDefaultTerm) {
  Launch();
  EXPECT_EQ(*Wait(), LaunchId{1});
  EXPECT_GE(passed_, minutes(2));
}

TEST_F(LaunchWaitTest, ALaunchThatLivesIsBusyAtOnce) {
  Launch();
  LeaseRecord lease = Lease(1);
  meanwhile_ = [&] {
    ++lease.counter;
    EXPECT_OK(prefix_->WriteLease(lease));
  };
  EXPECT_STATUS(kFailedPrecondition, Wait(), "BUSY: /pfs/demo: launch 1 of this run lives: cairnd 42 on node7");
  EXPECT_LT(passed_, seconds(60));
}

TEST_F(LaunchWaitTest, UntilDrainedOneThatLivesIsWaitedForUntilItHasEnded) {
  Launch();
  LeaseRecord lease = Lease(1);
  meanwhile_ = [&] {
    ++lease.counter;
    if (passed_ > minutes(5)) lease.state = State::kDraining;
    if (passed_ > minutes(6)) lease.state = State::kEnded;
    EXPECT_OK(prefix_->WriteLease(lease));
  };
  EXPECT_EQ(*Wait({.at_most = minutes(60), .until_drained = true}), LaunchId{1});
  EXPECT_GE(passed_, minutes(6));
  EXPECT_TRUE(Said("waiting for the end of launch 1 of /pfs/demo: cairnd 42 on node7"));
  EXPECT_TRUE(Said("waiting for launch 1 of /pfs/demo: cairnd 42 on node7"));
}

TEST_F(LaunchWaitTest, UntilDrainedNoneThatLivesOrDrainsIsLeftBehindWhenTheTimeIsUp) {
  Launch();
  LeaseRecord lease = Lease(1);
  for (const State state : {State::kLive, State::kDraining}) {
    lease.state = state;
    meanwhile_ = [&] {
      ++lease.counter;
      EXPECT_OK(prefix_->WriteLease(lease));
    };
    EXPECT_STATUS(absl::StatusCode::kDeadlineExceeded, Wait({.at_most = minutes(4), .until_drained = true}),
                  "launch 1 of this run is not over");
  }
  EXPECT_GE(passed_, minutes(8));
}

TEST_F(LaunchWaitTest, OfAJobOnlyItsOwnLaunchesAreWaitedFor) {
  Launch("slurm:17.0.0");
  Lease(1);
  EXPECT_STATUS(absl::StatusCode::kDeadlineExceeded,
                Wait({.at_most = seconds(5), .until_drained = true, .of_job = "17"}), "is not over");
  EXPECT_EQ(*Wait({.at_most = seconds(5), .until_drained = true, .of_job = "16"}), LaunchId{1});
  EXPECT_EQ(passed_, seconds(5));
}

TEST_F(LaunchWaitTest, ALaunchWhoseKeyTellsNoJobMayBeTheJobs) {
  Launch("night-run");
  Lease(1);
  EXPECT_STATUS(absl::StatusCode::kDeadlineExceeded,
                Wait({.at_most = seconds(5), .until_drained = true, .of_job = "17"}), "is not over");
  EXPECT_EQ(passed_, seconds(5));
}

TEST_F(LaunchWaitTest, WithoutTimeToWaitWhatIsNotProvenToBeOverIsBusy) {
  Launch();
  Lease(1);
  EXPECT_STATUS(kFailedPrecondition, Wait({.at_most = milliseconds(0)}), "may still live");
  EXPECT_EQ(passed_, milliseconds(0));
  EXPECT_STATUS(kFailedPrecondition, Wait({.at_most = seconds(5)}), "may still live");
  EXPECT_EQ(passed_, seconds(5));
}

TEST_F(LaunchWaitTest, ADrainIsWaitedForThenLeftBehindAndNamed) {
  Launch();
  LeaseRecord lease = Lease(1, State::kDraining);
  meanwhile_ = [&] {
    ++lease.counter;
    EXPECT_OK(prefix_->WriteLease(lease));
  };
  EXPECT_EQ(*Wait({.at_most = minutes(3)}), LaunchId{1});
  EXPECT_EQ(passed_, minutes(3));
  EXPECT_TRUE(Said("still brings data"));
  EXPECT_TRUE(Said("launch 1 of /pfs/demo is left behind"));
}

TEST_F(LaunchWaitTest, ALaunchOfRelease010IsOverIfThisHostMadeItElseAfterATerm) {
  Launch();
  MakeOld(HostName());
  EXPECT_EQ(*Wait(), LaunchId{1});
  EXPECT_EQ(passed_, milliseconds(0));
  MakeOld("elsewhere");
  EXPECT_EQ(*Wait({.own_term = seconds(30)}), LaunchId{1});
  EXPECT_GE(passed_, seconds(30));
  EXPECT_LE(passed_, seconds(31));
}

TEST_F(LaunchWaitTest, ALaunchWhoseRecordIsDamagedIsPassedOver) {
  Launch();
  disk_.FlipBit(std::string(kPath) + "/.cairn/launch.1", 300);
  ASSERT_OK_AND_ASSIGN(prefix_, Prefix::Open(disk_, kPath));
  ASSERT_OK_AND_ASSIGN(const auto newest, Wait());
  EXPECT_FALSE(newest.has_value());
  EXPECT_TRUE(Said("launch.1"));
}

TEST_F(LaunchWaitTest, WhoHoldsTheLockOfAKindOfLaunchWaitsForNoneOfTheseButForDaemons) {
  Launch("adopt:1", "");
  Lease(1);
  EXPECT_EQ(*Wait({.at_most = milliseconds(0), .own_key_stem = "adopt:"}), LaunchId{1});
  Launch("adopt:2", "c0ffee");  // an application has called its launch so
  EXPECT_STATUS(kFailedPrecondition, Wait({.at_most = milliseconds(0), .own_key_stem = "adopt:"}), "launch 2");
}

// --- One's own ---

class OwnLaunchTest : public LaunchWaitTest {
 protected:
  absl::StatusOr<std::unique_ptr<OwnLaunch>> Make(LaunchWait wait = {}) {
    return OwnLaunch::Make(*prefix_, {.purpose = "adopt", .nranks = 3, .wait = wait, .note = note_});
  }
  LeaseRecord LeaseOf(LaunchId id) {
    const auto seen = prefix_->FindLease(id);
    EXPECT_OK(seen.status());
    return seen.ok() && *seen && (*seen)->record ? *(*seen)->record : LeaseRecord();
  }
};

TEST_F(OwnLaunchTest, ItIsTheNewestAndLivesUntilItsEnd) {
  {
    ASSERT_OK_AND_ASSIGN(const auto own, Make());
    EXPECT_EQ(own->id(), 1u);
    ASSERT_OK_AND_ASSIGN(const LaunchRecord launch, prefix_->FindLaunch(1));
    EXPECT_TRUE(launch.key.starts_with("adopt:"));
    EXPECT_EQ(launch.nranks, 3u);
    EXPECT_EQ(launch.maker.host, HostName());
    EXPECT_EQ(launch.maker.cache, "");
    const LeaseRecord lease = LeaseOf(1);
    EXPECT_EQ(lease.state, State::kLive);
    EXPECT_EQ(lease.term_ms, 120'000u);
    EXPECT_EQ(lease.what, "cairn adopt");
  }
  EXPECT_EQ(LeaseOf(1).state, State::kEnded);
  EXPECT_EQ(*Wait({.at_most = milliseconds(0)}), LaunchId{1});
}

TEST_F(OwnLaunchTest, WhileWorkGoesOnTheLeaseIsWrittenSixTimesATerm) {
  ASSERT_OK_AND_ASSIGN(const auto own, Make());
  own->StillHere();
  EXPECT_EQ(LeaseOf(1).counter, 1u);
  passed_ += seconds(20);
  own->StillHere();
  own->StillHere();
  EXPECT_EQ(LeaseOf(1).counter, 2u);
  passed_ += seconds(20);
  disk_.FailOn({.op = FakeOp::kOpen, .path_part = ".lease"});
  own->StillHere();
  own->StillHere();  // again
  EXPECT_GT(LeaseOf(1).counter, 2u);
}

TEST_F(OwnLaunchTest, WhenAnotherIsMadeBetweenLookAndCreationThatOneIsAskedAbout) {
  bool other = false;
  disk_.SetHook([&](FakeOp op, const std::string& path) {
    if (op != FakeOp::kLink || other || path.find("/launch.1") == std::string::npos) return;
    other = true;
    Launch("a job's");
    Lease(1);
  });
  EXPECT_STATUS(kFailedPrecondition, Make({.at_most = milliseconds(0)}), "launch 1");
  EXPECT_EQ((*prefix_->NewestLaunch())->id, 1u);
  ASSERT_OK_AND_ASSIGN(const auto own, Make());
  EXPECT_EQ(own->id(), 2u);
}

}  // namespace
}  // namespace cairn
