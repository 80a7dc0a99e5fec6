// Is the prefix in reach, does the run live there, and who may change it now: daemon/core/prefix_gate.h.
#include "daemon/core/prefix_gate.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/status.h"
#include "storage/io/disk.h"
#include "tests/daemon/core/by_hand.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using Change = PrefixGate::Change;
using LeasePtr = std::shared_ptr<PrefixGate::Lease>;

constexpr Change kChanges[] = {Change::kCommit,        Change::kCommitFiles, Change::kComplete,
                               Change::kCompleteFiles, Change::kRemove,      Change::kRemoveFiles,
                               Change::kRemoveFailed,  Change::kTakePlaces,  Change::kNames};
constexpr std::string_view kNames[] = {"commit",
                                       "commit of files",
                                       "completion past the cache",
                                       "completion of files past the cache",
                                       "removal",
                                       "removal of files",
                                       "failed removal",
                                       "taking places",
                                       "asking for names"};

constexpr char kPath[] = "/prefix";

class PrefixGateTest : public ::testing::Test {
 protected:
  // A run's prefix at kPath: as another daemon, or this one a start ago, has made it.
  std::shared_ptr<Prefix> MakePrefix() {
    auto prefix = Prefix::Open(by_hand_.prefix_disk, kPath);
    EXPECT_OK(prefix.status());
    return prefix.ok() ? std::shared_ptr<Prefix>(*std::move(prefix)) : nullptr;
  }
  std::unique_ptr<PrefixGate> MakeGate(const RunId& run) {
    return std::make_unique<PrefixGate>(by_hand_.context, run, "run", kPath, ledger_,
                                        PrefixGate::Reports{.on_reached = [this] { ++reached_; },
                                                            .on_replaced = [this] { ++replaced_; },
                                                            .on_free = [this] { ++free_; }});
  }

  // A dataset of the application's files that is written past the cache.
  DatasetPtr WritePastCache(Dataset::Kind kind = {
                                .files = true, .checkpoint = false, .output = true, .past_cache = true}) {
    const Launch& launch = ledger_.Enter(1, "key", 1, "secret");
    ledger_.SessionLive(launch, 0);
    return ledger_.Create(launch, ++last_id_, {.step = last_id_, .kind = kind});
  }

  // Takes it and ends it.
  static bool MayTake(PrefixGate& gate, Change change) {
    const LeasePtr lease = gate.TryTake(change);
    if (lease) lease->End();
    return lease != nullptr;
  }

  ByHand by_hand_;
  Ledger ledger_{[](const DatasetPtr&, const std::string&) {}};
  DatasetId last_id_ = 0;
  int reached_ = 0, replaced_ = 0, free_ = 0;
};

// --- Who may change it now? ---

TEST_F(PrefixGateTest, WhatIsHeldSaysWhatMayBeTaken) {
  // Wanted:                     commit c.files compl. co.files remove r.files r.failed places names
  const bool table[9][9] = {
      /* held: commit       */ {true, true, true, true, false, false, true, true, true},
      /* commit of files    */ {true, true, true, false, false, false, false, false, false},
      /* completion         */ {true, true, true, true, false, false, true, true, true},
      /* compl. of files    */ {true, true, true, false, false, false, false, false, false},
      /* removal            */ {false, false, false, false, true, true, true, false, false},
      /* removal of files   */ {false, false, false, false, true, true, true, false, false},
      /* failed removal     */ {false, false, false, false, true, true, true, false, false},
      /* taking places      */ {false, false, false, false, true, true, true, false, false},
      /* asking for names   */ {true, true, true, true, true, true, true, true, true},
  };
  for (std::size_t held = 0; held < std::size(kChanges); ++held) {
    for (std::size_t wanted = 0; wanted < std::size(kChanges); ++wanted) {
      const auto gate = MakeGate(RunId());
      const LeasePtr first = gate->TryTake(kChanges[held]);
      ASSERT_NE(first, nullptr) << "nobody else holds anything";
      const LeasePtr second = gate->TryTake(kChanges[wanted]);
      EXPECT_EQ(second != nullptr, table[held][wanted]) << kNames[wanted] << " while there is a " << kNames[held];
      if (second) second->End();
      first->End();
      for (const Change change : kChanges) EXPECT_TRUE(MayTake(*gate, change)) << "all have ended";
    }
  }
}

