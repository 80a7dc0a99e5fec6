// What lies aside in a run's cache: counted, kept for a while, removed by age or for room: daemon/core/asides.h.
#include "daemon/core/asides.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "tests/daemon/core/by_hand.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;

class AsidesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    by_hand_.context.config.cache.keep_damaged_ms = milliseconds(hours(1000)).count();
    ASSERT_OK(MakeDirectories(by_hand_.cache_disk, "/ssd"));
    ASSERT_OK_AND_ASSIGN(cache_,
                         CacheFolder::Open(by_hand_.cache_disk, "/ssd", "me", "run", RunId::Random(), "/prefix"));
    asides_ = std::make_unique<Asides>(by_hand_.context, "run", cache_, ledger_, folders_);
  }
  void Put(const std::string& name, std::size_t bytes) {
    ASSERT_OK(by_hand_.cache_disk.MakeDirectory(PathOf(name), 0700));
    ASSERT_OK(ReplaceFile(by_hand_.cache_disk, PathOf(name) + "/file", std::string(bytes, 'x'), 0600));
  }
  void Look() {
    asides_->Look();
    by_hand_.RunAll();
  }
  std::string PathOf(const std::string& name) const { return cache_->path() + "/" + name; }
  bool IsThere(const std::string& name) { return by_hand_.cache_disk.Info(PathOf(name)).ok(); }
  // Names tell the order: the disk's clock counts operations, in seconds since the epoch.
  void TurnTo(std::int64_t since_us) {
    by_hand_.Turn(milliseconds((since_us - by_hand_.context.now_us()) / 1000 + 1));
    by_hand_.RunAll();
  }

  ByHand by_hand_;
  Ledger ledger_{[](const DatasetPtr&, const std::string&) {}};
  DatasetFolders folders_{by_hand_.context, [](DatasetId) {}};
  std::shared_ptr<CacheFolder> cache_;
  std::unique_ptr<Asides> asides_;
};

TEST_F(AsidesTest, WhoAsksRemovesThemAtOnceButWhatIsWholeOnlyIfThatIsAsked) {
  Put("damaged.3.1", 1000);
  Put("taken.2.1", 50);
  Look();
  Asides::RemovedByHand removed;
  const auto take = [&](const absl::StatusOr<Asides::RemovedByHand>& answer) {
    ASSERT_OK(answer.status());
    removed = *answer;
  };
  asides_->RemoveByHand(/*whole_ones_too=*/false, take);
  EXPECT_EQ(removed.count, 0u) << "not before it is gone";
  by_hand_.RunAll();
  EXPECT_EQ(removed.count, 1u);
  EXPECT_EQ(removed.bytes, 1000u);
  EXPECT_FALSE(IsThere("damaged.3.1"));
  EXPECT_TRUE(IsThere("taken.2.1"));
  asides_->RemoveByHand(/*whole_ones_too=*/true, take);
  by_hand_.RunAll();
  EXPECT_EQ(removed.bytes, 50u);
  EXPECT_FALSE(IsThere("taken.2.1"));
  EXPECT_TRUE(asides_->all().empty());
  asides_->RemoveByHand(/*whole_ones_too=*/true, take);
  EXPECT_EQ(removed.count, 0u);
}

TEST_F(AsidesTest, WhatCannotBeRemovedIsTold) {
  Put("damaged.3.1", 1000);
  Look();
  by_hand_.cache_disk.FailOn({.op = FakeOp::kRename, .path_part = "damaged.3.1"});
  absl::Status status;
  asides_->RemoveByHand(false, [&](const auto& answer) { status = answer.status(); });
  by_hand_.RunAll();
  EXPECT_STATUS(absl::StatusCode::kUnavailable, status, "injected");
  EXPECT_TRUE(IsThere("damaged.3.1"));
}

TEST_F(AsidesTest, TheyAreCountedAndGoOneByOneWhenTheirTimeIsOver) {
  Put("damaged.3.1", 1000);
  Put("damaged.1.1", 500);
  Put("taken.2.1", 50);
  Look();
  EXPECT_EQ(asides_->bytes(), 1550u);
  ASSERT_EQ(asides_->all().size(), 3u);
  EXPECT_EQ(asides_->all().front().name, "damaged.3.1");
  const std::int64_t first = asides_->goes_us();
  EXPECT_EQ(first, asides_->all().front().since_us + 1000LL * 3600 * 1'000'000);
  TurnTo(first - 2'000'000);
  EXPECT_EQ(asides_->bytes(), 1550u);
  TurnTo(first);
  EXPECT_FALSE(IsThere("damaged.3.1"));
  EXPECT_EQ(asides_->bytes(), 550u);
  EXPECT_GT(asides_->goes_us(), first);
  TurnTo(asides_->goes_us());
  EXPECT_FALSE(IsThere("damaged.1.1"));
  EXPECT_TRUE(IsThere("taken.2.1")) << "it is whole, and perhaps the only copy";
  EXPECT_EQ(asides_->bytes(), 50u);
  EXPECT_EQ(asides_->goes_us(), 0);
  EXPECT_TRUE(asides_->Removable().empty());
}

