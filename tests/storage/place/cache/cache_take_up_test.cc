// Datasets that a daemon which was killed has begun: which they are, and what is made of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/status.h"
#include "storage/place/cache/cache_folder.h"
#include "tests/storage/place/cache/cache_folder_fixture.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

class CacheTakeUpTest : public CacheFolderTest {
 protected:
  static constexpr DatasetId kId = 3;

  // Of two ranks; the daemon is killed before it is whole.
  void Leave(std::vector<Rank> ranks) {
    const auto folder = Open();
    ASSERT_OK(folder->Begin(TestDescriptor(kId, 2)));
    for (const Rank rank : ranks) ASSERT_OK(CommitRank(*folder, kId, rank, 2));
    disk_.SyncAll();
  }
  Ids Unfinished(CacheFolder& folder) {
    Ids ids;
    const auto found = folder.FindUnfinished();
    EXPECT_OK(found.status());
    if (!found.ok()) return ids;
    EXPECT_THAT(found->unread, IsEmpty());
    for (const scr::Descriptor& descriptor : found->datasets) ids.push_back(descriptor.id);
    return ids;
  }
};

TEST_F(CacheTakeUpTest, WhatIsStoredOfItIsFoundAndMadeWhole) {
  Leave({0, 1});
  const auto folder = Open();
  EXPECT_EQ(Unfinished(*folder), Ids({kId}));
  ASSERT_OK_AND_ASSIGN(const std::vector<Rank> stored, folder->TakeUp(TestDescriptor(kId, 2)));
  EXPECT_THAT(stored, ElementsAre(0, 1));
  ASSERT_OK(folder->Complete(TestDescriptor(kId, 2)));
  EXPECT_THAT(Unfinished(*folder), IsEmpty());
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
  EXPECT_EQ(WholeIds(load), Ids({kId}));
}

TEST_F(CacheTakeUpTest, RanksAreFoundByTheirCatalogues) {
  const auto folder = Open();
  ASSERT_OK_AND_ASSIGN(std::set<Rank> ranks, folder->FindRanks(kId));
  EXPECT_THAT(ranks, IsEmpty());
  Leave({1});
  ASSERT_OK_AND_ASSIGN(ranks, folder->FindRanks(kId));
  EXPECT_THAT(ranks, ElementsAre(1));
}

// Its file came to its name, but on a disk that was full then its records did not.
TEST_F(CacheTakeUpTest, WhatLiesThereOfRanksThatAreNotCommittedGoes) {
  Leave({0});
  const auto folder = Open();
  const std::string path = folder->DatasetPath(kId) + "/";
  ASSERT_OK(WriteTestFile(disk_, path + "Ckpt3-Rank1.fti", "one that nobody can read"));
  ASSERT_OK(WriteTestFile(disk_, folder->WorkPath(kId, 1), "half of"));
  ASSERT_OK_AND_ASSIGN(const std::vector<Rank> stored, folder->TakeUp(TestDescriptor(kId, 2)));
  EXPECT_THAT(stored, ElementsAre(0));
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, disk_.List(path));
  EXPECT_THAT(names, UnorderedElementsAre(".scr", "rank_0.cat", "Ckpt3-Rank0.fti"));
  ASSERT_OK(CommitRank(*folder, kId, 1, 2));
  ASSERT_OK(folder->Complete(TestDescriptor(kId, 2)));
}

// Whoever went on without them would have Load remove them.
TEST_F(CacheTakeUpTest, ADiskThatDoesNotAnswerIsNotTakenForNothingBeingThere) {
  Leave({0, 1});
  const std::string records = Open()->DatasetPath(kId) + "/";
  for (const FakeOp op : {FakeOp::kOpen, FakeOp::kRead, FakeOp::kInfo, FakeOp::kList}) {
    SCOPED_TRACE(static_cast<int>(op));
    const auto folder = Open();
    disk_.FailOn({.op = op, .path_part = records, .times = 1000});
    ASSERT_OK_AND_ASSIGN(const auto found, folder->FindUnfinished());
    EXPECT_THAT(found.datasets, IsEmpty());
    ASSERT_EQ(found.unread.size(), 1u);
    EXPECT_STATUS(absl::StatusCode::kUnavailable, found.unread.at(kId), "injected");
    disk_.ClearFaults();
    EXPECT_EQ(Unfinished(*folder), Ids({kId}));
  }
}

