// <prefix>/.cairn/run: which run a directory is. (Copies: branch_test.cc.)
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

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
  ASSERT_OK_AND_ASSIGN(const FileInfo info, disk_.Info("/pfs/demo/.cairn"));
  EXPECT_EQ(info.mode & 07777, 0700u);
  ASSERT_OK_AND_ASSIGN(const kvtree::Tree tree, ReadTree(disk_, "/pfs/demo/.cairn/run"));
  EXPECT_EQ(tree.Get("RUN"), run.Hex());
  EXPECT_EQ(tree.Get("PATH"), kPath);
  EXPECT_EQ(*tree.GetUnsigned("INODE"), info.inode);
  EXPECT_TRUE(tree.Get("BIRTH").has_value());
  EXPECT_FALSE(disk_.Info("/pfs/demo/.cairn/run.1").ok());
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
  EXPECT_STATUS(kNotFound, prefix->CurrentRun(), "/pfs/demo/.cairn");
  Open();
  ASSERT_OK_AND_ASSIGN(const RunId anew, prefix->CurrentRun());
  EXPECT_NE(anew, run);
}

TEST_F(IdentityTest, ADamagedRunFileIsNeverMadeAnew) {
  Open();
  for (const char* text : {"", "0123", "0123456789ABCDEF0123456789ABCDEF\n", "0123456789abcdef0123456789abcdef0\n",
                           "a record, but of nothing that this program or another of ours has written"}) {
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

TEST_F(IdentityTest, AReadOnlyPrefixChangesNothing) {
  EXPECT_STATUS(kNotFound, Prefix::OpenReadOnly(disk_, kPath), "");
  const RunId run = Open()->run();
  disk_.SyncAll();
  ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::OpenReadOnly(disk_, kPath));
  EXPECT_EQ(prefix->run(), run);
  EXPECT_OK(prefix->Committed());
  EXPECT_STATUS(kPermissionDenied, prefix->MakeLaunch({.key = "key", .nranks = 1, .run = {}, .maker = {}}),
                "reading only");
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
