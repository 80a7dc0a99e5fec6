// What a node tells others that they may restore: daemon/core/holdings.h.
#include "daemon/core/holdings.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using Told = peer::Holding;

const std::string kMark(32, 'e');

Dataset WholeInCache(DatasetId id) {
  Dataset dataset;
  dataset.id = id;
  dataset.launch = 3;
  dataset.mark = kMark;
  dataset.step = 10 * id;
  dataset.attempt = 2;
  dataset.nranks = 2;
  dataset.created_us = 1'700'000'000'000'000;
  dataset.cache = Place::kWhole;
  dataset.parts.resize(2);
  for (Part& part : dataset.parts) {
    part.state = Part::State::kStored;
    part.bytes = 100;
  }
  return dataset;
}

class HoldingsTest : public ::testing::Test {
 protected:
  std::vector<DatasetId> Ids() const {
    std::vector<DatasetId> ids;
    const peer::Holdings holdings = HoldingsOf(ledger_, {});
    EXPECT_OK(Check(holdings));
    for (const Told& holding : holdings.datasets()) ids.push_back(holding.dataset());
    return ids;
  }
  Ledger ledger_{[](const DatasetPtr&, const std::string&) {}};
};

TEST_F(HoldingsTest, AllThatAnotherDaemonNeedsIsTold) {
  Dataset dataset = WholeInCache(7);
  dataset.kind = {.files = true, .checkpoint = true, .output = true};
  dataset.ordinal = 5;
  dataset.name = "step \xff";
  dataset.user = "me";
  dataset.job = "job.1";
  dataset.pinned = true;
  ledger_.Adopt(dataset);
  const peer::Holdings holdings = HoldingsOf(ledger_, {});
  ASSERT_EQ(holdings.datasets_size(), 1);
  const Told& told = holdings.datasets(0);
  EXPECT_EQ(told.dataset(), 7u);
  EXPECT_EQ(told.launch(), 3u);
  EXPECT_EQ(told.step(), 70u);
  EXPECT_EQ(told.attempt(), 2u);
  EXPECT_EQ(told.nranks(), 2u);
  EXPECT_TRUE(told.files() && told.checkpoint() && told.output());
  EXPECT_EQ(told.created_us(), dataset.created_us);
  EXPECT_EQ(told.mark(), kMark);
  EXPECT_EQ(told.name(), "step \xff");
  EXPECT_EQ(told.user(), "me");
  EXPECT_EQ(told.job(), "job.1");
  EXPECT_EQ(told.ordinal(), 5u);
  EXPECT_EQ(told.standing(), Told::CURRENT);
  EXPECT_TRUE(told.pinned());
  EXPECT_EQ(told.bytes(), 200u);
  const Dataset heard = DatasetOf(told);
  EXPECT_EQ(heard.id, dataset.id);
  EXPECT_EQ(heard.launch, dataset.launch);
  EXPECT_EQ(heard.mark, dataset.mark);
  EXPECT_EQ(heard.step, dataset.step);
  EXPECT_EQ(heard.attempt, dataset.attempt);
  EXPECT_EQ(heard.nranks, dataset.nranks);
  EXPECT_TRUE(heard.kind.files && heard.kind.checkpoint && heard.kind.output);
  EXPECT_EQ(heard.created_us, dataset.created_us);
  EXPECT_EQ(heard.name, dataset.name);
  EXPECT_EQ(heard.user, "me");
  EXPECT_EQ(heard.job, "job.1");
  EXPECT_EQ(heard.ordinal, 5u);
  EXPECT_EQ(heard.standing, Standing::kCurrent);
  EXPECT_EQ(heard.cache, Place::kAbsent);
  peer::Holdings again;
  ASSERT_TRUE(again.ParseFromString(holdings.SerializeAsString())) << "names are bytes";
}

TEST_F(HoldingsTest, OnlyWhatIsWholeInTheCacheIsTold) {
  ledger_.Adopt(WholeInCache(1));
  Dataset far = WholeInCache(2);
  far.cache = Place::kAbsent;
  far.prefix = Place::kWhole;
  ledger_.Adopt(far);
  Dataset both = WholeInCache(3);
  both.prefix = Place::kWhole;
  ledger_.Adopt(both);
  const DatasetPtr damaged = ledger_.Adopt(WholeInCache(4));
  ledger_.CacheDamaged(*damaged, "a bit");
  const DatasetPtr leaves = ledger_.Adopt(WholeInCache(5));
  ledger_.FlushBegan(*leaves);
  ledger_.Committed(*leaves);
  ledger_.LeftCache(*leaves, "evicted");
  const Launch& launch = ledger_.Enter(9, "key", 1, "secret");
  ledger_.SessionLive(launch, 0);
  const DatasetPtr written = ledger_.Create(launch, 6, {.step = 1});
  ASSERT_OK(ledger_.Begin(launch, written, 0, {.step = 1}, {}));
  EXPECT_EQ(Ids(), (std::vector<DatasetId>{1, 3}));
}

