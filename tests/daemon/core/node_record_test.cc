// What this node notes of a run's datasets beside its cache: daemon/core/node_record.h.
#include "daemon/core/node_record.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "storage/io/disk.h"
#include "storage/place/node_record.h"
#include "tests/daemon/core/by_hand.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class NodeRecordTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(MakeDirectories(by_hand_.cache_disk, "/ssd"));
    auto cache = CacheFolder::Open(by_hand_.cache_disk, "/ssd", "me", "run", RunId::Random(), "/prefix");
    ASSERT_OK(cache.status());
    cache_ = *std::move(cache);
    record_ = std::make_unique<NodeRecord>(by_hand_.context, "run", cache_, ledger_);
  }

  static Dataset Given(DatasetId id, Place cache, Place prefix) {
    Dataset dataset;
    dataset.id = id;
    dataset.nranks = 1;
    dataset.parts.resize(1);
    dataset.parts[0].state = Part::State::kStored;
    dataset.cache = cache;
    dataset.prefix = prefix;
    return dataset;
  }
  DatasetPtr InCache(DatasetId id) { return ledger_.Adopt(Given(id, Place::kWhole, Place::kAbsent)); }

  NodeRecord::Then Note(const std::string& name) {
    return [this, name](const absl::Status& status) { told_.push_back(status.ok() ? name : name + " failed"); };
  }

  // As the next daemon reads it.
  NodeNotes OnDisk() {
    const auto record = cache_->LoadFlushRecord();
    EXPECT_OK(record.status());
    return record.ok() ? DecodeNodeRecord(*record) : NodeNotes();
  }
  NodeNotes StoredAndRead() {
    record_->Store();
    by_hand_.RunAll();
    return OnDisk();
  }
  static std::set<DatasetId> Ids(const NodeNotes& noted) {
    std::set<DatasetId> ids;
    for (const auto& [id, one] : noted) ids.insert(id);
    return ids;
  }

  ByHand by_hand_;
  Ledger ledger_{[](const DatasetPtr&, const std::string&) {}};
  std::shared_ptr<CacheFolder> cache_;
  std::unique_ptr<NodeRecord> record_;
  std::vector<std::string> told_;
};

// --- What it says ---

TEST_F(NodeRecordTest, WhereThereIsNoRecordNothingIsNoted) {
  EXPECT_TRUE(OnDisk().empty());
  EXPECT_TRUE(StoredAndRead().empty());
}

