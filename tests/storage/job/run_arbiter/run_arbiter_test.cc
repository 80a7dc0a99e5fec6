// A run gets another arbiter, and goes on where it was.
#include "storage/job/run_arbiter/run_arbiter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "storage/base/clock.h"
#include "storage/job/launch/own_launch.h"
#include "storage/place/prefix/prefix.h"
#include "tests/support/fake_arbiters.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;

constexpr char kPath[] = "/pfs/demo";

class RunArbiterTest : public ::testing::Test {
 protected:
  RunArbiterTest()
      : clock_({.wall = [this] { return std::chrono::system_clock::time_point(std::chrono::hours(1)) + passed_; },
                .steady = [this] { return std::chrono::steady_clock::time_point(std::chrono::hours(1)) + passed_; },
                .sleep =
                    [this](std::chrono::nanoseconds time) {
                      passed_ += std::chrono::duration_cast<std::chrono::milliseconds>(time);
                      if (meanwhile_) meanwhile_();
                    }}) {}

  std::unique_ptr<Prefix> Open(const Arbiters& arbiters) {
    auto prefix = Prefix::Open(disk_, kPath, {.arbiters = &arbiters});
    EXPECT_OK(prefix.status());
    return prefix.ok() ? *std::move(prefix) : nullptr;
  }
  std::unique_ptr<OwnLaunch> Launch(Prefix& prefix) {
    auto made = OwnLaunch::Make(prefix, {.purpose = "test", .note = note_});
    EXPECT_OK(made.status());
    return made.ok() ? *std::move(made) : nullptr;
  }
  absl::StatusOr<ArbiterRecord> Change(const Arbiters* from, const Arbiters& to) {
    return ChangeArbiter(disk_, kPath, {.from = from, .to = to, .wait = {}, .note = note_});
  }

  std::chrono::milliseconds passed_{0};
  std::function<void()> meanwhile_;  // between two looks
  const ScopedClock clock_;
  const std::function<void(const std::string&)> note_ = [](const std::string&) {};
  FakeDisk disk_;
  FakeArbiters service_;
};

TEST_F(RunArbiterTest, LaunchesAndIdsGoOnUnderTheOtherOne) {
  {
    const auto prefix = Open(PrefixArbiters());
    EXPECT_EQ(Launch(*prefix)->id(), 1u);
    EXPECT_EQ(prefix->ReserveIds(0, 10)->first, 1u);
  }
  ASSERT_OK(Change(&PrefixArbiters(), service_).status());
  EXPECT_STATUS(StatusCode::kFailedPrecondition, Prefix::Open(disk_, kPath), "the arbiter of this run is etcd");
  {
    const auto prefix = Open(service_);
    EXPECT_EQ(Launch(*prefix)->id(), 2u);
    EXPECT_EQ(prefix->ReserveIds(0, 10)->first, 11u);
  }
  ASSERT_OK(Change(&service_, PrefixArbiters()).status());
  const auto prefix = Open(PrefixArbiters());
  EXPECT_EQ(Launch(*prefix)->id(), 3u);
  EXPECT_EQ(prefix->ReserveIds(0, 10)->first, 21u);
}

TEST_F(RunArbiterTest, WhileSomebodyWorksThereItStays) {
  const auto prefix = Open(service_);
  const auto launch = Launch(*prefix);
  service_.SetDown(true);
  EXPECT_STATUS(StatusCode::kUnavailable, Change(&service_, PrefixArbiters()), "fake:1");
  service_.SetDown(false);
  meanwhile_ = [&] { launch->StillHere(); };
  EXPECT_STATUS(StatusCode::kFailedPrecondition, Change(&service_, PrefixArbiters()), "BUSY");
  EXPECT_OK(Prefix::Open(disk_, kPath, {.arbiters = &service_}).status());
}

// With the old one gone for good: whoever worked under it is fenced by the next launch.
TEST_F(RunArbiterTest, OneThatIsGoneIsNotAsked) {
  const auto prefix = Open(service_);
  const auto launch = Launch(*prefix);
  service_.SetDown(true);
  ASSERT_OK(Change(nullptr, PrefixArbiters()).status());
  const auto anew = Open(PrefixArbiters());
  ASSERT_OK_AND_ASSIGN(const LaunchRecord next, anew->MakeLaunch({.key = "job", .nranks = 1, .run = {}, .maker = {}}));
  EXPECT_EQ(next.id, 2u);
  ASSERT_OK_AND_ASSIGN(const auto seen, prefix->LaunchAfter(launch->id()));
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->id, 2u);
}

TEST_F(RunArbiterTest, WhereNoRunIsNothingIsMade) {
  ASSERT_OK(disk_.MakeDirectory("/pfs", 0700));
  EXPECT_STATUS(StatusCode::kNotFound, Change(&PrefixArbiters(), service_), kPath);
  EXPECT_STATUS(StatusCode::kNotFound, disk_.Info(kPath), kPath);
}

}  // namespace
}  // namespace cairn
