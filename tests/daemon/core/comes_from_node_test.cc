// A dataset that another node's cache has, on its way into this one, as the ledger knows it; and whether a launch would
// choose it. daemon/core/ledger.h.
#include <gtest/gtest.h>

#include <string>

#include "daemon/core/ledger.h"

namespace cairn {
namespace {

class ComesFromNodeTest : public ::testing::Test {
 protected:
  static Dataset Of(DatasetId id, LaunchId launch = 1) {
    Dataset dataset;
    dataset.id = id;
    dataset.launch = launch;
    dataset.step = 10 * id;
    dataset.nranks = 2;
    dataset.created_us = 1000 * static_cast<std::int64_t>(id);
    dataset.parts.resize(2);
    for (Part& part : dataset.parts) {
      part.state = Part::State::kStored;
      part.bytes = 100;
    }
    return dataset;
  }
  static Dataset Whole(DatasetId id, LaunchId launch = 1) {
    Dataset dataset = Of(id, launch);
    dataset.cache = Place::kWhole;
    return dataset;
  }
  Ledger ledger_{[](const DatasetPtr&, const std::string&) {}};
};

TEST_F(ComesFromNodeTest, ItArrivesAndIsNotChosenBeforeItIsWhole) {
  const DatasetPtr here = ledger_.Adopt(Whole(3));
  const DatasetPtr coming = ledger_.ComesFromNode(Of(5));
  EXPECT_EQ(coming->cache, Place::kArriving);
  EXPECT_FALSE(coming->whole());
  EXPECT_TRUE(coming->described());
  EXPECT_EQ(coming->bytes(), 200u);
  EXPECT_EQ(ledger_.NewestRestorable(), here);
  ledger_.Refetched(*coming);
  EXPECT_EQ(coming->level(), Level::kLocal);
  EXPECT_EQ(ledger_.NewestRestorable(), coming);
}

TEST_F(ComesFromNodeTest, WhatDoesNotComeIsAsIfItHadNeverBeenHeardOf) {
  const DatasetPtr coming = ledger_.ComesFromNode(Of(5));
  ledger_.DidNotCome(*coming);
  EXPECT_EQ(ledger_.Get(5), nullptr);
  EXPECT_EQ(ledger_.FindGone(5), nullptr) << "another node may still have it";
  EXPECT_TRUE(ledger_.InPlay().empty());
  EXPECT_TRUE(ledger_.ByAge().empty());
  EXPECT_EQ(ledger_.ComesFromNode(Of(5))->cache, Place::kArriving) << "the next try";
}

TEST_F(ComesFromNodeTest, OutOfPlaceItIsOurBug) {
  const DatasetPtr here = ledger_.Adopt(Whole(3));
  EXPECT_DEATH(ledger_.ComesFromNode(Of(3)), "check failed");
  EXPECT_DEATH(ledger_.DidNotCome(*here), "check failed");
  Dataset lacks = Of(5);
  lacks.parts[1].state = Part::State::kCaptured;
  EXPECT_DEATH(ledger_.ComesFromNode(lacks), "check failed");
  const DatasetPtr coming = ledger_.ComesFromNode(Of(5));
  ledger_.SeenOnPrefix(*coming, /*by_cairn=*/true);
  EXPECT_DEATH(ledger_.DidNotCome(*coming), "check failed") << "the prefix has it";
  ledger_.RefetchFailed(*coming);
  EXPECT_TRUE(coming->in_prefix());
}

TEST_F(ComesFromNodeTest, ALaunchWouldChooseWhatIsNewerThanAllThatIsHere) {
  Launch next;
  EXPECT_TRUE(ledger_.WouldChoose(next, Of(1)));
  ledger_.Adopt(Whole(4, /*launch=*/2));
  EXPECT_FALSE(ledger_.WouldChoose(next, Of(3, 2)));
  EXPECT_FALSE(ledger_.WouldChoose(next, Of(9, 1))) << "of an older launch";
  EXPECT_TRUE(ledger_.WouldChoose(next, Of(5, 2)));
  EXPECT_TRUE(ledger_.WouldChoose(next, Of(2, 3)));
  Dataset output = Of(5, 2);
  output.kind = {.checkpoint = false, .output = true};
  EXPECT_FALSE(ledger_.WouldChoose(next, output));
  Dataset taken_out = Of(5, 2);
  taken_out.standing = Standing::kTakenOut;
  EXPECT_FALSE(ledger_.WouldChoose(next, taken_out));
}

TEST_F(ComesFromNodeTest, ALaunchWouldNotChooseWhatItHasPassedOver) {
  ledger_.Adopt(Whole(4));
  Launch next;
  next.passed_over = {4, 5};
  EXPECT_FALSE(ledger_.WouldChoose(next, Of(5)));
  EXPECT_TRUE(ledger_.WouldChoose(next, Of(3))) << "what is here that is newer is of no use to it";
}

TEST_F(ComesFromNodeTest, ABoundHoldsForWhatOtherNodesHave) {
  ledger_.Adopt(Whole(4));
  ledger_.Adopt(Whole(6));
  Launch next;
  next.bound = 4;
  EXPECT_EQ(ledger_.NewestRestorableFor(next)->id, 4u);
  EXPECT_FALSE(ledger_.WouldChoose(next, Of(7))) << "made after what the index was set back to";
  next.bound_set_us = 6500;
  EXPECT_TRUE(ledger_.WouldChoose(next, Of(7))) << "made after it was set back";
}

}  // namespace
}  // namespace cairn
