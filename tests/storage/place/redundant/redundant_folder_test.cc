// A run's folder in a folder that is redundant itself: what is whole there is all there, over a power failure between
// any two operations, and nothing that is not whole, or not this run's, counts.
#include "storage/place/redundant/redundant_folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "storage/format/catalogue/catalogue.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint32_t kRanks = 2;
constexpr DatasetId kId = 7;
constexpr char kCache[] = "/ssd/scr.dataset.7";

class RedundantFolderTest : public ::testing::Test {
 protected:
  RedundantFolderTest() {
    EXPECT_OK(MakeDirectories(cache_, kCache));
    for (Rank rank = 0; rank < kRanks; ++rank) {
      const std::string content = TestContent(rank, 20'000);
      ranks_.push_back(TestCatalogue(TestRun(), kId, rank, kRanks, content));
      ranks_.back().set_step(70);
      EXPECT_OK(WriteTestFile(cache_, std::string(kCache) + "/" + ranks_.back().file(0).name(), content));
    }
    record_.set_run(TestRun().Hex());
    record_.set_launch(ranks_[0].launch());
    record_.set_mark(TestRun(9).Hex());
    record_.set_dataset(kId);
    record_.set_step(70);
    record_.set_nranks(kRanks);
    record_.set_checkpoint(true);
    Reset();
  }
  void Reset() {
    disk_ = std::make_unique<FakeDisk>();
    EXPECT_OK(MakeDirectories(*disk_, "/burst"));
    disk_->SyncAll();
  }
  RedundantFolder Folder(const RunId& run = TestRun()) { return RedundantFolder(*disk_, "/burst", "me", run, {}); }
  // Each rank's by a node of its own.
  absl::Status BringRank(Rank rank, std::string* damaged = nullptr) {
    std::string name;
    Throttle throttle(0);
    TransferProgress progress;
    const std::vector<catalogue::Catalogue> one = {ranks_[rank]};
    return Folder().Bring(kId, {.disk = cache_, .folder = kCache, .ranks = one}, throttle, progress,
                          damaged != nullptr ? damaged : &name);
  }
  absl::Status BringAll() {
    for (Rank rank = 0; rank < kRanks; ++rank) {
      if (const absl::Status brought = BringRank(rank); !brought.ok()) return brought;
    }
    return Folder().Complete(record_);
  }
  bool IsWhole() {
    const auto contents = Folder().Look();
    EXPECT_OK(contents.status());
    return contents.ok() && contents->whole.contains(kId);
  }
  // Every byte of what counts.
  void ExpectSound() {
    for (const catalogue::Catalogue& rank : ranks_) {
      for (const catalogue::FileEntry& file : rank.file()) {
        EXPECT_OK(VerifyFile(*disk_, Folder().DatasetPath(kId) + "/" + file.name(), file));
      }
    }
  }
  std::string RecordPath() { return Folder().DatasetPath(kId) + "/.scr/whole.cairn"; }

  FakeDisk cache_;
  std::unique_ptr<FakeDisk> disk_;
  std::vector<catalogue::Catalogue> ranks_;
  kept::Whole record_;
};

TEST_F(RedundantFolderTest, CountsOnlyWhenAllPartsAreThere) {
  EXPECT_FALSE(IsWhole());
  ASSERT_OK(BringRank(1));
  EXPECT_FALSE(IsWhole());
  const absl::Status early = Folder().Complete(record_);
  EXPECT_EQ(early.code(), absl::StatusCode::kUnavailable) << early;
  EXPECT_FALSE(IsWhole());
  ASSERT_OK(BringAll());
  ASSERT_OK_AND_ASSIGN(const RedundantFolder::Contents contents, Folder().Look());
  EXPECT_EQ(contents.whole.at(kId).record.step(), 70u);
  EXPECT_EQ(contents.whole.at(kId).ranks.size(), kRanks);
  EXPECT_OK(BringAll()) << "once more is as good";
  ExpectSound();
}

TEST_F(RedundantFolderTest, WhatWasSaidHoldsOverAPowerFailureAfterAnyOperation) {
  for (std::uint64_t n = 1; n < 1'000; ++n) {
    Reset();
    disk_->CrashAt(n);
    const bool said = BringAll().ok();
    disk_->Restart(n);
    const bool whole = IsWhole();
    EXPECT_TRUE(whole || !said) << n;
    if (whole) ExpectSound();
    EXPECT_OK(BringAll()) << "it goes on: " << n;
    EXPECT_TRUE(IsWhole()) << n;
    if (said) return;
  }
  FAIL() << "it has no end";
}

TEST_F(RedundantFolderTest, WhatIsRemovedGoesWholeOrNotAtAll) {
  for (std::uint64_t n = 1; n < 1'000; ++n) {
    Reset();
    ASSERT_OK(BringAll());
    disk_->SyncAll();
    disk_->CrashAt(n);
    const bool removed = Folder().Remove(kId).ok();
    disk_->Restart(n);
    const bool whole = IsWhole();
    EXPECT_FALSE(whole && removed) << n;
    if (whole) ExpectSound();
    EXPECT_OK(Folder().Remove(kId));
    EXPECT_OK(Folder().Tidy(kId, {}));
    EXPECT_THAT(*disk_->List(Folder().path()), IsEmpty()) << n;
    if (removed) return;
  }
  FAIL() << "it has no end";
}

// By a try before this one, that could not sync it.
TEST_F(RedundantFolderTest, WhatIsRemovedDoesNotComeBackThoughASyncHasFailed) {
  for (const bool goes : {true, false}) {
    Reset();
    ASSERT_OK(BringAll());
    disk_->SyncAll();
    const auto away = [&] { return goes ? Folder().Remove(kId) : Folder().SetAside(kId); };
    disk_->FailOn({.op = FakeOp::kSyncDirectory, .path_part = "/burst", .times = 2});
    EXPECT_FALSE(away().ok());
    EXPECT_FALSE(away().ok()) << "it is not there, and that may not hold";
    EXPECT_OK(away());
    if (goes) {
      EXPECT_THAT(*disk_->List(Folder().path()), IsEmpty());
    }
    disk_->Restart(1);
    EXPECT_FALSE(IsWhole()) << goes;
  }
}

// --- Which folder it is ---

TEST_F(RedundantFolderTest, AFolderIsKnownByItsMark) {
  RedundantFolder marked(*disk_, "/burst", "me", TestRun(), {.apart_from = {}, .marked = true});
  EXPECT_OK(marked.Look().status()) << "it may be the first use";
  ASSERT_OK_AND_ASSIGN(const std::string mark, marked.Mark());
  ASSERT_OK_AND_ASSIGN(const std::string again, marked.Mark());
  EXPECT_EQ(again, mark);
  disk_->Restart(1);
  marked.Expect(mark, "a note");
  ASSERT_OK(BringAll());
  ASSERT_OK_AND_ASSIGN(const RedundantFolder::Contents contents, marked.Look());
  EXPECT_TRUE(contents.whole.contains(kId));
  const auto expect_refused = [&](const std::string& why) {
    Throttle throttle(0);
    TransferProgress progress;
    std::string damaged;
    for (const absl::Status& status :
         {marked.Look().status(), marked.Complete(record_), marked.Remove(kId), marked.SetAside(kId),
          marked.Tidy(kId + 1, {}),
          marked.Bring(kId, {.disk = cache_, .folder = kCache, .ranks = ranks_}, throttle, progress, &damaged)}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      EXPECT_THAT(status.ToString(), HasSubstr(why));
    }
  };
  marked.Expect(TestRun(3).Hex(), "a note");
  expect_refused("is another folder than the one that this run has used; is it mounted? (redundant.marked; noted in a");
  marked.Expect(mark, "a note");
  ASSERT_OK(disk_->Rename("/burst", "/away"));
  ASSERT_OK(disk_->MakeDirectory("/burst", 0755));
  expect_refused("lacks the mark of the folder that this run has used");
  EXPECT_THAT(*disk_->List("/burst"), IsEmpty());
  // What a look has found counts, too, before anybody has said what to expect.
  RedundantFolder another(*disk_, "/away", "me", TestRun(), {.apart_from = {}, .marked = true});
  EXPECT_OK(another.Look().status());
  ASSERT_OK(disk_->Remove("/away/me/folder.cairn"));
  EXPECT_EQ(another.Look().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(another.Differed());
  EXPECT_FALSE(another.Differed()) << "since it was asked last";
  EXPECT_EQ(another.Mark().status().code(), absl::StatusCode::kUnavailable) << "it is not the first use";
  EXPECT_FALSE(another.Expect(mark, "a note")) << "what it has found";
  EXPECT_TRUE(another.Expect(TestRun(3).Hex(), "a note"));
  EXPECT_OK(another.Mark().status()) << "somebody has taken the note away";
}

TEST_F(RedundantFolderTest, AMarkThatIsCutOrFlippedIsNotTakenForOne) {
  RedundantFolder marked(*disk_, "/burst", "me", TestRun(), {.apart_from = {}, .marked = true});
  ASSERT_OK_AND_ASSIGN(const std::string mark, marked.Mark());
  marked.Expect(mark, "a note");
  const std::string path = "/burst/me/folder.cairn";
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadWhole(*disk_, path, 1 << 20));
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes) {
    ASSERT_OK(ReplaceFile(*disk_, path, text.substr(0, bytes)));
    EXPECT_FALSE(marked.Look().ok()) << "cut at " << bytes;
    std::string flipped = text;
    flipped[bytes] = static_cast<char>(flipped[bytes] ^ 4);
    ASSERT_OK(ReplaceFile(*disk_, path, flipped));
    EXPECT_FALSE(marked.Look().ok()) << "flipped at " << bytes;
  }
}