// It says nothing of the others; and nothing says that this one is not worth its bytes.
TEST_F(CacheTakeUpTest, OneThatCannotBeReadHidesNoOtherAndIsLeftAlone) {
  Leave({0, 1});
  const auto folder = Open();
  ASSERT_OK(folder->Begin(TestDescriptor(kId + 1, 2)));
  ASSERT_OK(CommitRank(*folder, kId + 1, 0, 2));
  disk_.FailOn({.op = FakeOp::kRead, .path_part = folder->DatasetPath(kId) + "/.scr/filemap_", .times = 1000});
  const auto opened = Open();
  ASSERT_OK_AND_ASSIGN(const auto found, opened->FindUnfinished());
  ASSERT_EQ(found.datasets.size(), 1u);
  EXPECT_EQ(found.datasets.front().id, kId + 1);
  EXPECT_TRUE(found.unread.contains(kId));
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, opened->Load());
  EXPECT_TRUE(Warned(load, "cannot be read now; left alone"));
  EXPECT_EQ(load.removed, Ids({kId + 1}));
  disk_.ClearFaults();
  EXPECT_EQ(Unfinished(*Open()), Ids({kId}));
}

// Each filemap says what the dataset is.
TEST_F(CacheTakeUpTest, AFilemapThatCannotBeReadHidesNothingThatAnotherSays) {
  Leave({0, 1});
  for (const char* record : {"/.scr/filemap_0", "/.scr/filemap_1"}) {
    SCOPED_TRACE(record);
    disk_.ClearFaults();
    disk_.FailOn({.op = FakeOp::kRead, .path_part = record, .times = 1000, .status = PermissionDenied("denied")});
    const auto folder = Open();
    ASSERT_OK_AND_ASSIGN(const auto found, folder->FindUnfinished());
    EXPECT_THAT(found.unread, IsEmpty());
    ASSERT_EQ(found.datasets.size(), 1u);
    EXPECT_EQ(found.datasets.front().id, kId);
    if (record == std::string_view("/.scr/filemap_0")) {
      EXPECT_THAT(found.refused, ElementsAre(AllOf(HasSubstr("denied"), Not(HasSubstr("more")))));
    }
    ASSERT_OK_AND_ASSIGN(const std::vector<Rank> stored, folder->TakeUp(TestDescriptor(kId, 2)));
    EXPECT_THAT(stored, ElementsAre(0, 1));
  }
}

// The next look may be allowed to: what nobody may read is not what is not there.
TEST_F(CacheTakeUpTest, WhatNobodyMayReadIsLeftAloneAndSaidToBe) {
  Leave({0, 1});
  for (const absl::Status& why : {PermissionDenied("refused"), Unavailable("refused"), ResourceExhausted("refused"),
                                  DeadlineExceeded("refused"), Internal("refused")}) {
    SCOPED_TRACE(why.ToString());
    disk_.FailOn({.op = FakeOp::kRead, .path_part = "/.scr/filemap_", .times = 1000, .status = why});
    const auto folder = Open();
    ASSERT_OK_AND_ASSIGN(const auto found, folder->FindUnfinished());
    ASSERT_TRUE(found.unread.contains(kId));
    EXPECT_STATUS(why.code(), found.unread.at(kId), "refused, and 1 more beside it could not be read");
    ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
    EXPECT_TRUE(Warned(load, "cannot be read now; left alone"));
    EXPECT_THAT(load.removed, IsEmpty());
    disk_.ClearFaults();
    EXPECT_EQ(Unfinished(*Open()), Ids({kId}));
  }
}

// Also where no catalogue is left that would say so.
TEST_F(CacheTakeUpTest, AFilemapThatCannotBeReadHidesNotThatItIsCairns) {
  Leave({0, 1});
  const std::string path = Open()->DatasetPath(kId);
  for (const char* catalogue : {"/rank_0.cat", "/rank_1.cat"}) ASSERT_OK(disk_.Remove(path + catalogue));
  for (const char* record : {"/.scr/filemap_", "/.scr/filemap_0"}) {
    SCOPED_TRACE(record);
    disk_.FailOn({.op = FakeOp::kRead, .path_part = record, .times = 1000, .status = PermissionDenied("denied")});
    const bool all = record == std::string_view("/.scr/filemap_");
    ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
    EXPECT_EQ(Warned(load, "cannot be read now: "), all);
    EXPECT_EQ(load.removed, all ? Ids() : Ids({kId}));
    EXPECT_EQ(disk_.Info(path).ok(), all);
    disk_.ClearFaults();
  }
}

