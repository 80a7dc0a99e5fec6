#include "storage/place/prefix/changed_file.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/place/prefix/file_stamp.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;

class ChangedFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(disk_.MakeDirectory("/p", 0755));
    disk_.SyncAll();
  }
  std::unique_ptr<ChangedFile> Open() {
    return std::make_unique<ChangedFile>(disk_, "/p/.scr", "index",
                                         ChangedFile::Hooks{.pause = [this](milliseconds time) { paused_ += time; },
                                                            .check = {},
                                                            .remake = {},
                                                            .warn = [this](std::string text) { warned_ += text; },
                                                            .now = [this] { return now_; }});
  }
  absl::Status Enter(ChangedFile& file, const std::string& line) {
    return file.Make([&](kvtree::Tree& tree) {
      tree.At("DSET").At(line).Set("COMPLETE", "1");
      return absl::OkStatus();
    });
  }
  static std::vector<std::string> LinesOf(const kvtree::Tree& tree) {
    std::vector<std::string> lines;
    if (const kvtree::Tree* table = tree.Find("DSET")) {
      for (const auto key : table->SortedKeys(kvtree::SortBy::kNumber)) lines.emplace_back(key);
    }
    return lines;
  }
  std::vector<std::string> Lines() {
    const auto tree = Open()->Read();
    EXPECT_OK(tree.status());
    return tree.ok() ? LinesOf(*tree) : std::vector<std::string>();
  }
  std::vector<std::string> Changes() {
    std::vector<std::string> changes;
    const auto names = disk_.List("/p/.scr/index.changes");
    EXPECT_OK(names.status());
    for (const std::string& name : *names) {
      if (!IsWorkName(name)) changes.push_back(name);
    }
    return changes;
  }
  static ChangedFile::Hooks Silent() {
    return {.pause = [](milliseconds) {}, .check = {}, .remake = {}, .warn = [](std::string) {}};
  }
  // The fake disk's clock counts changes.
  void LetTimePass(int seconds) {
    for (int i = 0; i < seconds; ++i) EXPECT_OK(disk_.Open("/p/clock", {.writable = true, .create = true}).status());
  }

  FakeDisk disk_;
  milliseconds paused_{0};
  std::chrono::steady_clock::time_point now_{};
  std::string warned_;
};

using Strings = std::vector<std::string>;

TEST_F(ChangedFileTest, ARefusedChangeLeavesNothing) {
  const auto file = Open();
  ASSERT_OK(Enter(*file, "1"));
  const absl::Status refused = file->Make([](kvtree::Tree& tree) {
    tree.At("DSET").At("2");
    return NotFound("no such dataset");
  });
  EXPECT_EQ(refused.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Lines(), Strings{"1"});
  EXPECT_EQ(Changes(), Strings{"1"});
}

TEST_F(ChangedFileTest, TheRecordNamesTheLastChangeThatItHas) {
  const auto file = Open();
  ASSERT_OK(Enter(*file, "1"));
  ASSERT_OK(Enter(*file, "2"));
  ASSERT_OK_AND_ASSIGN(const kvtree::Tree record, ReadTree(disk_, "/p/.scr/index.scr"));
  EXPECT_EQ(record.Get("CAIRN_APPLIED"), "2");
  ASSERT_OK_AND_ASSIGN(const kvtree::Tree tree, file->Read());
  EXPECT_EQ(tree.Find("CAIRN_APPLIED"), nullptr) << "it is of the file, not of what it says";
}

