// Where a dataset is and what is to become of it: the two tables of daemon/core/ledger.h, row by row, and what
// daemon/core/dataset.h derives from them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/ledger.h"

namespace cairn {
namespace {

using enum Place;

constexpr Place kPlaces[] = {kAbsent, kArriving, kWhole, kLeaving, kDamaged};
constexpr Standing kStandings[] = {Standing::kCurrent,  Standing::kDoubted, Standing::kSuperseded, Standing::kGaveWay,
                                   Standing::kTakenOut, Standing::kIdTaken, Standing::kHistory};

constexpr char kOutOfPlace[] = "check failed: .*from.*place";
constexpr LaunchId kLaunch = 1;
constexpr DatasetId kId = 5;

class PlacesTest : public ::testing::Test {
 protected:
  // Of two ranks, described, in such places. REQUIRES: one of them is kWhole.
  DatasetPtr Known(Place cache, Place prefix, Standing standing = Standing::kCurrent) {
    return ledger_.Adopt(Described(kId, cache, prefix, standing));
  }

  static Dataset Described(DatasetId id, Place cache, Place prefix, Standing standing = Standing::kCurrent) {
    Dataset dataset;
    dataset.id = id;
    dataset.launch = kLaunch;
    dataset.step = 10 * id;
    dataset.nranks = 2;
    dataset.parts.resize(2);
    for (Part& part : dataset.parts) {
      part.state = Part::State::kStored;
      part.catalogue.add_file()->set_bytes(part.bytes = 100);
    }
    dataset.cache = cache;
    dataset.prefix = prefix;
    dataset.standing = standing;
    return dataset;
  }

  // Made by a launch of two ranks.
  DatasetPtr Create(Dataset::Kind kind = {}, DatasetId id = kId) {
    const Launch& launch = ledger_.Enter(kLaunch, "key", 2, "secret");
    for (Rank rank : {0, 1}) ledger_.SessionLive(launch, rank);
    const Ledger::BeginSpec spec{.step = 10 * kId, .kind = kind, .bytes = 10};
    const DatasetPtr dataset = ledger_.Create(launch, id, spec);
    for (Rank rank : {0, 1}) EXPECT_TRUE(ledger_.Begin(launch, dataset, rank, spec, {}).ok());
    return dataset;
  }
  void Store(const Dataset& dataset) {
    for (Rank rank : {0, 1}) {
      ledger_.Captured(dataset, rank);
      ledger_.Stored(dataset, rank, {});
    }
  }