TEST_F(AsidesTest, WithoutATimeTheyStayUntilTheRoomIsNeeded) {
  by_hand_.context.config.cache.keep_damaged_ms = 0;
  Put("damaged.3.1", 1000);
  Look();
  EXPECT_EQ(asides_->goes_us(), 0);
  by_hand_.Turn(hours(100'000));
  by_hand_.RunAll();
  EXPECT_TRUE(IsThere("damaged.3.1"));
  ASSERT_EQ(asides_->Removable().size(), 1u);
  asides_->Remove(asides_->Removable().front(), "its room was needed");
  EXPECT_EQ(asides_->bytes(), 0u) << "its room is promised to something else";
  by_hand_.RunAll();
  EXPECT_FALSE(IsThere("damaged.3.1"));
}

// SetAside leaves the dataset's other files where they are.
class InPlaceTest : public AsidesTest {
 protected:
  void SetUp() override {
    AsidesTest::SetUp();
    Dataset given;
    given.id = 3;
    given.nranks = 1;
    given.parts.resize(1);
    given.parts.front().state = Part::State::kStored;
    given.cache = given.prefix = Place::kWhole;
    dataset_ = ledger_.Adopt(given);
    asides_->Are({{.kind = Aside::Kind::kInPlace, .name = "scr.dataset.3", .dataset = 3, .bytes = 10, .since_us = 1}});
  }
  DatasetPtr dataset_;
};

TEST_F(InPlaceTest, ItStaysUntilNobodyReadsItAndUntilItIsNotMadeAnew) {
  ledger_.ReadBegan(*dataset_);
  EXPECT_TRUE(asides_->Removable().empty());
  ledger_.CacheDamaged(*dataset_, "offset 0");
  EXPECT_TRUE(asides_->Removable().empty());
  ledger_.ReadEnded(*dataset_);
  EXPECT_EQ(asides_->Removable().size(), 1u);
  ledger_.RefetchBegan(*dataset_);
  EXPECT_TRUE(asides_->Removable().empty()) << "it is made anew there";
  ledger_.RefetchFailed(*dataset_);
  EXPECT_EQ(asides_->Removable().size(), 1u);
}

TEST_F(InPlaceTest, ItsBytesCountOnceTheLedgerDoesNotCountThem) {
  EXPECT_EQ(asides_->bytes(), 0u);
  ledger_.CacheDamaged(*dataset_, "offset 0");
  EXPECT_EQ(asides_->bytes(), 10u);
  ledger_.RefetchBegan(*dataset_);
  EXPECT_EQ(asides_->bytes(), 10u) << "and the copy that is to come";
}

TEST_F(AsidesTest, WhatCannotBeRemovedIsCountedAgainAndTriedLater) {
  Put("damaged.3.1", 1000);
  Look();
  by_hand_.cache_disk.FailOn({.op = FakeOp::kRemove, .path_part = "/file"});
  asides_->Remove(asides_->all().front(), "its room was needed");
  by_hand_.RunAll();
  EXPECT_EQ(asides_->bytes(), 1000u);
  EXPECT_TRUE(asides_->Removable().empty()) << "not at once";
  by_hand_.Turn(minutes(11));
  by_hand_.RunAll();  // its removal has begun, and goes on
  EXPECT_EQ(asides_->bytes(), 0u);
  ASSERT_OK_AND_ASSIGN(const auto names, by_hand_.cache_disk.List(cache_->path()));
  for (const std::string& name : names) EXPECT_FALSE(AsideOf(name).has_value()) << name;
}

TEST_F(AsidesTest, ARemovalThatComesIntoALookIsNotCountedAnyMore) {
  Put("damaged.3.1", 1000);
  Put("damaged.4.1", 500);
  Look();
  asides_->Look();
  ASSERT_TRUE(by_hand_.cache.Step());  // it has seen both
  asides_->Remove(asides_->all().front(), "its room was needed");
  by_hand_.RunAll();
  EXPECT_EQ(asides_->bytes(), 500u);
  ASSERT_EQ(asides_->all().size(), 1u);
  EXPECT_EQ(asides_->all().front().name, "damaged.4.1");
}

TEST_F(AsidesTest, WhatSomeoneHasRemovedByHandIsSeenSoon) {
  Put("taken.3.1", 1000);
  Look();
  EXPECT_EQ(asides_->bytes(), 1000u);
  ASSERT_OK(RemoveTree(by_hand_.cache_disk, PathOf("taken.3.1")));
  by_hand_.Turn(hours(2));
  by_hand_.RunAll();
  EXPECT_EQ(asides_->bytes(), 0u);
}

TEST_F(AsidesTest, AFolderThatCannotBeLookedAtIsWarnedOfOnce) {
  by_hand_.cache_disk.FailOn({.op = FakeOp::kList, .path_part = cache_->path(), .times = 2});
  Look();
  Look();
  ASSERT_EQ(by_hand_.context.warnings->all().size(), 1u);
  EXPECT_NE(by_hand_.context.warnings->all()[0].find("what lies aside in the cache is not known"), std::string::npos);
  Put("damaged.3.1", 1000);
  Look();
  EXPECT_EQ(asides_->bytes(), 1000u);
}

}  // namespace
}  // namespace cairn
