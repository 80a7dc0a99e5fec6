// Which dataset a launch is pinned to, whatever becomes of others (daemon/core/ledger.h).
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "daemon/core/ledger.h"
#include "tests/daemon/core/places_fixture.h"

namespace cairn {
namespace {

using enum Place;

class PinsTest : public PlacesTest {
 protected:
  PinsTest() {
    for (const DatasetId id : {1, 2, 3}) {
      Dataset dataset = Described(id, kWhole, kAbsent);
      dataset.launch = kLaunch;
      ledger_.Adopt(dataset);
    }
    ledger_.SessionLive(launch_, 0);
  }
  Launch::Pin::State State() const { return launch_.pin.state; }

  const Launch& launch_ = ledger_.Enter(2, "another", 1, "secret");
};

TEST_F(PinsTest, TheFirstQuestionPinsTheNewestAndLaterOnesDoNotMoveIt) {
  EXPECT_EQ(State(), Launch::Pin::State::kNone);
  EXPECT_EQ(ledger_.PinLatest(launch_)->id, 3u);
  ledger_.Adopt(Described(4, kWhole, kAbsent));
  EXPECT_EQ(ledger_.PinLatest(launch_)->id, 3u);
  EXPECT_TRUE(ledger_.PinnedByLaunch(3));
  EXPECT_FALSE(ledger_.PinnedByLaunch(4));
}

TEST_F(PinsTest, ThatThereIsNothingIsPinnedToo) {
  for (const DatasetId id : {1, 2, 3}) ledger_.CacheDamaged(*ledger_.Get(id), "");
  EXPECT_EQ(ledger_.PinLatest(launch_), nullptr);
  EXPECT_EQ(State(), Launch::Pin::State::kSet);
  ledger_.Adopt(Described(4, kWhole, kAbsent));
  EXPECT_EQ(ledger_.PinLatest(launch_), nullptr);
}

TEST_F(PinsTest, WhenThePinnedOneCannotBeRestoredAnyMoreThePinMovesToTheNextOlder) {
  EXPECT_EQ(ledger_.PinLatest(launch_)->id, 3u);
  ledger_.CacheDamaged(*ledger_.Get(3), "");
  EXPECT_EQ(ledger_.PinLatest(launch_)->id, 2u);
  EXPECT_TRUE(ledger_.PinnedByLaunch(2));
  ledger_.LeftCache(*ledger_.Get(2), "");
  EXPECT_EQ(ledger_.PinLatest(launch_)->id, 1u);
}

TEST_F(PinsTest, WhatTheLaunchPassesOverIsNotChosenAndItsPinMoves) {
  EXPECT_EQ(ledger_.PinLatest(launch_)->id, 3u);
  EXPECT_FALSE(ledger_.PassOver(launch_.id, 1));
  EXPECT_EQ(launch_.pin.dataset, 3u) << "it concerns another one";
  EXPECT_FALSE(ledger_.PassOver(launch_.id, 3)) << "nothing lacks parts";
  EXPECT_EQ(launch_.pin.dataset, 2u);
  ledger_.PassOver(launch_.id, 2);
  EXPECT_EQ(launch_.pin.dataset, 0u) << "1 was passed over before";
  EXPECT_EQ(ledger_.PinLatest(launch_), nullptr);
  EXPECT_EQ(ledger_.NewestRestorable()->id, 3u) << "other launches may still choose it";
}

// It has gone on, and its ranks ask once more.
TEST_F(PinsTest, WhatTheLaunchPassesOverAfterItHasBegunADatasetIsNotChosenEither) {
  EXPECT_EQ(ledger_.PinLatest(launch_)->id, 3u);
  ledger_.Create(launch_, 7, {.step = 7});
  EXPECT_EQ(State(), Launch::Pin::State::kEnded);
  EXPECT_EQ(ledger_.PinLatest(launch_)->id, 3u);
  ledger_.PassOver(launch_.id, 3);
  EXPECT_EQ(ledger_.PinLatest(launch_)->id, 2u);
  EXPECT_FALSE(ledger_.PinnedByLaunch(2)) << "it has ended";
}

// What is lost of an older one may be made anew before the ranks ask again.
class PartsLostTest : public PinsTest {
 protected:
  PartsLostTest() {
    Dataset dataset = Described(4, kWhole, kAbsent);
    catalogue::Catalogue rank0;
    rank0.set_rank(0);
    PutPartsHere(dataset, 2, {rank0});
    lacking_ = ledger_.Adopt(dataset);
    kept::Set set;
    for (const Rank rank : {0, 1}) set.add_ranks(rank);
    ledger_.Keeps(*lacking_, 0, std::make_shared<const kept::Set>(set));
    ledger_.Adopt(Described(5, kWhole, kAbsent));
    EXPECT_EQ(ledger_.PinLatest(launch_)->id, 5u);
    EXPECT_TRUE(ledger_.PassOver(launch_.id, 5));
    EXPECT_TRUE(launch_.pin_passed_over());
  }
  DatasetPtr lacking_;
};

TEST_F(PartsLostTest, ThePinMovesToItIfItsPartsHaveCome) {
  catalogue::Catalogue rank1;
  rank1.set_rank(1);
  ledger_.PartFound(*lacking_, 1, "there", rank1);
  EXPECT_EQ(ledger_.PinLatest(launch_)->id, 4u);
  EXPECT_FALSE(launch_.pin_passed_over());
}

// All ranks say so, one after the other.
TEST_F(PartsLostTest, TheyAreLookedForOnce) {
  EXPECT_FALSE(ledger_.PassOver(launch_.id, 5));
  EXPECT_TRUE(launch_.pin_passed_over()) << "the next question moves it";
}

TEST_F(PartsLostTest, ElseItMovesPastIt) {
  EXPECT_EQ(ledger_.PinLatest(launch_)->id, 3u);
  EXPECT_FALSE(launch_.pin_passed_over());
}

TEST_F(PartsLostTest, AlsoAfterTheLaunchHasBegunADataset) {
  ledger_.Create(launch_, 7, {.step = 7});
  EXPECT_EQ(State(), Launch::Pin::State::kEnded);
  EXPECT_EQ(ledger_.PinLatest(launch_)->id, 3u);
}

TEST_F(PinsTest, ALaunchThatIsOverOrFencedPinsNothing) {
  ledger_.PinLatest(launch_);
  ledger_.Enter(3, "newer", 1, "secret");
  EXPECT_FALSE(ledger_.PinnedByLaunch(3)) << "fenced";
  ledger_.SessionLive(*ledger_.Find(3), 0);
  ledger_.PinLatest(*ledger_.Find(3));
  EXPECT_TRUE(ledger_.PinnedByLaunch(3));
  ledger_.SessionEnded(*ledger_.Find(3), 0, /*closed=*/true);
  EXPECT_FALSE(ledger_.PinnedByLaunch(3)) << "over";
}

TEST_F(PinsTest, TheLatestIsSettlingWhileAnEarlierLaunchsBytesAreOnTheirWay) {
  const DatasetPtr dataset = Create();
  ASSERT_EQ(dataset->launch, kLaunch);
  EXPECT_FALSE(ledger_.LatestIsSettling(launch_)) << "not captured";
  for (Rank rank : {0, 1}) ledger_.Captured(*dataset, rank);
  EXPECT_TRUE(ledger_.LatestIsSettling(launch_));
  EXPECT_FALSE(ledger_.LatestIsSettling(*ledger_.Find(kLaunch))) << "its own are not waited for";
  for (Rank rank : {0, 1}) ledger_.Stored(*dataset, rank, {});
  EXPECT_TRUE(ledger_.LatestIsSettling(launch_));
  ledger_.Completed(*dataset);
  EXPECT_FALSE(ledger_.LatestIsSettling(launch_));
}

TEST_F(PinsTest, APinnedLaunchWaitsForNothing) {
  ledger_.PinLatest(launch_);
  const DatasetPtr dataset = Create();
  for (Rank rank : {0, 1}) ledger_.Captured(*dataset, rank);
  EXPECT_FALSE(ledger_.LatestIsSettling(launch_));
}

}  // namespace
}  // namespace cairn
