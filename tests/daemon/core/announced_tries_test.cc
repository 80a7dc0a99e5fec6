// How often the prefix is told where this daemon is: daemon/core/announced.h.
#include "daemon/core/announced.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "daemon/core/ledger.h"
#include "daemon/core/prefix_gate.h"
#include "storage/base/ids.h"
#include "storage/place/prefix/ingest_record.h"
#include "storage/place/prefix/prefix.h"
#include "tests/daemon/core/by_hand.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr char kPath[] = "/prefix";

class AnnouncedTriesTest : public ::testing::Test {
 protected:
  AnnouncedTriesTest() {
    by_hand_.context.cache_id = std::string(32, 'a');
    by_hand_.context.announcement = "here";
  }

  RunId MakePrefix() {
    auto prefix = Prefix::Open(by_hand_.prefix_disk, kPath);
    EXPECT_OK(prefix.status());
    return prefix.ok() ? (*prefix)->run() : RunId();
  }
  void MakeAnnounced(const RunId& run) {
    gate_ = std::make_unique<PrefixGate>(
        by_hand_.context, run, "run", kPath, ledger_,
        PrefixGate::Reports{.on_reached = [this] { announced_->Reached(); }, .on_replaced = [] {}, .on_free = [] {}});
    announced_ = std::make_unique<Announced>(by_hand_.context, name_, *gate_);
  }
  // Tries so far: nothing else asks the prefix for anything.
  std::uint64_t tries() const { return by_hand_.prefix.steps(); }
  // What stands there; "": nothing.
  std::string Told() {
    const std::string path = ingest_record::PathOf(kPath, by_hand_.context.cache_id);
    const auto file = by_hand_.prefix_disk.Open(path, {});
    std::string text(file.ok() ? (*file)->Info()->bytes : 0, '\0');
    if (!file.ok()) return "";
    EXPECT_OK((*file)->ReadAt(0, std::as_writable_bytes(std::span(text))));
    return text;
  }
  // Somebody else reaches the prefix.
  void Reach() {
    const PrefixGate::Visited visited = gate_->MakeVisitor()([](Prefix&) { return absl::OkStatus(); });
    EXPECT_OK(visited.status);
    gate_->VisitEnded(visited);
    by_hand_.RunAll();
  }
  // Time passes, second by second. When the last try in it was, from its beginning.
  seconds Pass(seconds time) {
    seconds last{0};
    for (seconds passed{0}; passed < time; ++passed) {
      const std::uint64_t before = tries();
      by_hand_.RunAll();
      if (tries() != before) last = passed;
      by_hand_.Turn(seconds(1));
    }
    return last;
  }

  ByHand by_hand_;
  Ledger ledger_{[](const DatasetPtr&, const std::string&) {}};
  const std::string name_ = "run";
  std::unique_ptr<PrefixGate> gate_;
  std::unique_ptr<Announced> announced_;
};

TEST_F(AnnouncedTriesTest, WithoutItsPlaceItIsTriedForHalfAnHourAndThenAtTheNextChange) {
  MakeAnnounced(RunId::Random());
  announced_->Update();
  const seconds last = Pass(minutes(120));
  EXPECT_GE(last, minutes(25));
  EXPECT_LE(last, minutes(35));
  const std::uint64_t tried = tries();
  EXPECT_LE(tried, 20u);
  announced_->Update();
  Pass(minutes(120));
  EXPECT_EQ(tries(), tried + 1) << "the next change is one try";
}

TEST_F(AnnouncedTriesTest, APrefixThatIsNotOursToWriteToIsNoPlaceEither) {
  MakeAnnounced(MakePrefix());
  by_hand_.prefix_disk.FailOn({.path_part = "ingest.", .times = 1000, .status = absl::PermissionDeniedError("no")});
  announced_->Update();
  EXPECT_LE(Pass(minutes(120)), minutes(35));
}