TEST_F(HoldingsTest, WhatIsCapturedAndWhatWasRejectedIsTold) {
  const Launch& launch = ledger_.Enter(9, "key", 1, "secret");
  ledger_.SessionLive(launch, 0);
  const DatasetPtr written = ledger_.Create(launch, 6, {.step = 1});
  ASSERT_OK(ledger_.Begin(launch, written, 0, {.step = 1}, {}));
  EXPECT_EQ(HoldingsOf(ledger_, {}).settling(), 0u);
  ledger_.Captured(*written, 0);
  peer::Holdings holdings = HoldingsOf(ledger_, {3, 8});
  EXPECT_EQ(holdings.settling(), 1u);
  ASSERT_EQ(holdings.rejected_size(), 2);
  EXPECT_EQ(holdings.rejected(1), 8u);
  ledger_.Stored(*written, 0, {});
  ledger_.Completed(*written);
  holdings = HoldingsOf(ledger_, {});
  EXPECT_EQ(holdings.settling(), 0u);
  EXPECT_EQ(holdings.datasets_size(), 1);
}

TEST_F(HoldingsTest, WhatIsSetApartOrScrsIsNotTold) {
  const std::vector<std::pair<Standing, bool>> told = {
      {Standing::kCurrent, true},   {Standing::kDoubted, true},  {Standing::kSuperseded, true},
      {Standing::kGaveWay, false},  {Standing::kFenced, true},   {Standing::kAnothers, false},
      {Standing::kTakenOut, false}, {Standing::kIdTaken, false}, {Standing::kHistory, false}};
  DatasetId id = 0;
  for (const auto& [standing, is_told] : told) {
    Dataset dataset = WholeInCache(++id);
    dataset.standing = standing;
    ledger_.Adopt(dataset);
  }
  Dataset scrs = WholeInCache(++id);
  scrs.foreign = true;
  ledger_.Adopt(scrs);
  EXPECT_EQ(Ids(), (std::vector<DatasetId>{1, 2, 3, 5}));
  const peer::Holdings holdings = HoldingsOf(ledger_, {});
  EXPECT_EQ(holdings.datasets(1).standing(), Told::DOUBTED);
  EXPECT_EQ(holdings.datasets(2).standing(), Told::SUPERSEDED);
  EXPECT_EQ(holdings.datasets(3).standing(), Told::CURRENT) << "a commit that came too late: the next launch's counts";
}

TEST_F(HoldingsTest, NonsenseIsRefusedByTheNameOfItsField) {
  ledger_.Adopt(WholeInCache(1));
  ledger_.Adopt(WholeInCache(2));
  const std::vector<std::pair<std::string, std::function<void(Told&)>>> bad = {
      {"holdings.datasets[1].dataset: 1 after 1", [](Told& one) { one.set_dataset(1); }},
      {"holdings.datasets[1].dataset", [](Told& one) { one.set_dataset(0); }},
      {"holdings.datasets[1].nranks", [](Told& one) { one.set_nranks(0); }},
      {"holdings.datasets[1].nranks", [](Told& one) { one.set_nranks(1u << 30); }},
      {"holdings.datasets[1].created_us", [](Told& one) { one.set_created_us(-1); }},
      {"holdings.datasets[1].mark", [](Told& one) { one.set_mark("x"); }},
      {"holdings.datasets[1].name", [](Told& one) { one.set_name(std::string(5000, 'n')); }},
      {"holdings.datasets[1].user", [](Told& one) { one.set_user(std::string(5000, 'n')); }},
      {"holdings.datasets[1].job", [](Told& one) { one.set_job(std::string(5000, 'n')); }},
      {"holdings.datasets[1].standing", [](Told& one) { one.set_standing(Told::STANDING_UNKNOWN); }},
      {"holdings.datasets[1].standing", [](Told& one) { one.set_standing(static_cast<Told::Standing>(17)); }},
  };
  for (const auto& [text, spoil] : bad) {
    peer::Holdings holdings = HoldingsOf(ledger_, {});
    ASSERT_OK(Check(holdings));
    spoil(*holdings.mutable_datasets(1));
    EXPECT_STATUS(StatusCode::kInvalidArgument, Check(holdings), text);
  }
}

}  // namespace
}  // namespace cairn
