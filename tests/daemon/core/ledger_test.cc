#include "daemon/core/ledger.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cairn {
namespace {

using Joining = Ledger::Joining;

class LedgerTest : public ::testing::Test {
 protected:
  const Launch& Enter(LaunchId id, std::uint32_t nranks, const std::string& key = "key") {
    const Launch& launch = ledger_.Enter(id, key, nranks, "secret");
    for (Rank rank = 0; rank < nranks; ++rank) ledger_.SessionLive(launch, rank);
    return launch;
  }

  // A rank begins; the dataset is made if it is not there. 0: it was refused.
  DatasetId Begin(const Launch& launch, Rank rank, std::uint64_t step, std::uint32_t attempt = 1,
                  const VariableList& variables = {}) {
    Ledger::BeginSpec spec{.step = step, .attempt = attempt, .bytes = 10, .now_us = now_us_};
    auto found = ledger_.FindForBegin(launch, rank, spec);
    if (!found.ok()) {
      last_error_ = found.status();
      return 0;
    }
    const DatasetPtr dataset = *found ? *found : ledger_.Create(launch, ++last_id_, spec);
    last_error_ = ledger_.Begin(launch, dataset, rank, spec, variables);
    return last_error_.ok() ? dataset->id : 0;
  }

  void Whole(DatasetId id) {
    const DatasetPtr dataset = ledger_.Get(id);
    for (Rank rank = 0; rank < dataset->nranks; ++rank) {
      ledger_.Captured(*dataset, rank);
      ledger_.Stored(*dataset, rank, {});
    }
    ledger_.Completed(*dataset);
  }

