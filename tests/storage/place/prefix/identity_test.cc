// <prefix>/.cairn: the run, its launches and ids.
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/place/prefix/prefix.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr auto kPermissionDenied = absl::StatusCode::kPermissionDenied;
constexpr auto kResourceExhausted = absl::StatusCode::kResourceExhausted;

constexpr char kPath[] = "/pfs/demo";

// Another user's .cairn.
class ForeignDisk final : public FakeDisk {
 public:
  absl::StatusOr<FileInfo> Info(const std::string& path) override {
    auto info = FakeDisk::Info(path);
    if (info.ok() && path.ends_with("/.cairn")) ++info->uid;
    return info;
  }
};

class IdentityTest : public ::testing::Test {
 protected:
  std::unique_ptr<Prefix> Open() {
    auto prefix = Prefix::Open(disk_, kPath);
    EXPECT_OK(prefix.status());
    return prefix.ok() ? *std::move(prefix) : nullptr;
  }
  FakeDisk disk_;
};

TEST_F(IdentityTest, TheFirstOpenerMakesTheRunAndAllOthersFindIt) {
  const RunId run = Open()->run();
  EXPECT_NE(run, RunId());
  EXPECT_EQ(Open()->run(), run);
  disk_.Restart(1);
  EXPECT_EQ(Open()->run(), run);
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadWhole(disk_, "/pfs/demo/.cairn/run", 100));
  EXPECT_EQ(text, run.Hex() + "\n");
  ASSERT_OK_AND_ASSIGN(const FileInfo info, disk_.Info("/pfs/demo/.cairn"));
  EXPECT_EQ(info.mode & 07777, 0700u);
}

// Between one's look and its link, another makes the run: the first one's counts for both.
TEST_F(IdentityTest, OfTwoOpenersThatRaceOneMakesTheRun) {
  std::optional<RunId> other;
  disk_.SetHook([&](FakeOp op, const std::string& path) {
    if (op != FakeOp::kLink || other || path.find("/run") == std::string::npos) return;
    other = RunId();
    other = Open()->run();
  });
  const RunId run = Open()->run();
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(run, *other);
}

TEST_F(IdentityTest, APowerFailureNeverLeavesHalfARun) {
  for (std::uint64_t n = 1;; ++n) {
    SCOPED_TRACE(fmt::format("power fails at operation {}", n));
    FakeDisk disk;
    disk.CrashAt(n);
    const auto before = Prefix::Open(disk, kPath);
    const std::optional<RunId> promised = before.ok() ? std::optional((*before)->run()) : std::nullopt;
    disk.Restart(n);
    ASSERT_OK_AND_ASSIGN(const auto after, Prefix::Open(disk, kPath));
    if (!promised) continue;
    EXPECT_EQ(after->run(), *promised);
    break;
  }
}

TEST_F(IdentityTest, APrefixMadeAnewIsAnotherRun) {
  auto prefix = Open();
  const RunId run = prefix->run();
  EXPECT_EQ(*prefix->CurrentRun(), run);
  ASSERT_OK(RemoveTree(disk_, kPath));
  EXPECT_STATUS(kNotFound, prefix->CurrentRun(), ".cairn/run");
  Open();
  ASSERT_OK_AND_ASSIGN(const RunId anew, prefix->CurrentRun());
  EXPECT_NE(anew, run);
}

TEST_F(IdentityTest, ADamagedRunFileIsNeverMadeAnew) {
  Open();
  for (const char* text : {"", "0123", "0123456789ABCDEF0123456789ABCDEF\n", "0123456789abcdef0123456789abcdef0\n"}) {
    ASSERT_OK(WriteTestFile(disk_, "/pfs/demo/.cairn/run", text));
    EXPECT_STATUS(kDataLoss, Prefix::Open(disk_, kPath), "/pfs/demo/.cairn/run");
  }
}

TEST_F(IdentityTest, AFolderOpenToOthersOrOfAnotherUserIsRefused) {
  Open();
  ASSERT_OK(disk_.SetModeAndTimes("/pfs/demo/.cairn", 0750, {}, {}));
  EXPECT_STATUS(kPermissionDenied, Prefix::Open(disk_, kPath), "/pfs/demo/.cairn: mode 0750");
  ForeignDisk foreign;
  EXPECT_STATUS(kPermissionDenied, Prefix::Open(foreign, kPath), "/pfs/demo/.cairn: belongs to user");
}

TEST_F(IdentityTest, ALinkInPlaceOfTheFolderIsRefused) {
  ASSERT_OK(MakeDirectories(disk_, kPath));
  ASSERT_OK(MakeDirectories(disk_, "/tmp/elsewhere"));
  ASSERT_OK(disk_.Symlink("/tmp/elsewhere", "/pfs/demo/.cairn"));
  EXPECT_STATUS(kPermissionDenied, Prefix::Open(disk_, kPath), "no directory");
}