TEST_F(ChangedFileTest, AnOldRecordInPlaceOfANewerOneLosesNothing) {
  const auto file = Open();
  ASSERT_OK(Enter(*file, "1"));
  ASSERT_OK_AND_ASSIGN(const std::string old, ReadWhole(disk_, "/p/.scr/index.scr", 1 << 20));
  ASSERT_OK(Enter(*file, "2"));
  ASSERT_OK(ReplaceFile(disk_, "/p/.scr/index.scr", old));
  EXPECT_EQ(Lines(), (Strings{"1", "2"}));
  ASSERT_OK(Enter(*file, "3"));
  ASSERT_OK_AND_ASSIGN(const kvtree::Tree record, ReadTree(disk_, "/p/.scr/index.scr"));
  EXPECT_EQ(LinesOf(record), (Strings{"1", "2", "3"}));
}

TEST_F(ChangedFileTest, WhatWasLeftByOneWhoDiedIsAppliedByTheNext) {
  const auto file = Open();
  ASSERT_OK(Enter(*file, "1"));
  disk_.FailOn({.op = FakeOp::kRename, .path_part = "index.scr"});
  EXPECT_EQ(Enter(*file, "2").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Lines(), (Strings{"1", "2"})) << "an error: it may have been made";
  ASSERT_OK(Enter(*file, "2")) << "nothing to change, but the record lacks it";
  ASSERT_OK_AND_ASSIGN(const kvtree::Tree record, ReadTree(disk_, "/p/.scr/index.scr"));
  EXPECT_EQ(LinesOf(record), (Strings{"1", "2"}));
}

TEST_F(ChangedFileTest, ChangesGoWhenTheyAreOldButNeverTheLast) {
  const auto file = Open();
  for (int i = 1; i <= 5; ++i) ASSERT_OK(Enter(*file, std::to_string(i)));
  LetTimePass(3 * static_cast<int>(ChangedFile::kKeptSeconds));
  ASSERT_OK(Enter(*file, "6"));
  EXPECT_EQ(Changes(), Strings{"6"});
  LetTimePass(1000);
  ASSERT_OK(file->Make([](kvtree::Tree&) { return absl::OkStatus(); }));
  EXPECT_EQ(Changes(), Strings{"6"});
  EXPECT_EQ(Lines().size(), 6u);
}

TEST_F(ChangedFileTest, ChangesStayWhileAnotherMayNotHaveSeenThem) {
  const auto file = Open();
  ASSERT_OK(Enter(*file, "1"));
  const std::string work = WorkName("/p/.scr/index.changes/index.scr");
  { ASSERT_OK(disk_.Open(work, {.writable = true, .create = true, .exclusive = true}).status()); }
  for (int i = 2; i <= 5; ++i) {
    LetTimePass(3 * static_cast<int>(ChangedFile::kKeptSeconds));
    ASSERT_OK(Enter(*file, std::to_string(i)));
  }
  EXPECT_EQ(Changes().size(), 5u);
  ASSERT_OK(disk_.Remove(work));
  for (int i = 6; i <= 7; ++i) {
    LetTimePass(3 * static_cast<int>(ChangedFile::kKeptSeconds));
    ASSERT_OK(Enter(*file, std::to_string(i)));
  }
  EXPECT_EQ(Changes(), Strings{"7"});
}

TEST_F(ChangedFileTest, AnAbandonedWriterIsShutOut) {
  const auto file = Open();
  ASSERT_OK(Enter(*file, "1"));
  ASSERT_OK(Enter(*file, "2"));
  const std::string work = WorkName("/p/.scr/index.changes/index.scr");
  { ASSERT_OK(disk_.Open(work, {.writable = true, .create = true, .exclusive = true}).status()); }
  LetTimePass(2 * static_cast<int>(ChangedFile::kAbandonedSeconds));
  ASSERT_OK(Enter(*file, "3"));
  EXPECT_EQ(disk_.Rename(work, "/p/.scr/index.scr").code(), absl::StatusCode::kNotFound);
}

