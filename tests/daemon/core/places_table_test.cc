// Which event leads from which place to which: the first table of daemon/core/ledger.h, row by row.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "daemon/core/ledger.h"
#include "tests/daemon/core/places_fixture.h"

namespace cairn {
namespace {

using enum Place;

enum class Where { kCache, kPrefix };
struct Row {
  std::string event;
  Where tier;
  std::vector<Place> from;
  Place to;
  std::function<void(Ledger& ledger, const DatasetPtr& dataset)> happens;
  // An event that comes in another place ends the daemon; such a one leaves the place as it is.
  bool else_stays = false;
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.event;
}

const std::vector<Row>& Rows() {
  static const std::vector<Row> kRows = {
      {"Completed", Where::kCache, {kArriving}, kWhole, [](Ledger& l, const DatasetPtr& d) { l.Completed(*d); }},
      {"LeftCache", Where::kCache, {kWhole}, kLeaving, [](Ledger& l, const DatasetPtr& d) { l.LeftCache(*d, "room"); }},
      {"FolderGone",
       Where::kCache,
       {kLeaving},
       kAbsent,
       [](Ledger& l, const DatasetPtr& d) { l.FolderGone(d->id); },
       /*else_stays=*/true},
      {"CacheDamaged",
       Where::kCache,
       {kWhole},
       kDamaged,
       [](Ledger& l, const DatasetPtr& d) { l.CacheDamaged(*d, "a bit has flipped"); }},
      {"RefetchBegan",
       Where::kCache,
       {kAbsent, kWhole, kLeaving, kDamaged},
       kArriving,
       [](Ledger& l, const DatasetPtr& d) { l.RefetchBegan(*d); }},
      {"Refetched", Where::kCache, {kArriving}, kWhole, [](Ledger& l, const DatasetPtr& d) { l.Refetched(*d); }},
      {"RefetchFailed",
       Where::kCache,
       {kArriving},
       kAbsent,
       [](Ledger& l, const DatasetPtr& d) { l.RefetchFailed(*d); }},
      {"FlushBegan",
       Where::kPrefix,
       {kAbsent, kDamaged},
       kArriving,
       [](Ledger& l, const DatasetPtr& d) { l.FlushBegan(*d); }},
      {"FlushEnded",
       Where::kPrefix,
       {kArriving},
       kAbsent,
       [](Ledger& l, const DatasetPtr& d) { l.FlushEnded(*d); },
       /*else_stays=*/true},
      {"Committed",
       Where::kPrefix,
       {kAbsent, kArriving, kWhole, kDamaged},
       kWhole,
       [](Ledger& l, const DatasetPtr& d) { l.Committed(*d); }},
      {"SeenOnPrefix",
       Where::kPrefix,
       {kAbsent, kArriving, kWhole, kDamaged},
       kWhole,
       [](Ledger& l, const DatasetPtr& d) { l.SeenOnPrefix(*d, /*by_cairn=*/true); },
       /*else_stays=*/true},
      {"CameBack",
       Where::kPrefix,
       {kAbsent, kArriving, kWhole, kDamaged},
       kWhole,
       [](Ledger& l, const DatasetPtr& d) { l.CameBack(*d); },
       /*else_stays=*/true},
      {"NotOnPrefix",
       Where::kPrefix,
       {kWhole},
       kAbsent,
       [](Ledger& l, const DatasetPtr& d) { l.NotOnPrefix(*d); },
       /*else_stays=*/true},
      {"GaveWay",
       Where::kPrefix,
       {kWhole},
       kAbsent,
       [](Ledger& l, const DatasetPtr& d) { l.GaveWay(*d, 9, "its names"); },
       /*else_stays=*/true},
      {"RemovalBegan", Where::kPrefix, {kWhole}, kLeaving, [](Ledger& l, const DatasetPtr& d) { l.RemovalBegan(*d); }},
      {"Removed", Where::kPrefix, {kLeaving}, kAbsent, [](Ledger& l, const DatasetPtr& d) { l.Removed(*d); }},
      {"RemovalFailed", Where::kPrefix, {kLeaving}, kWhole, [](Ledger& l, const DatasetPtr& d) { l.RemovalFailed(d); }},
      {"PrefixDamaged",
       Where::kPrefix,
       {kWhole},
       kDamaged,
       [](Ledger& l, const DatasetPtr& d) { l.PrefixDamaged(*d); }},
  };
  return kRows;
}

class RowTest : public PlacesTest, public ::testing::WithParamInterface<Row> {
 protected:
  const Row& row() const { return GetParam(); }
  bool Allows(Place from) const { return std::find(row().from.begin(), row().from.end(), from) != row().from.end(); }
  // In `place` of the row's tier, and whole in the other, which the event does not concern.
  DatasetPtr In(Place place) { return row().tier == Where::kCache ? Known(place, kWhole) : Known(kWhole, place); }
  Place PlaceOf(const Dataset& dataset) const { return row().tier == Where::kCache ? dataset.cache : dataset.prefix; }
  Place Other(const Dataset& dataset) const { return row().tier == Where::kCache ? dataset.prefix : dataset.cache; }
};

TEST_P(RowTest, TheEventLeadsWhereTheTableSaysAndTheOtherTierStays) {
  for (const Place from : row().from) {
    const DatasetPtr dataset = In(from);
    row().happens(ledger_, dataset);
    EXPECT_EQ(PlaceOf(*dataset), row().to) << "from " << NameOf(from);
    EXPECT_EQ(Other(*dataset), kWhole) << "from " << NameOf(from);
    EXPECT_TRUE(ledger_.Has(dataset)) << "from " << NameOf(from);
  }
}

TEST_P(RowTest, InAnyOtherPlaceItIsOurBugUnlessTheHeaderSaysThatItMayCome) {
  for (const Place from : kPlaces) {
    if (Allows(from)) continue;
    const DatasetPtr dataset = In(from);
    if (row().else_stays) {
      row().happens(ledger_, dataset);
      EXPECT_EQ(PlaceOf(*dataset), from);
    } else {
      EXPECT_DEATH(row().happens(ledger_, dataset), kOutOfPlace) << NameOf(from);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, RowTest, ::testing::ValuesIn(Rows()), [](const auto& row) { return row.param.event; });

}  // namespace
}  // namespace cairn
