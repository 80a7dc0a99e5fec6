// The folders of one run's datasets: daemon/core/dataset_folders.h.
#include "daemon/core/dataset_folders.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "storage/base/status.h"
#include "tests/daemon/core/by_hand.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class DatasetFoldersTest : public ::testing::Test {
 protected:
  DatasetFolders::Then Note(const std::string& name) {
    return [this, name](const absl::Status& status) {
      told_.push_back(status.ok() ? name : name + ": " + std::string(MessageOf(status)));
    };
  }
  std::function<void()> Make() {
    return [this] { ++made_; };
  }

  ByHand by_hand_;
  std::vector<DatasetId> unused_;
  std::vector<std::string> told_;
  int made_ = 0;
  std::unique_ptr<DatasetFolders> folders_ =
      std::make_unique<DatasetFolders>(by_hand_.context, [this](DatasetId id) { unused_.push_back(id); });
};

// --- Leases ---

TEST_F(DatasetFoldersTest, AFailedDatasetsFolderIsUnusedOnceItsLastLeaseHasEnded) {
  std::shared_ptr<void> first = folders_->Lease(5), second = folders_->Lease(5);
  folders_->Failed(5, "the disk is full");
  first.reset();
  by_hand_.RunAll();
  EXPECT_TRUE(unused_.empty());
  second.reset();
  EXPECT_TRUE(unused_.empty()) << "a lease may end anywhere: the strand hears of it later";
  by_hand_.RunAll();
  EXPECT_EQ(unused_, std::vector<DatasetId>{5});
}

TEST_F(DatasetFoldersTest, AFailedDatasetWithoutLeasesIsUnusedInOneOfTheNextTurns) {
  folders_->Failed(5, "");
  EXPECT_TRUE(unused_.empty());
  by_hand_.RunAll();
  EXPECT_EQ(unused_, std::vector<DatasetId>{5});
}

TEST_F(DatasetFoldersTest, ItIsToldOnce) {
  folders_->Failed(5, "");
  by_hand_.RunAll();
  folders_->Lease(5).reset();
  by_hand_.RunAll();
  EXPECT_EQ(unused_.size(), 1u);
}

TEST_F(DatasetFoldersTest, LeasesOfOneThatHasNotFailedEndSilently) {
  folders_->Lease(5).reset();
  by_hand_.RunAll();
  EXPECT_TRUE(unused_.empty());
}

TEST_F(DatasetFoldersTest, ALeaseThatIsTakenBeforeTheStrandHasHeardOfTheLastOnesEndCounts) {
  std::shared_ptr<void> lease = folders_->Lease(5);
  folders_->Failed(5, "");
  lease.reset();
  lease = folders_->Lease(5);  // the end of the first is on its way
  by_hand_.RunAll();
  EXPECT_TRUE(unused_.empty());
  lease.reset();
  by_hand_.RunAll();
  EXPECT_EQ(unused_, std::vector<DatasetId>{5});
}

TEST_F(DatasetFoldersTest, EachDatasetHasLeasesOfItsOwn) {
  const std::shared_ptr<void> other = folders_->Lease(6);
  folders_->Failed(5, "");
  folders_->Failed(6, "");
  by_hand_.RunAll();
  EXPECT_EQ(unused_, std::vector<DatasetId>{5});
}

TEST_F(DatasetFoldersTest, LeasesThatEndAfterAStopTellNobody) {
  std::shared_ptr<void> lease = folders_->Lease(5);
  folders_->Failed(5, "");
  folders_->Stop();
  lease.reset();
  by_hand_.RunAll();
  EXPECT_TRUE(unused_.empty());
}

TEST_F(DatasetFoldersTest, ALeaseMayOutliveTheFolders) {
  std::shared_ptr<void> lease = folders_->Lease(5);
  folders_->Failed(5, "");
  folders_.reset();
  lease.reset();
  by_hand_.RunAll();
  EXPECT_TRUE(unused_.empty());
}

// --- Its making ---

TEST_F(DatasetFoldersTest, TheFirstThatNeedsAFolderMakesItAndAllWaitForIt) {
  folders_->Want(5, Note("a"), Make());
  folders_->Want(5, Note("b"), Make());
  EXPECT_EQ(made_, 1);
  EXPECT_TRUE(told_.empty());
  folders_->Made(5, absl::OkStatus());
  EXPECT_EQ(told_, (std::vector<std::string>{"a", "b"}));
  folders_->Want(5, Note("c"), Make());
  EXPECT_EQ(told_.back(), "c") << "at once: it is there";
  EXPECT_EQ(made_, 1);
}

TEST_F(DatasetFoldersTest, WhereItCannotBeMadeAllLearnWhyAndTheNextTriesAgain) {
  folders_->Want(5, Note("a"), Make());
  folders_->Want(5, Note("b"), Make());
  folders_->Made(5, Unavailable("no room"));
  EXPECT_EQ(told_, (std::vector<std::string>{"a: no room", "b: no room"}));
  folders_->Want(5, Note("c"), Make());
  EXPECT_EQ(made_, 2);
  folders_->Made(5, absl::OkStatus());
  EXPECT_EQ(told_.back(), "c");
}

