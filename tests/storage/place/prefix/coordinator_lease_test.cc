// The coordinator's lease on a folder: what is written, who may take over when, and the moments in which somebody stood
// still. Whole memberships by these rules: tests/daemon/peers.
#include "storage/place/prefix/coordinator_lease.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "storage/format/kvtree/tree.h"
#include "storage/place/arbiter/folder_arbiter.h"
#include "storage/place/arbiter/lease_series.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Found = coordinator_lease::Found;
using State = CoordinatorRecord::State;
using Verdict = CoordinatorWatch::Verdict;

const RunId kRun = *RunId::Parse("00112233445566778899aabbccddeeff");
const RunId kOtherRun = *RunId::Parse("ff112233445566778899aabbccddeeff");
constexpr char kNodeA[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", kNodeB[] = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
constexpr seconds kTerm(12);

CoordinatorRecord Record(const std::string& node, std::uint64_t epoch = 0) {
  return {.run = kRun,
          .epoch = epoch,
          .counter = 1,
          .node = node,
          .incarnation = 7,
          .host = "node7",
          .address = "10.0.0.7:17001",
          .term_ms = 12'000};
}

// Calls `before` before the n-th call of the arbiter.
class Interrupted final : public Arbiter {
 public:
  Interrupted(Arbiter& arbiter, int nth, std::function<void()> before)
      : arbiter_(arbiter), nth_(nth), before_(std::move(before)) {}
  absl::Status Create(const std::string& name, std::string_view bytes) override {
    Count();
    return arbiter_.Create(name, bytes);
  }
  absl::StatusOr<std::vector<std::string>> Names() override {
    Count();
    return arbiter_.Names();
  }
  absl::Status CreateLease(const std::string& name, std::string_view bytes) override {
    Count();
    return arbiter_.CreateLease(name, bytes);
  }
  absl::Status WriteLease(const std::string& name, std::string_view bytes) override {
    Count();
    return arbiter_.WriteLease(name, bytes);
  }
  absl::StatusOr<std::string> ReadLease(const std::string& name, std::size_t bytes_max) override {
    Count();
    return arbiter_.ReadLease(name, bytes_max);
  }

 private:
  void Count() {
    if (--nth_ == 0) before_();
  }
  Arbiter& arbiter_;
  int nth_;
  const std::function<void()> before_;
};

class CoordinatorLeaseTest : public ::testing::Test {
 protected:
  CoordinatorLeaseTest() {
    for (const char* folder : {"/p", "/p/.cairn"}) EXPECT_OK(disk_.MakeDirectory(folder, 0700));
    arbiter_ = MakeFolderArbiter(disk_, "/p");
  }
  Found Look() {
    auto found = coordinator_lease::Look(*arbiter_);
    EXPECT_OK(found);
    return found.ok() ? *std::move(found) : Found();
  }
  // Of the next epoch, as it is now.
  CoordinatorRecord Held(const std::string& node, State state = State::kLive) {
    CoordinatorRecord record = Record(node);
    const auto taken = coordinator_lease::Take(*arbiter_, Look(), record);
    EXPECT_OK(taken);
    if (taken.ok()) record.epoch = taken->epoch;
    record.state = state;
    if (state != State::kTaking) {
      EXPECT_OK(coordinator_lease::Renew(*arbiter_, record));
    }
    return record;
  }
  // A look that takes no time.
  CoordinatorWatch::Judged Judge(const Found& found, milliseconds now, const std::string& node = kNodeB,
                                 bool coordinated = true) {
    const auto at = CoordinatorWatch::Time() + std::chrono::hours(5) + now;
    return watch_.Judge(
        {.run = kRun, .node = node, .own_term = seconds(50), .coordinated = coordinated, .began = at, .ended = at},
        found);
  }
  Verdict At(milliseconds now) { return Judge(Look(), now).verdict; }
  void Remove(std::uint64_t epoch) { EXPECT_OK(disk_.Remove("/p/.cairn/" + coordinator_lease::NameOf(epoch))); }

  FakeDisk disk_;
  std::unique_ptr<Arbiter> arbiter_;
  CoordinatorWatch watch_;
};

TEST_F(CoordinatorLeaseTest, WhatIsWrittenIsReadAndIsOfFixedSize) {
  EXPECT_FALSE(Look().seen);
  CoordinatorRecord record = Held(kNodeA);
  EXPECT_EQ(record.epoch, 1U);
  EXPECT_EQ(*Look().record, record);
  EXPECT_EQ(disk_.Info("/p/.cairn/coordinator.1.lease")->bytes, lease_series::kBytes);
  record.counter = 9;
  record.address = "[fe80::1%ib0]:17002";
  EXPECT_OK(coordinator_lease::Renew(*arbiter_, record));
  EXPECT_EQ(*Look().record, record);
  EXPECT_OK(coordinator_lease::End(*arbiter_, record));
  EXPECT_EQ(Look().record->state, State::kEnded);
}

TEST_F(CoordinatorLeaseTest, WhatReleasesBeforeDoNotSayMayBeMissing) {
  CoordinatorRecord record = Held(kNodeA);
  EXPECT_EQ(Look().record->members, KnownMembers());
  record.members = {.count = 3, .others = {"0123abcd", "bbbbbbbb"}};
  EXPECT_OK(coordinator_lease::Renew(*arbiter_, record));
  EXPECT_EQ(*Look().record, record);
  record.members = {.count = 1, .others = {}};
  EXPECT_OK(coordinator_lease::Renew(*arbiter_, record));
  EXPECT_EQ(*Look().record, record);
  record.members = {.count = 16'384, .others = {}};
  EXPECT_OK(coordinator_lease::Renew(*arbiter_, record));
  EXPECT_EQ(*Look().record, record);
}

// Whoever can write to the prefix can say anything.
TEST_F(CoordinatorLeaseTest, WhatALeaseSaysOfMembersMayBeNonsense) {
  const CoordinatorRecord record = Held(kNodeA);
  const auto members = [&](const std::string& count, const std::string& others) {
    kvtree::Tree tree = *lease_series::Unpack(*Look().seen);
    tree.Set("MEMBERS", count);
    tree.Set("OTHERS", others);
    EXPECT_OK(arbiter_->WriteLease("coordinator.1.lease", *lease_series::Pack("lease", tree)));
    EXPECT_TRUE(Look().record);
    return Look().record ? Look().record->members : KnownMembers();
  };
  const std::string two = "0123abcdbbbbbbbb";
  EXPECT_EQ(members("3", two).others.size(), 2U);
  EXPECT_EQ(members("1", ""), (KnownMembers{.count = 1, .others = {}}));
  EXPECT_EQ(members("1", two), KnownMembers()) << "it names others, so it is not alone";
  for (const char* count : {"", "x", "-1", "16385", "99999999999999999999", "0"}) {
    EXPECT_EQ(members(count, two), KnownMembers()) << count;
  }
  for (const std::string& others : {std::string("0123abcd"), two + "c", two.substr(1) + "X", std::string("/../../x"),
                                    std::string("bbbbbbbbbbbbbbbb"), std::string(33 * 8, 'b')}) {
    EXPECT_EQ(members("3", others), (KnownMembers{.count = 3, .others = {}})) << others;
  }
}

TEST_F(CoordinatorLeaseTest, LongTextsAreCutAndAbsurdTermsRefused) {
  CoordinatorRecord record = Record(kNodeA);
  record.host = std::string(500, 'h') + "\n";
  record.address = std::string(500, 'a');
  record.counter = record.incarnation = UINT64_MAX;
  record.term_ms = 3'600'000;
  record.epoch = lease_series::kEpochMax - 2;  // one more is left for the terms
  for (std::uint32_t i = 0; i < 32; ++i) record.members.others.insert(fmt::format("{:08x}", i));
  record.members.count = 33;
  ASSERT_OK(coordinator_lease::Take(*arbiter_, Look(), record));
  EXPECT_EQ(Look().record->host, std::string(64, 'h'));
  EXPECT_EQ(Look().record->members, record.members);
  EXPECT_EQ(Look().record->address, std::string(128, 'a'));
  for (const std::uint64_t term_ms : {std::uint64_t{0}, std::uint64_t{3'600'001}, UINT64_MAX}) {
    record.term_ms = term_ms;
    EXPECT_STATUS(StatusCode::kInvalidArgument, coordinator_lease::Take(*arbiter_, Look(), record), "term");
  }
  record = Record(kNodeA, lease_series::kEpochMax);
  EXPECT_STATUS(StatusCode::kResourceExhausted, coordinator_lease::Take(*arbiter_, Look(), record), "no epoch");
}

TEST_F(CoordinatorLeaseTest, TheHighestEpochCountsAndEpochsGrowBeyondWhatIsKnown) {
  Held(kNodeA);
  const auto taken = coordinator_lease::Take(*arbiter_, Look(), Record(kNodeB, 5));
  ASSERT_OK(taken);
  EXPECT_EQ(taken->epoch, 6U);
  EXPECT_EQ(Look().epoch(), 6U);
  EXPECT_EQ(Look().record->state, State::kTaking);
}

TEST_F(CoordinatorLeaseTest, DamagedAndForeignLeasesAreNoRecords) {
  const CoordinatorRecord record = Held(kNodeA);
  ASSERT_OK_AND_ASSIGN(const std::string whole, arbiter_->ReadLease("coordinator.1.lease", lease_series::kBytes));
  for (std::size_t i = 0; i < whole.size(); i += 7) {
    std::string bad = whole;
    bad[i] ^= 0x20;
    ASSERT_OK(arbiter_->WriteLease("coordinator.1.lease", bad));
    EXPECT_FALSE(Look().record) << "flipped at " << i;
    EXPECT_EQ(Look().epoch(), 1U);
  }
  ASSERT_OK(arbiter_->CreateLease("coordinator.3.lease", whole));  // copied to another name
  EXPECT_FALSE(Look().record);
  EXPECT_EQ(At(seconds(0)), Verdict::kHeld);
  EXPECT_EQ(At(milliseconds(49'999)), Verdict::kHeld) << "by the challenger's own term";
  EXPECT_EQ(At(seconds(50)), Verdict::kOver);
}

// --- Who may take over ---

TEST_F(CoordinatorLeaseTest, ALeaseIsOverWhenItHasNotChangedForItsTerm) {
  CoordinatorRecord record = Held(kNodeA);
  EXPECT_EQ(At(seconds(0)), Verdict::kHeld);
  EXPECT_EQ(At(milliseconds(11'999)), Verdict::kHeld);
  ++record.counter;
  EXPECT_OK(coordinator_lease::Renew(*arbiter_, record));
  EXPECT_EQ(At(seconds(12)), Verdict::kHeld);
  EXPECT_EQ(At(milliseconds(23'999)), Verdict::kHeld);
  EXPECT_EQ(At(seconds(24)), Verdict::kOver);
}

TEST_F(CoordinatorLeaseTest, ATermBeginsWithTheEndOfALookAndEndsWithTheBeginOfOne) {
  Held(kNodeA);
  const auto judge = [this](seconds began, seconds ended) {
    const CoordinatorWatch::Time zero;
    return watch_
        .Judge({.run = kRun,
                .node = kNodeB,
                .own_term = kTerm,
                .coordinated = true,
                .began = zero + began,
                .ended = zero + ended},
               Look())
        .verdict;
  };
  EXPECT_EQ(judge(seconds(100), seconds(105)), Verdict::kHeld);
  EXPECT_EQ(judge(seconds(116), seconds(130)), Verdict::kHeld);
  EXPECT_EQ(judge(seconds(117), seconds(117)), Verdict::kOver);
}

TEST_F(CoordinatorLeaseTest, AfterALookThatWasNotPossibleATermBeginsAnew) {
  Held(kNodeA);
  EXPECT_EQ(At(seconds(0)), Verdict::kHeld);
  watch_.CouldNotLook();
  EXPECT_EQ(At(seconds(13)), Verdict::kHeld);
  EXPECT_EQ(At(seconds(25)), Verdict::kOver);
}

TEST_F(CoordinatorLeaseTest, EndedOnesThoseOfOtherRunsAndOnesOwnLiveOnesAreOverAtOnce) {
  const CoordinatorRecord record = Held(kNodeA);
  EXPECT_EQ(Judge(Look(), seconds(0), kNodeA).verdict, Verdict::kOver) << "an earlier life of this node";
  EXPECT_EQ(Judge(Look(), seconds(0), kNodeB).verdict, Verdict::kHeld);
  EXPECT_OK(coordinator_lease::End(*arbiter_, record));
  EXPECT_EQ(Judge(Look(), seconds(0), kNodeB).verdict, Verdict::kOver);
  CoordinatorRecord foreign = Record(kNodeA);
  foreign.run = kOtherRun;
  ASSERT_OK(coordinator_lease::Take(*arbiter_, Look(), foreign));
  EXPECT_EQ(Judge(Look(), seconds(0), kNodeB).verdict, Verdict::kOver);
}

// Its maker may have had to wait for the one before, which may still act.
TEST_F(CoordinatorLeaseTest, OneThatWasNeverLiveIsNotOverAtOnceNotEvenForItsOwnNode) {
  Held(kNodeA, State::kTaking);
  EXPECT_EQ(Judge(Look(), seconds(0), kNodeA).verdict, Verdict::kHeld);
  EXPECT_EQ(Judge(Look(), seconds(12), kNodeA).verdict, Verdict::kOver);
}

TEST_F(CoordinatorLeaseTest, NoTermIsLongerThanAnHour) {
  Found found;
  found.seen = {.epoch = 1, .bytes = "x"};
  found.record = Record(kNodeA);
  found.record->term_ms = UINT64_MAX;
  EXPECT_EQ(Judge(found, seconds(0)).verdict, Verdict::kHeld);
  EXPECT_EQ(Judge(found, std::chrono::hours(1)).verdict, Verdict::kOver);
}

TEST_F(CoordinatorLeaseTest, WithoutALeaseOnlyTheFirstDaemonOfARunNeedNotWait) {
  EXPECT_EQ(Judge(Look(), seconds(0), kNodeA, /*coordinated=*/false).verdict, Verdict::kFirst);
  EXPECT_TRUE(*coordinator_lease::IsFirst(*arbiter_, Record(kNodeA)));
  EXPECT_FALSE(*coordinator_lease::IsFirst(*arbiter_, Record(kNodeB)));
  EXPECT_EQ(Judge(Look(), seconds(1), kNodeB, /*coordinated=*/true).verdict, Verdict::kHeld);
  EXPECT_EQ(Judge(Look(), seconds(50), kNodeB, /*coordinated=*/true).verdict, Verdict::kOver) << "by its own term";
}

// --- Somebody stood still ---

TEST_F(CoordinatorLeaseTest, ALeaseThatWasTakenByAnotherMeanwhileIsNotTaken) {
  const Found judged = Look();
  Held(kNodeA);
  EXPECT_STATUS(StatusCode::kAborted, coordinator_lease::Take(*arbiter_, judged, Record(kNodeB)), "made by another");
}

TEST_F(CoordinatorLeaseTest, AHolderThatComesBackBeforeTheNextLeaseIsThereIsWaitedFor) {
  CoordinatorRecord holder = Held(kNodeA);
  const Found judged = Look();
  ++holder.counter;
  EXPECT_OK(coordinator_lease::Renew(*arbiter_, holder)) << "nothing newer is there yet: this counts";
  const auto taken = coordinator_lease::Take(*arbiter_, judged, Record(kNodeB));
  ASSERT_OK(taken);
  EXPECT_EQ(taken->wait, kTerm);
  EXPECT_STATUS(StatusCode::kAborted, coordinator_lease::Renew(*arbiter_, holder), "newer");
}

// Wherever the holder's write comes in: either it does not count, or the new one waits.
TEST_F(CoordinatorLeaseTest, EitherTheHolderSeesTheNextLeaseOrItsWriteIsSeen) {
  for (int nth = 1; nth <= 6; ++nth) {
    CoordinatorRecord holder = Held(kNodeA);
    const Found judged = Look();
    bool counts = false;
    Interrupted arbiter(*arbiter_, nth, [&] {
      ++holder.counter;
      counts = coordinator_lease::Renew(*arbiter_, holder).ok();
    });
    const auto taken = coordinator_lease::Take(arbiter, judged, Record(kNodeB));
    ASSERT_OK(taken);
    if (counts) {
      EXPECT_GT(taken->wait, seconds(0)) << "before call " << nth;
    }
  }
}

TEST_F(CoordinatorLeaseTest, WhatWasMadeInPlaceOfRemovedLeasesIsSeenAfterwards) {
  // Two that find no lease, and know of different epochs.
  Interrupted arbiter(*arbiter_, 2, [&] {
    EXPECT_STATUS(StatusCode::kAborted, coordinator_lease::Take(*arbiter_, Found(), Record(kNodeA, 0)), "above");
  });
  const auto taken = coordinator_lease::Take(arbiter, Found(), Record(kNodeB, 5));
  ASSERT_OK(taken);
  EXPECT_EQ(taken->epoch, 6U);
  EXPECT_EQ(taken->wait, kTerm);
  EXPECT_STATUS(StatusCode::kAborted, coordinator_lease::Take(*arbiter_, Found(), Record(kNodeA, 3)), "above");
}

TEST_F(CoordinatorLeaseTest, ARemovedLeaseAndOneThatAnotherHasMadeAgainAreNotRenewed) {
  const CoordinatorRecord holder = Held(kNodeA);
  Remove(1);
  EXPECT_STATUS(StatusCode::kNotFound, coordinator_lease::Renew(*arbiter_, holder), "");
  ASSERT_OK(coordinator_lease::Take(*arbiter_, Found(), Record(kNodeB)));
  EXPECT_STATUS(StatusCode::kNotFound, coordinator_lease::Renew(*arbiter_, holder), "now held by");
  EXPECT_EQ(Look().record->node, kNodeB);
  CoordinatorRecord later = holder;
  later.node = kNodeB;
  later.incarnation = 8;
  EXPECT_STATUS(StatusCode::kNotFound, coordinator_lease::Renew(*arbiter_, later), "now held by");
}

TEST_F(CoordinatorLeaseTest, ATornLeaseIsWrittenAgain) {
  const CoordinatorRecord holder = Held(kNodeA);
  ASSERT_OK(arbiter_->WriteLease("coordinator.1.lease", "torn"));
  EXPECT_OK(coordinator_lease::Renew(*arbiter_, holder));
  EXPECT_EQ(*Look().record, holder);
}

TEST_F(CoordinatorLeaseTest, NamesAreOfThisSeriesAlone) {
  for (const char* name : {"launch.3.9.lease", "coordinator.lease", "coordinator.0.lease", "coordinator.07.lease",
                           "coordinator.1.2.lease", "xcoordinator.5.lease", "coordinator.5", "coordinator.-1.lease"}) {
    ASSERT_OK(arbiter_->CreateLease(name, "x"));
  }
  EXPECT_FALSE(Look().seen);
}

}  // namespace
}  // namespace cairn
