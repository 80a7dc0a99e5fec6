// The datasets by age, and those in play, while they come, change and go: daemon/core/age_order.h, ledger.h.
#include "daemon/core/age_order.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "daemon/core/ledger.h"

namespace cairn {
namespace {

constexpr int kSeeds = 500;
constexpr int kSteps = 60;

std::vector<DatasetId> Ids(const std::vector<DatasetPtr>& datasets) {
  std::vector<DatasetId> ids;
  for (const DatasetPtr& dataset : datasets) ids.push_back(dataset->id);
  return ids;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t Below(std::uint64_t limit) { return engine_() % limit; }
  bool OneOf(std::uint64_t times) { return Below(times) == 0; }

 private:
  std::mt19937_64 engine_;
};

// Mostly the newest of all; sometimes an older launch's, an adopted one, or SCR's own.
Dataset Any(Random& random, DatasetId newest) {
  Dataset dataset;
  dataset.id = random.OneOf(8) ? 1 + random.Below(newest + 1) : newest + 1;
  dataset.launch = random.OneOf(8) ? random.Below(4) : 1 + newest / 10;
  dataset.foreign = dataset.launch == 0 && random.OneOf(2);
  dataset.created_us =
      random.OneOf(8) ? static_cast<std::int64_t>(random.Below(1000)) : static_cast<std::int64_t>(100 * dataset.id);
  dataset.nranks = 1;
  dataset.prefix = Place::kWhole;
  return dataset;
}

TEST(AgeOrderTest, WhateverComesAndGoesTheOrderIsThatOfSortingAnew) {
  for (int seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Random random(static_cast<std::uint64_t>(seed));
    Datasets all;
    AgeOrder order;
    DatasetId newest = 0;
    for (int step = 0; step < kSteps; ++step) {
      if (!all.empty() && random.OneOf(4)) {
        auto at = all.begin();
        std::advance(at, static_cast<std::ptrdiff_t>(random.Below(all.size())));
        const DatasetPtr gone = at->second;
        all.erase(at);
        order.Removed(gone);
      } else {
        auto dataset = std::make_shared<Dataset>(Any(random, newest));
        if (all.contains(dataset->id)) continue;
        newest = std::max(newest, dataset->id);
        all[dataset->id] = dataset;
        order.Added(dataset);
      }
      if (random.OneOf(2)) continue;  // nobody asks in between
      ASSERT_EQ(Ids(order.Of(all)), Ids(SortedByAge(all))) << "step " << step;
    }
  }
}

TEST(AgeOrderTest, WhoseItIsMayChange) {
  AgeOrder order;
  auto adopted = std::make_shared<Dataset>();
  adopted->id = 5;
  auto newer = std::make_shared<Dataset>();
  newer->id = 6;
  newer->launch = 1;
  newer->created_us = 10;
  adopted->created_us = 20;
  const Datasets all{{5, adopted}, {6, newer}};
  order.Added(adopted);
  order.Added(newer);
  EXPECT_EQ(Ids(order.Of(all)), (std::vector<DatasetId>{5, 6}));
  adopted->foreign = true;  // SCR's own, made later than dataset 6: SCR had gone back
  order.MakerChanged();
  EXPECT_EQ(Ids(order.Of(all)), (std::vector<DatasetId>{6, 5}));
}

// --- In play ---

// Any event that may come to the dataset as it is now.
void Happens(Random& random, Ledger& ledger, const DatasetPtr& dataset) {
  switch (random.Below(12)) {
    case 0:
      if (dataset->in_cache()) ledger.LeftCache(*dataset, "room");
      break;
    case 1:
      ledger.FolderGone(dataset->id);
      break;
    case 2:
      if (dataset->prefix == Place::kAbsent) ledger.FlushBegan(*dataset);
      break;
    case 3:
      if (dataset->prefix == Place::kArriving) ledger.Committed(*dataset);
      break;
    case 4:
      ledger.FlushAsked(*dataset);
      break;
    case 5:
      ledger.SetPinned(*dataset, !dataset->pinned);
      break;
    case 6:
      ledger.ReadBegan(*dataset);
      break;
    case 7:
      if (dataset->readers > 0) ledger.ReadEnded(*dataset);
      break;
    case 8:
      if (dataset->in_prefix() && !dataset->in_cache()) ledger.RemovalBegan(*dataset);
      break;
    case 9:
      ledger.GaveWay(*dataset, dataset->id + 1, "its names");
      break;
    case 10:
      ledger.SeenOnPrefix(*dataset, /*by_cairn=*/random.OneOf(2));
      break;
    default:
      ledger.FlushCancelled(*dataset);
      break;
  }
}

void ExpectConsistent(const Ledger& ledger) {
  Datasets in_play;
  for (const auto& [id, dataset] : ledger.datasets()) {
    if (!dataset->at_rest()) in_play.emplace(id, dataset);
  }
  EXPECT_EQ(ledger.InPlay(), in_play);
  EXPECT_EQ(Ids(ledger.ByAge()), Ids(SortedByAge(ledger.datasets())));
  const std::span<const DatasetPtr> since = ledger.SinceOldestInPlay();
  const std::size_t older = ledger.ByAge().size() - since.size();
  for (std::size_t i = 0; i < older; ++i) EXPECT_TRUE(ledger.ByAge()[i]->at_rest()) << ledger.ByAge()[i]->id;
  EXPECT_TRUE(since.empty() || !since.front()->at_rest()) << "no longer than it must be";
}

TEST(InPlayTest, WhateverHappensAllThatIsNotAtRestIsInPlay) {
  for (int seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Random random(static_cast<std::uint64_t>(seed));
    Ledger ledger([](const DatasetPtr&, const std::string&) {});
    std::vector<DatasetPtr> removing;
    DatasetId newest = 0;
    for (int step = 0; step < kSteps; ++step) {
      if (ledger.datasets().empty() || random.OneOf(4)) {
        Dataset dataset = Any(random, newest);
        dataset.parts.resize(1);
        dataset.parts.front().state = Part::State::kStored;
        dataset.cache = random.OneOf(2) ? Place::kWhole : Place::kAbsent;
        newest = std::max(newest, dataset.id);
        if (!ledger.Get(dataset.id)) ledger.Adopt(dataset);
      } else {
        auto at = ledger.datasets().begin();
        std::advance(at, static_cast<std::ptrdiff_t>(random.Below(ledger.datasets().size())));
        const DatasetPtr dataset = at->second;
        Happens(random, ledger, dataset);
        if (dataset->prefix == Place::kLeaving) removing.push_back(dataset);
      }
      if (!removing.empty() && random.OneOf(3)) {
        const DatasetPtr dataset = removing.back();
        removing.pop_back();
        if (dataset->prefix == Place::kLeaving && !ledger.Get(dataset->id)) ledger.RemovalFailed(dataset);
      }
      if (random.OneOf(2)) ExpectConsistent(ledger);
    }
  }
}

TEST(InPlayTest, WhatRestsOnThePrefixComesIntoPlayWhenItIsReadAndRestsAgainAfterwards) {
  Ledger ledger([](const DatasetPtr&, const std::string&) {});
  Dataset given;
  given.id = 3;
  given.nranks = 1;
  given.prefix = Place::kWhole;
  const DatasetPtr dataset = ledger.Adopt(given);
  EXPECT_TRUE(ledger.InPlay().empty());
  EXPECT_TRUE(ledger.SinceOldestInPlay().empty());
  ledger.ReadBegan(*dataset);
  EXPECT_EQ(ledger.InPlay().count(3), 1u);
  ledger.ReadEnded(*dataset);
  EXPECT_TRUE(ledger.InPlay().empty());
  ledger.RefetchBegan(*dataset);
  ledger.Refetched(*dataset);
  EXPECT_EQ(ledger.InPlay().count(3), 1u);
}

}  // namespace
}  // namespace cairn
