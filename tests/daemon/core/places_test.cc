// Where a dataset is, event by event (daemon/core/ledger.h), and what daemon/core/dataset.h derives from that.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/core/ledger.h"
#include "tests/daemon/core/places_fixture.h"

namespace cairn {
namespace {

using enum Place;

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

// --- Readers ---

TEST_F(PlacesTest, AReadEndsOncePerBegin) {
  const DatasetPtr dataset = Known(kWhole, kAbsent);
  ledger_.ReadBegan(*dataset);
  ledger_.ReadBegan(*dataset);
  ledger_.ReadEnded(*dataset);
  EXPECT_EQ(dataset->readers, 1u);
  ledger_.ReadEnded(*dataset);
  EXPECT_DEATH(ledger_.ReadEnded(*dataset), "check failed: dataset.readers > 0");
}

}  // namespace
}  // namespace cairn