// Whoever removes it may be killed before any of its files has gone, or be told that the disk does not remove them.
class CacheGivenUpTest : public CacheTakeUpTest {
 protected:
  // From `nth` on, no file goes. True: it was cut short.
  bool RemovesUpTo(std::uint64_t nth) {
    const auto folder = Open();
    const std::string path = folder->DatasetPath(kId) + "/";
    disk_.FailOn({.op = FakeOp::kRemove, .path_part = path, .nth = nth, .times = 1000});
    const bool cut_short = !folder->Remove(kId).ok();
    disk_.ClearFaults();
    return cut_short;
  }
  void ExpectGone() {
    const auto folder = Open();
    EXPECT_THAT(Unfinished(*folder), IsEmpty());
    ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
    EXPECT_THAT(load.whole, IsEmpty());
    EXPECT_THAT(load.scrs, IsEmpty());
    EXPECT_STATUS(absl::StatusCode::kNotFound, disk_.Info(folder->DatasetPath(kId)), "");
  }
};

TEST_F(CacheGivenUpTest, WhatHasFailedDoesNotComeBack) {
  for (std::uint64_t nth = 2;; ++nth) {  // the first would be an encode state, which is not there
    SCOPED_TRACE(nth);
    Leave({0, 1});
    if (!RemovesUpTo(nth)) break;
    ExpectGone();
  }
}

// Every rank's part is stored, and the next start could make it whole of them.
TEST_F(CacheGivenUpTest, WhatLoadHasBegunToRemoveDoesNotComeBack) {
  for (std::uint64_t nth = 2;; ++nth) {
    SCOPED_TRACE(nth);
    Leave({0, 1});
    const auto folder = Open();
    disk_.FailOn({.op = FakeOp::kRemove, .path_part = folder->DatasetPath(kId) + "/", .nth = nth, .times = 1000});
    ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
    disk_.ClearFaults();
    if (load.warnings.empty()) break;
    ExpectGone();
  }
}

TEST_F(CacheGivenUpTest, WhatCannotBeMarkedIsKeptAndSaidToBe) {
  Leave({0, 1});
  const auto folder = Open();
  disk_.FailOn({.op = FakeOp::kOpen, .path_part = "given_up.cairn", .times = 1000});
  EXPECT_STATUS(absl::StatusCode::kUnavailable, folder->Drop(kId), "injected");
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
  EXPECT_TRUE(Warned(load, "rest of dataset 3: kept, since it cannot be marked"));
  disk_.ClearFaults();
  EXPECT_EQ(Unfinished(*Open()), Ids({kId}));
}

TEST_F(CacheGivenUpTest, WhatWasDroppedDoesNotComeBackThoughNobodyRemovesIt) {
  Leave({0, 1});
  ASSERT_OK(Open()->Drop(kId));
  disk_.Restart(5);
  ExpectGone();
}

TEST_F(CacheGivenUpTest, WhatIsWholeIsNotDropped) {
  ASSERT_OK(WriteDataset(*Open(), kId));
  ASSERT_OK(Open()->Drop(kId));
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
  EXPECT_EQ(WholeIds(load), Ids({kId}));
  EXPECT_THAT(load.warnings, IsEmpty());
}

TEST_F(CacheGivenUpTest, WhatHasBeenWholeDoesNotComeBack) {
  for (std::uint64_t nth = 2;; ++nth) {
    SCOPED_TRACE(nth);
    ASSERT_OK(WriteDataset(*Open(), kId));
    if (!RemovesUpTo(nth)) break;
    ExpectGone();
  }
}

TEST_F(CacheGivenUpTest, WhatHasFailedDoesNotComeBackThoughTheDiskIsFull) {
  Leave({0, 1});
  disk_.FailOn({.op = FakeOp::kOpen,
                .path_part = "given_up.cairn",
                .status = absl::ResourceExhaustedError("no room for another file")});
  ASSERT_TRUE(RemovesUpTo(2));
  ExpectGone();
}

}  // namespace
}  // namespace cairn