TEST_F(PrefixGateTest, WhatIsHeldTwiceIsHeldUntilTheSecondEnds) {
  const auto gate = MakeGate(RunId());
  const LeasePtr first = gate->TryTake(Change::kCommitFiles), second = gate->TryTake(Change::kCommitFiles);
  first->End();
  EXPECT_EQ(gate->TryTake(Change::kRemove), nullptr);
  EXPECT_EQ(gate->TryTake(Change::kNames), nullptr);
  second->End();
  EXPECT_TRUE(MayTake(*gate, Change::kNames));
  EXPECT_TRUE(MayTake(*gate, Change::kRemove));
}

TEST_F(PrefixGateTest, WhileFilesAreWrittenPastTheCacheNobodyElsePutsFilesThereOrTakesThemAway) {
  const auto gate = MakeGate(RunId());
  const DatasetPtr dataset = WritePastCache();
  const bool may[] = {true, false, true, true, true, false, true, false, true};
  for (std::size_t i = 0; i < std::size(kChanges); ++i) {
    EXPECT_EQ(MayTake(*gate, kChanges[i]), may[i]) << kNames[i];
  }
  ledger_.Fail(dataset->id, "it ends");
  for (const Change change : kChanges) EXPECT_TRUE(MayTake(*gate, change));
}

TEST_F(PrefixGateTest, NamesAreHeldOnlyByFilesThatAreStillBeingWrittenThere) {
  const auto gate = MakeGate(RunId());
  WritePastCache({.past_cache = true});  // memory has names of its own
  WritePastCache({.files = true});       // in the cache
  Dataset fetched;                       // into the cache since, and flushed from there
  fetched.id = 9;
  fetched.kind = {.files = true, .past_cache = true};
  fetched.cache = Place::kWhole;
  fetched.prefix = Place::kArriving;
  ledger_.Adopt(fetched);
  for (const Change change : kChanges) EXPECT_TRUE(MayTake(*gate, change));
}

TEST_F(PrefixGateTest, ACommitLetsThoseGoFirstWhoWaitForTheirTurn) {
  const auto gate = MakeGate(RunId());
  gate->WhenFree([] {});
  const bool may[] = {false, false, true, true, true, true, true, true, true};
  for (std::size_t i = 0; i < std::size(kChanges); ++i) {
    EXPECT_EQ(MayTake(*gate, kChanges[i]), may[i]) << kNames[i];
  }
  gate->GiveTurns();
  EXPECT_NE(gate->TryTake(Change::kCommit), nullptr);
}

// They cannot go before the files are written, which may take hours: a commit of other names is not held up so long.
TEST_F(PrefixGateTest, ACommitOfItsOwnNamesPassesThoseWhoWaitWhileNamesAreHeld) {
  const auto gate = MakeGate(RunId());
  WritePastCache();
  gate->WhenFree([] {});
  EXPECT_NE(gate->TryTake(Change::kCommit), nullptr);
  EXPECT_EQ(gate->TryTake(Change::kCommitFiles), nullptr);
}

// Those who wait may wait for the names that it holds until it has ended.
TEST_F(PrefixGateTest, TheCompletionOfFilesPastTheCachePassesThoseWhoWait) {
  const auto gate = MakeGate(RunId());
  WritePastCache();
  gate->WhenFree([] {});
  const LeasePtr first = gate->TryTake(Change::kCompleteFiles);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(gate->TryTake(Change::kCompleteFiles), nullptr) << "one after the other";
  first->End();
  EXPECT_NE(gate->TryTake(Change::kCompleteFiles), nullptr);
}

