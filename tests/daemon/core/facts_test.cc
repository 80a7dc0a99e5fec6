// What the policy is told: daemon/core/facts.h.
#include "daemon/core/facts.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace cairn {
namespace {

class FactsTest : public ::testing::Test {
 protected:
  static Dataset Given(DatasetId id, Place cache = Place::kWhole, Place prefix = Place::kAbsent) {
    Dataset dataset;
    dataset.id = id;
    dataset.launch = 1;
    dataset.step = 10 * id;
    dataset.nranks = 2;
    dataset.parts.resize(2);
    for (Part& part : dataset.parts) {
      part.state = Part::State::kStored;
      part.bytes = 100;
    }
    dataset.cache = cache;
    dataset.prefix = prefix;
    return dataset;
  }
  static Dataset Output(DatasetId id) {
    Dataset dataset = Given(id);
    dataset.kind = {.files = true, .checkpoint = false, .output = true};
    return dataset;
  }
  // A launch of one rank, which lives.
  const Launch& Enter(LaunchId id) {
    const Launch& launch = ledger_.Enter(id, "key", 1, "secret");
    ledger_.SessionLive(launch, 0);
    return launch;
  }
  DatasetFacts Of(DatasetId id, const Config::Flush& flush = {}) const {
    for (const DatasetFacts& facts : AllFactsOf(ledger_, flush)) {
      if (facts.id == id) return facts;
    }
    ADD_FAILURE() << "nothing is told of dataset " << id;
    return {};
  }

