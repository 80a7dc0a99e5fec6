// Datasets of which this cache holds some ranks, and other nodes' caches the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "storage/format/catalogue/catalogue.h"
#include "storage/place/cache/survey.h"
#include "tests/storage/place/cache/cache_folder_fixture.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;

constexpr std::uint32_t kRanks = 4;

class HeldRanksTest : public CacheFolderTest {
 protected:
  static scr::Descriptor Holding(DatasetId id, const std::vector<Rank>& ranks) {
    scr::Descriptor descriptor = TestDescriptor(id, kRanks);
    descriptor.held.emplace();
    for (const Rank rank : ranks) descriptor.held->Add(rank);
    return descriptor;
  }
  absl::Status Write(CacheFolder& folder, DatasetId id, const std::vector<Rank>& ranks) {
    CAIRN_RETURN_IF_ERROR(folder.Begin(TestDescriptor(id, kRanks)));
    for (const Rank rank : ranks) CAIRN_RETURN_IF_ERROR(CommitRank(folder, id, rank, kRanks));
    return folder.Complete(Holding(id, ranks));
  }
  static std::vector<Rank> RanksOf(const CachedDataset& dataset) {
    std::vector<Rank> ranks;
    for (const catalogue::Catalogue& catalogue : dataset.ranks) ranks.push_back(catalogue.rank());
    return ranks;
  }
  // What a start finds.
  CacheLoad Load() {
    auto load = Open()->Load();
    EXPECT_OK(load.status());
    return load.ok() ? *std::move(load) : CacheLoad();
  }
};

TEST_F(HeldRanksTest, AreFoundAgain) {
  const auto folder = Open();
  ASSERT_OK(Write(*folder, 7, {1, 3}));
  disk_.Restart(1);
  const CacheLoad load = Load();
  ASSERT_THAT(WholeIds(load), ElementsAre(7));
  const CachedDataset& dataset = load.whole.at(7);
  EXPECT_THAT(RanksOf(dataset), ElementsAre(1, 3));
  EXPECT_EQ(dataset.descriptor.ranks, kRanks);
  EXPECT_EQ(dataset.descriptor.held, Holding(7, {1, 3}).held);
  EXPECT_THAT(load.warnings, ::testing::IsEmpty());
  const auto there = ReadCatalogues(disk_, folder->DatasetPath(7), folder->record().run, dataset.descriptor);
  ASSERT_OK(there.status());
  EXPECT_EQ(there->size(), 2u);
}

TEST_F(HeldRanksTest, AreFoundWithoutTheIndex) {
  const auto folder = Open();
  ASSERT_OK(Write(*folder, 7, {1, 3}));
  ASSERT_OK(WriteDataset(*folder, 8, kRanks));
  ASSERT_OK(disk_.Remove(folder->path() + "/cindex.scrinfo"));
  const CacheLoad load = Load();
  ASSERT_THAT(WholeIds(load), ElementsAre(7, 8));
  EXPECT_EQ(load.whole.at(7).descriptor.held, Holding(7, {1, 3}).held);
  EXPECT_EQ(load.whole.at(8).descriptor.held, std::nullopt);
}

// Then nothing says that the other ranks are elsewhere: they are missing.
TEST_F(HeldRanksTest, WithoutIndexAndListOfRanksItIsDamaged) {
  const auto folder = Open();
  ASSERT_OK(Write(*folder, 7, {1, 3}));
  ASSERT_OK(disk_.Remove(folder->path() + "/cindex.scrinfo"));
  ASSERT_OK(disk_.Remove(folder->DatasetPath(7) + "/.scr/reddesc.er.shuffile"));
  const CacheLoad load = Load();
  EXPECT_THAT(WholeIds(load), ElementsAre());
  EXPECT_TRUE(Warned(load, "moved aside"));
}