TEST_F(RedundantFolderTest, OneOnTheDeviceOfAnotherIsNotUsed) {
  RedundantFolder apart(*disk_, "/burst", "me", TestRun(), {.apart_from = {{&cache_, "/ssd"}, {disk_.get(), "/"}}});
  EXPECT_THAT(apart.Mark().status().ToString(), HasSubstr("/burst: is on the device of /, and protects from nothing"));
  EXPECT_EQ(apart.Look().status().code(), absl::StatusCode::kUnavailable);
  disk_->Mount("/burst");
  EXPECT_OK(apart.Look().status());
}

TEST_F(RedundantFolderTest, ARecordThatIsCutOrFlippedIsNotBelieved) {
  ASSERT_OK(BringAll());
  ASSERT_OK_AND_ASSIGN(const std::string record, ReadWhole(*disk_, RecordPath(), 1 << 20));
  for (std::size_t bytes = 0; bytes < record.size(); ++bytes) {
    ASSERT_OK(ReplaceFile(*disk_, RecordPath(), record.substr(0, bytes)));
    EXPECT_FALSE(IsWhole()) << "cut at " << bytes;
    std::string flipped = record;
    flipped[bytes] = static_cast<char>(flipped[bytes] ^ 4);
    ASSERT_OK(ReplaceFile(*disk_, RecordPath(), flipped));
    ASSERT_OK_AND_ASSIGN(const RedundantFolder::Contents contents, Folder().Look());
    EXPECT_TRUE(contents.whole.empty() && contents.damaged.contains(kId)) << "flipped at " << bytes;
  }
}

