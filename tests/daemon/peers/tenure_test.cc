// How often the holder of a coordinator's lease writes it, at an arbiter that may be slow: daemon/peers/tenure.h.
#include "daemon/peers/tenure.h"

#include <absl/status/status.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/ids.h"
#include "storage/base/status.h"
#include "storage/place/arbiter/arbiter.h"
#include "storage/place/arbiter/folder_arbiter.h"
#include "storage/place/prefix/coordinator_lease.h"
#include "tests/daemon/peers/sample.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"
#include "tests/support/stepped.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTerm(12'000);
constexpr milliseconds kPeriod = kTerm / 6, kPause = kTerm / 24;

// Each call at the arbiter takes as long as the test says, and has its effect at its end.
class TenureTest : public ::testing::Test {
 protected:
  TenureTest() {
    for (const char* folder : {"/p", "/p/.cairn"}) EXPECT_OK(disk_.MakeDirectory(folder, 0700));
    EXPECT_OK(disk_.SyncDirectory("/p"));
    CoordinatorRecord self;
    self.run = *RunId::Parse("00112233445566778899aabbccddeeff");
    self.node = NodeOf(1);
    self.incarnation = 7;
    self.host = "node1";
    self.term_ms = static_cast<std::uint64_t>(kTerm.count());
    tenure_.emplace(
        Tenure::Given{.loop = loop_,
                      .clocks = {.steady = [this] { return now(); },
                                 .wall = [] { return std::chrono::system_clock::time_point(); }},
                      .on_arbiter = [this](auto work, auto done) { Ask(std::move(work), std::move(done)); },
                      .self = std::move(self),
                      .address = [] { return "10.0.0.1:17001"; },
                      .besides = [](Awaited awaited, std::uint64_t) { return awaited; },
                      .members = [this](const Awaited&) { return KnownMembers{.count = members_}; }},
        Tenure::Reports{.on_found = [](const CoordinatorRecord&) {},
                        .on_silent = [](const absl::Status&) {},
                        .on_held = [](std::uint64_t, const Awaited&) {},
                        .on_lost = [this](Tenure::Lost why, const absl::Status&) { lost_ = why; },
                        .on_acting = [this] { stopped_acting_ |= tenure_->holds() && !tenure_->acting(); }});
  }
  ~TenureTest() override {
    loop_.Run([this] { tenure_.reset(); });
  }

  SteadyTime now() const { return stepper_.now(); }
  void Pass(milliseconds time) {
    const SteadyTime until = now() + time;
    for (stepper_.Run(); loop_.has_timer() && loop_.next_timer() <= until; stepper_.Run()) {
      stepper_.Turn(loop_.next_timer() - now());
    }
    stepper_.Turn(until - now());
  }
  void Hold() {
    loop_.Run([this] { tenure_->Look(); });
    Pass(milliseconds(10));
    ASSERT_TRUE(tenure_->holds());
    Pass(kPeriod);  // the first write after the one that has made it
    writes_.clear();
    stopped_acting_ = false;
  }
  void OneComes() {
    loop_.Run([this] {
      ++members_;
      tenure_->MembersChanged();
    });
  }
  void OneAfterTheOtherComes(milliseconds time) {
    for (; time.count() > 0; time -= milliseconds(100)) {
      OneComes();
      Pass(milliseconds(100));
    }
  }
  std::uint32_t MembersInLease() {
    const auto found = coordinator_lease::Look(*arbiter_);
    return found.ok() && found->record ? found->record->members.count : 0;
  }
  void ExpectPauses() const {
    for (std::size_t i = 1; i < writes_.size(); ++i) EXPECT_GE(writes_[i].began - writes_[i - 1].ended, kPause) << i;
  }

  struct Write {
    SteadyTime began, ended;
  };

  Stepper stepper_{1};
  SteppedLoop loop_{stepper_};
  FakeDisk disk_;
  const std::unique_ptr<Arbiter> arbiter_ = MakeFolderArbiter(disk_, "/p");
  milliseconds takes_{1};
  bool fails_ = false;
  std::uint32_t members_ = 1;
  std::optional<Tenure> tenure_;
  std::vector<Write> writes_;  // that have ended
  std::optional<Tenure::Lost> lost_;
  bool stopped_acting_ = false;

 private:
  void Ask(std::function<absl::Status(Arbiter&)> work, std::function<void(const absl::Status&)> done) {
    loop_.After(takes_, [this, began = now(), work = std::move(work), done = std::move(done)] {
      if (tenure_->holds()) writes_.push_back({began, now()});
      done(fails_ ? Unavailable("it fails") : work(*arbiter_));
    });
  }
};