  std::map<DatasetId, std::string> failed_;
  Ledger ledger_{[this](const DatasetPtr& dataset, const std::string& why) { failed_[dataset->id] = why; }};
  DatasetId last_id_ = 0;
  std::int64_t now_us_ = 0;
  absl::Status last_error_;
};

local::Variable Value(std::int32_t id, const std::string& name) {
  local::Variable variable;
  variable.set_id(id);
  variable.set_kind(local::VALUE);
  variable.set_name(name);
  variable.set_type(10);
  variable.set_count(1);
  variable.set_bytes(8);
  return variable;
}

TEST_F(LedgerTest, RanksOfOneStepFormOneDatasetAndItsLevelIsTheLowestOfAll) {
  const Launch& launch = Enter(1, 2);
  const DatasetId id = Begin(launch, 0, 5);
  EXPECT_EQ(Begin(launch, 1, 5), id);
  const DatasetPtr dataset = ledger_.Get(id);
  ledger_.Captured(*dataset, 0);
  EXPECT_EQ(dataset->level(), Level::kNone);
  ledger_.Captured(*dataset, 1);
  EXPECT_EQ(dataset->level(), Level::kCaptured);
  for (Rank rank : {0, 1}) ledger_.Stored(*dataset, rank, {});
  EXPECT_EQ(dataset->level(), Level::kCaptured);
  ledger_.Completed(*dataset);
  EXPECT_EQ(dataset->level(), Level::kLocal);
  ledger_.FlushBegan(*dataset);
  EXPECT_EQ(dataset->level(), Level::kLocal);
  ledger_.Committed(*dataset);
  EXPECT_EQ(dataset->level(), Level::kPrefix);
}

TEST_F(LedgerTest, TheNthBeginOfAStepJoinsTheNthAttempt) {
  const Launch& launch = Enter(1, 2);
  const DatasetId first = Begin(launch, 0, 5, 1);
  const DatasetId second = Begin(launch, 0, 5, 2);
  EXPECT_NE(first, second);
  EXPECT_EQ(Begin(launch, 1, 5, 1), first);
  EXPECT_EQ(Begin(launch, 1, 5, 2), second);
  EXPECT_TRUE(failed_.empty());
}

TEST_F(LedgerTest, BeginningALaterDatasetFailsAnEarlierOneThatTheRankLeftOut) {
  const Launch& launch = Enter(1, 2);
  const DatasetId earlier = Begin(launch, 0, 5);
  const DatasetId later = Begin(launch, 0, 6);
  EXPECT_EQ(Begin(launch, 1, 6), later);
  ASSERT_TRUE(failed_.contains(earlier));
  EXPECT_NE(failed_[earlier].find("rank 1"), std::string::npos) << failed_[earlier];
  EXPECT_FALSE(failed_.contains(later));
  EXPECT_EQ(ledger_.FindGone(earlier)->why, Gone::Why::kFailed);
}

TEST_F(LedgerTest, ARankThatComesToAFailedDatasetLearnsThatItFailed) {
  const Launch& launch = Enter(1, 2);
  const DatasetId id = Begin(launch, 0, 5);
  ledger_.Fail(id, "the disk is full");
  EXPECT_EQ(Begin(launch, 1, 5), 0u);
  EXPECT_EQ(last_error_.code(), absl::StatusCode::kAborted);
  EXPECT_NE(last_error_.ToString().find("the disk is full"), std::string::npos);
}

TEST_F(LedgerTest, ClosingWithoutHavingBegunFailsTheDatasetAtOnce) {
  const Launch& launch = Enter(1, 2);
  const DatasetId id = Begin(launch, 0, 5);
  ledger_.SessionEnded(launch, 1, /*closed=*/true);
  EXPECT_TRUE(failed_.contains(id));
  EXPECT_EQ(Begin(launch, 0, 6), 0u);
  EXPECT_EQ(last_error_.code(), absl::StatusCode::kAborted);
}

TEST_F(LedgerTest, ALostRankFailsWhatItHadNotHandedOverAndNothingElse) {
  const Launch& launch = Enter(1, 2);
  const DatasetId handed_over = Begin(launch, 0, 5);
  Begin(launch, 1, 5);
  ledger_.Captured(*ledger_.Get(handed_over), 0);
  ledger_.Captured(*ledger_.Get(handed_over), 1);
  const DatasetId half = Begin(launch, 0, 6);
  Begin(launch, 1, 6);
  ledger_.Captured(*ledger_.Get(half), 0);
  ledger_.SessionEnded(launch, 1, /*closed=*/false);
  EXPECT_FALSE(failed_.contains(handed_over));
  ASSERT_TRUE(failed_.contains(half));
  EXPECT_NE(failed_[half].find("rank 1 was lost"), std::string::npos) << failed_[half];
}

TEST_F(LedgerTest, RanksThatDisagreeOnAVariableFailTheDatasetNamingBoth) {
  const Launch& launch = Enter(1, 2);
  VariableList a, b;
  *a.Add() = Value(1, "time");
  *b.Add() = Value(1, "Time");
  const DatasetId id = Begin(launch, 0, 5, 1, a);
  EXPECT_EQ(Begin(launch, 1, 5, 1, b), 0u);
  ASSERT_TRUE(failed_.contains(id));
  EXPECT_NE(failed_[id].find("rank 0 and rank 1"), std::string::npos) << failed_[id];
}

TEST_F(LedgerTest, AKeyIsJoinedWhileItsLaunchIsWholeAndLacksTheRank) {
  const Launch& launch = ledger_.Enter(1, "key", 2, "secret");
  EXPECT_EQ(*ledger_.Decide("key", 0, 2, false), Joining::kJoin);
  ledger_.SessionLive(launch, 0);
  EXPECT_EQ(*ledger_.Decide("key", 1, 2, false), Joining::kJoin);
  EXPECT_EQ(*ledger_.Decide("key", 0, 2, false), Joining::kBusy) << "the same rank twice";
  EXPECT_EQ(ledger_.Decide("key", 1, 3, false).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LedgerTest, AnotherKeyIsBusyWhileAnyoneLivesUnlessItTakesOver) {
  const Launch& launch = Enter(1, 1, "old");
  EXPECT_EQ(*ledger_.Decide("new", 0, 1, false), Joining::kBusy);
  EXPECT_EQ(*ledger_.Decide("new", 0, 1, true), Joining::kMakeNew);
  ledger_.SessionEnded(launch, 0, /*closed=*/false);
  EXPECT_EQ(*ledger_.Decide("new", 0, 1, false), Joining::kMakeNew);
}

TEST_F(LedgerTest, ALaunchThatLostASessionIsNotJoinedAgain) {
  const Launch& launch = Enter(1, 2);
  ledger_.SessionEnded(launch, 0, /*closed=*/false);
  ledger_.SessionEnded(launch, 1, /*closed=*/false);
  EXPECT_EQ(*ledger_.Decide("key", 0, 2, false), Joining::kMakeNew);
}

TEST_F(LedgerTest, ATakeOverFencesTheOldLaunchAndFailsWhatItHadOpen) {
  const Launch& old = Enter(1, 2, "old");
  const DatasetId id = Begin(old, 0, 5);
  const Launch& fresh = ledger_.Enter(2, "new", 2, "secret");
  EXPECT_TRUE(ledger_.Find(1)->fenced());
  EXPECT_TRUE(failed_.contains(id));
  EXPECT_EQ(ledger_.newest(), &fresh);
}

TEST_F(LedgerTest, TheNewestRestorableIsTheNewestWholeCheckpoint) {
  const Launch& launch = Enter(1, 1);
  const DatasetId first = Begin(launch, 0, 1);
  Whole(first);
  const DatasetId second = Begin(launch, 0, 2);
  Whole(second);
  Begin(launch, 0, 3);  // not whole
  EXPECT_EQ(ledger_.NewestRestorable()->id, second);
  ledger_.CacheDamaged(*ledger_.Get(second), "a bit has flipped");
  EXPECT_TRUE(ledger_.Get(second)->damaged());
  EXPECT_EQ(ledger_.NewestRestorable()->id, first);
  EXPECT_EQ(ledger_.NewestRestorable(first), nullptr);
}

TEST_F(LedgerTest, APinHoldsUntilTheLaunchBeginsADataset) {
  const Launch& launch = Enter(1, 1);
  const DatasetId first = Begin(launch, 0, 1);
  Whole(first);
  ledger_.SessionEnded(launch, 0, true);
  const Launch& next = Enter(2, 1, "next");
  EXPECT_EQ(ledger_.PinLatest(next)->id, first);
  EXPECT_TRUE(ledger_.PinnedByLaunch(first));
  Begin(next, 0, 2);
  EXPECT_FALSE(ledger_.PinnedByLaunch(first));
  EXPECT_EQ(next.pin.state, Launch::Pin::State::kEnded);
}

// A rank that asks late, when others have gone on, would wait for them for ever with another answer than theirs.
TEST_F(LedgerTest, WhatTurnsOutAfterTheOthersWereToldIsNotForTheLaunch) {
  const Launch& launch = Enter(1, 2);
  const DatasetId older = Begin(launch, 0, 1);
  ledger_.SessionEnded(launch, 0, true);
  const Launch& next = Enter(2, 1, "next");
  EXPECT_EQ(ledger_.PinLatest(next), nullptr);
  const DatasetId own = Begin(next, 0, 2);
  Dataset found;
  found.id = 99;
  found.launch = 1;
  found.step = 7;
  found.prefix = Place::kWhole;
  found.nranks = 1;
  ledger_.Adopt(std::move(found));
  EXPECT_EQ(ledger_.NewestRestorable()->id, 99u) << older;
  EXPECT_EQ(ledger_.PinLatest(next), nullptr);
  Whole(own);
  EXPECT_EQ(ledger_.PinLatest(next)->id, own);
}

TEST_F(LedgerTest, WhatIsGoneIsRememberedWithItsReason) {
  const Launch& launch = Enter(1, 1);
  const DatasetId id = Begin(launch, 0, 1);
  Whole(id);
  ledger_.Forget(id, {.why = Gone::Why::kSuperseded, .message = "room", .successor = 9, .step = 1});
  EXPECT_EQ(ledger_.Get(id), nullptr);
  ASSERT_NE(ledger_.FindGone(id), nullptr);
  EXPECT_EQ(ledger_.FindGone(id)->successor, 9u);
}

TEST_F(LedgerTest, ABoundHoldsForWhatOthersMadeUntilTheLaunchHasCommittedACheckpoint) {
  const Launch& first = Enter(1, 1);
  for (std::uint64_t step = 1; step <= 3; ++step) Whole(Begin(first, 0, step));
  const Launch& second = Enter(2, 1, "another");
  ledger_.SetBound(second, 2, 0);
  EXPECT_EQ(ledger_.NewestRestorableFor(second)->id, 2u);
  Launch without = second;
  without.passed_over.insert(2);
  EXPECT_EQ(ledger_.NewestRestorableFor(without)->id, 1u);
  EXPECT_EQ(ledger_.NewestRestorable()->id, 3u);
  const DatasetId own = Begin(second, 0, 4);
  Whole(own);
  EXPECT_EQ(ledger_.NewestRestorableFor(second)->id, own);  // its own are no others'
  EXPECT_EQ(ledger_.BoundOf(second), 2u);
  EXPECT_EQ(ledger_.NewestRestorableFor(second, own)->id, 2u);
  ledger_.FlushBegan(*ledger_.Get(own));
  ledger_.Committed(*ledger_.Get(own));
  EXPECT_EQ(ledger_.BoundOf(second), 0u);
  EXPECT_EQ(ledger_.NewestRestorableFor(second, own)->id, 3u);
}

TEST_F(LedgerTest, ABoundHoldsForWhatWasMadeBeforeItWasSet) {
  const Launch& first = Enter(1, 1);
  for (std::uint64_t step = 1; step <= 4; ++step) {
    now_us_ = static_cast<std::int64_t>(step * 1000);
    Whole(Begin(first, 0, step));
  }
  const Launch& second = Enter(2, 1, "another");
  ledger_.SetBound(second, 1, 0);
  EXPECT_EQ(ledger_.NewestRestorableFor(second)->id, 1u);
  ledger_.SetBound(second, 1, 3000);
  EXPECT_EQ(ledger_.NewestRestorableFor(second)->id, 4u);
  EXPECT_EQ(ledger_.NewestRestorableFor(second, 4)->id, 1u);
}

TEST_F(LedgerTest, ABoundThatNamesAnOutdatedDatasetMeansIt) {
  const Launch& first = Enter(1, 1);
  now_us_ = 2000;
  Whole(Begin(first, 0, 1));
  Dataset adopted = *ledger_.Get(1);
  adopted.id = 70;
  adopted.launch = 0;
  adopted.created_us = 1000;
  ledger_.Adopt(adopted);
  const Launch& second = Enter(2, 1, "another");
  EXPECT_EQ(ledger_.NewestRestorableFor(second)->id, 1u);
  ledger_.SetBound(second, 70, 0);
  EXPECT_EQ(ledger_.NewestRestorableFor(second)->id, 70u);
  ledger_.PassOver(second.id, 70);
  EXPECT_EQ(ledger_.NewestRestorableFor(second), nullptr);  // the other one is newer
  ledger_.SetBound(second, 1, 0);
  EXPECT_EQ(ledger_.NewestRestorableFor(second)->id, 1u);
}

TEST_F(LedgerTest, WhatWasDroppedFromTheIndexIsNotChosen) {
  const Launch& first = Enter(1, 1);
  for (std::uint64_t step = 1; step <= 2; ++step) Whole(Begin(first, 0, step));
  ledger_.TakenOut(*ledger_.Get(2));
  EXPECT_EQ(ledger_.NewestRestorable()->id, 1u);
  EXPECT_EQ(ledger_.NewestRestorableFor(Enter(2, 1, "another"))->id, 1u);
}

TEST_F(LedgerTest, ADirtyRankFailsTheCheckpointsThatLackItsBytesAndNoOthers) {
  const Launch& launch = Enter(1, 2);
  const DatasetId whole = Begin(launch, 0, 1);
  Begin(launch, 1, 1);
  Whole(whole);
  const DatasetId handed_over = Begin(launch, 0, 2);
  Begin(launch, 1, 2);
  ledger_.Captured(*ledger_.Get(handed_over), 1);
  const DatasetId begun = Begin(launch, 0, 3);
  Begin(launch, 1, 3);
  const DatasetId without = Begin(launch, 0, 4);
  EXPECT_EQ(ledger_.WhyDirty(launch.id), "");

  EXPECT_TRUE(ledger_.MemoryDirty(launch.id, 1));
  EXPECT_FALSE(ledger_.MemoryDirty(launch.id, 1));
  EXPECT_EQ(failed_.size(), 2u);
  EXPECT_NE(failed_[begun].find("the memory of rank 1"), std::string::npos) << failed_[begun];
  EXPECT_TRUE(failed_.contains(without));
  EXPECT_NE(ledger_.WhyDirty(launch.id).find("of rank 1 may"), std::string::npos) << ledger_.WhyDirty(launch.id);
  ledger_.MemoryDirty(launch.id, 0);
  EXPECT_NE(ledger_.WhyDirty(launch.id).find("of rank 0 (and of 1 more)"), std::string::npos);
}

TEST_F(LedgerTest, ALaunchIsCleanWhenItsLastDirtyRankIsCleanOrGone) {
  const Launch& launch = Enter(1, 2);
  ledger_.MemoryDirty(launch.id, 0);
  ledger_.MemoryDirty(launch.id, 1);
  EXPECT_TRUE(ledger_.MemoryClean(launch.id, 0));
  EXPECT_FALSE(ledger_.MemoryClean(launch.id, 0));
  EXPECT_NE(ledger_.WhyDirty(launch.id), "");
  ledger_.SessionEnded(launch, 1, /*closed=*/false);
  EXPECT_EQ(ledger_.WhyDirty(launch.id), "");
  EXPECT_FALSE(ledger_.MemoryDirty(77, 0)) << "there is no such launch";
  EXPECT_EQ(ledger_.WhyDirty(77), "");
}

// --- The scheme that is asked for ---

TEST_F(LedgerTest, RanksThatAskForOtherSchemesFailTheDataset) {
  const Launch& launch = Enter(1, 2);
  const Ledger::BeginSpec spec{.step = 5, .bytes = 10, .scheme = local::SCHEME_XOR};
  const DatasetPtr dataset = ledger_.Create(launch, ++last_id_, spec);
  EXPECT_EQ(dataset->scheme, local::SCHEME_XOR);
  ASSERT_TRUE(ledger_.Begin(launch, dataset, 0, spec, {}).ok());
  const absl::Status status = ledger_.Begin(launch, dataset, 1, {.step = 5, .bytes = 10}, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(failed_[dataset->id], "rank 1 began it with redundancy as it is configured, others xor");
}

TEST_F(LedgerTest, WhatABeginHasAskedForTheCataloguesDoNotChange) {
  Dataset dataset;
  catalogue::Catalogue catalogue;
  LearnScheme(dataset, catalogue);
  EXPECT_EQ(dataset.scheme, local::SCHEME_NOT_GIVEN);
  catalogue.set_scheme(static_cast<local::Scheme>(77));  // of a newer release
  LearnScheme(dataset, catalogue);
  EXPECT_EQ(dataset.scheme, local::SCHEME_NOT_GIVEN);
  catalogue.set_scheme(local::SCHEME_SINGLE);
  LearnScheme(dataset, catalogue);
  EXPECT_EQ(dataset.scheme, local::SCHEME_SINGLE);
  catalogue.set_scheme(local::SCHEME_RS);
  LearnScheme(dataset, catalogue);
  EXPECT_EQ(dataset.scheme, local::SCHEME_SINGLE);
}

// --- What parts here keep for redundancy sets ---

kept::Set XorOf(const std::vector<Rank>& ranks) {
  kept::Set set;
  set.set_scheme(kept::XOR);
  set.set_groups(1);
  for (const Rank rank : ranks) set.add_ranks(rank);
  return set;
}

// What rank 0 keeps, for these sets, the newest first.
kept::Record RecordOf(const std::vector<kept::Set>& sets) {
  kept::Record record;
  for (const kept::Set& set : sets) {
    for (const bool of_filemap : {false, true}) {
      kept::File& file = *record.add_files();
      *file.mutable_set() = set;
      file.set_of_filemap(of_filemap);
      file.mutable_file()->set_bytes(10);
    }
  }
  return record;
}

class KeptSetsTest : public LedgerTest {
 protected:
  // Ranks 0 and 1; rank 0's part alone is here.
  void SetUp() override {
    Dataset dataset;
    dataset.id = 7;
    PutPartsHere(dataset, 2, {Catalogue(0)});
    dataset.cache = Place::kWhole;
    dataset_ = ledger_.Adopt(dataset);
  }
  static catalogue::Catalogue Catalogue(Rank rank) {
    catalogue::Catalogue catalogue;
    catalogue.set_rank(rank);
    return catalogue;
  }
  void ExpectHere(const std::vector<kept::Set>& sets) {
    const std::vector<SetHere> here = SetsHere(*dataset_);
    ASSERT_EQ(here.size(), sets.size());
    for (std::size_t i = 0; i < sets.size(); ++i) {
      EXPECT_EQ(here[i].set.SerializeAsString(), sets[i].SerializeAsString()) << i;
      EXPECT_TRUE(here[i].keepers.Contains(0));
    }
    EXPECT_EQ(dataset_->keeping_before, sets.size() > 1 ? 1u : 0u);
  }

  const kept::Set a_ = XorOf({0, 1}), b_ = XorOf({1, 0}), c_ = XorOf({0, 1, 2}), d_ = XorOf({0, 2, 1});
  DatasetPtr dataset_;
};

TEST_F(KeptSetsTest, TheNewestIsFirstAndOlderOnesGo) {
  ledger_.KeptHere(*dataset_, RecordOf({c_, b_, a_}));
  ExpectHere({c_, b_, a_});
  EXPECT_EQ(dataset_->kept_bytes, 60u);
  EXPECT_FALSE(ledger_.OlderSetsGo(*dataset_, {d_}));
  ExpectHere({c_, b_, a_});
  EXPECT_TRUE(ledger_.OlderSetsGo(*dataset_, {b_}));
  ExpectHere({c_, b_});
  EXPECT_TRUE(ledger_.OlderSetsGo(*dataset_, {c_}));
  ExpectHere({c_});
  EXPECT_FALSE(ledger_.OlderSetsGo(*dataset_, {c_}));
}

// The first of all may be the only one that ever was whole.
TEST_F(KeptSetsTest, OneMoreFitsBesideTheFirstAndTheNewest) {
  ledger_.KeptHere(*dataset_, RecordOf({d_, c_, b_, a_}));
  ledger_.SetsHereAtMost(*dataset_, 3);
  ExpectHere({d_, c_, a_});
  ledger_.SetsHereAtMost(*dataset_, 3);
  ExpectHere({d_, c_, a_});
}

TEST_F(KeptSetsTest, ACatalogueThatComesTellsTheScheme) {
  EXPECT_EQ(dataset_->scheme, local::SCHEME_NOT_GIVEN);
  catalogue::Catalogue catalogue = Catalogue(1);
  catalogue.set_scheme(local::SCHEME_PARTNER);
  ledger_.PartFound(*dataset_, 1, "n1", catalogue);
  EXPECT_EQ(dataset_->scheme, local::SCHEME_PARTNER);
}

TEST_F(KeptSetsTest, OnlyTheNewestMakesItRedundant) {
  ledger_.PartFound(*dataset_, 1, "n1", Catalogue(1));
  ledger_.KeptHere(*dataset_, RecordOf({b_, a_}));
  ledger_.Keeps(*dataset_, 1, std::make_shared<const kept::Set>(a_));
  EXPECT_FALSE(dataset_->redundant);
  ledger_.Keeps(*dataset_, 1, std::make_shared<const kept::Set>(b_));
  EXPECT_TRUE(dataset_->redundant);
  EXPECT_EQ(SetsAt(*dataset_, "").size(), 1u);
  EXPECT_EQ(SetsAt(*dataset_, "n1").size(), 1u);
  EXPECT_TRUE(SetsAt(*dataset_, "n2").empty());
  ledger_.PartLost(*dataset_, 0);
  EXPECT_FALSE(dataset_->redundant);
  ExpectHere({});
  EXPECT_EQ(dataset_->unknown, 1u);
}

}  // namespace
}  // namespace cairn
