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
  static Succession::WallTime WallAt(milliseconds time) {
    return Succession::WallTime(seconds(1'700'000'000)) + std::chrono::hours(1) + time;
  }
  static std::int64_t Us(milliseconds time) {
    return std::chrono::duration_cast<std::chrono::microseconds>(WallAt(time).time_since_epoch()).count();
  }
  static CoordinatorRecord Lease(std::uint64_t epoch, std::uint64_t counter, milliseconds written = milliseconds(0)) {
    CoordinatorRecord record;
    record.epoch = epoch;
    record.counter = counter;
    record.term_ms = 12'000;
    record.written_us = Us(written);
    return record;
  }
  // A look that takes no time.
  void Look(const CoordinatorRecord& lease, milliseconds now) {
    succession_.Answered(At(now));
    succession_.Saw(lease, At(now), WallAt(now));
  }
  // Looks as a challenger does.
  void LookOn(const CoordinatorRecord& lease, milliseconds from, milliseconds until) {
    for (milliseconds now = from; now < until; now += milliseconds(1'200)) Look(lease, now);
  }
  bool IsExpected(milliseconds now) const { return succession_.IsExpected(At(now)); }
  bool Gathers(milliseconds now) const { return succession_.Gathers(At(now)); }

  Succession succession_{kTerm};
};

TEST_F(SuccessionTest, WithoutAnyCoordinatorNothingIsExpected) {
  EXPECT_FALSE(IsExpected(seconds(0)));
  succession_.Answered(At(seconds(0)));
  EXPECT_FALSE(IsExpected(seconds(0)));
  EXPECT_FALSE(Gathers(seconds(0)));
}

TEST_F(SuccessionTest, ALeaseThatStandsStillWillBeTakenOver) {
  LookOn(Lease(3, 50), seconds(0), seconds(14));
  EXPECT_TRUE(IsExpected(seconds(14)));
}

TEST_F(SuccessionTest, AnArbiterThatIsSilentForHalfATermIsNotWaitedFor) {
  LookOn(Lease(3, 50), seconds(0), milliseconds(2'500));
  EXPECT_TRUE(IsExpected(milliseconds(8'399)));
  EXPECT_FALSE(IsExpected(milliseconds(8'400)));
  succession_.Answered(At(seconds(9)));
  EXPECT_TRUE(IsExpected(seconds(9)));
  Succession quick(milliseconds(500));
  quick.Answered(At(seconds(0)));
  quick.Saw(Lease(3, 50), At(seconds(0)), WallAt(seconds(0)));
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

TEST_F(SuccessionTest, WhatWasLeftLongAgoNobodyIsLeftToTakeOver) {
  Look(Lease(3, 50, -seconds(36)), seconds(0));
  EXPECT_TRUE(IsExpected(seconds(0)));
  Look(Lease(4, 50, -milliseconds(36'002)), milliseconds(1));
  EXPECT_FALSE(IsExpected(milliseconds(1)));
  EXPECT_TRUE(succession_.nobody_is_left());
  CoordinatorRecord older = Lease(5, 50);
  older.written_us = 0;  // of a release that does not say
  Look(older, milliseconds(2));
  EXPECT_TRUE(IsExpected(milliseconds(2)));
}

TEST_F(SuccessionTest, WhatALeaseSaysOfTimesMayBeNonsense) {
  for (const std::int64_t written : {std::int64_t{1}, Us(std::chrono::hours(9)), std::int64_t{1} << 53}) {
    for (const std::uint64_t term : {std::uint64_t{1}, std::numeric_limits<std::uint64_t>::max()}) {
      CoordinatorRecord lease = Lease(3, std::numeric_limits<std::uint64_t>::max());
      lease.written_us = written;
      lease.term_ms = term;
      lease.gathers = true;
      Succession one(kTerm);
      one.Answered(At(seconds(0)));
      one.Saw(lease, At(seconds(0)), WallAt(seconds(0)));
      EXPECT_EQ(one.IsExpected(At(seconds(0))), written != 1) << written;
      EXPECT_FALSE(one.Gathers(At(seconds(0))));
    }
  }
}

TEST_F(SuccessionTest, WhoDoesNotKnowTheOthersGathersThemForHalfATerm) {
  CoordinatorRecord lease = Lease(4, 1);
  lease.gathers = true;
  Look(lease, seconds(0));
  EXPECT_TRUE(Gathers(milliseconds(5'999)));
  EXPECT_FALSE(Gathers(seconds(6)));
  Look(Lease(5, 1), seconds(1));
  EXPECT_FALSE(Gathers(seconds(1))) << "that one knows them";
}

TEST_F(SuccessionTest, WhoComesLaterSeesHowLongItHasGathered) {
  CoordinatorRecord lease = Lease(4, 3);
  lease.gathers = true;
  Look(lease, seconds(0));
  EXPECT_TRUE(Gathers(milliseconds(1'999)));
  EXPECT_FALSE(Gathers(seconds(2)));
  Look(lease, seconds(3));
  EXPECT_FALSE(Gathers(seconds(3)));
  Succession late(kTerm);
  lease.counter = 4;
  late.Saw(lease, At(seconds(0)), WallAt(seconds(0)));
  EXPECT_FALSE(late.Gathers(At(seconds(0))));
}

TEST_F(SuccessionTest, WhomAnotherMemberHasNamedMayGather) {
  succession_.Heard(4, At(seconds(0)));
  EXPECT_FALSE(Gathers(seconds(0))) << "nobody was seen before";
  Look(Lease(5, 9), seconds(1));
  succession_.Heard(6, At(seconds(2)));
  EXPECT_TRUE(Gathers(seconds(2)));
  EXPECT_FALSE(Gathers(seconds(8)));
  succession_.Heard(6, At(seconds(9)));
  succession_.Heard(5, At(seconds(9)));
  EXPECT_FALSE(Gathers(seconds(9))) << "no newer one";
}

}  // namespace
}  // namespace cairn