TEST_F(IdentityTest, ARelativePrefixIsRefused) {
  EXPECT_STATUS(kInvalidArgument, Prefix::Open(disk_, "demo"), "absolute");
}

TEST_F(IdentityTest, LaunchesAreNumberedAndKeepKeyRanksAndSecret) {
  auto prefix = Open();
  ASSERT_OK_AND_ASSIGN(const auto none, prefix->NewestLaunch());
  EXPECT_FALSE(none.has_value());
  ASSERT_OK_AND_ASSIGN(const LaunchRecord first, prefix->MakeLaunch("slurm/1/0", 64));
  ASSERT_OK_AND_ASSIGN(const LaunchRecord second, prefix->MakeLaunch("", 1));
  EXPECT_EQ(first.id, 1u);
  EXPECT_EQ(second.id, 2u);
  EXPECT_NE(first.secret, second.secret);
  disk_.Restart(1);
  prefix = Open();
  ASSERT_OK_AND_ASSIGN(const auto newest, prefix->NewestLaunch());
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->id, 2u);
  EXPECT_EQ(newest->key, "");
  ASSERT_OK_AND_ASSIGN(const LaunchRecord found, prefix->FindLaunch(1));
  EXPECT_EQ(found.key, "slurm/1/0");
  EXPECT_EQ(found.nranks, 64u);
  EXPECT_EQ(found.secret, first.secret);
  EXPECT_EQ(found.secret.size(), 32u);
  EXPECT_EQ(found.host, first.host);
  EXPECT_EQ(found.created_us, first.created_us);
  EXPECT_STATUS(kNotFound, prefix->FindLaunch(3), "launch.3");
}

TEST_F(IdentityTest, TheNewestLaunchIsThatOfTheHighestNumber) {
  auto prefix = Open();
  for (int i = 0; i < 11; ++i) ASSERT_OK(prefix->MakeLaunch("key", 1));
  EXPECT_EQ((*prefix->NewestLaunch())->id, 11u);
  ASSERT_OK(WriteTestFile(disk_, "/pfs/demo/.cairn/launch.007", "not a number of ours"));
  ASSERT_OK(WriteTestFile(disk_, "/pfs/demo/.cairn/launch.99999999999999999999", "nor this"));
  EXPECT_EQ((*prefix->NewestLaunch())->id, 11u);
}

TEST_F(IdentityTest, OfTwoLaunchesThatRaceEachGetsANumberOfItsOwn) {
  auto prefix = Open();
  std::optional<LaunchRecord> other;
  disk_.SetHook([&](FakeOp op, const std::string& path) {
    if (op != FakeOp::kLink || other || path.find("/launch.") == std::string::npos) return;
    other.emplace();
    *other = *prefix->MakeLaunch("other", 1);
  });
  ASSERT_OK_AND_ASSIGN(const LaunchRecord own, prefix->MakeLaunch("own", 1));
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->id, 1u);
  EXPECT_EQ(own.id, 2u);
  EXPECT_EQ(prefix->FindLaunch(1)->key, "other");
  EXPECT_EQ(prefix->FindLaunch(2)->key, "own");
}

TEST_F(IdentityTest, ADamagedLaunchIsNamedAndTheNextOneGoesPastIt) {
  auto prefix = Open();
  ASSERT_OK(prefix->MakeLaunch("key", 1));
  disk_.FlipBit("/pfs/demo/.cairn/launch.1", 300);
  EXPECT_STATUS(kDataLoss, prefix->NewestLaunch(), "launch.1");
  ASSERT_OK_AND_ASSIGN(const LaunchRecord next, prefix->MakeLaunch("key", 1));
  EXPECT_EQ(next.id, 2u);
  ASSERT_OK(disk_.Rename("/pfs/demo/.cairn/launch.2", "/pfs/demo/.cairn/launch.5"));
  EXPECT_STATUS(kDataLoss, prefix->NewestLaunch(), "LAUNCH 2 instead of 5");
}

TEST_F(IdentityTest, LaunchesThatNobodyCouldKeepAreRefused) {
  auto prefix = Open();
  EXPECT_STATUS(kInvalidArgument, prefix->MakeLaunch("key", 0), "");
  EXPECT_STATUS(kInvalidArgument, prefix->MakeLaunch(std::string("a\0b", 3), 1), "NUL");
  EXPECT_STATUS(kInvalidArgument, prefix->MakeLaunch(std::string(5000, 'x'), 1), "5000 bytes");
}