TEST_F(PrefixGateTest, AnEndTellsThatOthersMayHaveTheirTurn) {
  const auto gate = MakeGate(RunId());
  for (const Change change : kChanges) {
    free_ = 0;
    const LeasePtr lease = gate->TryTake(change);
    EXPECT_EQ(free_, 0);
    lease->End();
    EXPECT_EQ(free_, change == Change::kNames ? 0 : 1) << "asking for names has taken nothing";
  }
}

TEST_F(PrefixGateTest, ALeaseEndsOnce) {
  const auto gate = MakeGate(RunId());
  const LeasePtr lease = gate->TryTake(Change::kRemove);
  lease->End();
  EXPECT_DEATH(lease->End(), "check failed: gate != nullptr");
}

TEST_F(PrefixGateTest, ALeaseThatIsDroppedHasNotEnded) {
  const auto gate = MakeGate(RunId());
  gate->TryTake(Change::kRemove).reset();  // as with a loop that is dropped
  EXPECT_EQ(gate->TryTake(Change::kCommit), nullptr);
  EXPECT_EQ(free_, 0);
}

TEST_F(PrefixGateTest, TurnsAreGivenOnceInTheOrderInWhichTheyWereAskedFor) {
  const auto gate = MakeGate(RunId());
  std::string turns;
  gate->WhenFree([&] { turns += "a"; });
  gate->WhenFree([&] {
    turns += "b";
    gate->WhenFree([&] { turns += "c"; });  // it must wait again
  });
  gate->GiveTurns();
  EXPECT_EQ(turns, "ab");
  gate->GiveTurns();
  EXPECT_EQ(turns, "abc");
  gate->GiveTurns();
  EXPECT_EQ(turns, "abc");
}

// --- Is it in reach? ---

TEST_F(PrefixGateTest, UntilItIsReachedItIsNeitherUsableNorWritable) {
  const auto gate = MakeGate(RunId());
  EXPECT_EQ(gate->path(), kPath);
  EXPECT_EQ(gate->prefix(), nullptr);
  EXPECT_FALSE(gate->usable());
  EXPECT_FALSE(gate->writable());
  EXPECT_STATUS(absl::StatusCode::kUnavailable, gate->OutOfReach(), kPath);
}

TEST_F(PrefixGateTest, WhatWasRenamedGoesOnUnderItsNewName) {
  const auto first = MakePrefix(), renamed = MakePrefix();
  const auto gate = MakeGate(first->run());
  gate->Reached(first, kPath, /*read_only=*/false);
  gate->Reached(renamed, "/elsewhere", /*read_only=*/false);
  EXPECT_EQ(gate->prefix(), renamed);
  EXPECT_EQ(gate->path(), "/elsewhere");
  EXPECT_STATUS(absl::StatusCode::kUnavailable, gate->OutOfReach(), "/elsewhere");
}

TEST_F(PrefixGateTest, WhereTheFirstCouldOnlyLookOneThatMayWriteTakesItsPlace) {
  const auto write = MakePrefix();
  auto opened = Prefix::OpenReadOnly(by_hand_.prefix_disk, kPath);
  ASSERT_OK(opened.status());
  const std::shared_ptr<Prefix> look = *std::move(opened);
  const auto gate = MakeGate(write->run());
  gate->Reached(look, kPath, /*read_only=*/true);
  EXPECT_EQ(gate->prefix(), look);
  EXPECT_TRUE(gate->usable());
  EXPECT_FALSE(gate->writable());
  gate->Reached(write, kPath, /*read_only=*/false);
  EXPECT_EQ(gate->prefix(), write);
  EXPECT_TRUE(gate->writable());
}