TEST_F(DatasetFoldersTest, WhoIsToldMayWantItAgain) {
  folders_->Want(
      5, [this](const absl::Status&) { folders_->Want(5, Note("again"), Make()); }, Make());
  folders_->Want(5, Note("b"), Make());
  folders_->Made(5, Unavailable("no room"));
  EXPECT_EQ(made_, 2);
  EXPECT_EQ(told_, std::vector<std::string>{"b: no room"});
  folders_->Made(5, absl::OkStatus());
  EXPECT_EQ(told_.back(), "again");
}

TEST_F(DatasetFoldersTest, AFolderMayBeMadeWithinTheCall) {
  folders_->Want(5, Note("a"), [this] { folders_->Made(5, absl::OkStatus()); });
  EXPECT_EQ(told_, std::vector<std::string>{"a"});
}

TEST_F(DatasetFoldersTest, AKnownFolderIsMadeByNobody) {
  folders_->Known(5);
  folders_->Want(5, Note("a"), Make());
  EXPECT_EQ(told_, std::vector<std::string>{"a"});
  EXPECT_EQ(made_, 0);
  folders_->Left(5);
  folders_->Want(5, Note("b"), Make());
  EXPECT_EQ(made_, 1) << "nobody keeps in mind that it is there";
  EXPECT_EQ(told_.size(), 1u);
}

TEST_F(DatasetFoldersTest, WhoWaitsForAFolderLearnsLaterThatTheDatasetFailed) {
  folders_->Want(5, Note("a"), Make());
  folders_->Want(5, Note("b"), Make());
  folders_->Failed(5, "rank 1 was lost");
  EXPECT_TRUE(told_.empty()) << "this may be deep within a call of theirs";
  folders_->Made(5, absl::OkStatus());
  by_hand_.RunAll();
  EXPECT_EQ(told_, (std::vector<std::string>{"a: rank 1 was lost", "b: rank 1 was lost"})) << "once";
}

TEST_F(DatasetFoldersTest, ThatADatasetHasFailedIsAborted) {
  absl::Status told;
  folders_->Want(
      5, [&told](const absl::Status& status) { told = status; }, Make());
  folders_->Failed(5, "rank 1 was lost");
  by_hand_.RunAll();
  EXPECT_STATUS(absl::StatusCode::kAborted, told, "rank 1 was lost");
}

// --- Its changes ---

TEST_F(DatasetFoldersTest, AChangeIsMadeOnTheCachesPoolAndToldOnTheStrand) {
  bool changed = false, told = false;
  folders_->Change(
      5,
      [&changed] {
        changed = true;
        return absl::OkStatus();
      },
      [&told] { told = true; });
  by_hand_.strand.Run();
  EXPECT_FALSE(changed);
  by_hand_.cache.Run();
  EXPECT_TRUE(changed);
  EXPECT_FALSE(told);
  by_hand_.strand.Run();
  EXPECT_TRUE(told);
  EXPECT_TRUE(by_hand_.context.warnings->all().empty());
}

TEST_F(DatasetFoldersTest, AnErrorOfAChangeIsAWarningAndEndsItAllTheSame) {
  bool told = false;
  folders_->Change(
      5, [] { return Unavailable("the disk does not answer"); }, [&told] { told = true; });
  folders_->WhenUnchanged(5, [this] { told_.push_back("unchanged"); });
  by_hand_.RunAll();
  EXPECT_TRUE(told);
  EXPECT_EQ(told_, std::vector<std::string>{"unchanged"});
  ASSERT_EQ(by_hand_.context.warnings->all().size(), 1u);
  EXPECT_EQ(by_hand_.context.warnings->all().front(), "dataset 5: the disk does not answer");
}

TEST_F(DatasetFoldersTest, WhoMakesTheFolderAnewWaitsForAllItsChanges) {
  const auto work = [] { return absl::OkStatus(); };
  folders_->Change(5, work);
  folders_->Change(5, work);
  folders_->WhenUnchanged(5, [this] { told_.push_back("a"); });
  folders_->WhenUnchanged(5, [this] { told_.push_back("b"); });
  folders_->WhenUnchanged(6, [this] { told_.push_back("another"); });
  EXPECT_EQ(told_, std::vector<std::string>{"another"}) << "nothing changes that one";
  by_hand_.cache.Step();
  by_hand_.strand.Run();
  EXPECT_EQ(told_.size(), 1u) << "the second is still to come";
  by_hand_.RunAll();
  EXPECT_EQ(told_, (std::vector<std::string>{"another", "a", "b"}));
  folders_->WhenUnchanged(5, [this] { told_.push_back("c"); });
  EXPECT_EQ(told_.back(), "c");
}

TEST_F(DatasetFoldersTest, AChangeThatFollowsFromAnotherIsWaitedForToo) {
  const auto work = [] { return absl::OkStatus(); };
  folders_->Change(5, work, [this, work] { folders_->Change(5, work); });
  folders_->WhenUnchanged(5, [this] { told_.push_back("a"); });
  by_hand_.cache.Run();
  by_hand_.strand.Run();
  EXPECT_TRUE(told_.empty());
  by_hand_.RunAll();
  EXPECT_EQ(told_, std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace cairn
