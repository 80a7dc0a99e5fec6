// halt.scr: read by a run, changed in place by people, SCR's tools and the run itself.
#include <gtest/gtest.h>

#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/io/posix_disk.h"
#include "storage/place/prefix/halt_file.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"
#include "tests/support/vectors.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;

constexpr char kPrefix[] = "/pfs/demo";
constexpr char kPath[] = "/pfs/demo/.scr/halt.scr";
constexpr milliseconds kNoPatience{0};

class HaltFileTest : public ::testing::Test {
 protected:
  HaltFileTest() {
    EXPECT_OK(MakeDirectories(disk_, "/pfs/demo/.scr"));
    disk_.SyncAll();
  }

  void Put(const std::string& bytes) { EXPECT_OK(ReplaceFile(disk_, kPath, bytes)); }
  absl::Status After(std::uint64_t checkpoints) {
    return ChangeHalt(
        disk_, kPrefix, [=](scr::Halt& halt) { halt.checkpoints_left = checkpoints; }, kNoPatience);
  }
  std::unique_ptr<File> LockedByAnother() {
    auto file = disk_.Open(kPath, {});
    EXPECT_OK(file.status());
    EXPECT_OK((*file)->TryLock());
    return *std::move(file);
  }

  FakeDisk disk_;
};

TEST_F(HaltFileTest, NoFileOrAnEmptyOneMeansNoConditions) {
  ASSERT_OK_AND_ASSIGN(const scr::Halt none, ReadHalt(disk_, kPrefix));
  EXPECT_EQ(none, scr::Halt());
  Put("");
  ASSERT_OK_AND_ASSIGN(const scr::Halt empty, ReadHalt(disk_, kPrefix));
  EXPECT_EQ(empty, scr::Halt());
}

TEST_F(HaltFileTest, AChangeMakesTheFileAndIsReadBackAfterAPowerFailure) {
  ASSERT_OK(After(5));
  disk_.Restart(1);
  ASSERT_OK_AND_ASSIGN(const scr::Halt halt, ReadHalt(disk_, kPrefix));
  EXPECT_EQ(halt.checkpoints_left, 5u);
}

TEST_F(HaltFileTest, UnknownKeysStayAndWhatIsTakenBackGoes) {
  kvtree::Tree tree;
  tree.Set("SomebodysKey", "17");
  tree.Set("ExitReason", "a reason that is rather long, so that the file becomes shorter");
  ASSERT_OK(ReplaceTree(disk_, kPath, tree));
  ASSERT_OK(ChangeHalt(
      disk_, kPrefix,
      [](scr::Halt& halt) {
        EXPECT_FALSE(halt.reason.empty());
        halt.reason.clear();
        halt.halt_seconds = 60;
      },
      kNoPatience));
  ASSERT_OK_AND_ASSIGN(const kvtree::Tree after, ReadTree(disk_, kPath));
  EXPECT_EQ(after.Get("SomebodysKey"), "17");
  EXPECT_EQ(after.Get("HaltSeconds"), "60");
  EXPECT_EQ(after.Find("ExitReason"), nullptr);
  EXPECT_EQ(disk_.Info(kPath)->bytes, kvtree::Encode(after).size());  // nothing of the longer one is left behind
}

TEST_F(HaltFileTest, TheFileKeepsItsInodeSinceOthersHoldTheLockOnIt) {
  ASSERT_OK(After(5));
  const std::uint64_t inode = disk_.Info(kPath)->inode;
  ASSERT_OK(After(4));
  EXPECT_EQ(disk_.Info(kPath)->inode, inode);
}

TEST_F(HaltFileTest, NothingIsWrittenIfNothingChanges) {
  ASSERT_OK(After(5));
  int writes = 0;
  disk_.SetHook([&](FakeOp op, const std::string&) { writes += op == FakeOp::kWrite || op == FakeOp::kTruncate; });
  ASSERT_OK(After(5));
  EXPECT_EQ(writes, 0);
  ASSERT_OK(After(6));
  EXPECT_EQ(writes, 1);
}

TEST_F(HaltFileTest, ADamagedOneIsSaidToBeSoAndWrittenAnew) {
  ASSERT_OK(After(5));
  const std::string whole = *ReadWhole(disk_, kPath, 4096);
  for (std::size_t bytes = 1; bytes < whole.size(); ++bytes) {
    Put(whole.substr(0, bytes));
    EXPECT_STATUS(absl::StatusCode::kDataLoss, ReadHalt(disk_, kPrefix), "halt.scr") << bytes;
  }
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    Put(whole);
    disk_.FlipBit(kPath, bit);
    const auto halt = ReadHalt(disk_, kPrefix);
    EXPECT_TRUE(absl::IsDataLoss(halt.status()) || (halt.ok() && halt->checkpoints_left == 5u)) << bit;
  }
  Put(whole.substr(0, 30));
  ASSERT_OK(After(3));
  ASSERT_OK_AND_ASSIGN(const scr::Halt halt, ReadHalt(disk_, kPrefix));
  EXPECT_EQ(halt.checkpoints_left, 3u);
}

TEST_F(HaltFileTest, AFieldThatIsNoNumberIsNamed) {
  kvtree::Tree tree;
  tree.Set("ExitAfter", "soon");
  ASSERT_OK(ReplaceTree(disk_, kPath, tree));
  EXPECT_STATUS(absl::StatusCode::kDataLoss, ReadHalt(disk_, kPrefix), "ExitAfter");
  ASSERT_OK(After(3));
  EXPECT_OK(ReadHalt(disk_, kPrefix));
}