TEST_F(PrefixGateTest, WhatIsInReachStaysTheOne) {
  const auto first = MakePrefix(), second = MakePrefix();
  const auto gate = MakeGate(first->run());
  gate->Reached(first, kPath, /*read_only=*/false);
  gate->Reached(second, kPath, /*read_only=*/true);
  EXPECT_EQ(gate->prefix(), first);
  EXPECT_TRUE(gate->writable());
  gate->Reached(second, kPath, /*read_only=*/false);
  EXPECT_EQ(gate->prefix(), first);
  EXPECT_EQ(reached_, 0) << "no visit has reached it";
}

// --- Does the run live there? ---

TEST_F(PrefixGateTest, APrefixThatWasMadeAnewIsToldOnceAndNotUsedAnyMore) {
  const auto prefix = MakePrefix();
  const auto gate = MakeGate(prefix->run());
  gate->Reached(prefix, kPath, /*read_only=*/false);
  const RunId other = RunId::Random();
  gate->Replaced(other);
  gate->Replaced(other);
  EXPECT_EQ(replaced_, 1);
  EXPECT_TRUE(gate->replaced());
  EXPECT_FALSE(gate->usable());
  ASSERT_EQ(by_hand_.context.warnings->all().size(), 1u);
  EXPECT_NE(by_hand_.context.warnings->all().front().find(other.Hex()), std::string::npos);
  gate->LivesHere();
  EXPECT_FALSE(gate->replaced());
  EXPECT_TRUE(gate->usable());
}

// --- Visits ---

class VisitTest : public PrefixGateTest {
 protected:
  // What a pool does, and then the strand.
  PrefixGate::Visited Visit(PrefixGate& gate, absl::Status answer = absl::OkStatus()) {
    const PrefixGate::Visitor visitor = gate.MakeVisitor();
    const PrefixGate::Visited visited = visitor([&](Prefix& prefix) {
      visited_.push_back(prefix.run());
      return answer;
    });
    gate.VisitEnded(visited);
    return visited;
  }

  // The run of a prefix that someone makes where another was.
  RunId MakeAnew() {
    EXPECT_OK(RemoveTree(by_hand_.prefix_disk, kPath));
    return MakePrefix()->run();
  }

  std::vector<RunId> visited_;
};

TEST_F(VisitTest, AStepRunsAtThePrefixThatIsKnown) {
  const auto prefix = MakePrefix();
  const auto gate = MakeGate(prefix->run());
  gate->Reached(prefix, kPath, /*read_only=*/false);
  EXPECT_OK(Visit(*gate).status);
  EXPECT_EQ(visited_, std::vector{prefix->run()});
  EXPECT_EQ(reached_, 0) << "it was reached before";
  EXPECT_STATUS(absl::StatusCode::kDataLoss, Visit(*gate, DataLoss("what the step answers")).status, "the step");
}

TEST_F(VisitTest, AnUnknownPrefixIsReachedByTheFirstVisit) {
  const RunId run = MakePrefix()->run();
  const auto gate = MakeGate(run);
  EXPECT_OK(Visit(*gate).status);
  EXPECT_EQ(visited_, std::vector{run});
  EXPECT_NE(gate->prefix(), nullptr);
  EXPECT_TRUE(gate->writable());
  EXPECT_EQ(reached_, 1);
  EXPECT_OK(Visit(*gate).status);
  EXPECT_EQ(reached_, 1);
}

TEST_F(VisitTest, AStepThatFailsHasReachedThePrefixAllTheSame) {
  const auto gate = MakeGate(MakePrefix()->run());
  EXPECT_STATUS(absl::StatusCode::kUnavailable, Visit(*gate, Unavailable("not now")).status, "not now");
  EXPECT_TRUE(gate->usable());
  EXPECT_EQ(reached_, 1);
}

TEST_F(VisitTest, AVisitNeverMakesAPrefix) {
  const auto gate = MakeGate(RunId::Random());
  EXPECT_STATUS(absl::StatusCode::kNotFound, Visit(*gate).status, "");
  EXPECT_TRUE(visited_.empty());
  EXPECT_EQ(gate->prefix(), nullptr);
  EXPECT_FALSE(gate->replaced());
  EXPECT_STATUS(absl::StatusCode::kNotFound, by_hand_.prefix_disk.Info(kPath), "");
}