  Ledger ledger_{[](const DatasetPtr&, const std::string&) {}};
};

TEST_F(FactsTest, NothingIsToldOfNoDatasets) {
  EXPECT_TRUE(FactsOf(ledger_, {}).empty());
  Enter(1);
  EXPECT_TRUE(FactsOf(ledger_, {}).empty());
}

TEST_F(FactsTest, DatasetsAreToldByTheirIds) {
  for (const DatasetId id : {7, 3, 5}) ledger_.Adopt(Given(id));
  std::vector<DatasetId> ids;
  for (const DatasetFacts& facts : FactsOf(ledger_, {})) ids.push_back(facts.id);
  EXPECT_EQ(ids, (std::vector<DatasetId>{3, 5, 7}));
}

TEST_F(FactsTest, WhatItIsIsToldAsItIs) {
  Dataset given = Given(3);
  given.ordinal = 4;
  given.pinned = true;
  given.kind = {.files = true, .checkpoint = true, .output = true};
  ledger_.Adopt(given);
  const DatasetFacts facts = Of(3);
  EXPECT_EQ(facts.step, 30u);
  EXPECT_EQ(facts.ordinal, 4u);
  EXPECT_TRUE(facts.checkpoint);
  EXPECT_TRUE(facts.output);
  EXPECT_TRUE(facts.own_files);
  EXPECT_TRUE(facts.pinned);
  ledger_.Adopt(Given(4));
  EXPECT_FALSE(Of(4).output);
  EXPECT_FALSE(Of(4).own_files);
  EXPECT_FALSE(Of(4).pinned);
}

TEST_F(FactsTest, ItsPlacesSayWhereItIsAndHowMuchOfTheCacheItHas) {
  ledger_.Adopt(Given(1, Place::kWhole, Place::kAbsent));
  ledger_.Adopt(Given(2, Place::kAbsent, Place::kWhole));
  ledger_.Adopt(Given(3, Place::kWhole, Place::kArriving));
  ledger_.Adopt(Given(4, Place::kWhole, Place::kLeaving));
  ledger_.Adopt(Given(5, Place::kArriving, Place::kWhole));
  struct Expected {
    bool in_cache, in_prefix, flushing;
    std::uint64_t bytes;
  };
  const Expected table[] = {{true, false, false, 200},
                            {false, true, false, 0},
                            {true, false, true, 200},
                            {true, false, true, 200},
                            {false, true, false, 0}};
  for (DatasetId id = 1; id <= 5; ++id) {
    const DatasetFacts facts = Of(id);
    const Expected& row = table[id - 1];
    EXPECT_EQ(facts.in_cache, row.in_cache) << id;
    EXPECT_EQ(facts.in_prefix, row.in_prefix) << id;
    EXPECT_EQ(facts.flushing, row.flushing) << id;
    EXPECT_EQ(facts.cache_bytes, row.bytes) << id;
    EXPECT_TRUE(facts.safe) << id;
  }
}

TEST_F(FactsTest, WhatIsNowhereWholeIsNotSafe) {
  const Launch& launch = Enter(1);
  const DatasetPtr dataset = ledger_.Create(launch, 5, {.step = 1});
  ASSERT_TRUE(ledger_.Begin(launch, dataset, 0, {.step = 1, .bytes = 50}, {}).ok());
  ledger_.Captured(*dataset, 0);
  EXPECT_FALSE(Of(5).safe);
  EXPECT_EQ(Of(5).cache_bytes, 0u);
  EXPECT_FALSE(Of(5).flushing);
}

TEST_F(FactsTest, AStandingSaysWhatIsDroppedAndWhoGaveWay) {
  const std::pair<Standing, DatasetFacts> table[] = {
      {Standing::kCurrent, {.checkpoint = true, .dropped = false, .gave_way = false}},
      {Standing::kDoubted, {.checkpoint = true, .dropped = false, .gave_way = false}},
      {Standing::kSuperseded, {.checkpoint = true, .dropped = true, .gave_way = false}},
      {Standing::kGaveWay, {.checkpoint = true, .dropped = true, .gave_way = true}},
      {Standing::kTakenOut, {.checkpoint = false, .dropped = true, .gave_way = true}},
      {Standing::kIdTaken, {.checkpoint = true, .dropped = false, .gave_way = true}},
      {Standing::kHistory, {.checkpoint = false, .dropped = false, .gave_way = true}},
  };
  for (const auto& [standing, expected] : table) {
    Dataset given = Given(3);
    given.standing = standing;
    ledger_.Adopt(given);
    EXPECT_EQ(Of(3).checkpoint, expected.checkpoint) << NameOf(standing) << ": does it supersede others?";
    EXPECT_EQ(Of(3).dropped, expected.dropped) << NameOf(standing);
    EXPECT_EQ(Of(3).gave_way, expected.gave_way) << NameOf(standing);
  }
  Dataset foreign = Given(3);
  foreign.foreign = true;
  ledger_.Adopt(foreign);
  EXPECT_TRUE(Of(3).gave_way) << "SCR's own is never flushed";
}

// --- Who is held ---

TEST_F(FactsTest, ADatasetIsHeldWhileItIsRead) {
  const DatasetPtr dataset = ledger_.Adopt(Given(3));
  EXPECT_FALSE(Of(3).held);
  ledger_.ReadBegan(*dataset);
  EXPECT_TRUE(Of(3).held);
  ledger_.ReadEnded(*dataset);
  EXPECT_FALSE(Of(3).held);
}

TEST_F(FactsTest, PartsWhoseRestNobodyHereKnowsAreHeldWhileNothingNewerIsSafe) {
  Dataset orphan = Given(3);
  orphan.unknown = 1;
  orphan.parts[1].elsewhere = true;
  ledger_.Adopt(orphan);
  EXPECT_TRUE(Of(3).held);
  Dataset on_prefix = orphan;
  on_prefix.id = 4;
  on_prefix.prefix = Place::kWhole;
  ledger_.Adopt(on_prefix);
  EXPECT_FALSE(Of(4).held) << "the prefix has it";
  EXPECT_FALSE(Of(3).held);
}

TEST_F(FactsTest, PartsOfAnOutputAreHeldUntilItIsOnThePrefixOrCannotGoThere) {
  Dataset orphan = Given(3);
  orphan.kind = {.files = true, .checkpoint = false, .output = true};
  orphan.unknown = 1;
  orphan.parts[1].elsewhere = true;
  ledger_.Adopt(orphan);
  ledger_.Adopt(Given(4));
  EXPECT_TRUE(Of(3).held) << "a newer checkpoint is no reason to lose it";
  Dataset too_late = orphan;
  too_late.id = 5;
  too_late.standing = Standing::kGaveWay;
  ledger_.Adopt(too_late);
  EXPECT_FALSE(Of(5).held);
  ledger_.SeenOnPrefix(*ledger_.Get(3), /*by_cairn=*/true);
  EXPECT_FALSE(Of(3).held);
}

TEST_F(FactsTest, WhatIsFollowedIsKeptUntilItsHomeLetsItGo) {
  Ledger ledger{[](const DatasetPtr&, const std::string&) {}};
  const Launch& others = ledger.Enter(1, "key", 2, "secret");
  ledger.SetOrigin(others, {.ours = false, .maker = "n2"});
  ledger.Followed(others);
  const DatasetPtr dataset = ledger.Follow(others, {.id = 3, .ordinal = 1, .spec = {.step = 30}});
  const auto told = [&] { return AllFactsOf(ledger, {}).front(); };
  EXPECT_TRUE(told().kept);
  EXPECT_FALSE(told().will_go);
  ledger.HomeLetsGo(*dataset, /*may_leave=*/false, /*will_go=*/true);
  EXPECT_TRUE(told().kept);
  EXPECT_TRUE(told().will_go);
  ledger.HomeLetsGo(*dataset, /*may_leave=*/true, /*will_go=*/false);
  EXPECT_FALSE(told().kept);
}

TEST_F(FactsTest, AnOutputWhoseIdIsAnothersIsHeldForItIsNowhereElse) {
  for (const bool history : {false, true}) {
    ledger_.IdTaken(*ledger_.Adopt(Output(3)), history);
    EXPECT_TRUE(Of(3).held);
    ledger_.IdTaken(*ledger_.Adopt(Given(4)), history);
    EXPECT_FALSE(Of(4).held) << "a checkpoint is superseded some day";
  }
}

TEST_F(FactsTest, WhatWasRestoredIsHeldUntilTheLaunchHasSomethingBetter) {
  const DatasetPtr dataset = ledger_.Adopt(Given(3));
  const Launch& launch = Enter(2);
  ledger_.Restored(launch.id, *dataset);
  EXPECT_TRUE(Of(3).held);
  const DatasetPtr own = ledger_.Create(launch, 4, {.step = 40});
  ASSERT_TRUE(ledger_.Begin(launch, own, 0, {.step = 40}, {}).ok());
  ledger_.Captured(*own, 0);
  EXPECT_TRUE(Of(3).held) << "its own is only captured";
  ledger_.Stored(*own, 0, {});
  ledger_.Completed(*own);
  EXPECT_FALSE(Of(3).held);
}

TEST_F(FactsTest, WhatWasRestoredIsNotHeldOnceTheApplicationIsGone) {
  const DatasetPtr dataset = ledger_.Adopt(Given(3));
  const Launch& launch = Enter(2);
  ledger_.Restored(launch.id, *dataset);
  ledger_.SessionEnded(launch, 0, /*closed=*/true);
  EXPECT_FALSE(Of(3).held);
}

TEST_F(FactsTest, WhatALaunchHasPinnedIsHeld) {
  ledger_.Adopt(Given(3));
  const Launch& launch = Enter(2);
  ledger_.PinLatest(launch);
  EXPECT_TRUE(Of(3).held);
  ledger_.Create(launch, 4, {.step = 40});
  EXPECT_FALSE(Of(3).held) << "it has begun a dataset";
}

TEST_F(FactsTest, RestoredFilesAreHeldUntilTheLaunchBeginsADataset) {
  Dataset files = Given(3);
  files.kind.files = true;
  const DatasetPtr dataset = ledger_.Adopt(files);
  const DatasetPtr memory = ledger_.Adopt(Given(5));
  const Launch& launch = Enter(2);
  ledger_.Restored(launch.id, *dataset);
  ledger_.Restored(launch.id, *memory);  // the last one that was restored is another
  EXPECT_TRUE(Of(3).held) << "the application reads its files where they are";
  ledger_.Create(launch, 6, {.step = 60});
  EXPECT_FALSE(Of(3).held);
  EXPECT_TRUE(Of(5).held);
}

// --- Who is asked for ---

TEST_F(FactsTest, WhoWaitsForThePrefixAsksForIt) {
  const DatasetPtr dataset = ledger_.Adopt(Given(3));
  Enter(2);
  EXPECT_FALSE(Of(3).asked);
  ledger_.FlushAsked(*dataset);
  EXPECT_TRUE(Of(3).asked);
}

TEST_F(FactsTest, WhenTheApplicationIsGoneItsNewestCheckpointIsAskedForWhateverTheRhythmIs) {
  ledger_.Adopt(Given(3));
  ledger_.Adopt(Given(4));
  ledger_.Adopt(Output(5));
  const Launch& launch = Enter(2);
  const Config::Flush rhythm{.every = 10}, none{.every = 0};
  EXPECT_FALSE(Of(4, rhythm).asked) << "it runs";
  ledger_.SessionEnded(launch, 0, /*closed=*/false);
  EXPECT_TRUE(Of(4, rhythm).asked);
  EXPECT_FALSE(Of(3, rhythm).asked);
  EXPECT_FALSE(Of(5, rhythm).asked);
  EXPECT_FALSE(Of(4, none).asked) << "nothing is flushed by itself";
}

// --- Which of them are told ---

TEST_F(FactsTest, OfAllThatRestsOnThePrefixOnlyTheNewestThatSupersedesIsTold) {
  for (DatasetId id = 1; id <= 1000; ++id) ledger_.Adopt(Given(id, Place::kAbsent, Place::kWhole));
  EXPECT_TRUE(FactsOf(ledger_, {}).empty()) << "nothing is in play";
  ledger_.SetPinned(*ledger_.Get(1), true);
  std::vector<DatasetId> ids;
  for (const DatasetFacts& facts : FactsOf(ledger_, {.every = 1})) ids.push_back(facts.id);
  EXPECT_EQ(ids, (std::vector<DatasetId>{1, 1000}));
  EXPECT_EQ(AllFactsOf(ledger_, {}).size(), 1000u);
}

// A run with a history of any kind.
class AnyRun {
 public:
  explicit AnyRun(std::uint64_t seed) : random_(seed) {
    const std::uint64_t count = Below(14);
    for (DatasetId id = 1; id <= count; ++id) Adopt(id);
    if (Below(3) == 0) return;
    const Launch& launch = ledger_.Enter(5, "key", 1, "secret");
    if (Below(2) == 0) ledger_.SessionLive(launch, 0);
    if (Below(2) == 0) ledger_.PinLatest(launch);
  }
  std::uint64_t Below(std::uint64_t limit) { return random_() % limit; }
  const Ledger& ledger() const { return ledger_; }

