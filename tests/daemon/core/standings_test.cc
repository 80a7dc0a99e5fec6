// What is to become of a dataset: the second table of daemon/core/ledger.h, row by row, and what daemon/core/dataset.h
// derives from it.
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "daemon/core/ledger.h"
#include "tests/daemon/core/places_fixture.h"

namespace cairn {
namespace {

using enum Place;

constexpr Standing kStandings[] = {Standing::kCurrent,  Standing::kDoubted, Standing::kSuperseded, Standing::kGaveWay,
                                   Standing::kTakenOut, Standing::kIdTaken, Standing::kHistory};

using StandingsTest = PlacesTest;

TEST_F(StandingsTest, TheStandingSaysWhetherItIsFlushedAndWhetherItIsChosen) {
  struct Expected {
    Standing standing;
    bool flush_dropped, gave_way, dropped, id_taken, superseding;
  };
  const Expected table[] = {
      {Standing::kCurrent, false, false, false, false, true},   {Standing::kDoubted, false, false, false, false, true},
      {Standing::kSuperseded, true, false, false, false, true}, {Standing::kGaveWay, true, true, false, false, true},
      {Standing::kTakenOut, true, true, true, false, false},    {Standing::kIdTaken, false, true, false, true, true},
      {Standing::kHistory, false, true, true, true, false},
  };
  for (const Expected& row : table) {
    Dataset dataset = Described(kId, kWhole, kAbsent, row.standing);
    EXPECT_EQ(dataset.flush_dropped(), row.flush_dropped) << NameOf(row.standing);
    EXPECT_EQ(dataset.gave_way(), row.gave_way) << NameOf(row.standing);
    EXPECT_EQ(dataset.dropped(), row.dropped) << NameOf(row.standing);
    EXPECT_EQ(dataset.id_taken(), row.id_taken) << NameOf(row.standing);
    EXPECT_EQ(dataset.superseding(), row.superseding) << NameOf(row.standing);
    dataset.foreign = true;
    EXPECT_TRUE(dataset.gave_way()) << "SCR's own is never flushed";
    dataset.outdated = true;
    EXPECT_FALSE(dataset.superseding());
  }
}

// --- The table ---

struct Change {
  std::string event;
  std::function<void(Ledger& ledger, const DatasetPtr& dataset)> happens;
  Place prefix;  // where the event finds it there
  // By the standing before, in the order of kStandings.
  std::vector<Standing> after;
};

std::vector<Change> Changes() {
  using enum Standing;
  const auto on = [](void (Ledger::*event)(const Dataset&)) {
    return [event](Ledger& ledger, const DatasetPtr& dataset) { (ledger.*event)(*dataset); };
  };
  // before:   current      doubted      superseded   gave way   taken out  id taken  history
  const std::vector<Standing> dropped = {kSuperseded, kSuperseded, kSuperseded, kGaveWay,
                                         kTakenOut,   kIdTaken,    kHistory};
  const std::vector<Standing> ordered = {kCurrent, kDoubted, kCurrent, kGaveWay, kTakenOut, kIdTaken, kHistory};
  const std::vector<Standing> gave_way = {kGaveWay, kGaveWay, kGaveWay, kGaveWay, kTakenOut, kIdTaken, kHistory};
  const std::vector<Standing> taken_out = {kTakenOut, kTakenOut, kTakenOut, kTakenOut, kTakenOut, kHistory, kHistory};
  const std::vector<Standing> seen = {kCurrent, kCurrent, kSuperseded, kGaveWay, kTakenOut, kGaveWay, kTakenOut};
  const std::vector<Standing> back = {kCurrent, kCurrent, kCurrent, kCurrent, kCurrent, kIdTaken, kHistory};
  return {
      {"FlushDropped", on(&Ledger::FlushDropped), kAbsent, dropped},
      {"FlushCancelled", on(&Ledger::FlushCancelled), kAbsent, dropped},
      {"RemovalBegan", on(&Ledger::RemovalBegan), kWhole, dropped},
      {"FlushOrdered", on(&Ledger::FlushOrdered), kAbsent, ordered},
      {"RemovalFailed", [](Ledger& l, const DatasetPtr& d) { l.RemovalFailed(d); }, kLeaving, ordered},
      {"GaveWay", [](Ledger& l, const DatasetPtr& d) { l.GaveWay(*d, 9, ""); }, kWhole, gave_way},
      {"CameTooLate", on(&Ledger::CameTooLate), kAbsent, gave_way},
      {"TakenOut", on(&Ledger::TakenOut), kAbsent, taken_out},
      {"IdTaken", [](Ledger& l, const DatasetPtr& d) { l.IdTaken(*d, false); }, kWhole,
       std::vector<Standing>(7, kIdTaken)},
      {"IdTakenAndHistory", [](Ledger& l, const DatasetPtr& d) { l.IdTaken(*d, true); }, kWhole,
       std::vector<Standing>(7, kHistory)},
      {"SeenOnPrefix", [](Ledger& l, const DatasetPtr& d) { l.SeenOnPrefix(*d, true); }, kAbsent, seen},
      {"ListedOnPrefix", [](Ledger& l, const DatasetPtr& d) { l.ListedOnPrefix(*d, true); }, kAbsent, seen},
      {"CameBack", on(&Ledger::CameBack), kAbsent, back},
  };
}

TEST_F(StandingsTest, EachEventChangesTheStandingsThatTheTableNamesAndNoOther) {
  for (const Change& change : Changes()) {
    for (std::size_t i = 0; i < std::size(kStandings); ++i) {
      const DatasetPtr dataset = Known(kWhole, change.prefix, kStandings[i]);
      change.happens(ledger_, dataset);
      EXPECT_EQ(NameOf(dataset->standing), NameOf(change.after[i]))
          << change.event << ", from " << NameOf(kStandings[i]);
    }
  }
}

TEST_F(StandingsTest, NoOtherEventChangesTheStanding) {
  for (const Standing standing : kStandings) {
    const DatasetPtr dataset = Known(kWhole, kAbsent, standing);
    ledger_.FlushAsked(*dataset);
    ledger_.SetPinned(*dataset, true);
    ledger_.FlushBegan(*dataset);
    ledger_.FlushEnded(*dataset);
    ledger_.Committed(*dataset);
    ledger_.LeftCache(*dataset, "");
    ledger_.RefetchBegan(*dataset);
    ledger_.RefetchFailed(*dataset);
    ledger_.FoundInCache(*dataset);
    ledger_.PrefixDamaged(*dataset);
    EXPECT_EQ(NameOf(dataset->standing), NameOf(standing));
    EXPECT_TRUE(dataset->pinned);
  }
}

TEST_F(StandingsTest, WhoseDatasetItIsFollowsTheIndex) {
  const DatasetPtr dataset = Known(kWhole, kAbsent);
  ledger_.ListedOnPrefix(*dataset, /*by_cairn=*/false);
  EXPECT_TRUE(dataset->foreign);
  EXPECT_EQ(dataset->prefix, kAbsent) << "nothing there can be used";
  ledger_.SeenOnPrefix(*dataset, /*by_cairn=*/true);
  EXPECT_FALSE(dataset->foreign);
  EXPECT_EQ(dataset->prefix, kWhole);
  ledger_.SeenOnPrefix(*dataset, /*by_cairn=*/false);
  ledger_.IdTaken(*dataset, /*history=*/false);
  EXPECT_FALSE(dataset->foreign) << "the foreign one there is another dataset";
  EXPECT_EQ(dataset->prefix, kAbsent);
}

TEST_F(StandingsTest, WhatCameBackIsWholeOnThePrefix) {
  const DatasetPtr dataset = Known(kWhole, kAbsent, Standing::kTakenOut);
  ledger_.CameBack(*dataset);
  EXPECT_EQ(dataset->prefix, kWhole);
  EXPECT_TRUE(dataset->superseding());
}

TEST_F(StandingsTest, ALookAtTheIndexThatIsOlderThanARemovalChangesNothing) {
  const DatasetPtr dataset = Known(kWhole, kLeaving, Standing::kTakenOut);
  ledger_.CameBack(*dataset);
  EXPECT_EQ(dataset->standing, Standing::kTakenOut);
  ledger_.Removed(*dataset);
  EXPECT_EQ(dataset->prefix, kAbsent);
}

TEST_F(StandingsTest, NobodyAsksForAFlushThatWasCancelledOrCameTooLate) {
  const DatasetPtr dataset = Known(kWhole, kAbsent);
  ledger_.FlushAsked(*dataset);
  EXPECT_TRUE(dataset->asked);
  ledger_.FlushDropped(*dataset);
  EXPECT_TRUE(dataset->asked);
  ledger_.FlushAsked(*dataset);
  EXPECT_EQ(dataset->standing, Standing::kSuperseded) << "no dropped one is taken up again";
  ledger_.FlushCancelled(*dataset);
  EXPECT_FALSE(dataset->asked);
  ledger_.FlushAsked(*dataset);
  ledger_.CameTooLate(*dataset);
  EXPECT_FALSE(dataset->asked);
}

}  // namespace
}  // namespace cairn
