// Checkpoints that only another node's cache has come into this one: daemon/core/other_caches.h, in a whole run.
// Prefix, caches and network are in memory.
#include "daemon/core/other_caches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/names.h"
#include "tests/daemon/core/other_caches_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST_F(OtherCachesTest, TheNewestComesAndNothingElse) {
  Put(*other_, 4);
  Put(*other_, 5);
  const OtherCaches::Brought brought = BringNow();
  EXPECT_THAT(brought.heard, ElementsAre(kOtherNode));
  EXPECT_THAT(brought.missed, IsEmpty());
  ExpectHere(5);
  EXPECT_EQ(run_->ledger.Get(4), nullptr);
  BringNow();
  EXPECT_EQ(other_->asked, 2);
  EXPECT_EQ(run_->ledger.Get(4), nullptr) << "it is older than what is here by now";
}

TEST_F(OtherCachesTest, WhoIsAloneIsToldSoon) {
  other_->nodes.Leave();
  Pass(std::chrono::seconds(5));
  const OtherCaches::Brought brought = BringNow();
  EXPECT_THAT(brought.heard, IsEmpty());
  EXPECT_THAT(brought.missed, IsEmpty());
}

TEST_F(OtherCachesTest, AllWhoAskMeanwhileHearOfOneEnd) {
  Put(*other_, 5);
  const End one = Bring(), two = Bring();
  Pass(std::chrono::milliseconds(500));
  EXPECT_TRUE(one->has_value() && two->has_value());
  EXPECT_EQ(other_->asked, 1);
  ExpectHere(5);
}

TEST_F(OtherCachesTest, WhatIsJustBecomingWholeThereIsWaitedForButNotForEver) {
  other_->settles = 3;
  const End end = Bring();
  Pass(std::chrono::milliseconds(400));
  EXPECT_FALSE(end->has_value());
  Put(*other_, 5);
  Pass(std::chrono::seconds(2));
  ASSERT_TRUE(end->has_value());
  ExpectHere(5);
  other_->settles = 1 << 30;
  const End later = Bring();
  Pass(std::chrono::seconds(9));
  EXPECT_FALSE(later->has_value());
  Pass(std::chrono::seconds(2));
  EXPECT_TRUE(later->has_value());
}

TEST_F(OtherCachesTest, WhoHasSomethingThatDoesNotBecomeWholeHasNotBeenHeard) {
  Put(*other_, 5);
  other_->settles = 1 << 30;
  const End end = Bring();
  Pass(std::chrono::seconds(12));
  ASSERT_TRUE(end->has_value());
  EXPECT_THAT((*end)->heard, IsEmpty()) << "its launch is to be waited for";
  ExpectHere(5);
}

TEST_F(OtherCachesTest, WhoeverWasNotHeardIsNamed) {
  EXPECT_THAT(BringNow().unheard, IsEmpty());
  other_->settles = 1 << 30;
  const End settles = Bring();
  Pass(std::chrono::seconds(12));
  ASSERT_TRUE(settles->has_value());
  EXPECT_THAT((*settles)->unheard, ElementsAre(Pair(kOtherNode, "n2 (10.0.0.2:17600)")))
      << "it may have a newer one soon";
  network_.Block("10.0.0.1:17600", "10.0.0.2:17600");
  const End silent = Bring();
  Pass(std::chrono::seconds(3));
  ASSERT_TRUE(silent->has_value());
  EXPECT_THAT((*silent)->unheard, ElementsAre(Pair(kOtherNode, "n2 (10.0.0.2:17600)")));
  EXPECT_FALSE((*silent)->all_answered);
  Pass(std::chrono::seconds(15));
  const End missing = Bring();
  Pass(std::chrono::seconds(3));
  ASSERT_TRUE(missing->has_value());
  EXPECT_THAT((*missing)->unheard, ElementsAre(Pair(kOtherNode, "n2 (10.0.0.2:17600)")));
  EXPECT_TRUE((*missing)->all_answered) << "no look goes on for the sake of a node that is missing";
}

TEST_F(OtherCachesTest, OfManyWhoWereNotHeardAMessageNamesTheFirstAndCountsTheOthers) {
  OtherCaches::Brought brought;
  for (char c = 'a'; c < 'i'; ++c) brought.unheard[std::string(32, c)] = std::string("n") + c;
  EXPECT_EQ(brought.NamesOfUnheard().size(), 8u);
  for (char c = 'i'; c < 'l'; ++c) brought.unheard[std::string(32, c)] = std::string("n") + c;
  EXPECT_EQ(brought.NamesOfUnheard().size(), 9u);
  EXPECT_EQ(brought.NamesOfUnheard().back(), "3 others");
}