// Somebody thinks that this writer is dead, at each of its operations: it begins anew, and its change is there.
TEST_F(ChangedFileTest, AWriterThatWasShutOutBeginsAnew) {
  for (std::uint64_t at = 1;; ++at) {
    FakeDisk disk;
    ASSERT_OK(disk.MakeDirectory("/p", 0755));
    ChangedFile file(disk, "/p/.scr", "index", Silent());
    ASSERT_OK(Enter(file, "1"));
    const std::uint64_t before = disk.operations();
    bool done = false;
    disk.SetHook([&](FakeOp, const std::string&) {
      if (done || disk.operations() < before + at) return;
      done = true;
      const auto names = disk.List("/p/.scr/index.changes");
      for (const std::string& name : *names) {
        if (IsWorkName(name)) disk.Remove("/p/.scr/index.changes/" + name).IgnoreError();
      }
    });
    ASSERT_OK(Enter(file, "2")) << at;
    disk.SetHook({});
    ASSERT_OK_AND_ASSIGN(const kvtree::Tree tree, file.Read());
    EXPECT_EQ(LinesOf(tree), (Strings{"1", "2"})) << at;
    if (!done) break;
  }
}

// It slept before it made its change, was shut out, and its number was another's meanwhile: that one is long applied
// and gone.
TEST_F(ChangedFileTest, ANumberThatWasAnothersDoesNotCount) {
  const auto file = Open();
  ASSERT_OK(Enter(*file, "1"));
  bool done = false;
  disk_.SetHook([&](FakeOp op, const std::string& path) {
    if (done || op != FakeOp::kLink || path.find("index.changes/2") == std::string::npos) return;
    done = true;
    const auto names = disk_.List("/p/.scr/index.changes");
    for (const std::string& name : *names) {
      const bool shut_out = name.starts_with("index.scr.cairn-work") || name == "1";
      if (shut_out) disk_.Remove("/p/.scr/index.changes/" + name).IgnoreError();
    }
    kvtree::Tree record, line, change;
    for (const char* others : {"1", "21", "22"}) record.At("DSET").At(others).Set("COMPLETE", "1");
    record.Set("CAIRN_APPLIED", std::uint64_t{3});
    change.At("SET_IN").At("DSET").At("22").Set("COMPLETE", "1");
    change.Set("VERSION", std::uint64_t{1});
    EXPECT_OK(ReplaceTree(disk_, "/p/.scr/index.scr", record));
    EXPECT_OK(ReplaceTree(disk_, "/p/.scr/index.changes/3", change));
  });
  ASSERT_OK(Enter(*file, "2"));
  disk_.SetHook({});
  EXPECT_TRUE(done);
  EXPECT_EQ(Lines(), (Strings{"1", "2", "21", "22"}));
}

