// What a challenger concludes from its looks at a lease, by a clock that the test turns.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "storage/place/prefix/lease.h"

namespace cairn {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Verdict = LeaseWatch::Verdict;

const RunId kRun = *RunId::Parse("00112233445566778899aabbccddeeff");
const RunId kOtherRun = *RunId::Parse("ff112233445566778899aabbccddeeff");
constexpr char kCache[] = "0123456789abcdef0123456789abcdef";

LeaseRecord Record(std::string what = "rank 0 of 4") {
  return {.run = kRun,
          .launch = 3,
          .epoch = 0,
          .counter = 1,
          .cache = kCache,
          .host = "node7",
          .pid = 123,
          .term_ms = 120'000,
          .state = LeaseRecord::State::kLive,
          .what = std::move(what)};
}

LeaseRecord WithCounter(LeaseRecord record, std::uint64_t counter) {
  record.counter = counter;
  return record;
}

class LeaseWatchTest : public ::testing::Test {
 protected:
  static LeaseSeen SeenOf(const LeaseRecord& record) {
    return {.epoch = 1, .bytes = fmt::format("{} {}", record.counter, record.what), .record = record};
  }
  LeaseWatch::Look Look(std::optional<LeaseSeen> lease) const {
    return {.run = kRun,
            .launch = 3,
            .launch_run = kRun,
            .own_cache = "fedcba9876543210fedcba9876543210",
            .own_term = seconds(50),
            .lease = std::move(lease),
            .now = LeaseWatch::Time() + now_};
  }
  LeaseWatch::Judged Judge(const LeaseRecord& record) { return watch_.Judge(Look(SeenOf(record))); }
  Verdict At(milliseconds now, std::optional<LeaseSeen> lease) {
    now_ = now;
    return watch_.Judge(Look(std::move(lease))).verdict;
  }
  Verdict At(milliseconds now, const LeaseRecord& record) { return At(now, SeenOf(record)); }