TEST_F(VisitTest, AnUnknownPrefixOfAnotherRunIsNotTouched) {
  const RunId other = MakePrefix()->run();
  const auto gate = MakeGate(RunId::Random());
  const PrefixGate::Visited visited = Visit(*gate);
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, visited.status, other.Hex());
  EXPECT_EQ(visited.other, other);
  EXPECT_TRUE(visited_.empty());
  EXPECT_TRUE(gate->replaced());
  EXPECT_EQ(replaced_, 1);
  EXPECT_EQ(gate->prefix(), nullptr);
  EXPECT_EQ(reached_, 0);
}

TEST_F(VisitTest, AKnownPrefixThatWasMadeAnewIsSeenBeforeTheStep) {
  const auto prefix = MakePrefix();
  const auto gate = MakeGate(prefix->run());
  gate->Reached(prefix, kPath, /*read_only=*/false);
  const RunId other = MakeAnew();
  const PrefixGate::Visited visited = Visit(*gate);
  EXPECT_EQ(visited.other, other);
  EXPECT_TRUE(visited_.empty());
  EXPECT_TRUE(gate->replaced());
  EXPECT_FALSE(gate->usable());
}

TEST_F(VisitTest, APrefixThatIsGoneIsNoOtherRuns) {
  const auto prefix = MakePrefix();
  const auto gate = MakeGate(prefix->run());
  gate->Reached(prefix, kPath, /*read_only=*/false);
  ASSERT_OK(RemoveTree(by_hand_.prefix_disk, kPath));
  EXPECT_STATUS(absl::StatusCode::kNotFound, Visit(*gate).status, "");
  EXPECT_TRUE(visited_.empty());
  EXPECT_FALSE(gate->replaced());
}

TEST_F(VisitTest, ADiskThatFailsSaysNothingAboutTheRun) {
  const RunId run = MakePrefix()->run();
  const auto gate = MakeGate(run);
  by_hand_.prefix_disk.FailOn({.times = UINT64_MAX});
  EXPECT_STATUS(absl::StatusCode::kUnavailable, Visit(*gate).status, "injected");
  EXPECT_FALSE(gate->replaced());
  EXPECT_EQ(gate->prefix(), nullptr);
  by_hand_.prefix_disk.ClearFaults();
  EXPECT_OK(Visit(*gate).status);
  EXPECT_EQ(reached_, 1);
}

TEST_F(VisitTest, AVisitorIsOfTheTimeWhenItWasMade) {
  const RunId run = MakePrefix()->run();
  const auto gate = MakeGate(run);
  const PrefixGate::Visitor visitor = gate->MakeVisitor();
  const auto reached = MakePrefix();
  gate->Reached(reached, kPath, /*read_only=*/false);  // meanwhile, by an opening
  const PrefixGate::Visited visited = visitor([](Prefix&) { return absl::OkStatus(); });
  gate->VisitEnded(visited);
  EXPECT_EQ(gate->prefix(), reached) << "the first that reached it stays";
  EXPECT_EQ(reached_, 0);
}

TEST_F(VisitTest, WhatWasReachedAfterItWasSeenToBeReplacedIsNotUsed) {
  const RunId run = MakePrefix()->run();
  const auto gate = MakeGate(run);
  const PrefixGate::Visited visited = gate->MakeVisitor()([](Prefix&) { return absl::OkStatus(); });
  ASSERT_OK(visited.status);
  gate->Replaced(RunId::Random());  // as another visit has found meanwhile
  gate->VisitEnded(visited);
  EXPECT_EQ(gate->prefix(), nullptr);
  EXPECT_EQ(reached_, 0);
}

}  // namespace
}  // namespace cairn