 private:
  void Adopt(DatasetId id) {
    Dataset dataset;
    dataset.id = id;
    dataset.launch = Below(6);
    dataset.foreign = Below(8) == 0;
    dataset.created_us = static_cast<std::int64_t>(Below(20));
    dataset.ordinal = Below(5);
    dataset.nranks = 1;
    dataset.kind = {.files = Below(3) == 0, .checkpoint = Below(4) != 0, .output = Below(4) == 0};
    dataset.cache = Below(3) == 0 ? Place::kWhole : Place::kAbsent;
    dataset.prefix = dataset.cache == Place::kAbsent || Below(2) == 0 ? Place::kWhole : Place::kAbsent;
    dataset.standing = Below(2) == 0 ? Standing::kCurrent : static_cast<Standing>(Below(9));
    dataset.pinned = Below(8) == 0;
    dataset.asked = Below(8) == 0;
    dataset.parts.resize(1);
    dataset.parts.front().state = Part::State::kStored;
    dataset.parts.front().bytes = 1 + Below(5);
    ledger_.Adopt(std::move(dataset));
  }

  std::mt19937_64 random_;
  Ledger ledger_{[](const DatasetPtr&, const std::string&) {}};
};

std::vector<DatasetId> Dropped(const FlushPlan& plan) {
  std::vector<DatasetId> ids;
  for (const auto& [id, successor] : plan.drop) ids.insert(ids.end(), {id, successor});
  return ids;
}

TEST(FactsOfTest, WithoutWhatRestsEachDecisionIsTheSame) {
  for (std::uint64_t seed = 1; seed <= 20000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    AnyRun run(seed);
    Config::Flush flush;
    flush.every = static_cast<std::uint32_t>(run.Below(4));
    flush.superseded = run.Below(2) == 0;
    const std::uint64_t bytes = run.Below(12);
    const auto keep = static_cast<std::uint32_t>(run.Below(3));
    const auto few = FactsOf(run.ledger(), flush), all = AllFactsOf(run.ledger(), flush);
    const FlushPlan plan = PlanFlushes(few, flush, 2), full_plan = PlanFlushes(all, flush, 2);
    EXPECT_EQ(plan.start, full_plan.start);
    EXPECT_EQ(Dropped(plan), Dropped(full_plan));
    EXPECT_EQ(NewestRestartable(few), NewestRestartable(all));
    EXPECT_EQ(EvictionOrder(few), EvictionOrder(all));
    EXPECT_EQ(EvictForRoom(few, bytes), EvictForRoom(all, bytes));
    EXPECT_EQ(EvictNewest(few), EvictNewest(all));
    EXPECT_EQ(EvictBeyondKeep(few, keep, flush), EvictBeyondKeep(all, keep, flush));
    EXPECT_EQ(ChooseSpare(few, keep, flush, bytes), ChooseSpare(all, keep, flush, bytes));
    EXPECT_EQ(EvictLingering(few, 2, 1), EvictLingering(all, 2, 1));
  }
}

}  // namespace
}  // namespace cairn