TEST_F(HeldRanksTest, ALostPartOfOneOfThemIsDamageAndOneOfAnotherIsNot) {
  const auto folder = Open();
  ASSERT_OK(Write(*folder, 7, {1, 3}));
  ASSERT_OK(Write(*folder, 8, {1, 3}));
  ASSERT_OK(disk_.Remove(folder->DatasetPath(8) + "/" + CatalogueName(3)));
  const CacheLoad load = Load();
  EXPECT_THAT(WholeIds(load), ElementsAre(7));
  EXPECT_TRUE(Warned(load, CatalogueName(3)));
}

TEST_F(HeldRanksTest, JustTheseMustBeCommitted) {
  const auto folder = Open();
  ASSERT_OK(folder->Begin(TestDescriptor(7, kRanks)));
  ASSERT_OK(CommitRank(*folder, 7, 1, kRanks));
  EXPECT_STATUS(kFailedPrecondition, folder->Complete(Holding(7, {1, 3})), "1 of 2 ranks");
  ASSERT_OK(CommitRank(*folder, 7, 2, kRanks));
  EXPECT_STATUS(kFailedPrecondition, folder->Complete(Holding(7, {1, 3})), "2 of 2 ranks");
  EXPECT_STATUS(kFailedPrecondition, folder->Complete(TestDescriptor(7, kRanks)), "2 of 4 ranks");
  EXPECT_OK(folder->Complete(Holding(7, {1, 2})));
}

TEST_F(HeldRanksTest, ASurveyMissesOnlyThese) {
  const auto folder = Open();
  ASSERT_OK(Write(*folder, 7, {1, 3}));
  ASSERT_OK(disk_.Remove(folder->DatasetPath(7) + "/" + CatalogueName(3)));
  const auto survey = SurveyCache(disk_, folder->path(), folder->record().run);
  ASSERT_OK(survey.status());
  const SurveyedDataset& dataset = survey->datasets.at(7);
  EXPECT_EQ(dataset.ranks.size(), 1u);
  EXPECT_THAT(dataset.damaged, ElementsAre(::testing::Key(3)));
  EXPECT_EQ(dataset.descriptor.held, std::nullopt) << "it would be written to the prefix";
}

TEST_F(HeldRanksTest, ASurveyGoesByTheFilemapsThatItMayReadAndNamesTheOthers) {
  const auto folder = Open();
  ASSERT_OK(folder->Begin(TestDescriptor(7, kRanks)));
  for (const Rank rank : {1, 3}) ASSERT_OK(CommitRank(*folder, 7, rank, kRanks));
  disk_.FailOn({.op = FakeOp::kRead, .path_part = "filemap_1", .times = 1000, .status = PermissionDenied("denied")});
  const auto survey = SurveyCache(disk_, folder->path(), folder->record().run);
  ASSERT_OK(survey.status());
  ASSERT_TRUE(survey->datasets.contains(7));
  EXPECT_EQ(survey->datasets.at(7).ranks.size(), 2u);
  EXPECT_THAT(survey->notes, ElementsAre(::testing::HasSubstr("denied")));
}

// The mark is there for a moment, too, while records of a whole dataset are made anew.
TEST_F(HeldRanksTest, ASurveyDoesNotTakeForGivenUpWhatItMayNotRead) {
  const auto folder = Open();
  ASSERT_OK(Write(*folder, 7, {1, 3}));
  ASSERT_OK(ReplaceTree(disk_, folder->path() + "/cindex.scrinfo", kvtree::Tree()));
  ASSERT_OK(ReplaceFile(disk_, folder->DatasetPath(7) + "/.scr/given_up.cairn", ""));
  disk_.FailOn({.op = FakeOp::kRead, .path_part = "reddesc.er", .times = 1000, .status = PermissionDenied("denied")});
  const auto survey = SurveyCache(disk_, folder->path(), folder->record().run);
  ASSERT_OK(survey.status());
  EXPECT_THAT(survey->notes, ElementsAre(::testing::HasSubstr("denied")));
}

}  // namespace
}  // namespace cairn
