// Whether a take-over is worth waiting for, by what a member has seen: daemon/peers/succession.h.
#include "daemon/peers/succession.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>

namespace cairn {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kTerm(12);

class SuccessionTest : public ::testing::Test {
 protected:
  static Succession::Time At(milliseconds time) { return Succession::Time() + std::chrono::hours(1) + time; }
  static CoordinatorRecord Lease(std::uint64_t epoch, std::uint64_t counter, std::uint32_t members = 3) {
    CoordinatorRecord record;
    record.epoch = epoch;
    record.counter = counter;
    record.term_ms = 12'000;
    record.members.count = members;
    return record;
  }
  // A look that takes no time.
  void Look(const CoordinatorRecord& lease, milliseconds now) {
    succession_.Answered(At(now));
    succession_.Saw(lease, At(now));
  }
  // Looks as a challenger does.
  void LookOn(const CoordinatorRecord& lease, milliseconds from, milliseconds until) {
    for (milliseconds now = from; now < until; now += milliseconds(1'200)) Look(lease, now);
  }
  bool IsExpected(milliseconds now) const { return succession_.IsExpected(At(now)); }

  Succession succession_{kTerm};
};

TEST_F(SuccessionTest, WithoutAnyCoordinatorNothingIsExpected) {
  EXPECT_FALSE(IsExpected(seconds(0)));
  succession_.Answered(At(seconds(0)));
  EXPECT_FALSE(IsExpected(seconds(0)));
}

TEST_F(SuccessionTest, ALeaseThatStandsStillWillBeTakenOver) {
  LookOn(Lease(3, 50), seconds(0), seconds(14));
  EXPECT_TRUE(IsExpected(seconds(14)));
}

TEST_F(SuccessionTest, ALeaseThatCannotBeReadOrIsGoneWillBeFollowed) {
  for (const std::uint64_t epoch : {0U, 3U}) {
    Succession succession(kTerm);
    succession.Answered(At(seconds(0)));
    succession.SawUnread(epoch, At(seconds(0)));
    EXPECT_TRUE(succession.IsExpected(At(seconds(1)))) << epoch;
    EXPECT_FALSE(succession.IsExpected(At(seconds(6)))) << epoch;
  }
}

TEST_F(SuccessionTest, WhatALeaseSaidCountsWhileItCannotBeRead) {
  Look(Lease(3, 50, 1), seconds(0));
  succession_.SawUnread(3, At(seconds(1)));
  EXPECT_FALSE(IsExpected(seconds(1))) << "it knew nobody";
  succession_.SawUnread(4, At(seconds(2)));
  EXPECT_TRUE(IsExpected(seconds(2)));
}

TEST_F(SuccessionTest, AnArbiterThatIsSilentForHalfATermIsNotWaitedFor) {
  LookOn(Lease(3, 50), seconds(0), milliseconds(2'500));
  EXPECT_TRUE(IsExpected(milliseconds(8'399)));
  EXPECT_FALSE(IsExpected(milliseconds(8'400)));
  succession_.Answered(At(seconds(9)));
  EXPECT_TRUE(IsExpected(seconds(9)));
  Succession quick(milliseconds(500));
  quick.Answered(At(seconds(0)));
  quick.Saw(Lease(3, 50), At(seconds(0)));
  EXPECT_TRUE(quick.IsExpected(At(milliseconds(1'999))));
  EXPECT_FALSE(quick.IsExpected(At(seconds(2))));
}

TEST_F(SuccessionTest, AHolderThatRenewsItsLeaseIsNotFollowedUntilItStops) {
  Look(Lease(3, 50), seconds(0));
  Look(Lease(3, 51), milliseconds(1'200));
  EXPECT_FALSE(IsExpected(milliseconds(1'200)));
  LookOn(Lease(3, 51), milliseconds(2'400), seconds(6));
  EXPECT_FALSE(IsExpected(milliseconds(5'199)));
  EXPECT_TRUE(IsExpected(milliseconds(5'200))) << "two writes are missing";
}

TEST_F(SuccessionTest, WhoHasJustTakenOverIsToBeJoinedFirst) {
  LookOn(Lease(3, 50), seconds(0), seconds(12));
  Look(Lease(4, 1), seconds(12));
  Look(Lease(4, 2), seconds(14));
  EXPECT_TRUE(IsExpected(seconds(14)));
  Look(Lease(4, 3), seconds(16));
  Look(Lease(4, 4), seconds(18));
  EXPECT_FALSE(IsExpected(seconds(18))) << "it lives, and cannot be joined";
}

// Nor is it told by wall clocks when a lease was written: an outage of the prefix makes all leases old.
TEST_F(SuccessionTest, OnlyWhoKnewNobodyElseIsFollowedByNobody) {
  Look(Lease(3, 50, 1), seconds(0));
  EXPECT_FALSE(IsExpected(seconds(0)));
  Look(Lease(3, 51, 2), seconds(1));
  LookOn(Lease(3, 51, 2), seconds(2), seconds(8));
  EXPECT_TRUE(IsExpected(seconds(8))) << "one has come since";
  Look(Lease(4, 1, 0), seconds(9));
  LookOn(Lease(4, 1, 0), seconds(10), seconds(20));
  EXPECT_TRUE(IsExpected(seconds(20))) << "of a release that does not say";
}

// The holder of a lease that stands still may be back, and has then made the next one.
TEST_F(SuccessionTest, WhoFollowsOneThatKnewNobodyIsJoinedAllTheSame) {
  Look(Lease(3, 50, 1), seconds(0));
  Look(Lease(4, 1, 1), seconds(1));
  EXPECT_TRUE(IsExpected(seconds(1)));
  LookOn(Lease(4, 1, 1), seconds(2), seconds(8));
  EXPECT_FALSE(IsExpected(seconds(8)));
}

TEST_F(SuccessionTest, WhatALeaseSaysMayBeNonsense) {
  for (const std::uint64_t term : {std::uint64_t{1}, std::numeric_limits<std::uint64_t>::max()}) {
    CoordinatorRecord lease = Lease(3, std::numeric_limits<std::uint64_t>::max());
    lease.term_ms = term;
    Succession one(kTerm);
    one.Answered(At(seconds(0)));
    one.Saw(lease, At(seconds(0)));
    EXPECT_TRUE(one.IsExpected(At(seconds(0))));
    EXPECT_FALSE(one.IsExpected(At(seconds(6))));
  }
}

TEST_F(SuccessionTest, WhomAnotherMemberHasNamedIsExpected) {
  Look(Lease(3, 50, 1), seconds(0));
  EXPECT_FALSE(IsExpected(seconds(0)));
  succession_.Heard(3, At(seconds(0)));
  EXPECT_FALSE(IsExpected(seconds(0))) << "no newer one";
  succession_.Heard(4, At(seconds(0)));
  EXPECT_TRUE(IsExpected(seconds(1)));
}

}  // namespace
}  // namespace cairn