TEST_F(IdentityTest, IdsComeInBlocksAndNeverTwice) {
  auto prefix = Open();
  ASSERT_OK_AND_ASSIGN(const Prefix::IdBlock first, prefix->ReserveIds(0));
  EXPECT_EQ(first.first, 1u);
  EXPECT_EQ(first.count, 64u);
  disk_.Restart(5);
  ASSERT_OK_AND_ASSIGN(const Prefix::IdBlock second, Open()->ReserveIds(0));
  EXPECT_EQ(second.first, 65u);
  ASSERT_OK_AND_ASSIGN(const Prefix::IdBlock third, Open()->ReserveIds(200));
  EXPECT_GT(third.first, 200u);
  ASSERT_OK_AND_ASSIGN(const Prefix::IdBlock fourth, Open()->ReserveIds(1));
  EXPECT_EQ(fourth.first, third.first + third.count);
}

TEST_F(IdentityTest, IdsStartAboveEverythingThatThePrefixKnows) {
  for (const std::uint64_t known : {63, 64, 65, 1000}) {
    for (const char* where : {"ckpt.{}", ".scr/scr.dataset.{}", "index"}) {
      SCOPED_TRACE(fmt::format("{} in {}", known, where));
      FakeDisk disk;
      ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::Open(disk, kPath));
      if (std::string_view(where) == "index") {
        kvtree::Tree index;
        scr::IndexEntry entry;
        entry.descriptor.id = known;
        entry.descriptor.name = "by_scr";
        scr::PutIndexEntry(entry, index);
        ASSERT_OK(ReplaceTree(disk, "/pfs/demo/.scr/index.scr", index));
      } else {
        ASSERT_OK(disk.MakeDirectory("/pfs/demo/" + fmt::format(fmt::runtime(where), known), 0700));
      }
      ASSERT_OK_AND_ASSIGN(const Prefix::IdBlock block, prefix->ReserveIds(0));
      EXPECT_GT(block.first, known);
      EXPECT_LE(block.first, known + 64);
    }
  }
}

TEST_F(IdentityTest, FoldersOfImpossibleIdsDoNotUseUpTheIds) {
  auto prefix = Open();
  ASSERT_OK(disk_.MakeDirectory("/pfs/demo/ckpt.20261120093000", 0700));
  ASSERT_OK(disk_.MakeDirectory("/pfs/demo/ckpt.x", 0700));
  EXPECT_EQ(prefix->ReserveIds(0)->first, 1u);
  EXPECT_STATUS(kResourceExhausted, prefix->ReserveIds(0x7fffffff), "ids end");
  EXPECT_STATUS(kResourceExhausted, prefix->ReserveIds(UINT64_MAX), "ids end");
}

TEST_F(IdentityTest, OfManyThatReserveAtOnceEachGetsABlockOfItsOwn) {
  auto prefix = Open();
  std::vector<std::thread> threads;
  std::vector<absl::StatusOr<Prefix::IdBlock>> blocks(8, absl::UnknownError(""));
  for (auto& block : blocks) {
    threads.emplace_back([&] { block = prefix->ReserveIds(0); });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<DatasetId> firsts;
  for (const auto& block : blocks) {
    ASSERT_OK(block.status());
    firsts.insert(block->first);
  }
  EXPECT_EQ(firsts.size(), 8u);
}

TEST_F(IdentityTest, AReadOnlyPrefixChangesNothing) {
  EXPECT_STATUS(kNotFound, Prefix::OpenReadOnly(disk_, kPath), "");
  const RunId run = Open()->run();
  disk_.SyncAll();
  ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::OpenReadOnly(disk_, kPath));
  EXPECT_EQ(prefix->run(), run);
  EXPECT_OK(prefix->Committed());
  EXPECT_STATUS(kPermissionDenied, prefix->MakeLaunch("key", 1), "reading only");
  EXPECT_STATUS(kPermissionDenied, prefix->ReserveIds(0), "reading only");
  EXPECT_STATUS(kPermissionDenied, prefix->Commit(TestDescriptor(1, 1), {}), "reading only");
  EXPECT_STATUS(kPermissionDenied, prefix->Remove(1, {}), "reading only");
  EXPECT_STATUS(kPermissionDenied, prefix->MarkFailed(1), "reading only");
  EXPECT_STATUS(kPermissionDenied, prefix->PutFlush(1, {}), "reading only");
  EXPECT_STATUS(kPermissionDenied, prefix->EraseFlush(1), "reading only");
  EXPECT_STATUS(kPermissionDenied, prefix->StoreCatalogue(EmptyCatalogue(run, 1, 0, 1)), "reading only");
}

}  // namespace
}  // namespace cairn