TEST_F(HaltFileTest, WhoDoesNotGetTheLockSaysSoAndChangesNothing) {
  ASSERT_OK(After(5));
  {
    const auto other = LockedByAnother();
    EXPECT_STATUS(absl::StatusCode::kUnavailable, After(4), "");
    EXPECT_EQ(ReadHalt(disk_, kPrefix)->checkpoints_left, 5u);  // a reader does not need it
  }
  ASSERT_OK(After(4));
  EXPECT_EQ(ReadHalt(disk_, kPrefix)->checkpoints_left, 4u);
}

TEST_F(HaltFileTest, TheLockIsWaitedForWithPatience) {
  ASSERT_OK(After(5));
  auto other = LockedByAnother();
  int tries = 0;
  disk_.SetHook([&](FakeOp op, const std::string&) {
    if (op == FakeOp::kLock && ++tries == 3) other = nullptr;
  });
  ASSERT_OK(ChangeHalt(
      disk_, kPrefix, [](scr::Halt& halt) { halt.checkpoints_left = 1; }, std::chrono::minutes(1)));
  EXPECT_GE(tries, 3);
  EXPECT_EQ(ReadHalt(disk_, kPrefix)->checkpoints_left, 1u);
}

TEST_F(HaltFileTest, AReaderThatFindsAnotherWritingReadsAgainUnderTheLock) {
  ASSERT_OK(After(5));
  const std::string whole = *ReadWhole(disk_, kPath, 4096);
  for (const std::string& meanwhile : {std::string(), whole.substr(0, 10)}) {
    Put(meanwhile);
    auto other = LockedByAnother();
    disk_.SetHook([&](FakeOp op, const std::string&) {
      if (op != FakeOp::kLock || !other) return;
      const std::unique_ptr<File> writer = std::move(other);  // it finishes, and lets the lock go
      auto file = disk_.Open(kPath, {.writable = true});
      EXPECT_OK((*file)->WriteAt(0, std::as_bytes(std::span(whole))));
    });
    ASSERT_OK_AND_ASSIGN(const scr::Halt halt, ReadHalt(disk_, kPrefix));
    EXPECT_EQ(halt.checkpoints_left, 5u);
    disk_.SetHook(nullptr);
  }
}

TEST_F(HaltFileTest, AfterAPowerFailureAnywhereItIsOldOrNewOrSaidToBeDamaged) {
  for (const bool there : {false, true}) {
    for (std::uint64_t at = 1;; ++at) {
      bool done = false;
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        FakeDisk disk;
        ASSERT_OK(MakeDirectories(disk, "/pfs/demo/.scr"));
        const auto set = [&](std::uint64_t left) {
          return ChangeHalt(
              disk, kPrefix,
              [=](scr::Halt& halt) {
                halt.checkpoints_left = left;
                halt.reason = left == 100 ? "until then" : "";
              },
              kNoPatience);
        };
        if (there) {
          ASSERT_OK(set(100));
        }
        disk.SyncAll();
        disk.CrashAt(at);
        const absl::Status changed = set(3);
        done = changed.ok();
        disk.Restart(seed);
        const auto halt = ReadHalt(disk, kPrefix);
        if (absl::IsDataLoss(halt.status())) {
          EXPECT_FALSE(changed.ok());
          continue;
        }
        ASSERT_OK(halt.status());
        const bool is_new = halt->checkpoints_left == 3u && halt->reason.empty();
        const bool is_old =
            there ? halt->checkpoints_left == 100u && halt->reason == "until then" : *halt == scr::Halt();
        EXPECT_TRUE(is_new || (is_old && !changed.ok())) << "at " << at << ", seed " << seed;
      }
      if (done) break;
    }
  }
}

TEST_F(HaltFileTest, IsRemovedOnceAndForAll) {
  ASSERT_OK(After(5));
  ASSERT_OK(RemoveHalt(disk_, kPrefix, kNoPatience));
  disk_.Restart(1);
  EXPECT_STATUS(absl::StatusCode::kNotFound, disk_.Info(kPath), "");
  ASSERT_OK(RemoveHalt(disk_, kPrefix, kNoPatience));
}

TEST_F(HaltFileTest, IsNotRemovedWhileAnotherChangesIt) {
  ASSERT_OK(After(5));
  {
    const auto locked = LockedByAnother();
    EXPECT_STATUS(absl::StatusCode::kUnavailable, RemoveHalt(disk_, kPrefix, kNoPatience), "halt.scr");
    EXPECT_OK(disk_.Info(kPath));
  }
  ASSERT_OK(RemoveHalt(disk_, kPrefix, kNoPatience));
}

TEST_F(HaltFileTest, APrefixThatIsNotThereIsNotMade) {
  EXPECT_STATUS(absl::StatusCode::kNotFound,
                ChangeHalt(
                    disk_, "/pfs/none", [](scr::Halt& halt) { halt.reason = "x"; }, kNoPatience),
                "");
  EXPECT_STATUS(absl::StatusCode::kNotFound, disk_.Info("/pfs/none"), "");
}

TEST_F(HaltFileTest, AReasonThatNoFileCanHoldIsRefused) {
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument,
                ChangeHalt(
                    disk_, kPrefix, [](scr::Halt& halt) { halt.reason = std::string("a\0b", 3); }, kNoPatience),
                "NUL");
}

TEST(HaltVectorsTest, ThoseOfScrsToolAreRead) {
  const auto folder = testing::VectorsPath("scr/single_np2");
  if (!folder) return;
  const auto disk = MakePosixDisk();
  ASSERT_OK_AND_ASSIGN(const scr::Halt halt, ReadHalt(*disk, *folder + "/pfs/demo"));
  EXPECT_EQ(halt.reason, scr::kFinalizeCalled);
}

}  // namespace
}  // namespace cairn
