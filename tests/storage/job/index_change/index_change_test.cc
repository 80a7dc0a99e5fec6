// Changes of an index, and what is told of them.
#include "storage/job/index_change/index_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/storage/place/prefix/shown.h"

namespace cairn {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;

class IndexChangeTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::Open(disk_, kShownPath));
    for (const DatasetId id : {3, 4, 5}) ASSERT_OK(CommitShown(disk_, *prefix, ShownDataset(prefix->run(), id)));
  }
  IndexChanged Change(IndexChange change, const std::string& name) {
    auto changed = ChangeIndex(disk_, kShownPath, change, name);
    EXPECT_OK(changed.status());
    return changed.ok() ? *std::move(changed) : IndexChanged();
  }
  static std::vector<DatasetId> Ids(const std::vector<IndexRow>& rows) {
    std::vector<DatasetId> ids;
    for (const IndexRow& row : rows) ids.push_back(row.entry.descriptor.id);
    return ids;
  }

  FakeDisk disk_;
};

TEST_F(IndexChangeTest, TheCurrentOneIsToldBeforeAndAfter) {
  const IndexChanged changed = Change(IndexChange::kCurrent, "ckpt.4");
  EXPECT_THAT(Ids(changed.rows), ElementsAre(4));
  EXPECT_EQ(changed.current_before, 5u);
  EXPECT_EQ(changed.current_after, 4u);
  EXPECT_EQ(changed.current_name, "ckpt.4");
}

TEST_F(IndexChangeTest, WhatIsGoneIsToldByNameOrNumberOneOrMany) {
  EXPECT_THAT(Ids(Change(IndexChange::kDropAfter, "3").rows), ElementsAre(5, 4));
  EXPECT_THAT(Ids(Change(IndexChange::kDropAfter, "3").rows), IsEmpty());
  EXPECT_THAT(Ids(Change(IndexChange::kAdd, "4").rows), ElementsAre(4));
  EXPECT_THAT(Ids(Change(IndexChange::kDrop, "ckpt.4").rows), ElementsAre(4));
  const IndexChanged removed = Change(IndexChange::kRemove, "ckpt.3");
  EXPECT_THAT(Ids(removed.rows), ElementsAre(3));
  EXPECT_EQ(removed.current_after, 0u);
  EXPECT_FALSE(disk_.Info(std::string(kShownPath) + "/ckpt.3/Ckpt3-Rank0.fti").ok());
}

TEST_F(IndexChangeTest, WhatWasLostWithADamagedIndexCanBeAdded) {
  ASSERT_OK(WriteTestFile(disk_, std::string(kShownPath) + "/.scr/index.scr", "damaged"));
  EXPECT_EQ(ChangeIndex(disk_, kShownPath, IndexChange::kDrop, "4").status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(Ids(Change(IndexChange::kAdd, "4").rows), ElementsAre(4));
}

TEST_F(IndexChangeTest, ANameThatIsNotThereIsNotFound) {
  EXPECT_EQ(ChangeIndex(disk_, kShownPath, IndexChange::kDrop, "9").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace cairn