TEST_F(ChangedFileTest, AChangeByALaterReleaseIsNotPassedOver) {
  const auto file = Open();
  ASSERT_OK(Enter(*file, "1"));
  kvtree::Tree later;
  later.Set("VERSION", std::uint64_t{2});
  ASSERT_OK(ReplaceTree(disk_, "/p/.scr/index.changes/2", later));
  EXPECT_EQ(Enter(*file, "2").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(file->Read().status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_OK_AND_ASSIGN(const kvtree::Tree record, ReadTree(disk_, "/p/.scr/index.scr"));
  EXPECT_EQ(LinesOf(record), Strings{"1"});
}

TEST_F(ChangedFileTest, ADamagedChangeIsPassedOverAndTold) {
  const auto file = Open();
  ASSERT_OK(Enter(*file, "1"));
  ASSERT_OK(ReplaceFile(disk_, "/p/.scr/index.changes/2", "this is no change"));
  ASSERT_OK(Enter(*file, "3"));
  EXPECT_EQ(Lines(), (Strings{"1", "3"}));
  EXPECT_NE(warned_.find("index.changes/2"), std::string::npos) << warned_;
}

TEST_F(ChangedFileTest, WithoutItsKeyInTheRecordNothingIsLost) {
  const auto file = Open();
  for (int i = 1; i <= 3; ++i) ASSERT_OK(Enter(*file, std::to_string(i)));
  ASSERT_OK_AND_ASSIGN(kvtree::Tree record, ReadTree(disk_, "/p/.scr/index.scr"));
  record.Erase("CAIRN_APPLIED");
  ASSERT_OK(ReplaceTree(disk_, "/p/.scr/index.scr", record));
  EXPECT_EQ(Lines(), (Strings{"1", "2", "3"}));
  ASSERT_OK(Enter(*file, "4"));
  EXPECT_EQ(Changes().back(), "4") << "no number comes again";
  EXPECT_EQ(Lines(), (Strings{"1", "2", "3", "4"}));
}

TEST_F(ChangedFileTest, ChangesThatAreGoneAreToldAndHoldNobodyUp) {
  const auto file = Open();
  ASSERT_OK(Enter(*file, "1"));
  ASSERT_OK_AND_ASSIGN(const std::string old, ReadWhole(disk_, "/p/.scr/index.scr", 1 << 20));
  for (int i = 2; i <= 4; ++i) ASSERT_OK(Enter(*file, std::to_string(i)));
  for (const char* gone : {"2", "3"}) disk_.Remove(std::string("/p/.scr/index.changes/") + gone).IgnoreError();
  ASSERT_OK(ReplaceFile(disk_, "/p/.scr/index.scr", old));
  EXPECT_EQ(Lines(), (Strings{"1", "4"}));
  EXPECT_NE(warned_.find("changes 2 to 3 are gone"), std::string::npos) << warned_;
  ASSERT_OK(Enter(*file, "5"));
}

TEST_F(ChangedFileTest, WhoeverHasTheLockAndHangsHoldsOthersUpForAWhileOnly) {
  const auto file = Open();
  ASSERT_OK(Enter(*file, "1"));
  ASSERT_OK_AND_ASSIGN(const auto locked, disk_.Open("/p/.scr/index.lock", {.writable = true}));
  ASSERT_OK(locked->TryLock());
  ASSERT_OK(Enter(*file, "2"));
  EXPECT_GT(paused_, milliseconds(500));
  EXPECT_LE(paused_, 2 * ChangedFile::kPatience);
  paused_ = milliseconds(0);
  ASSERT_OK(Enter(*file, "3"));
  EXPECT_LT(paused_, milliseconds(100)) << "patience is gone until the lock comes again";
}

TEST_F(ChangedFileTest, AFolderIsNotMadeForNothing) {
  ASSERT_OK(Open()->Make([](kvtree::Tree&) { return absl::OkStatus(); }));
  EXPECT_EQ(disk_.Info("/p/.scr").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ChangedFileTest, AFolderWhoseParentIsGoneIsNotMade) {
  ASSERT_OK(disk_.Remove("/p"));
  EXPECT_EQ(Enter(*Open(), "1").code(), absl::StatusCode::kNotFound);
}

TEST_F(ChangedFileTest, ADamagedRecordIsMovedAsideAndMadeAnew) {
  ASSERT_OK(disk_.MakeDirectory("/p/.scr", 0755));
  ASSERT_OK(ReplaceFile(disk_, "/p/.scr/index.scr", "this is no record"));
  ChangedFile file(disk_, "/p/.scr", "index",
                   {.pause = [](milliseconds) {},
                    .check = {},
                    .remake =
                        [](kvtree::Tree& tree) {
                          tree.At("DSET").At("7");
                          return absl::OkStatus();
                        },
                    .warn = [this](std::string text) { warned_ += text; }});
  EXPECT_EQ(file.Read().status().code(), absl::StatusCode::kDataLoss) << "a look moves nothing";
  ASSERT_OK(Enter(file, "8"));
  EXPECT_EQ(Lines(), (Strings{"7", "8"}));
  EXPECT_NE(warned_.find("index.scr.damaged.1"), std::string::npos) << warned_;
}

// The power fails at each operation; what was promised is there, and what is there is whole.
TEST_F(ChangedFileTest, APowerFailureAtAnyInstantLosesNothingPromised) {
  for (std::uint64_t at = 1;; ++at) {
    FakeDisk disk;
    ASSERT_OK(disk.MakeDirectory("/p", 0755));
    disk.SyncAll();
    std::size_t promised = 0;
    {
      ChangedFile file(disk, "/p/.scr", "index", Silent());
      disk.CrashAt(at);
      for (int i = 1; i <= 4 && Enter(file, std::to_string(i)).ok(); ++i) ++promised;
    }
    const bool crashed = disk.crashed();
    disk.Restart(at);
    ChangedFile file(disk, "/p/.scr", "index", Silent());
    ASSERT_OK_AND_ASSIGN(const kvtree::Tree tree, file.Read());
    const Strings lines = LinesOf(tree);
    EXPECT_GE(lines.size(), promised) << at;
    for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i], std::to_string(i + 1)) << at;
    ASSERT_OK(Enter(file, "9"));
    if (!crashed) break;
  }
}

// --- A long record that changes are left out of for a while ---

class LongRecordTest : public ChangedFileTest {
 protected:
  static constexpr int kLines = 3000;

  void SetUp() override {
    ChangedFileTest::SetUp();
    ASSERT_OK(Open()->Make([](kvtree::Tree& tree) {
      for (int line = 1; line <= kLines; ++line) tree.At("DSET").At(std::to_string(line)).Set("COMPLETE", "1");
      return absl::OkStatus();
    }));
    ASSERT_OK_AND_ASSIGN(const std::string text, ReadWhole(disk_, "/p/.scr/index.scr", 1 << 20));
    ASSERT_GE(text.size(), ChangedFile::kLongBytes);
    file_ = Open();
    file_->LeaveBehind();
  }
  std::size_t LinesOfRecord() {
    const auto record = ReadTree(disk_, "/p/.scr/index.scr");
    EXPECT_OK(record.status());
    return LinesOf(*record).size();
  }

  std::unique_ptr<ChangedFile> file_;
};

TEST_F(LongRecordTest, AChangeIsReadByAllAndTheRecordFollowsWhenItIsAskedTo) {
  EXPECT_EQ(file_->behind(), 0u);
  ASSERT_OK(Enter(*file_, "3001"));
  ASSERT_OK(Enter(*file_, "3002"));
  EXPECT_GT(file_->behind(), 0u);
  EXPECT_EQ(LinesOfRecord(), 3000u);
  EXPECT_EQ(Lines().size(), 3002u);
  ASSERT_OK_AND_ASSIGN(const kvtree::Tree tree, file_->Read());
  EXPECT_EQ(LinesOf(tree).size(), 3002u);
  ASSERT_OK(file_->CatchUp());
  EXPECT_EQ(file_->behind(), 0u);
  EXPECT_EQ(LinesOfRecord(), 3002u);
}

TEST_F(LongRecordTest, ItIsDurableWithoutTheRecord) {
  ASSERT_OK(Enter(*file_, "3001"));
  disk_.CrashAt(disk_.operations() + 1);
  disk_.Restart(1);
  EXPECT_EQ(Lines().size(), 3001u);
}

TEST_F(LongRecordTest, AShortRecordIsNeverBehind) {
  ASSERT_OK(file_->Make([](kvtree::Tree& tree) {
    tree.Erase("DSET");
    return absl::OkStatus();
  }));
  ASSERT_OK(file_->CatchUp());
  ASSERT_OK(Enter(*file_, "1"));
  EXPECT_EQ(file_->behind(), 0u);
  EXPECT_EQ(LinesOfRecord(), 1u);
}

TEST_F(LongRecordTest, ItIsNeverBehindByVeryMany) {
  for (std::uint64_t n = 0; n <= ChangedFile::kBehindMax; ++n) ASSERT_OK(Enter(*file_, std::to_string(4000 + n)));
  EXPECT_EQ(LinesOfRecord(), kLines + ChangedFile::kBehindMax + 1);
}

TEST_F(LongRecordTest, WhatIsChangedWhileItCatchesUpStays) {
  ASSERT_OK(Enter(*file_, "3001"));
  const auto other = Open();
  bool done = false;
  disk_.SetHook([&](FakeOp op, const std::string& path) {
    if (done || op != FakeOp::kRename || path.find("/index.") == std::string::npos) return;
    done = true;
    EXPECT_OK(Enter(*file_, "3002"));
    EXPECT_OK(Enter(*other, "3003"));
  });
  ASSERT_OK(file_->CatchUp());
  disk_.SetHook({});
  EXPECT_TRUE(done);
  EXPECT_EQ(Lines().size(), 3003u);
  ASSERT_OK(file_->CatchUp());
  EXPECT_EQ(LinesOfRecord(), 3003u);
}

TEST_F(LongRecordTest, OnceItWasQuietForAWhileItIsNotReadForAnyChangeOrLook) {
  std::size_t reads = 0;
  const auto count_reads = [&](FakeOp op, const std::string& path) {
    reads += op == FakeOp::kRead && path == "/p/.scr/index.scr" ? 1 : 0;
  };
  ASSERT_OK(file_->CatchUp());
  ASSERT_OK(file_->Read().status());
  now_ += FileStamp::kTick;
  ASSERT_OK(file_->Read().status());
  disk_.SetHook(count_reads);
  for (int n = 0; n < 20; ++n) {
    ASSERT_OK(Enter(*file_, std::to_string(4000 + n)));
    ASSERT_OK(file_->Read().status());
  }
  EXPECT_EQ(reads, 0u);
  ASSERT_OK(file_->CatchUp());  // it is another file now
  ASSERT_OK(file_->Read().status());
  EXPECT_GT(reads, 0u);
  disk_.SetHook({});
  EXPECT_EQ(LinesOfRecord(), kLines + 20);
}

// SCR writes it in place.
TEST_F(LongRecordTest, AChangeInPlaceThatKeepsItsSizeIsSeenHoweverQuietItWas) {
  ASSERT_OK(file_->CatchUp());
  ASSERT_OK(file_->Read().status());
  now_ += FileStamp::kTick;
  ASSERT_OK(file_->Read().status());
  ASSERT_OK_AND_ASSIGN(kvtree::Tree record, ReadTree(disk_, "/p/.scr/index.scr"));
  record.At("DSET").At("17").Set("COMPLETE", "0");
  const std::string text = kvtree::Encode(record);
  ASSERT_OK_AND_ASSIGN(const auto file, disk_.Open("/p/.scr/index.scr", {.writable = true}));
  ASSERT_OK(file->WriteAt(0, std::as_bytes(std::span(text))));
  ASSERT_OK_AND_ASSIGN(const kvtree::Tree tree, file_->Read());
  EXPECT_EQ(tree.FindPath({"DSET", "17"})->Get("COMPLETE"), "0");
}

TEST_F(LongRecordTest, WhatScrWritesItselfIsSeen) {
  ASSERT_OK(Enter(*file_, "3001"));
  ASSERT_OK(file_->CatchUp());
  ASSERT_OK_AND_ASSIGN(kvtree::Tree record, ReadTree(disk_, "/p/.scr/index.scr"));
  record.At("DSET").Erase("17");
  ASSERT_OK(ReplaceTree(disk_, "/p/.scr/index.scr", record));
  ASSERT_OK_AND_ASSIGN(const kvtree::Tree tree, file_->Read());
  EXPECT_EQ(LinesOf(tree).size(), 3000u);
  ASSERT_OK(Enter(*file_, "3002"));
  ASSERT_OK(file_->CatchUp());
  EXPECT_EQ(LinesOfRecord(), 3001u);
}

}  // namespace
}  // namespace cairn