TEST_F(OtherCachesTest, ALookThatEndsBeforeAllWereHeardSaysSo) {
  other_->settles = 1 << 30;  // of the launch that goes on: nobody waits for that here
  run_->others.LookForParts(launch_);
  Pass(std::chrono::seconds(4));
  EXPECT_FALSE(run_->others.looking());
  EXPECT_FALSE(Warned("before all was heard"));
  network_.Block("10.0.0.1:17600", "10.0.0.2:17600");
  run_->others.LookAgain(launch_);
  Pass(std::chrono::seconds(13));
  EXPECT_FALSE(run_->others.looking());
  EXPECT_TRUE(Warned("before all was heard of what other nodes' caches have (n2 (10.0.0.2:17600))"));
}

// It waits for its turn to ask, and not for ever: the bytes may take long.
TEST_F(OtherCachesTest, WhatIsBroughtForSomebodyElseDoesNotProlongALook) {
  Put(*other_, 5);
  const auto pass_without_bytes = [this](std::chrono::milliseconds time) {
    for (; time.count() > 0; time -= std::chrono::milliseconds(100)) {
      while (by_hand_.strand.Step() || by_hand_.cache.Step() || by_hand_.prefix.Step()) {
      }
      by_hand_.Turn(std::chrono::milliseconds(100));
    }
  };
  const End end = Bring();
  pass_without_bytes(std::chrono::seconds(1));
  EXPECT_EQ(other_->asked, 1);
  run_->others.LookForParts(launch_);
  pass_without_bytes(std::chrono::milliseconds(9'900));
  EXPECT_TRUE(run_->others.looking());
  pass_without_bytes(std::chrono::milliseconds(300));
  EXPECT_FALSE(run_->others.looking());
  EXPECT_TRUE(Warned("before all was heard of what other nodes' caches have (nobody was asked in time)"));
  EXPECT_FALSE(end->has_value());
  EXPECT_EQ(other_->asked, 1);
  Pass(std::chrono::seconds(1));
  EXPECT_TRUE(end->has_value());
  ExpectHere(5);
}

TEST_F(OtherCachesTest, ADamagedCopyIsNotTaken) {
  Put(*other_, 5);
  other_->files->FlipBit(FileOf(5), 8 * 2'500'000);
  EXPECT_THAT(BringNow().missed, ElementsAre(5));
  ExpectNotHere(5);
  EXPECT_TRUE(
      Warned("dataset 5 (step 50) in the cache of n2 (10.0.0.2:17600): could not be brought here: its copy is "
             "bad"));
}

// One of these nodes is asked first, whichever that is.
TEST_F(OtherCachesTest, WhatTheOtherNodeDoesNotGiveTheThirdDoes) {
  Put(*other_, 5);
  other_->files->FlipBit(FileOf(5), 8 * 2'500'000);
  third_ = Start(kThirdNode, 3);
  Put(*third_, 5);
  const OtherCaches::Brought brought = BringNow();
  EXPECT_THAT(brought.missed, IsEmpty());
  EXPECT_THAT(brought.heard, ElementsAre(kOtherNode, kThirdNode));
  ExpectHere(5);
}

TEST_F(OtherCachesTest, WhatTheThirdNodeDoesNotGiveTheOtherDoes) {
  Put(*other_, 5);
  third_ = Start(kThirdNode, 3);
  Put(*third_, 5);
  third_->files->FlipBit(FileOf(5), 8 * 2'500'000);
  EXPECT_THAT(BringNow().missed, IsEmpty());
  ExpectHere(5);
}

TEST_F(OtherCachesTest, AnOlderOneComesIfTheNewestDoesNot) {
  Put(*other_, 4);
  Put(*other_, 5);
  ASSERT_OK(other_->files->Remove(FileOf(5)));
  EXPECT_THAT(BringNow().missed, ElementsAre(5));
  ExpectHere(4);
  EXPECT_EQ(run_->ledger.Get(5), nullptr);
}

TEST_F(OtherCachesTest, ANodeThatBreaksOffLeavesNothing) {
  Put(*other_, 5);
  other_->files->FailOn({.op = FakeOp::kRead, .path_part = "state.bin", .nth = 1, .times = 1000});
  EXPECT_THAT(BringNow().missed, ElementsAre(5));
  ExpectNotHere(5);
  other_->files->ClearFaults();
  EXPECT_THAT(BringNow().missed, IsEmpty());
  ExpectHere(5);
}

TEST_F(OtherCachesTest, WithoutRoomItDoesNotComeAndNothingWholeGoes) {
  Put(*other_, 4);
  BringNow();
  room_.SetBytesMax(kFileBytes + 1'000'000);
  Put(*other_, 5);
  EXPECT_THAT(BringNow().missed, ElementsAre(5));
  EXPECT_TRUE(Warned("could not be brought here: the cache"));
  ExpectHere(4);
}

TEST_F(OtherCachesTest, OfAnotherDirectorysLaunchNothingComes) {
  Put(*other_, 5)->set_mark(std::string(32, 'e'));
  EXPECT_THAT(BringNow().missed, IsEmpty());
  ExpectNotHere(5);
  Put(*other_, 6)->set_launch(launch_ + 1);
  EXPECT_THAT(BringNow().missed, ElementsAre(6)) << "its catalogue is of another launch";
  ExpectNotHere(6);
}

TEST_F(OtherCachesTest, WhatTellsNoLaunchIsMissed) {
  Put(*other_, 5)->set_mark("");
  EXPECT_THAT(BringNow().missed, ElementsAre(5)) << "its flush is waited for";
  ExpectNotHere(5);
}

TEST_F(OtherCachesTest, WhatAnApplicationHasRejectedComesFromNobody) {
  Put(*other_, 4);
  Put(*other_, 5);
  third_ = Start(kThirdNode, 3);
  third_->holdings.add_rejected(5);
  EXPECT_THAT(BringNow().missed, IsEmpty());
  ExpectHere(4);
  EXPECT_EQ(run_->ledger.Get(5), nullptr);
}

TEST_F(OtherCachesTest, OutputsStayWhereTheyAre) {
  peer::Holding* output = Put(*other_, 5);
  output->set_checkpoint(false);
  output->set_output(true);
  EXPECT_THAT(BringNow().missed, IsEmpty());
  ExpectNotHere(5);
}

TEST_F(OtherCachesTest, WhatAnApplicationHasRejectedElsewhereIsNotChosenHereEither) {
  Put(*other_, 5);
  BringNow();
  ExpectHere(5);
  other_->holdings.clear_datasets();
  other_->holdings.add_rejected(5);
  BringNow();
  EXPECT_TRUE(run_->ledger.Get(5)->dropped());
  EXPECT_EQ(run_->ledger.NewestRestorable(), nullptr);
  EXPECT_TRUE(run_->record.rejected().contains(5));
}

TEST_F(OtherCachesTest, WhatANodeSaysIsNotBelieved) {
  Put(*other_, 5)->set_nranks(CAIRN_RANKS_MAX);
  Put(*other_, 6)->set_step(7);
  Put(*other_, 7)->set_files(false);
  EXPECT_THAT(BringNow().missed, ElementsAre(5, 6, 7)) << "the catalogues say something else";
  for (const DatasetId id : {5, 6, 7}) ExpectNotHere(id);
}

TEST_F(OtherCachesTest, HoweverManyANodeTellsOnlySoManyAreTried) {
  const peer::Holding one = *Put(*other_, 4);
  other_->holdings.clear_datasets();
  for (DatasetId id = 100; id < 5100; ++id) {
    *other_->holdings.add_datasets() = one;
    other_->holdings.mutable_datasets()->rbegin()->set_dataset(id);
  }
  EXPECT_EQ(BringNow().missed.size(), 17u);
  EXPECT_TRUE(Warned("others could not be, either"));
}

// It lies there whole, but was committed too late: no restart chooses it. From a cache that has it, it counts again.
TEST_F(OtherCachesTest, WhatWasFencedOnThePrefixComesFromACacheThatHasIt) {
  Put(*other_, 5);
  Dataset there;
  there.id = 5;
  there.launch = launch_;
  there.mark = mark_;
  there.step = 50;
  there.nranks = 1;
  there.kind.files = true;
  there.created_us = 1'700'000'000'000'005;
  there.prefix = Place::kWhole;
  there.bytes_there = kFileBytes;
  there.ordinal = 5;
  const DatasetPtr fenced = run_->ledger.Adopt(there);
  run_->ledger.Fenced(*fenced, /*there=*/true);
  ASSERT_EQ(run_->ledger.NewestRestorable(), nullptr);
  other_->files->FailOn({.op = FakeOp::kRead, .path_part = "state.bin", .nth = 1, .times = 1000});
  EXPECT_THAT(BringNow().missed, ElementsAre(5));
  EXPECT_EQ(fenced->standing, Standing::kFenced);
  EXPECT_TRUE(fenced->in_prefix());
  other_->files->ClearFaults();
  EXPECT_THAT(BringNow().missed, IsEmpty());
  EXPECT_EQ(run_->ledger.NewestRestorable(), fenced);
  EXPECT_FALSE(fenced->in_prefix()) << "it is to be committed again";
  ExpectHere(5);
}

TEST_F(OtherCachesTest, WhatThisCacheHasGivenUpIsMissed) {
  Put(*other_, 5);
  run_->ledger.Forget(5, {.why = Gone::Why::kSuperseded, .message = "room", .successor = 6, .step = 50});
  EXPECT_THAT(BringNow().missed, ElementsAre(5));
  run_->ledger.Forget(5, {.why = Gone::Why::kRemoved, .message = "was removed", .successor = 0, .step = 50});
  EXPECT_THAT(BringNow().missed, IsEmpty());
}

TEST_F(OtherCachesTest, WhatWasRemovedFromThePrefixDoesNotComeBack) {
  Put(*other_, 5);
  catalogue::Catalogue catalogue;
  const std::string records = std::string(kPath) + "/.scr/" + RecordsFolderName(5);
  ASSERT_OK(MakeDirectories(by_hand_.prefix_disk, records));
  ASSERT_OK(ReplaceFile(by_hand_.prefix_disk, records + "/removed.cairn", ""));
  EXPECT_THAT(BringNow().missed, ElementsAre(5));
  EXPECT_EQ(run_->ledger.Get(5), nullptr);
  EXPECT_TRUE(Warned("it was removed from the prefix"));
}

TEST_F(OtherCachesTest, WhoAsksWhenTheOthersHaveBeenAskedIsAnsweredByAnotherQuestion) {
  const End one = Bring();
  for (int i = 0; i < 1000 && other_->asked == 0; ++i) {
    if (!by_hand_.strand.Step()) by_hand_.Turn(std::chrono::milliseconds(1));
  }
  ASSERT_EQ(other_->asked, 1);
  Put(*other_, 5);  // since then
  const auto two = std::make_shared<std::optional<OtherCaches::Brought>>();
  run_->others.Bring({.launch = launch_ + 1, .maker = ""},
                     [two](const OtherCaches::Brought& brought) { *two = brought; });
  Pass(std::chrono::milliseconds(500));
  ASSERT_TRUE(one->has_value() && two->has_value());
  EXPECT_EQ((*one)->launch, launch_);
  EXPECT_EQ((*two)->launch, launch_ + 1);
  EXPECT_EQ(other_->asked, 2);
  ExpectHere(5);
}

TEST_F(OtherCachesTest, AStopEndsItAtTheNextBlock) {
  Put(*other_, 5);
  const End end = Bring();
  for (int i = 0; i < 10'000 && run_->ledger.Get(5) == nullptr; ++i) {
    if (by_hand_.strand.Step() || by_hand_.prefix.Step() || by_hand_.others.Step()) continue;
    by_hand_.Turn(std::chrono::milliseconds(1));
  }
  ASSERT_NE(run_->ledger.Get(5), nullptr);
  EXPECT_TRUE(run_->AnyCaptured()) << "a stop waits for its end";
  by_hand_.context.phase = Phase::kQuiescing;
  run_->Quiesce();
  by_hand_.RunAll();
  ASSERT_TRUE(end->has_value());
  EXPECT_THAT((*end)->missed, ElementsAre(5));
  ExpectNotHere(5);
  EXPECT_FALSE(run_->AnyCaptured());
}

TEST_F(OtherCachesTest, WhatTheIndexWasSetBackFromDoesNotCome) {
  Put(*other_, 5);
  // Someone has set CURRENT back to a dataset before it.
  PrefixLook look;
  look.found.bound = 3;
  run_->inventory.AdoptPrefix(look);
  ASSERT_EQ(run_->inventory.bound(), 3u);
  EXPECT_THAT(BringNow().missed, IsEmpty());
  ExpectNotHere(5);
}

}  // namespace
}  // namespace cairn