TEST_F(RedundantFolderTest, AnotherRunsAndAnotherNumbersTreeIsNotBelieved) {
  ASSERT_OK(BringAll());
  RedundantFolder other = Folder(TestRun(2));
  disk_->CopyTree(Folder().path(), other.path());
  disk_->CopyTree(Folder().DatasetPath(kId), Folder().DatasetPath(8));
  ASSERT_OK_AND_ASSIGN(const RedundantFolder::Contents there, other.Look());
  EXPECT_THAT(there.whole, IsEmpty());
  ASSERT_OK_AND_ASSIGN(const RedundantFolder::Contents here, Folder().Look());
  EXPECT_TRUE(here.whole.contains(kId));
  EXPECT_FALSE(here.whole.contains(8));
  EXPECT_THAT(here.damaged.at(8).ToString(), HasSubstr("dataset: 7 in the place of 8"));
}

TEST_F(RedundantFolderTest, WhatHasMoreOfCataloguesThanIsReadSaysNothingOfTheOthers) {
  ASSERT_OK(BringAll());
  std::uint64_t bytes = 0;
  for (const catalogue::Catalogue& rank : ranks_) bytes += CatalogueFileBytes(rank);
  const auto with = [&](std::uint64_t bytes_max) {
    return RedundantFolder(*disk_, "/burst", "me", TestRun(), {.apart_from = {}, .catalogues_bytes_max = bytes_max});
  };
  ASSERT_OK_AND_ASSIGN(const RedundantFolder::Contents enough, with(bytes).Look());
  EXPECT_TRUE(enough.whole.contains(kId));
  for (const std::uint64_t less : {bytes - 1, bytes / 2, std::uint64_t{0}}) {
    RedundantFolder folder = with(less);
    ASSERT_OK_AND_ASSIGN(const RedundantFolder::Contents contents, folder.Look());
    EXPECT_THAT(contents.whole, IsEmpty());
    EXPECT_THAT(contents.damaged, IsEmpty()) << "it does not go aside for that";
    ASSERT_TRUE(contents.unknown.contains(kId));
    EXPECT_EQ(contents.unknown.at(kId).code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(folder.Complete(record_).code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_TRUE(IsWhole());
}

// No file has such sizes, whatever their sum is.
TEST_F(RedundantFolderTest, SizesThatOverflowAreDamage) {
  ASSERT_OK(BringAll());
  const std::string path = Folder().DatasetPath(kId) + "/" + CatalogueName(0);
  for (const std::uint64_t bytes :
       {UINT64_MAX, UINT64_MAX - 20'000 + 1, std::uint64_t{1} << 63, std::uint64_t{1} << 40, std::uint64_t{0}}) {
    catalogue::Catalogue spoilt = ranks_[0];
    spoilt.mutable_file(0)->set_bytes(bytes);
    ASSERT_OK(ReplaceFile(*disk_, path, EncodeCatalogue(spoilt)));
    ASSERT_OK_AND_ASSIGN(const RedundantFolder::Contents contents, Folder().Look());
    EXPECT_TRUE(contents.damaged.contains(kId)) << bytes;
    EXPECT_THAT(contents.whole, IsEmpty()) << bytes;
  }
}

TEST_F(RedundantFolderTest, WhatIsReadBackDifferentlyIsWrittenAnew) {
  const std::string path = Folder().DatasetPath(kId) + "/" + ranks_[0].file(0).name();
  bool lies = true;
  disk_->SetHook([&](FakeOp op, const std::string&) {  // between the copy and its check
    if (op == FakeOp::kSyncDirectory && lies && disk_->Info(path).ok()) {
      lies = false;
      disk_->FlipBit(path, 80'000);
    }
  });
  const absl::Status brought = BringRank(0);
  EXPECT_EQ(brought.code(), absl::StatusCode::kUnavailable) << brought;
  EXPECT_THAT(brought.ToString(), HasSubstr("read back differently"));
  disk_->SetHook(nullptr);
  EXPECT_OK(BringAll());
  ExpectSound();
}

TEST_F(RedundantFolderTest, ADamagedFileOfTheCacheIsNamed) {
  const std::string name = ranks_[1].file(0).name();
  cache_.FlipBit(std::string(kCache) + "/" + name, 999);
  std::string damaged;
  EXPECT_EQ(BringRank(1, &damaged).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(damaged, name);
  ASSERT_OK(cache_.Remove(std::string(kCache) + "/" + name));
  damaged.clear();
  EXPECT_EQ(BringRank(1, &damaged).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(damaged, name);
}

TEST_F(RedundantFolderTest, AsideAndUnfinishedOnesGoAtTheNextTidying) {
  ASSERT_OK(BringAll());
  ASSERT_OK(Folder().SetAside(kId));
  EXPECT_FALSE(IsWhole());
  ASSERT_OK(BringRank(0));
  ASSERT_OK(Folder().Tidy(kId, {}));  // what is newer stays
  EXPECT_EQ(disk_->List(Folder().path())->size(), 1u);
  ASSERT_OK(Folder().Tidy(kId + 1, {kId}));
  EXPECT_EQ(disk_->List(Folder().path())->size(), 1u);
  ASSERT_OK(Folder().Tidy(kId + 1, {}));
  EXPECT_THAT(*disk_->List(Folder().path()), IsEmpty());
  ASSERT_OK(BringAll());
  ASSERT_OK(Folder().Tidy(kId + 1, {}));
  EXPECT_TRUE(IsWhole()) << "what is whole is left alone";
}

}  // namespace
}  // namespace cairn