  std::vector<DatasetId> failed_;
  Ledger ledger_{[this](const DatasetPtr& dataset, const std::string& /*why*/) { failed_.push_back(dataset->id); }};
};

// --- The first table ---

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

// --- Its making ---

TEST_F(PlacesTest, WhatIsCreatedArrivesInTheCacheAndIsWholeThereWhenAllOfItIsStored) {
  const DatasetPtr dataset = Create();
  EXPECT_EQ(dataset->cache, kArriving);
  EXPECT_EQ(dataset->prefix, kAbsent);
  Store(*dataset);
  ledger_.Completed(*dataset);
  EXPECT_EQ(dataset->cache, kWhole);
  EXPECT_EQ(dataset->prefix, kAbsent);
  EXPECT_TRUE(dataset->described());
}

TEST_F(PlacesTest, PastTheCacheItArrivesOnThePrefixAndItsCataloguesStayThere) {
  const DatasetPtr dataset = Create({.past_cache = true});
  EXPECT_EQ(dataset->cache, kAbsent);
  EXPECT_EQ(dataset->prefix, kArriving);
  ledger_.FlushAsked(*dataset);
  Store(*dataset);
  ledger_.Completed(*dataset);
  EXPECT_EQ(dataset->cache, kAbsent);
  EXPECT_EQ(dataset->prefix, kWhole);
  EXPECT_EQ(dataset->level(), Level::kPrefix);
  EXPECT_FALSE(dataset->asked);
  EXPECT_FALSE(dataset->described());
}

TEST_F(PlacesTest, NothingIsCompletedBeforeAllRanksHaveStoredIt) {
  const DatasetPtr dataset = Create();
  ledger_.Captured(*dataset, 0);
  ledger_.Captured(*dataset, 1);
  ledger_.Stored(*dataset, 0, {});
  EXPECT_DEATH(ledger_.Completed(*dataset), "check failed: dataset.all_stored\\(\\)");
}

TEST_F(PlacesTest, APartGoesForwardOneStateAtATime) {
  const DatasetPtr dataset = Create();
  EXPECT_EQ(dataset->parts[0].state, Part::State::kBegun);
  EXPECT_EQ(dataset->parts[0].bytes, 10u) << "as planned";
  ledger_.FilesListed(*dataset, 0, 7);
  EXPECT_EQ(dataset->bytes(), 27u);
  EXPECT_DEATH(ledger_.Stored(*dataset, 0, {}), "check failed: part.state == Part::State::kCaptured");
  ledger_.Captured(*dataset, 0);
  EXPECT_TRUE(dataset->parts[0].captured());
  EXPECT_EQ(dataset->captured, 1u);
  EXPECT_DEATH(ledger_.Captured(*dataset, 0), "check failed: part.state == Part::State::kBegun");
  catalogue::Catalogue catalogue;
  catalogue.add_file()->set_bytes(40);
  catalogue.add_file()->set_bytes(2);
  ledger_.Stored(*dataset, 0, catalogue);
  EXPECT_TRUE(dataset->parts[0].stored());
  EXPECT_EQ(dataset->stored, 1u);
  EXPECT_EQ(dataset->bytes(), 52u) << "as written";
}

TEST_F(PlacesTest, WhatFailsWhileItArrivesIsForgotten) {
  for (const bool past_cache : {false, true}) {
    failed_.clear();
    const DatasetPtr dataset = Create({.past_cache = past_cache});
    ledger_.Fail(kId, "the disk is full");
    EXPECT_EQ(failed_, std::vector<DatasetId>{kId});
    EXPECT_FALSE(ledger_.Has(dataset));
    ASSERT_NE(ledger_.FindGone(kId), nullptr);
    EXPECT_EQ(ledger_.FindGone(kId)->why, Gone::Why::kFailed);
    EXPECT_EQ(ledger_.FindGone(kId)->message, "the disk is full");
    EXPECT_EQ(ledger_.FindGone(kId)->step, dataset->step);
    ledger_.Fail(kId, "again");
    EXPECT_EQ(failed_.size(), 1u) << "it fails once";
  }
}

TEST_F(PlacesTest, WhatIsWholeCannotFailAnyMore) {
  const DatasetPtr dataset = Known(kArriving, kWhole);
  ledger_.Fail(kId, "its refetch has failed");
  EXPECT_TRUE(ledger_.Has(dataset));
  EXPECT_TRUE(failed_.empty());
}

// --- Known from disk ---

TEST_F(PlacesTest, OnlyWhatIsWholeAndStoredIsAdopted) {
  EXPECT_DEATH(Known(kDamaged, kAbsent), "check failed: dataset->whole\\(\\)");
  Dataset half = Described(kId, kWhole, kAbsent);
  half.parts[1].state = Part::State::kCaptured;
  EXPECT_DEATH(ledger_.Adopt(half), "check failed: part.stored\\(\\)");
  const DatasetPtr dataset = Known(kWhole, kAbsent);
  EXPECT_TRUE(dataset->all_captured());
  EXPECT_TRUE(dataset->all_stored());
}

TEST_F(PlacesTest, WhatIsAdoptedIsNotGoneAnyMore) {
  ledger_.Forget(kId, {.why = Gone::Why::kRemoved, .message = "was removed"});
  Known(kAbsent, kWhole);
  EXPECT_EQ(ledger_.FindGone(kId), nullptr);
}

TEST_F(PlacesTest, TheNodesRecordAddsWhatItHasNoted) {
  const DatasetPtr dataset = Known(kWhole, kAbsent);
  ledger_.AdoptNoted(
      *dataset, {.in_prefix = true, .pinned = true, .foreign = true, .standing = Standing::kGaveWay, .ordinal = 3});
  EXPECT_EQ(dataset->prefix, kWhole);
  EXPECT_TRUE(dataset->pinned);
  EXPECT_TRUE(dataset->foreign);
  EXPECT_EQ(dataset->standing, Standing::kGaveWay);
  EXPECT_EQ(dataset->ordinal, 3u);
  ledger_.AdoptNoted(*dataset, {.in_prefix = false});
  EXPECT_EQ(dataset->prefix, kWhole) << "what it does not say takes no place away";
  EXPECT_FALSE(dataset->pinned);
}

TEST_F(PlacesTest, WhatThePrefixHasMadeKnownIsFoundInTheCacheToo) {
  for (const Place from : {kAbsent, kWhole}) {
    const DatasetPtr dataset = Known(from, kWhole);
    ledger_.FoundInCache(*dataset);
    EXPECT_EQ(dataset->cache, kWhole);
  }
  const DatasetPtr dataset = Known(kArriving, kWhole);
  EXPECT_DEATH(ledger_.FoundInCache(*dataset), kOutOfPlace);
}

TEST_F(PlacesTest, CataloguesComeBackWithTheirSizesAndAreReadAnewWhenTheyHaveChanged) {
  const DatasetPtr dataset = Known(kWhole, kWhole);
  ledger_.LeftCache(*dataset, "room");
  EXPECT_FALSE(dataset->described());
  EXPECT_TRUE(dataset->parts.empty()) << "only on the prefix: their memory is given back";
  EXPECT_EQ(dataset->bytes(), 200u);
  EXPECT_TRUE(dataset->has_captured(1));
  catalogue::Catalogue catalogue;
  catalogue.add_file()->set_bytes(50);
  EXPECT_DEATH(ledger_.Described(*dataset, {catalogue}), "check failed: catalogues.size\\(\\) == dataset.nranks");
  ledger_.Described(*dataset, {catalogue, catalogue});
  EXPECT_TRUE(dataset->described());
  EXPECT_EQ(dataset->bytes(), 100u);
  ledger_.CataloguesChanged(*dataset);
  EXPECT_FALSE(dataset->described());
  EXPECT_EQ(dataset->parts[0].catalogue.file_size(), 1) << "a read under way still looks at it";
  EXPECT_TRUE(dataset->all_stored());
}

TEST_F(PlacesTest, WhatNobodyReadsAnyMoreIsLetGoOfWhenAnotherIsDescribedOrTheLaunchGoesOn) {
  catalogue::Catalogue catalogue;
  catalogue.add_file()->set_bytes(50);
  const auto describe = [&] {
    const DatasetPtr dataset = Known(kAbsent, kWhole);
    ledger_.ForgetUnreadParts();
    EXPECT_FALSE(dataset->described());
    EXPECT_EQ(dataset->bytes(), 200u) << "its size is known all the same";
    ledger_.Described(*dataset, {catalogue, catalogue});
    return dataset;
  };
  const DatasetPtr read = describe();
  ledger_.ReadBegan(*read);
  ledger_.ForgetUnreadParts();
  EXPECT_TRUE(read->described());
  ledger_.ReadEnded(*read);
  EXPECT_TRUE(read->described()) << "the next rank may ask for it";
  Create({}, kId + 1);
  EXPECT_FALSE(read->described());
  const DatasetPtr cached = Known(kWhole, kWhole);
  ledger_.ForgetUnreadParts();
  EXPECT_TRUE(cached->described());
}

// --- What the events forget and bring back ---

TEST_F(PlacesTest, WhatLeavesTheCacheIsForgottenUnlessItIsOnThePrefix) {
  ledger_.Adopt(Described(kId + 1, kWhole, kAbsent));
  for (const Place prefix : {kAbsent, kArriving, kLeaving, kDamaged}) {
    const DatasetPtr dataset = Known(kWhole, prefix);
    ledger_.LeftCache(*dataset, "for room");
    EXPECT_FALSE(ledger_.Has(dataset)) << NameOf(prefix);
    const Gone* gone = ledger_.FindGone(kId);
    ASSERT_NE(gone, nullptr) << NameOf(prefix);
    EXPECT_EQ(gone->why, Gone::Why::kSuperseded);
    EXPECT_EQ(gone->message, "for room");
    EXPECT_EQ(gone->successor, kId + 1);
    EXPECT_EQ(gone->step, dataset->step);
    ledger_.FolderGone(kId);  // nobody knows it any more
  }
  const DatasetPtr dataset = Known(kWhole, kWhole);
  ledger_.LeftCache(*dataset, "for room");
  EXPECT_TRUE(ledger_.Has(dataset));
  EXPECT_EQ(ledger_.FindGone(kId), nullptr);
}

TEST_F(PlacesTest, TheLastOneThatLeavesTheCacheHasNoSuccessor) {
  ledger_.LeftCache(*Known(kWhole, kAbsent), "for room");
  EXPECT_EQ(ledger_.FindGone(kId)->successor, 0u);
}

TEST_F(PlacesTest, ALaunchCannotReadRestoredFilesThatHaveLeftTheCache) {
  Create({.files = true});
  ledger_.Fail(kId, "not this one");
  const Launch& launch = *ledger_.newest();
  Dataset files = Described(kId, kWhole, kWhole);
  files.kind.files = true;
  const DatasetPtr dataset = ledger_.Adopt(files);
  const DatasetPtr memory = ledger_.Adopt(Described(kId + 1, kWhole, kWhole));
  ledger_.Restored(launch.id, *dataset);
  ledger_.Restored(launch.id, *memory);
  EXPECT_EQ(launch.restored_files, std::set<DatasetId>{kId}) << "of memory nothing is read any more";
  EXPECT_EQ(ledger_.last_restored(), kId + 1);
  ledger_.CacheDamaged(*memory, "");
  EXPECT_TRUE(launch.restored_files.contains(kId));
  ledger_.LeftCache(*dataset, "for room");
  EXPECT_TRUE(launch.restored_files.empty());
}

TEST_F(PlacesTest, WhatGaveWayIsForgottenUnlessItIsInTheCache) {
  const DatasetPtr kept = Known(kWhole, kWhole);
  ledger_.GaveWay(*kept, 9, "dataset 9 has its names");
  EXPECT_TRUE(ledger_.Has(kept));
  EXPECT_EQ(kept->standing, Standing::kGaveWay);
  EXPECT_EQ(kept->level(), Level::kLocal);
  const DatasetPtr dataset = Known(kAbsent, kWhole);
  ledger_.GaveWay(*dataset, 9, "dataset 9 has its names");
  EXPECT_FALSE(ledger_.Has(dataset));
  const Gone* gone = ledger_.FindGone(kId);
  ASSERT_NE(gone, nullptr);
  EXPECT_EQ(gone->why, Gone::Why::kSuperseded);
  EXPECT_EQ(gone->message, "dataset 9 has its names");
  EXPECT_EQ(gone->successor, 9u);
}

TEST_F(PlacesTest, WhatIsBeingRemovedIsForgottenUnlessItIsInTheCacheAndIsNotFlushedAgain) {
  const DatasetPtr kept = Known(kWhole, kWhole);
  ledger_.RemovalBegan(*kept);
  EXPECT_TRUE(ledger_.Has(kept));
  EXPECT_TRUE(kept->flush_dropped());
  for (const Place cache : {kAbsent, kLeaving, kDamaged}) {
    const DatasetPtr dataset = Known(cache, kWhole);
    ledger_.RemovalBegan(*dataset);
    EXPECT_FALSE(ledger_.Has(dataset)) << NameOf(cache);
    EXPECT_TRUE(dataset->flush_dropped());
    EXPECT_EQ(ledger_.FindGone(kId)->why, Gone::Why::kRemoved);
    ledger_.Removed(*dataset);  // nobody knows it, but its removal ends
    EXPECT_EQ(ledger_.Get(kId), nullptr);
  }
}

TEST_F(PlacesTest, AFailedRemovalBringsItBack) {
  for (const Place cache : {kAbsent, kWhole}) {
    const DatasetPtr dataset = Known(cache, kWhole);
    ledger_.RemovalBegan(*dataset);
    ledger_.RemovalFailed(dataset);
    EXPECT_TRUE(ledger_.Has(dataset)) << NameOf(cache);
    EXPECT_EQ(ledger_.FindGone(kId), nullptr);
    EXPECT_EQ(dataset->prefix, kWhole);
    EXPECT_EQ(dataset->standing, Standing::kCurrent) << "it may be flushed again";
  }
}

TEST_F(PlacesTest, AFailedRemovalDoesNotReplaceWhatWasMadeKnownMeanwhile) {
  const DatasetPtr removed = Known(kAbsent, kWhole);
  ledger_.RemovalBegan(*removed);
  const DatasetPtr known = Known(kAbsent, kWhole);
  ledger_.RemovalFailed(removed);
  EXPECT_TRUE(ledger_.Has(known));
  EXPECT_EQ(removed->prefix, kWhole);
}

TEST_F(PlacesTest, DamageIsRememberedWithItsReason) {
  const DatasetPtr dataset = Known(kWhole, kAbsent);
  ledger_.CacheDamaged(*dataset, "rank 1: a bit has flipped");
  EXPECT_EQ(dataset->why_damaged, "rank 1: a bit has flipped");
  EXPECT_TRUE(dataset->damaged());
  EXPECT_TRUE(ledger_.Has(dataset)) << "what cannot be given back is still told of";
}

TEST_F(PlacesTest, ACommitAnswersWhoAskedForIt) {
  const DatasetPtr dataset = Known(kWhole, kArriving);
  ledger_.FlushAsked(*dataset);
  ledger_.FlushEnded(*dataset);
  EXPECT_TRUE(dataset->asked) << "a flush that has failed is tried again";
  ledger_.Committed(*dataset);
  EXPECT_FALSE(dataset->asked);
}

TEST_F(PlacesTest, AFlushThatEndsTakesNothingAwayThatTheIndexOffers) {
  const DatasetPtr dataset = Known(kWhole, kArriving);
  ledger_.SeenOnPrefix(*dataset, true);
  ledger_.FlushEnded(*dataset);
  EXPECT_EQ(dataset->prefix, kWhole);
}

// --- The questions that are derived ---

TEST_F(PlacesTest, TheBestPlaceGivesTheLevel) {
  for (const Place cache : kPlaces) {
    for (const Place prefix : kPlaces) {
      Dataset dataset = Described(kId, cache, prefix);
      dataset.captured = 2;
      const bool damaged = cache == kDamaged || prefix == kDamaged;
      const Level level = prefix == kWhole  ? Level::kPrefix
                          : cache == kWhole ? Level::kLocal
                          : damaged         ? Level::kNone
                                            : Level::kCaptured;
      EXPECT_EQ(dataset.level(), level) << NameOf(cache) << ", " << NameOf(prefix);
      const bool whole = cache == kWhole || prefix == kWhole;
      EXPECT_EQ(dataset.in_cache(), cache == kWhole);
      EXPECT_EQ(dataset.in_prefix(), prefix == kWhole);
      EXPECT_EQ(dataset.whole(), whole);
      EXPECT_EQ(dataset.restorable(), whole);
      EXPECT_EQ(dataset.damaged(), !whole && damaged);
      dataset.captured = 1;
      EXPECT_EQ(dataset.level(), whole ? level : Level::kNone) << NameOf(cache) << ", " << NameOf(prefix);
      dataset.kind = {.checkpoint = false, .output = true};
      EXPECT_FALSE(dataset.restorable()) << "an output is no restart";
    }
  }
}

TEST_F(PlacesTest, TheStandingSaysWhetherItIsFlushedAndWhetherItIsChosen) {
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

// --- The second table ---

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

TEST_F(PlacesTest, EachEventChangesTheStandingsThatTheTableNamesAndNoOther) {
  for (const Change& change : Changes()) {
    for (std::size_t i = 0; i < std::size(kStandings); ++i) {
      const DatasetPtr dataset = Known(kWhole, change.prefix, kStandings[i]);
      change.happens(ledger_, dataset);
      EXPECT_EQ(NameOf(dataset->standing), NameOf(change.after[i]))
          << change.event << ", from " << NameOf(kStandings[i]);
    }
  }
}

TEST_F(PlacesTest, NoOtherEventChangesTheStanding) {
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

TEST_F(PlacesTest, WhoseDatasetItIsFollowsTheIndex) {
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

TEST_F(PlacesTest, WhatCameBackIsWholeOnThePrefix) {
  const DatasetPtr dataset = Known(kWhole, kAbsent, Standing::kTakenOut);
  ledger_.CameBack(*dataset);
  EXPECT_EQ(dataset->prefix, kWhole);
  EXPECT_TRUE(dataset->superseding());
}

TEST_F(PlacesTest, ALookAtTheIndexThatIsOlderThanARemovalChangesNothing) {
  const DatasetPtr dataset = Known(kWhole, kLeaving, Standing::kTakenOut);
  ledger_.CameBack(*dataset);
  EXPECT_EQ(dataset->standing, Standing::kTakenOut);
  ledger_.Removed(*dataset);
  EXPECT_EQ(dataset->prefix, kAbsent);
}

TEST_F(PlacesTest, NobodyAsksForAFlushThatWasCancelledOrCameTooLate) {
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

// --- Readers and pins ---

TEST_F(PlacesTest, AReadEndsOncePerBegin) {
  const DatasetPtr dataset = Known(kWhole, kAbsent);
  ledger_.ReadBegan(*dataset);
  ledger_.ReadBegan(*dataset);
  ledger_.ReadEnded(*dataset);
  EXPECT_EQ(dataset->readers, 1u);
  ledger_.ReadEnded(*dataset);
  EXPECT_DEATH(ledger_.ReadEnded(*dataset), "check failed: dataset.readers > 0");
}

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
  ledger_.PassOver(launch_.id, 1);
  EXPECT_EQ(launch_.pin.dataset, 3u) << "it concerns another one";
  ledger_.PassOver(launch_.id, 3);
  EXPECT_EQ(launch_.pin.dataset, 2u);
  ledger_.PassOver(launch_.id, 2);
  EXPECT_EQ(launch_.pin.dataset, 0u) << "1 was passed over before";
  EXPECT_EQ(ledger_.PinLatest(launch_), nullptr);
  EXPECT_EQ(ledger_.NewestRestorable()->id, 3u) << "other launches may still choose it";
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