TEST_F(TenureTest, ALeaseIsWrittenEverySixthOfATermWhereOneWriteTakesLongerAfterAPause) {
  ASSERT_NO_FATAL_FAILURE(Hold());
  for (const milliseconds takes : {milliseconds(1), kPeriod - kPause, kPeriod - milliseconds(1), kPeriod,
                                   kPeriod + milliseconds(1), milliseconds(2'700)}) {
    takes_ = takes;
    Pass(2 * kTerm);
    writes_.clear();
    Pass(5 * kTerm);
    ASSERT_GE(writes_.size(), 10U);
    ExpectPauses();
    for (std::size_t i = 1; i < writes_.size(); ++i) {
      EXPECT_EQ(writes_[i].began - writes_[i - 1].began, std::max(kPeriod, takes + kPause)) << takes.count();
    }
  }
  EXPECT_FALSE(stopped_acting_);
}

TEST_F(TenureTest, WhileMembersComeAPauseLiesBetweenTwoWritesHoweverLongOneTakes) {
  ASSERT_NO_FATAL_FAILURE(Hold());
  for (const milliseconds takes : {milliseconds(1), kPause, kPeriod, milliseconds(5'000)}) {
    takes_ = takes;
    OneAfterTheOtherComes(kTerm);
    writes_.clear();
    OneAfterTheOtherComes(3 * kTerm);
    const auto at_least = static_cast<std::size_t>(3 * kTerm / (takes + kPause + milliseconds(100)));
    EXPECT_GE(writes_.size() + 1, at_least) << "the pause is no longer than that";
    ExpectPauses();
  }
  EXPECT_TRUE(tenure_->holds());
}

TEST_F(TenureTest, WritesThatFailAreNotTriedAgainWithoutAPauseAndNotForEver) {
  ASSERT_NO_FATAL_FAILURE(Hold());
  fails_ = true;
  OneAfterTheOtherComes(kTerm - kPeriod);
  EXPECT_TRUE(tenure_->holds());
  EXPECT_GE(writes_.size(), 10U);
  ExpectPauses();
  OneAfterTheOtherComes(2 * kPeriod);
  EXPECT_FALSE(tenure_->holds());
  EXPECT_EQ(lost_, Tenure::Lost::kSilent);
  const auto tried = writes_.size();
  OneAfterTheOtherComes(kTerm);
  EXPECT_EQ(writes_.size(), tried);
}

TEST_F(TenureTest, AWriteThatHangsIsWaitedForForATerm) {
  ASSERT_NO_FATAL_FAILURE(Hold());
  takes_ = std::chrono::hours(1);
  Pass(kTerm - kPeriod);
  EXPECT_TRUE(tenure_->holds());
  Pass(2 * kPeriod);
  EXPECT_FALSE(tenure_->holds());
  EXPECT_EQ(lost_, Tenure::Lost::kSilent);
}

TEST_F(TenureTest, ALeaseThatIsGoneAndCannotBeLookedForIsNotWrittenWithoutAPause) {
  ASSERT_NO_FATAL_FAILURE(Hold());
  ASSERT_OK(disk_.Remove("/p/.cairn/coordinator.1.lease"));
  disk_.FailOn({.op = FakeOp::kList, .path_part = "/p/.cairn", .times = 1'000});
  OneAfterTheOtherComes(kTerm / 2);
  EXPECT_GE(writes_.size(), 2U * 10) << "a write and a look each time";
  EXPECT_LE(writes_.size(), 2U * 14);
}

TEST_F(TenureTest, APauseFollowsALookForALeaseThatIsGone) {
  ASSERT_NO_FATAL_FAILURE(Hold());
  ASSERT_OK(disk_.Remove("/p/.cairn/coordinator.1.lease"));
  disk_.FailOn({.op = FakeOp::kList, .path_part = "/p/.cairn", .times = 1'000});
  takes_ = kPeriod / 2 - milliseconds(10);
  Pass(3 * kPeriod);
  ASSERT_GE(writes_.size(), 3U) << "a write and a look, and a write";
  EXPECT_EQ(writes_[2].began - writes_[1].ended, kPause);
}

TEST_F(TenureTest, WhoComesAfterAPauseIsInTheLeaseAtOnceAndWhoComesInItAtItsEnd) {
  ASSERT_NO_FATAL_FAILURE(Hold());
  Pass(kPeriod / 2);
  OneComes();
  Pass(milliseconds(5));
  EXPECT_EQ(MembersInLease(), 2U);
  OneComes();
  Pass(kPause - milliseconds(10));
  EXPECT_EQ(MembersInLease(), 2U);
  Pass(milliseconds(10));
  EXPECT_EQ(MembersInLease(), 3U);
}

TEST_F(TenureTest, WhoComesWhileTheLeaseIsTakenIsInItSoon) {
  takes_ = milliseconds(100);
  loop_.Run([this] { tenure_->Look(); });
  Pass(milliseconds(250));
  EXPECT_FALSE(tenure_->holds());
  OneComes();
  Pass(milliseconds(100));
  ASSERT_TRUE(tenure_->holds());
  EXPECT_EQ(MembersInLease(), 1U);
  Pass(kPause + 2 * takes_);
  EXPECT_EQ(MembersInLease(), 2U);
}

}  // namespace
}  // namespace cairn