TEST_F(NodeRecordTest, EveryNoteComesBackAsItWas) {
  ledger_.Adopt(Given(1, Place::kWhole, Place::kWhole));
  ledger_.SetPinned(*InCache(2), true);
  ledger_.FlushDropped(*InCache(3));
  ledger_.CameTooLate(*InCache(4));
  ledger_.IdTaken(*InCache(5), /*history=*/false);
  Dataset foreign = Given(6, Place::kWhole, Place::kWhole);
  foreign.foreign = true;
  ledger_.Adopt(foreign);
  Dataset doubted = Given(7, Place::kWhole, Place::kWhole);
  doubted.standing = Standing::kDoubted;
  ledger_.Adopt(doubted);
  Dataset counted = Given(8, Place::kWhole, Place::kAbsent);
  counted.ordinal = 12;
  ledger_.Adopt(counted);
  record_->Begun(9);
  record_->HasGrown(10, "out/a.bp");
  record_->HasGrown(10, "b.bp");

  const NodeNotes noted = StoredAndRead();
  EXPECT_EQ(Ids(noted), (std::set<DatasetId>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  for (const auto& [id, one] : noted) {
    EXPECT_EQ(one.in_prefix, id == 1 || id == 6 || id == 7) << id;
    EXPECT_EQ(one.pinned, id == 2) << id;
    EXPECT_EQ(one.foreign, id == 6) << id;
    EXPECT_EQ(one.ordinal, id == 8 ? 12u : 0u) << id;
    EXPECT_EQ(one.begun, id == 9) << id;
    EXPECT_EQ(one.grown.size(), id == 10 ? 2u : 0u) << id;
  }
  EXPECT_EQ(NotedOf(noted.at(2)).standing, Standing::kCurrent);
  EXPECT_EQ(NotedOf(noted.at(3)).standing, Standing::kSuperseded);
  EXPECT_EQ(NotedOf(noted.at(4)).standing, Standing::kGaveWay);
  EXPECT_EQ(NotedOf(noted.at(5)).standing, Standing::kIdTaken);
  EXPECT_EQ(NotedOf(noted.at(7)).standing, Standing::kDoubted);
  EXPECT_EQ(noted.at(10).grown, (std::set<std::string>{"out/a.bp", "b.bp"}));
}

// Begun here it is nothing that the next daemon would have to clear away.
TEST_F(NodeRecordTest, WhatMayBeReplacedIsDoubtedUntilThatIsSettled) {
  for (const DatasetId id : {1, 2}) ledger_.Adopt(Given(id, Place::kWhole, Place::kWhole));
  InCache(3);
  EXPECT_FALSE(record_->MayReplaceIsStored(9, {1}));
  record_->MayReplace(9, {1, 3});
  EXPECT_FALSE(record_->MayReplaceIsStored(9, {1}));
  NodeNotes noted = StoredAndRead();
  EXPECT_TRUE(record_->MayReplaceIsStored(9, {1}));
  EXPECT_FALSE(record_->MayReplaceIsStored(9, {1, 2}));
  EXPECT_FALSE(record_->MayReplaceIsStored(8, {1}));
  EXPECT_EQ(Ids(noted), (std::set<DatasetId>{1, 2}));
  EXPECT_EQ(NotedOf(noted.at(1)).standing, Standing::kDoubted);
  EXPECT_EQ(NotedOf(noted.at(2)).standing, Standing::kCurrent);
  EXPECT_EQ(ledger_.Get(1)->standing, Standing::kCurrent) << "this daemon knows better";
  record_->Settled(9);
  noted = StoredAndRead();
  EXPECT_EQ(NotedOf(noted.at(1)).standing, Standing::kCurrent);
  record_->Begun(9);
  StoredAndRead();
  EXPECT_TRUE(record_->MayReplaceIsStored(9, {1, 2})) << "each older one is doubted for it";
}

// What the record has no word for comes back as what holds of it without a look at the prefix. The index says the rest.
TEST_F(NodeRecordTest, WhatWasTakenOutComesBackAsGivenWayAndHistoryAsAnIdThatIsTaken) {
  ledger_.TakenOut(*InCache(1));
  ledger_.IdTaken(*InCache(2), /*history=*/true);
  const NodeNotes noted = StoredAndRead();
  EXPECT_EQ(NotedOf(noted.at(1)).standing, Standing::kGaveWay);
  EXPECT_EQ(NotedOf(noted.at(2)).standing, Standing::kIdTaken);
}

TEST_F(NodeRecordTest, OneDatasetMayHaveAllNotes) {
  Dataset given = Given(1, Place::kWhole, Place::kWhole);
  given.pinned = true;
  given.ordinal = 3;
  given.standing = Standing::kSuperseded;
  ledger_.Adopt(given);
  record_->Begun(1);
  record_->HasGrown(1, "a.bp");
  const NodeNote one = StoredAndRead().at(1);
  EXPECT_TRUE(one.in_prefix);
  EXPECT_TRUE(one.pinned);
  EXPECT_EQ(one.ordinal, 3u);
  EXPECT_EQ(NotedOf(one).standing, Standing::kSuperseded);
  EXPECT_TRUE(one.begun);
  EXPECT_EQ(one.grown, std::set<std::string>{"a.bp"});
}

TEST_F(NodeRecordTest, WhatTheCacheSaysItselfIsNotNoted) {
  InCache(1);
  Dataset elsewhere = Given(2, Place::kAbsent, Place::kWhole);
  elsewhere.ordinal = 4;
  elsewhere.pinned = true;
  ledger_.Adopt(elsewhere);
  const NodeNotes noted = StoredAndRead();
  EXPECT_EQ(Ids(noted), std::set<DatasetId>{2});
  EXPECT_EQ(noted.at(2).ordinal, 0u) << "it counts for what is in the cache";
}

TEST_F(NodeRecordTest, WhatRestsOnThePrefixIsNotNotedButWhatIsPinnedThereIs) {
  ledger_.Adopt(Given(1, Place::kAbsent, Place::kWhole));
  ledger_.SetPinned(*ledger_.Adopt(Given(2, Place::kAbsent, Place::kWhole)), true);
  EXPECT_EQ(Ids(StoredAndRead()), (std::set<DatasetId>{2}));
}

TEST_F(NodeRecordTest, OfSeveralFlagsTheStrongestIsTheStanding) {
  EXPECT_EQ(NotedOf({}).standing, Standing::kCurrent);
  EXPECT_EQ(NotedOf({.doubted = true}).standing, Standing::kDoubted);
  EXPECT_EQ(NotedOf({.dropped = true, .doubted = true}).standing, Standing::kSuperseded);
  EXPECT_EQ(NotedOf({.dropped = true, .gave_way = true}).standing, Standing::kGaveWay);
  EXPECT_EQ(NotedOf({.gave_way = true, .id_taken = true}).standing, Standing::kIdTaken);
}

// --- What it keeps besides the ledger ---

TEST_F(NodeRecordTest, WhatIsBegunIsNotedUntilItIsSettled) {
  EXPECT_TRUE(record_->Begun(3));
  EXPECT_FALSE(record_->Begun(3)) << "noted before";
  EXPECT_EQ(record_->begun(), std::set<DatasetId>{3});
  EXPECT_TRUE(StoredAndRead().at(3).begun);
  record_->Settled(3);
  EXPECT_TRUE(record_->begun().empty());
  EXPECT_TRUE(StoredAndRead().empty());
}

TEST_F(NodeRecordTest, GrowingDirectoriesAreKeptUntilTheirPlaceIsLostOrTheGrowthHasEnded) {
  EXPECT_TRUE(record_->Grown(3).empty());
  record_->HasGrown(3, "a.bp");
  record_->HasGrown(3, "b.bp");
  record_->HasGrown(4, "c.bp");
  EXPECT_EQ(record_->Grown(3), (std::set<std::string>{"a.bp", "b.bp"}));
  record_->LostPlace(3, "a.bp");
  record_->LostPlace(5, "a.bp");  // nobody has it
  EXPECT_EQ(record_->Grown(3), std::set<std::string>{"b.bp"});
  record_->LostPlace(3, "b.bp");
  EXPECT_FALSE(record_->grown().contains(3)) << "its last place";
  record_->GrowthEnded(4);
  EXPECT_TRUE(record_->grown().empty());
}

TEST_F(NodeRecordTest, WhatTheDaemonBeforeHasNotedGoesOnToBeNoted) {
  InCache(2);
  NodeNotes noted;
  noted[1] = {.pinned = true, .begun = true, .grown = {"a.bp"}};
  noted[2] = {.pinned = true};
  record_->Adopt(noted);
  EXPECT_EQ(record_->begun(), std::set<DatasetId>{1});
  EXPECT_EQ(record_->Grown(1), std::set<std::string>{"a.bp"});
  EXPECT_TRUE(record_->IsPinned(1)) << "only on the prefix, which was not looked at yet";
  EXPECT_FALSE(record_->IsPinned(2)) << "the ledger knows it";
  const NodeNotes stored = StoredAndRead();
  EXPECT_TRUE(stored.at(1).begun);
  EXPECT_EQ(stored.at(1).grown, std::set<std::string>{"a.bp"});
}

// --- Its writes ---

TEST_F(NodeRecordTest, OneWriteAtATimeOfTheStateAsItIsWhenTheWriteBegins) {
  record_->Begun(1);
  record_->Store(Note("a"));
  record_->Begun(2);
  record_->Store(Note("b"));
  record_->Begun(3);
  record_->Store(Note("c"));
  EXPECT_TRUE(by_hand_.cache.Step());
  EXPECT_FALSE(by_hand_.cache.Step()) << "the next one waits for the first";
  EXPECT_TRUE(told_.empty());
  EXPECT_EQ(Ids(OnDisk()), std::set<DatasetId>{1});
  by_hand_.strand.Run();
  EXPECT_EQ(told_, std::vector<std::string>{"a"}) << "the others are not told of yet";
  record_->Begun(4);  // the second write has begun
  EXPECT_TRUE(by_hand_.cache.Step());
  EXPECT_EQ(Ids(OnDisk()), (std::set<DatasetId>{1, 2, 3})) << "one write for both";
  by_hand_.RunAll();
  EXPECT_EQ(told_, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(Ids(OnDisk()), (std::set<DatasetId>{1, 2, 3})) << "nobody has asked to store the fourth";
}

TEST_F(NodeRecordTest, TheLastWriteTellsTheLatestWhoeverAsksWhenever) {
  record_->Store(Note("a"));
  by_hand_.cache.Step();  // it is written, and the strand has not heard of it
  record_->Begun(1);
  record_->Store(Note("b"));
  by_hand_.RunAll();
  EXPECT_EQ(told_, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(Ids(OnDisk()), std::set<DatasetId>{1});
}

TEST_F(NodeRecordTest, WhoIsToldMayStoreMore) {
  record_->Store([this](const absl::Status& status) {
    EXPECT_OK(status);
    record_->Begun(1);
    record_->Store(Note("more"));
    EXPECT_TRUE(told_.empty());
  });
  by_hand_.RunAll();
  EXPECT_EQ(told_, std::vector<std::string>{"more"});
  EXPECT_EQ(Ids(OnDisk()), std::set<DatasetId>{1});
}

TEST_F(NodeRecordTest, AWriteThatFailsIsAWarningAndTheNextIsTriedAllTheSame) {
  by_hand_.cache_disk.FailOn({.op = FakeOp::kRename, .path_part = "flush.cairn"});
  record_->Begun(1);
  record_->Store(Note("a"));
  record_->Store(Note("b"));
  by_hand_.RunAll();
  EXPECT_EQ(told_, (std::vector<std::string>{"a failed", "b"}));
  EXPECT_EQ(Ids(OnDisk()), std::set<DatasetId>{1});
  ASSERT_EQ(by_hand_.context.warnings->all().size(), 1u);
  EXPECT_NE(by_hand_.context.warnings->all().front().find("injected"), std::string::npos);
}

TEST_F(NodeRecordTest, WhoIsToldThatItIsStoredFindsItAfterACrash) {
  by_hand_.cache_disk.SyncAll();
  record_->Begun(1);
  record_->Store(Note("a"));
  by_hand_.RunAll();
  ASSERT_EQ(told_, std::vector<std::string>{"a"});
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    by_hand_.cache_disk.Restart(seed);
    EXPECT_EQ(Ids(OnDisk()), std::set<DatasetId>{1});
  }
}

}  // namespace
}  // namespace cairn
