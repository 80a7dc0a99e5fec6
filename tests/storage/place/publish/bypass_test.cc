// What is written straight to the prefix: nobody else's data is touched, and what was begun is taken away again.
#include "storage/place/publish/bypass.h"

#include <gtest/gtest.h>

#include <string>

#include "storage/base/path.h"
#include "storage/file/transfer/work_file.h"
#include "storage/place/publish/unfinished.h"
#include "tests/storage/place/prefix/site.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class BypassTest : public ::testing::Test, protected Site {
 protected:
  bool IsThere(const std::string& path) { return disk.Info(path).ok(); }
  // Afterwards another run has put datasets 1 and 2 where the prefix was.
  void MakeAnew() {
    ASSERT_OK(RemoveTree(disk, kPath));
    old_ = std::move(prefix);
    Reopen();
    ASSERT_OK(Commit(1));
    ASSERT_OK(Commit(2));
  }
  void ExpectTheOthersAreWhole() {
    ASSERT_OK_AND_ASSIGN(const auto committed, prefix->Committed());
    EXPECT_EQ(committed.size(), 2u);
    for (const DatasetId id : {1, 2}) {
      for (const catalogue::Catalogue& catalogue : CataloguesOf(id)) {
        EXPECT_TRUE(IsThere(prefix->FilePath(catalogue.file(0).prefix_name()))) << id;
      }
    }
  }

  std::unique_ptr<Prefix> old_;
};

TEST_F(BypassTest, APrefixThatIsAnotherRunsNowIsNotChanged) {
  const scr::Descriptor descriptor = TestDescriptor(2, kRanks);
  const std::vector<catalogue::Catalogue> catalogues = CataloguesOf(2);
  MakeAnew();
  const kvtree::Tree before = Index();
  EXPECT_STATUS(kFailedPrecondition, old_->BeginFlush(descriptor), "the prefix is run");
  EXPECT_STATUS(kFailedPrecondition, old_->StoreCatalogue(catalogues[0]), "the prefix is run");
  EXPECT_STATUS(kFailedPrecondition, old_->Withdraw(3, {"out/x"}), "the prefix is run");
  EXPECT_STATUS(kFailedPrecondition, old_->Commit(descriptor, catalogues), "the prefix is run");
  EXPECT_STATUS(kFailedPrecondition, old_->Remove(2, catalogues), "the prefix is run");
  EXPECT_STATUS(kFailedPrecondition, old_->MarkFailed(2), "the prefix is run");
  EXPECT_STATUS(kFailedPrecondition, old_->MarkFetched(2), "the prefix is run");
  EXPECT_TRUE(Index().SameAs(before));
  ExpectTheOthersAreWhole();
}

TEST_F(BypassTest, APrefixThatIsGoneIsNotMadeAnew) {
  ASSERT_OK(RemoveTree(disk, kPath));
  EXPECT_STATUS(absl::StatusCode::kUnavailable, prefix->BeginFlush(TestDescriptor(2, kRanks)), "");
  EXPECT_FALSE(IsThere(kPath));
}

TEST_F(BypassTest, WhatFailsOnAnotherRunsPrefixTakesNothingAway) {
  const std::shared_ptr<Prefix> shared = std::move(prefix);
  const auto bypass = Bypass::Make(disk, shared);
  Reopen();
  ASSERT_OK(bypass->Begin(TestDescriptor(1, kRanks)));
  MakeAnew();
  EXPECT_STATUS(kFailedPrecondition, bypass->Begin(TestDescriptor(2, kRanks)), "the prefix is run");
  EXPECT_OK(bypass->Remove(2));  // nothing was begun
  EXPECT_STATUS(kFailedPrecondition, bypass->RouteFile(1, "out/x"), "the prefix is run");
  EXPECT_STATUS(kFailedPrecondition, bypass->Remove(1), "the prefix is run");
  ExpectTheOthersAreWhole();
}

TEST_F(BypassTest, ABeginThatFailsIsNotFollowedByTheRemovalOfWhatWasThere) {
  ASSERT_OK(Commit(1));
  const std::shared_ptr<Prefix> shared = std::move(prefix);
  const auto bypass = Bypass::Make(disk, shared);
  EXPECT_STATUS(kAlreadyExists, bypass->Begin(TestDescriptor(1, kRanks)), "");
  EXPECT_OK(bypass->Remove(1));
  ASSERT_OK_AND_ASSIGN(const auto committed, shared->Committed());
  EXPECT_EQ(committed.size(), 1u);
}

TEST_F(BypassTest, WhatWasGivenUpLosesItsWorkFilesAndWhatIsInTheirPlacesStays) {
  std::vector<catalogue::Catalogue> catalogues = CataloguesOf(1);
  catalogues[0].set_files(true);
  catalogues[0].mutable_file(0)->set_prefix_name("out/x");
  const std::string place = std::string(kPath) + "/out/x";
  const std::string work = TransferWorkName(place, catalogues[0].file(0), 1);
  ASSERT_OK(prefix->BeginFlush(TestDescriptor(1, kRanks)));
  ASSERT_OK(MakeDirectories(disk, ParentOf(place)));
  ASSERT_OK(WriteTestFile(disk, place, "another's"));
  ASSERT_OK(WriteTestFile(disk, work, "half"));
  ASSERT_OK(RemoveUnfinished(disk, *prefix, 1, {.known = catalogues}));
  EXPECT_FALSE(IsThere(work));
  EXPECT_TRUE(IsThere(place));
  EXPECT_EQ(Index().FindPath({"DSET", "1"}), nullptr);
}

}  // namespace
}  // namespace cairn
