#include "daemon/policy/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The n-th checkpoint of a launch: id, ordinal and step are n, 100 bytes, safe in the cache.
DatasetFacts Checkpoint(DatasetId id) {
  return {.id = id,
          .step = id,
          .ordinal = id,
          .checkpoint = true,
          .whole = true,
          .safe = true,
          .in_cache = true,
          .cache_bytes = 100};
}

DatasetFacts Output(DatasetId id) {
  return {.id = id, .step = id, .output = true, .whole = true, .safe = true, .in_cache = true, .cache_bytes = 100};
}

DatasetFacts OnPrefix(DatasetFacts dataset) {
  dataset.in_prefix = true;
  return dataset;
}

std::vector<DatasetId> DroppedIds(const FlushPlan& plan) {
  std::vector<DatasetId> ids;
  for (const FlushPlan::Dropped& dropped : plan.drop) ids.push_back(dropped.id);
  return ids;
}

TEST(FlushPolicyTest, EverySoManyThCheckpointIsFlushed) {
  const std::vector<DatasetFacts> run = {Checkpoint(1), Checkpoint(2), Checkpoint(3), Checkpoint(4)};
  EXPECT_THAT(PlanFlushes(run, {.every = 2, .superseded = true}, 9).start, ElementsAre(2, 4));
  EXPECT_THAT(PlanFlushes(run, {.every = 1, .superseded = true}, 9).start, ElementsAre(1, 2, 3, 4));
}

TEST(FlushPolicyTest, WhatIsRedundantHasARhythmOfItsOwn) {
  std::vector<DatasetFacts> run = {Checkpoint(1), Checkpoint(2), Checkpoint(3), Checkpoint(4)};
  for (DatasetFacts& dataset : run) dataset.redundant = dataset.id != 2;  // 2 cannot be
  run[3].safe = false;                                                    // it is yet to be
  EXPECT_THAT(PlanFlushes(run, {.every = 1, .every_redundant = 3, .superseded = true}, 9).start, ElementsAre(2, 3));
  EXPECT_THAT(PlanFlushes(run, {.every = 1, .every_redundant = 4, .superseded = true}, 9).start, ElementsAre(2, 4));
  EXPECT_THAT(PlanFlushes(run, {.every = 0, .every_redundant = 3, .superseded = true}, 9).start, ElementsAre(3));
  EXPECT_THAT(PlanFlushes(run, {.every = 4, .every_redundant = 0, .superseded = true}, 9).start, ElementsAre(4));
}

// In the folder that is redundant itself.
DatasetFacts InFolder(DatasetFacts dataset) {
  dataset.in_folder = dataset.redundant = true;
  return dataset;
}

TEST(FolderPolicyTest, TheNewestBelongsThereUntilANewerOneIsSafe) {
  std::vector<DatasetFacts> run = {InFolder(Checkpoint(1)), Checkpoint(2)};
  EXPECT_TRUE(BelongsInFolder(run[0], run, {}));
  EXPECT_TRUE(BelongsInFolder(run[1], run, {}));
  run[1].redundant = true;  // to be
  run[1].safe = false;
  EXPECT_TRUE(BelongsInFolder(run[0], run, {}));
  run[1] = InFolder(Checkpoint(2));
  EXPECT_FALSE(BelongsInFolder(run[0], run, {}));
  EXPECT_TRUE(BelongsInFolder(run[1], run, {}));
  run[1] = OnPrefix(Checkpoint(2));
  for (const DatasetFacts& dataset : run) EXPECT_FALSE(BelongsInFolder(dataset, run, {})) << dataset.id;
}