  LeaseWatch watch_;
  milliseconds now_ = hours(5);  // the clock's zero means nothing
};

TEST_F(LeaseWatchTest, TheFirstLookProvesNothingAndNamesTheHolder) {
  const auto judged = Judge(Record());
  EXPECT_EQ(judged.verdict, Verdict::kUnproven);
  EXPECT_EQ(judged.look_again, seconds(12));
  EXPECT_EQ(judged.holder, "cairnd 123 on node7 (rank 0 of 4)");
  EXPECT_EQ(LeaseWatch().Judge(Look(SeenOf(Record("")))).holder, "cairnd 123 on node7");
}

TEST_F(LeaseWatchTest, ALeaseUnchangedForItsOwnTermIsOver) {
  EXPECT_EQ(At(seconds(0), Record()), Verdict::kUnproven);
  EXPECT_EQ(At(seconds(60), Record()), Verdict::kUnproven) << "the challenger's own term does not count";
  EXPECT_EQ(At(milliseconds(119'999), Record()), Verdict::kUnproven);
  EXPECT_EQ(At(milliseconds(120'000), Record()), Verdict::kOver);
  EXPECT_EQ(At(hours(3), Record()), Verdict::kOver);
}

TEST_F(LeaseWatchTest, AChangeIsLifeAndStartsTheClockAnewButNotForEver) {
  EXPECT_EQ(At(seconds(0), Record()), Verdict::kUnproven);
  EXPECT_EQ(At(seconds(50), WithCounter(Record(), 2)), Verdict::kLive);
  EXPECT_EQ(At(seconds(169), WithCounter(Record(), 2)), Verdict::kLive);
  EXPECT_EQ(At(seconds(170), WithCounter(Record(), 2)), Verdict::kOver);
  EXPECT_EQ(At(seconds(230), WithCounter(Record(), 3)), Verdict::kLive) << "it was only slow";
  EXPECT_EQ(At(seconds(350), WithCounter(Record(), 3)), Verdict::kOver);
}

// It may have changed an hour ago, or now: whether somebody is there is seen by looking again.
TEST_F(LeaseWatchTest, AChangeSinceALookOfLongAgoProvesNothing) {
  EXPECT_EQ(At(seconds(0), Record()), Verdict::kUnproven);
  EXPECT_EQ(At(seconds(10), WithCounter(Record(), 2)), Verdict::kLive);
  EXPECT_EQ(At(seconds(80), WithCounter(Record(), 3)), Verdict::kUnproven);
  EXPECT_EQ(At(seconds(100), WithCounter(Record(), 4)), Verdict::kLive);
  EXPECT_EQ(At(seconds(200), WithCounter(Record(), 9)), Verdict::kUnproven);
  EXPECT_EQ(At(seconds(319), WithCounter(Record(), 9)), Verdict::kUnproven);
  EXPECT_EQ(At(seconds(320), WithCounter(Record(), 9)), Verdict::kOver);
}

TEST_F(LeaseWatchTest, ANewEpochIsAChange) {
  LeaseSeen lease = SeenOf(Record());
  EXPECT_EQ(At(seconds(0), lease), Verdict::kUnproven);
  lease.epoch = 2;
  EXPECT_EQ(At(seconds(1), lease), Verdict::kLive);
}

TEST_F(LeaseWatchTest, AnUnreadableLeaseCountsForTheChallengersTermAndItsBytesForChanges) {
  LeaseSeen lease{.epoch = 7, .bytes = "torn", .record = std::nullopt};
  EXPECT_EQ(At(seconds(0), lease), Verdict::kUnproven);
  EXPECT_EQ(watch_.Judge(Look(lease)).look_again, seconds(5));
  EXPECT_EQ(watch_.Judge(Look(lease)).holder, "the writer of launch.3.7.lease, which cannot be read");
  EXPECT_EQ(At(seconds(49), lease), Verdict::kUnproven);
  lease.bytes = "born";
  EXPECT_EQ(At(seconds(49), lease), Verdict::kLive);
  EXPECT_EQ(At(seconds(98), lease), Verdict::kLive);
  EXPECT_EQ(At(seconds(99), lease), Verdict::kOver);
}

TEST_F(LeaseWatchTest, ALaunchWithoutLeaseCountsForTheChallengersTermAndItsFirstLeaseIsAChange) {
  EXPECT_EQ(At(seconds(0), std::nullopt), Verdict::kUnproven);
  EXPECT_EQ(watch_.Judge(Look(std::nullopt)).holder, "the maker of launch 3, which has no lease yet");
  EXPECT_EQ(At(seconds(49), std::nullopt), Verdict::kUnproven);
  EXPECT_EQ(At(seconds(50), std::nullopt), Verdict::kOver);
  EXPECT_EQ(At(seconds(51), Record()), Verdict::kLive);
  EXPECT_EQ(At(seconds(170), Record()), Verdict::kLive);
  EXPECT_EQ(At(seconds(171), Record()), Verdict::kOver);
}

TEST_F(LeaseWatchTest, NoTermIsLongerThanADay) {
  LeaseRecord record = Record();
  record.term_ms = UINT64_MAX;
  EXPECT_EQ(Judge(record).look_again, std::chrono::minutes(144));
  now_ += hours(24) - milliseconds(1);
  EXPECT_EQ(Judge(record).verdict, Verdict::kUnproven);
  now_ += milliseconds(1);
  EXPECT_EQ(Judge(record).verdict, Verdict::kOver);

  LeaseWatch::Look look = Look(std::nullopt);
  look.own_term = milliseconds::max();
  look.launch = 4;
  EXPECT_EQ(watch_.Judge(look).verdict, Verdict::kUnproven);
  look.now += hours(24);
  EXPECT_EQ(watch_.Judge(look).verdict, Verdict::kOver);
}

TEST_F(LeaseWatchTest, ADrainingLeaseSaysSoUntilItIsOver) {
  LeaseRecord record = Record("flushing ckpt 7");
  record.state = LeaseRecord::State::kDraining;
  EXPECT_EQ(At(seconds(0), record), Verdict::kDraining);
  EXPECT_EQ(Judge(record).holder, "cairnd 123 on node7 (flushing ckpt 7)");
  EXPECT_EQ(At(seconds(20), WithCounter(record, 2)), Verdict::kDraining);
  EXPECT_EQ(At(seconds(139), WithCounter(record, 2)), Verdict::kDraining);
  EXPECT_EQ(At(seconds(140), WithCounter(record, 2)), Verdict::kOver);
}

TEST_F(LeaseWatchTest, AnEndedLeaseIsOverAtOnce) {
  LeaseRecord record = Record();
  record.state = LeaseRecord::State::kEnded;
  EXPECT_EQ(At(seconds(0), record), Verdict::kOver);
  watch_ = LeaseWatch();
  EXPECT_EQ(At(seconds(0), Record()), Verdict::kUnproven);
  EXPECT_EQ(At(seconds(1), WithCounter(record, 2)), Verdict::kOver);
}

TEST_F(LeaseWatchTest, ALeaseOfTheCacheThatTheChallengerHoldsIsVoid) {
  LeaseWatch::Look look = Look(SeenOf(Record()));
  look.own_cache = kCache;
  EXPECT_EQ(LeaseWatch().Judge(look).verdict, Verdict::kOver);
  look.own_cache = "";
  EXPECT_EQ(LeaseWatch().Judge(look).verdict, Verdict::kUnproven);
  look.lease->record->cache = "";
  EXPECT_EQ(LeaseWatch().Judge(look).verdict, Verdict::kUnproven) << "no cache is not the same cache";
}

TEST_F(LeaseWatchTest, WhatWasCopiedWithItsDirectoryIsOver) {
  LeaseRecord copied = Record();
  copied.run = kOtherRun;
  EXPECT_EQ(At(seconds(0), copied), Verdict::kOver);

  LeaseWatch::Look look = Look(std::nullopt);
  look.launch_run = kOtherRun;
  EXPECT_EQ(LeaseWatch().Judge(look).verdict, Verdict::kOver);
  look.lease = SeenOf(Record());
  EXPECT_EQ(LeaseWatch().Judge(look).verdict, Verdict::kUnproven) << "this run serves the launch of its parent";
  look.lease->record.reset();
  EXPECT_EQ(LeaseWatch().Judge(look).verdict, Verdict::kUnproven) << "it may be such a lease";
}

TEST_F(LeaseWatchTest, AnotherLaunchStartsAnew) {
  EXPECT_EQ(At(seconds(0), Record()), Verdict::kUnproven);
  EXPECT_EQ(At(seconds(20), WithCounter(Record(), 2)), Verdict::kLive);
  now_ = seconds(500);
  LeaseWatch::Look look = Look(SeenOf(WithCounter(Record(), 2)));
  look.launch = 4;
  EXPECT_EQ(watch_.Judge(look).verdict, Verdict::kUnproven) << "nothing was seen of this one before";
  look.now += seconds(120);
  EXPECT_EQ(watch_.Judge(look).verdict, Verdict::kOver);
}

TEST_F(LeaseWatchTest, TheNextLookIsATenthOfTheTermAheadButNotTooSoonNorTooLate) {
  LeaseRecord record = Record();
  record.term_ms = 1000;
  EXPECT_EQ(Judge(record).look_again, milliseconds(100));
  now_ += milliseconds(950);
  EXPECT_EQ(Judge(record).look_again, milliseconds(50));
  now_ += milliseconds(50);
  EXPECT_EQ(Judge(record).verdict, Verdict::kOver);
  EXPECT_EQ(Judge(record).look_again, milliseconds(0));

  record.counter = 2;
  record.term_ms = 50;
  EXPECT_EQ(Judge(record).look_again, milliseconds(10));
  now_ += milliseconds(45);
  EXPECT_EQ(Judge(record).look_again, milliseconds(5));

  // Less than a millisecond is left: who waits for none would spin.
  LeaseWatch::Look look = Look(SeenOf(record));
  look.now += std::chrono::microseconds(4'900);
  EXPECT_EQ(watch_.Judge(look).look_again, milliseconds(1));
}

TEST_F(LeaseWatchTest, AChallengerWithoutTermStillLooksTwice) {
  LeaseWatch::Look look = Look(std::nullopt);
  look.own_term = milliseconds(0);
  EXPECT_EQ(watch_.Judge(look).verdict, Verdict::kUnproven);
  EXPECT_GT(watch_.Judge(look).look_again, milliseconds(0));
}

TEST_F(LeaseWatchTest, TheHoldersNameIsCutAndOnOneLine) {
  LeaseRecord record = Record("a\nb\x1b[31m" + std::string(1000, 'w'));
  record.host = "evil\thost";
  const std::string holder = Judge(record).holder;
  EXPECT_TRUE(holder.starts_with("cairnd 123 on evil?host (a?b?[31mww")) << holder;
  EXPECT_LE(holder.size(), lease::kWhatBytesMax + lease::kHostBytesMax + 30);
}

// Nobody could look, so the holder may not have been able to write either.
TEST_F(LeaseWatchTest, TimeInWhichNobodyCouldLookDoesNotCount) {
  EXPECT_EQ(At(seconds(0), Record()), Verdict::kUnproven);
  EXPECT_EQ(At(seconds(10), WithCounter(Record(), 2)), Verdict::kLive);
  watch_.CouldNotLook();
  EXPECT_EQ(At(seconds(500), WithCounter(Record(), 2)), Verdict::kUnproven);
  EXPECT_EQ(At(seconds(619), WithCounter(Record(), 2)), Verdict::kUnproven);
  EXPECT_EQ(At(seconds(620), WithCounter(Record(), 2)), Verdict::kOver);
}

}  // namespace
}  // namespace cairn