// A file system that does not answer comes back.
TEST_F(AnnouncedTriesTest, WhatMayPassIsTriedWithoutEnd) {
  MakeAnnounced(MakePrefix());
  by_hand_.prefix_disk.FailOn({.path_part = "ingest.", .times = 100'000});
  announced_->Update();
  EXPECT_GE(Pass(minutes(120)), minutes(110));
  by_hand_.prefix_disk.ClearFaults();
  Pass(minutes(6));
  EXPECT_EQ(Told(), "here");
}

TEST_F(AnnouncedTriesTest, OnceItIsGivenUpAPrefixThatIsReachedIsTold) {
  const RunId run = MakePrefix();
  by_hand_.prefix_disk.FailOn({.path_part = kPath, .times = 100'000, .status = absl::NotFoundError("not mounted")});
  MakeAnnounced(run);
  announced_->Update();
  Pass(minutes(60));
  by_hand_.prefix_disk.ClearFaults();
  Pass(minutes(60));
  EXPECT_EQ(Told(), "") << "it was given up";
  Reach();
  EXPECT_EQ(Told(), "here");
}

// It does not wait for the rest of a pause, which may be the longest.
TEST_F(AnnouncedTriesTest, APrefixThatIsReachedForTheFirstTimeIsToldAtOnce) {
  const RunId run = MakePrefix();
  by_hand_.prefix_disk.FailOn({.path_part = kPath, .times = 100'000});
  MakeAnnounced(run);
  announced_->Update();
  Pass(minutes(60));
  by_hand_.prefix_disk.ClearFaults();
  Reach();
  EXPECT_EQ(Told(), "here");
}

TEST_F(AnnouncedTriesTest, ALaunchThatBeginsIsToldAtOnce) {
  MakeAnnounced(MakePrefix());
  by_hand_.prefix_disk.FailOn({.path_part = "ingest.", .times = 100'000});
  announced_->Update();
  Pass(minutes(60));
  by_hand_.prefix_disk.ClearFaults();
  by_hand_.RunAll();
  EXPECT_EQ(Told(), "") << "a pause is waited for";
  announced_->Again();
  by_hand_.RunAll();
  EXPECT_EQ(Told(), "here");
}

TEST_F(AnnouncedTriesTest, AfterASuccessTheTriesCountAnew) {
  MakeAnnounced(MakePrefix());
  for (int round = 0; round < 2; ++round) {
    by_hand_.prefix_disk.FailOn({.path_part = "ingest.", .times = 100'000, .status = absl::PermissionDeniedError("")});
    announced_->Again();
    EXPECT_GE(Pass(minutes(60)), minutes(25)) << "round " << round;
    by_hand_.prefix_disk.ClearFaults();
    announced_->Again();
    by_hand_.RunAll();
    EXPECT_EQ(Told(), "here");
  }
}

// Of a daemon without clients on other hosts no prefix is asked, unless it is reached anyway; and then once.
TEST_F(AnnouncedTriesTest, NothingIsTakenBackOnceWhereThePrefixIsReached) {
  const RunId run = MakePrefix();
  ASSERT_OK(ingest_record::Write(by_hand_.prefix_disk, kPath, by_hand_.context.cache_id, "the last life"));
  by_hand_.context.announcement = "";
  MakeAnnounced(run);
  announced_->Update();
  by_hand_.RunAll();
  EXPECT_EQ(tries(), 0u);
  EXPECT_EQ(Told(), "the last life");
  Reach();
  EXPECT_EQ(Told(), "");
  EXPECT_EQ(tries(), 1u);
  announced_->Again();
  by_hand_.RunAll();
  EXPECT_EQ(tries(), 1u);
  EXPECT_TRUE(by_hand_.context.warnings->all().empty());
}

TEST_F(AnnouncedTriesTest, WhatCannotBeTakenBackIsSaidAndLeftToTheNextLife) {
  const RunId run = MakePrefix();
  by_hand_.context.announcement = "";
  by_hand_.prefix_disk.FailOn({.op = FakeOp::kRemove, .path_part = "ingest.", .times = 1000});
  MakeAnnounced(run);
  Reach();
  Pass(minutes(60));
  EXPECT_EQ(tries(), 1u);
  EXPECT_EQ(by_hand_.context.warnings->all().size(), 1u);
}

TEST_F(AnnouncedTriesTest, WhatIsToldIsToldAgainOnlyWhenItIsAskedFor) {
  MakeAnnounced(MakePrefix());
  announced_->Update();
  by_hand_.RunAll();
  EXPECT_EQ(Told(), "here");
  EXPECT_EQ(tries(), 1u);
  announced_->Update();
  by_hand_.RunAll();
  EXPECT_EQ(tries(), 1u) << "it stands there";
  announced_->Again();
  by_hand_.RunAll();
  EXPECT_EQ(tries(), 2u) << "of several daemons this one is to be tried first";
}

}  // namespace
}  // namespace cairn