TEST(FolderPolicyTest, PinnedHeldAndUnflushedOnesStay) {
  std::vector<DatasetFacts> run = {InFolder(Checkpoint(1)), InFolder(Checkpoint(2))};
  EXPECT_FALSE(BelongsInFolder(run[0], run, {.every = 1}));
  run[0].in_cache = false;
  EXPECT_TRUE(BelongsInFolder(run[0], run, {.every = 1})) << "it is flushed from there";
  run[0].pinned = true;
  EXPECT_TRUE(BelongsInFolder(OnPrefix(run[0]), run, {}));
  run[0].pinned = false;
  run[0].held = true;
  EXPECT_TRUE(BelongsInFolder(OnPrefix(run[0]), run, {}));
  run[0].held = false;
  run[0].unwanted = true;
  EXPECT_FALSE(BelongsInFolder(run[0], run, {}));
  const DatasetFacts output = InFolder(Output(1));
  EXPECT_TRUE(BelongsInFolder(output, run, {}));
  EXPECT_FALSE(BelongsInFolder(OnPrefix(output), run, {}));
}

TEST(FolderPolicyTest, WhatIsThereMayLeaveTheCacheAndIsFlushedAllTheSame) {
  std::vector<DatasetFacts> run = {InFolder(Output(1)), InFolder(Checkpoint(2))};
  EXPECT_THAT(EvictionOrder(run), ElementsAre(1));
  EXPECT_EQ(EvictNewest(run), 2u);
  for (DatasetFacts& dataset : run) dataset.in_cache = false;
  EXPECT_THAT(PlanFlushes(run, {.every = 1}, 9).start, ElementsAre(1, 2));
  EXPECT_THAT(EvictionOrder(run), ElementsAre());
}

TEST(FlushPolicyTest, EveryZeroFlushesOnlyOutputsAndWhatWasAskedForOrPinned) {
  DatasetFacts asked = Checkpoint(2), pinned = Checkpoint(3);
  asked.asked = true;
  pinned.pinned = true;
  const std::vector<DatasetFacts> run = {Checkpoint(1), asked, pinned, Output(4)};
  EXPECT_THAT(PlanFlushes(run, {.every = 0}, 9).start, ElementsAre(2, 3, 4));
}

TEST(FlushPolicyTest, UnstartedFlushOfASupersededCheckpointIsDroppedNamingTheSuccessor) {
  const std::vector<DatasetFacts> run = {Checkpoint(1), Checkpoint(2), Checkpoint(3)};
  const FlushPlan plan = PlanFlushes(run, {.every = 1}, 9);
  EXPECT_THAT(plan.start, ElementsAre(3));
  EXPECT_THAT(DroppedIds(plan), ElementsAre(1, 2));
  EXPECT_EQ(plan.drop[0].successor, 3u);
}

TEST(FlushPolicyTest, OnlyASuccessorBoundForThePrefixMakesAFlushDrop) {
  const std::vector<DatasetFacts> run = {Checkpoint(10), Checkpoint(11)};
  const FlushPlan plan = PlanFlushes(run, {.every = 10}, 9);
  EXPECT_THAT(plan.start, ElementsAre(10));
  EXPECT_THAT(plan.drop, IsEmpty());
}

TEST(FlushPolicyTest, ASuccessorThatIsNotSafeSupersedesNothing) {
  DatasetFacts unsafe = Checkpoint(2);
  unsafe.whole = unsafe.safe = false;
  const std::vector<DatasetFacts> run = {Checkpoint(1), unsafe};
  const FlushPlan plan = PlanFlushes(run, {.every = 1}, 9);
  EXPECT_THAT(plan.start, ElementsAre(1));
  EXPECT_THAT(plan.drop, IsEmpty());
}

TEST(FlushPolicyTest, PinOutputAndWaitKeepAFlushFromBeingDropped) {
  DatasetFacts pinned = Checkpoint(1), asked = Checkpoint(2), both = Checkpoint(3);
  pinned.pinned = asked.asked = both.output = true;
  const std::vector<DatasetFacts> run = {pinned, asked, both, Checkpoint(4)};
  const FlushPlan plan = PlanFlushes(run, {.every = 1}, 9);
  EXPECT_THAT(plan.start, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(plan.drop, IsEmpty());
}

TEST(FlushPolicyTest, WhatHasBegunIsNeitherDroppedNorStartedAgain) {
  DatasetFacts flushing = Checkpoint(1);
  flushing.flushing = true;
  const std::vector<DatasetFacts> run = {flushing, OnPrefix(Checkpoint(2)), Checkpoint(3)};
  const FlushPlan plan = PlanFlushes(run, {.every = 1}, 9);
  EXPECT_THAT(plan.start, ElementsAre(3));
  EXPECT_THAT(plan.drop, IsEmpty());
}

TEST(FlushPolicyTest, ADroppedFlushComesBackOnlyWhenAskedFor) {
  DatasetFacts dropped = Checkpoint(1);
  dropped.dropped = true;
  EXPECT_THAT(PlanFlushes(std::vector{dropped}, {.every = 1}, 9).start, IsEmpty());
  dropped.asked = true;
  EXPECT_THAT(PlanFlushes(std::vector{dropped}, {.every = 1}, 9).start, ElementsAre(1));
}

TEST(FlushPolicyTest, SlotsBoundTheStartsAndRequestsGoFirst) {
  DatasetFacts asked = Checkpoint(3);
  asked.asked = true;
  const std::vector<DatasetFacts> run = {Checkpoint(1), Checkpoint(2), asked};
  EXPECT_THAT(PlanFlushes(run, {.every = 1, .superseded = true}, 2).start, ElementsAre(3, 1));
  EXPECT_THAT(PlanFlushes(run, {.every = 1, .superseded = true}, 0).start, IsEmpty());
}

TEST(EvictionPolicyTest, OldestOnThePrefixFirstThenSupersededOnes) {
  const std::vector<DatasetFacts> run = {Checkpoint(1), OnPrefix(Checkpoint(2)), OnPrefix(Output(3)), Checkpoint(4),
                                         Checkpoint(5)};
  EXPECT_THAT(EvictionOrder(run), ElementsAre(2, 3, 1, 4));
}

TEST(EvictionPolicyTest, WhatMustStayStays) {
  DatasetFacts pinned = Checkpoint(1), held = Checkpoint(2), flushing = Checkpoint(3), unsafe = Checkpoint(5);
  pinned.pinned = held.held = flushing.flushing = true;
  unsafe.safe = false;
  const std::vector<DatasetFacts> run = {pinned, held, flushing, Output(4), unsafe, OnPrefix(Checkpoint(6))};
  EXPECT_THAT(EvictionOrder(run), IsEmpty());
  EXPECT_EQ(NewestRestartable(run), 6u);
}

TEST(EvictionPolicyTest, WhatNobodyCanUseLeavesForRoomAlthoughItIsNotSafe) {
  DatasetFacts orphan = Checkpoint(1), held = Checkpoint(2);
  orphan.safe = held.safe = false;
  orphan.unwanted = held.unwanted = held.held = true;
  EXPECT_THAT(EvictionOrder(std::vector{orphan, held, Checkpoint(3)}), ElementsAre(1));
}

TEST(EvictionPolicyTest, WhatAnotherNodesDaemonDecidesAboutLeavesOnlyForRoom) {
  DatasetFacts followed = Checkpoint(1);
  followed.followed = followed.gave_way = true;
  std::vector<DatasetFacts> run = {followed, Checkpoint(2)};
  EXPECT_THAT(EvictBeyondKeep(run, 0, {}), IsEmpty());
  EXPECT_EQ(ChooseSpare(run, 1, {}, 0), std::nullopt);
  EXPECT_THAT(EvictForRoom(run, 100), ElementsAre(1));
  run[0].kept = true;
  EXPECT_THAT(EvictForRoom(run, 100), IsEmpty()) << "not let go yet";
}

TEST(FlushPolicyTest, WhatComesToThePrefixIsOnItsWayOrWantedThere) {
  const Config::Flush every = {.every = 1}, none = {.every = 0};
  EXPECT_TRUE(ComesToPrefix(Checkpoint(1), every));
  EXPECT_FALSE(ComesToPrefix(Checkpoint(1), none));
  EXPECT_FALSE(ComesToPrefix(OnPrefix(Checkpoint(1)), every));
  DatasetFacts dropped = Checkpoint(1);
  dropped.dropped = true;
  EXPECT_FALSE(ComesToPrefix(dropped, every));
  dropped.flushing = true;
  EXPECT_TRUE(ComesToPrefix(dropped, none)) << "it is under way";
  dropped.gave_way = true;
  EXPECT_FALSE(ComesToPrefix(dropped, every));
}

TEST(EvictionPolicyTest, OneOlderThanOneOnThePrefixIsSuperseded) {
  DatasetFacts files = Checkpoint(2), beyond = OnPrefix(Checkpoint(4));
  files.own_files = true;
  beyond.in_cache = false;
  const std::vector<DatasetFacts> run = {Output(1), files, OnPrefix(Checkpoint(3)), beyond};
  EXPECT_THAT(EvictionOrder(run), ElementsAre(3, 2));
  EXPECT_THAT(EvictionOrder(std::span(run).first(3)), ElementsAre(2)) << "of the cache's the newest stays";
}

TEST(EvictionPolicyTest, ARunThatIsOverGivesItsNewestIfItIsOnThePrefixAndMayGo) {
  EXPECT_EQ(EvictNewest(std::vector{OnPrefix(Checkpoint(1)), OnPrefix(Checkpoint(2))}), 2u);
  EXPECT_EQ(EvictNewest(std::vector{OnPrefix(Checkpoint(1)), Checkpoint(2)}), std::nullopt);
  EXPECT_EQ(EvictNewest({}), std::nullopt);
  for (const auto keep : {+[](DatasetFacts& d) { d.pinned = true; }, +[](DatasetFacts& d) { d.held = true; },
                          +[](DatasetFacts& d) { d.kept = true; }, +[](DatasetFacts& d) { d.flushing = true; },
                          +[](DatasetFacts& d) { d.in_cache = false; }}) {
    DatasetFacts newest = OnPrefix(Checkpoint(2));
    keep(newest);
    EXPECT_EQ(EvictNewest(std::vector{newest}), std::nullopt);
  }
}

TEST(EvictionPolicyTest, WhatGaveWayOnThePrefixIsNotFlushedAgainAndMayLeaveAlsoAsAnOutput) {
  DatasetFacts gave_way = Output(1), asked = Checkpoint(2);
  gave_way.gave_way = asked.gave_way = true;
  asked.asked = true;
  const std::vector<DatasetFacts> run = {gave_way, asked, Output(3), Checkpoint(4)};
  EXPECT_THAT(PlanFlushes(run, {.every = 0}, 9).start, ElementsAre(3));
  EXPECT_THAT(EvictionOrder(run), ElementsAre(1, 2));
}

TEST(EvictionPolicyTest, RoomTakesNoMoreThanNeededAndAllIfThatIsNotEnough) {
  const std::vector<DatasetFacts> run = {Checkpoint(1), Checkpoint(2), Checkpoint(3), Checkpoint(4)};
  EXPECT_THAT(EvictForRoom(run, 0), IsEmpty());
  EXPECT_THAT(EvictForRoom(run, 100), ElementsAre(1));
  EXPECT_THAT(EvictForRoom(run, 101), ElementsAre(1, 2));
  EXPECT_THAT(EvictForRoom(run, ~0ull), ElementsAre(1, 2, 3));
}

TEST(EvictionPolicyTest, KeepCountsBeyondTheNewestAndWaitsForFlushes) {
  DatasetFacts dropped1 = Checkpoint(1), dropped2 = Checkpoint(2);
  dropped1.dropped = dropped2.dropped = true;
  const std::vector<DatasetFacts> run = {dropped1, dropped2, Checkpoint(3), Checkpoint(4), Checkpoint(5)};
  EXPECT_THAT(EvictBeyondKeep(run, 4, {}), IsEmpty());
  EXPECT_THAT(EvictBeyondKeep(run, 2, {}), ElementsAre(1, 2));
  EXPECT_THAT(EvictBeyondKeep(run, 0, {}), ElementsAre(1, 2)) << "3 and 4 still wait for their flush";
  EXPECT_THAT(EvictBeyondKeep(run, 0, {.every = 0}), ElementsAre(1, 2, 3, 4));
}

TEST(EvictionPolicyTest, SparesOfMemoryStayBeyondWhatIsKept) {
  std::vector<DatasetFacts> run = {Checkpoint(1), Checkpoint(2), Checkpoint(3), Checkpoint(4), Checkpoint(5)};
  EXPECT_THAT(EvictBeyondKeep(run, 0, {.every = 0}, /*spares=*/1), ElementsAre(1, 2, 3));
  EXPECT_THAT(EvictBeyondKeep(run, 1, {.every = 0}, /*spares=*/1), ElementsAre(1, 2));
  EXPECT_THAT(EvictBeyondKeep(run, 1, {.every = 0}, /*spares=*/2), ElementsAre(1));
  EXPECT_THAT(EvictBeyondKeep(run, 1, {.every = 0}, /*spares=*/3), IsEmpty());
  run[1].own_files = run[2].pinned = true;  // neither can be written over
  EXPECT_THAT(EvictBeyondKeep(run, 1, {.every = 0}, /*spares=*/1), ElementsAre(2));
  EXPECT_THAT(EvictBeyondKeep(run, 0, {.every = 0}, /*spares=*/1), ElementsAre(1, 2));
}

TEST(SparePolicyTest, TheNewestThatKeepLetsGoOnceTheNextIsWhole) {
  const std::vector<DatasetFacts> run = {Checkpoint(1), Checkpoint(2), Checkpoint(3), Checkpoint(4)};
  EXPECT_EQ(ChooseSpare(run, 0, {.every = 0}, 0), 3);
  EXPECT_EQ(ChooseSpare(run, 1, {.every = 0}, 0), 2) << "1 and 2 are beyond it already";
  EXPECT_EQ(ChooseSpare(run, 2, {.every = 0}, 0), 1);
  EXPECT_EQ(ChooseSpare(run, 3, {.every = 0}, 0), 1);
  EXPECT_EQ(ChooseSpare(run, 4, {.every = 0}, 0), std::nullopt);
  EXPECT_EQ(ChooseSpare(std::span(run).first(1), 0, {.every = 0}, 0), std::nullopt);  // the only one
  EXPECT_EQ(ChooseSpare({}, 0, {.every = 0}, 0), std::nullopt);
}

TEST(SparePolicyTest, WhatMayNotLeaveTheCacheNowIsNoSpare) {
  std::vector<DatasetFacts> run = {Checkpoint(1), Checkpoint(2), Checkpoint(3)};
  for (const auto spoil : {+[](DatasetFacts& d) { d.pinned = true; }, +[](DatasetFacts& d) { d.held = true; },
                           +[](DatasetFacts& d) { d.flushing = true; }, +[](DatasetFacts& d) { d.own_files = true; },
                           +[](DatasetFacts& d) { d.safe = false; }, +[](DatasetFacts& d) { d.in_cache = false; },
                           +[](DatasetFacts& d) { d.output = true; }, +[](DatasetFacts& d) { d.checkpoint = false; },
                           +[](DatasetFacts& d) { d.asked = true; }}) {
    std::vector<DatasetFacts> spoilt = run;
    spoil(spoilt[1]);
    EXPECT_EQ(ChooseSpare(spoilt, 1, {.every = 0}, 0), 1);
    spoil(spoilt[0]);
    EXPECT_EQ(ChooseSpare(spoilt, 1, {.every = 0}, 0), std::nullopt);
  }
}

TEST(SparePolicyTest, WhoseFlushIsStillToComeIsNoSpareAndWhatIsOnThePrefixIs) {
  EXPECT_EQ(ChooseSpare(std::vector{Checkpoint(1), Checkpoint(2)}, 1, {.every = 1}, 0), std::nullopt);
  EXPECT_EQ(ChooseSpare(std::vector{OnPrefix(Checkpoint(1)), Checkpoint(2)}, 1, {.every = 1}, 0), 1);
}

TEST(SparePolicyTest, WhatWouldBeEvictedForTheNextOneGivesItsFilesInstead) {
  const std::vector<DatasetFacts> run = {Checkpoint(1), Checkpoint(2), Checkpoint(3)};
  EXPECT_EQ(ChooseSpare(run, 9, {.every = 0}, 0), std::nullopt);
  EXPECT_EQ(ChooseSpare(run, 9, {.every = 0}, 50), 1);
  EXPECT_EQ(ChooseSpare(run, 9, {.every = 0}, 150), 2);
  EXPECT_EQ(ChooseSpare(run, 9, {.every = 0}, 200), 2);
  EXPECT_EQ(ChooseSpare(run, 9, {.every = 0}, 201), std::nullopt) << "the newest stays: it would help nobody";
  std::vector<DatasetFacts> asked = run;
  asked[1].asked = true;
  EXPECT_EQ(ChooseSpare(asked, 9, {.every = 0}, 150), 1);
}

TEST(EvictionPolicyTest, LingeringEndsOnlyForWhatIsOnThePrefix) {
  const std::vector<DatasetFacts> run = {Checkpoint(1), OnPrefix(Checkpoint(2))};
  EXPECT_THAT(EvictLingering(run, 999, 1000), IsEmpty());
  EXPECT_THAT(EvictLingering(run, 1000, 1000), ElementsAre(2));
  EXPECT_THAT(EvictLingering(run, 1000, 0), IsEmpty());
}

TEST(PrefixPolicyTest, KeepsTheLastEveryMthStepOutputsPinnedAndHeld) {
  DatasetFacts both = OnPrefix(Checkpoint(1)), pinned = OnPrefix(Checkpoint(2)), held = OnPrefix(Checkpoint(3));
  both.output = pinned.pinned = held.held = true;
  std::vector<DatasetFacts> run = {both, pinned, held};
  for (DatasetId id = 4; id <= 12; ++id) run.push_back(OnPrefix(Checkpoint(id)));
  run.push_back(OnPrefix(Output(13)));
  EXPECT_THAT(PrefixRemovals(run, {.keep_last = 2, .keep_every = 5}), ElementsAre(4, 6, 7, 8, 9));
  EXPECT_THAT(PrefixRemovals(run, {.keep_last = 0, .keep_every = 5}), IsEmpty());
  EXPECT_THAT(PrefixRemovals(run, {.keep_last = 20}), IsEmpty());
}

// 2 was made CURRENT again; 6 and 7 have come since.
TEST(PrefixPolicyTest, CountsOnlyTheLineThatTheUserHasChosen) {
  std::vector<DatasetFacts> run;
  for (DatasetId id = 1; id <= 5; ++id) {
    run.push_back(OnPrefix(Checkpoint(id)));
    run.back().set_back = id > 2;
  }
  EXPECT_THAT(PrefixRemovals(run, {.keep_last = 1}), ElementsAre(1));
  EXPECT_THAT(PrefixRemovals(run, {.keep_last = 2}), IsEmpty());
  run.push_back(OnPrefix(Checkpoint(6)));
  EXPECT_THAT(PrefixRemovals(run, {.keep_last = 2}), ElementsAre(1));
  run.push_back(OnPrefix(Checkpoint(7)));
  EXPECT_THAT(PrefixRemovals(run, {.keep_last = 2}), ElementsAre(1, 2, 3, 4, 5));
}

TEST(PrefixPolicyTest, CountsOnlyWhatIsCommitted) {
  const std::vector<DatasetFacts> run = {OnPrefix(Checkpoint(1)), Checkpoint(2), Checkpoint(3)};
  EXPECT_THAT(PrefixRemovals(run, {.keep_last = 1}), IsEmpty());
}

}  // namespace
}  // namespace cairn
