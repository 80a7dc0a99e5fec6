// The promises of storage/io/disk.h that every Disk keeps: the same tests on the real file system, with both engines,
// on the fake, and on the fake as its only client sees it from afar.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <future>
#include <string>
#include <vector>

#include "storage/io/create_once.h"
#include "storage/io/disk.h"
#include "storage/io/fresh_list.h"
#include "storage/io/posix_disk.h"
#include "tests/support/fake_disk.h"
#include "tests/support/stale_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using Names = std::vector<std::string>;

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class DiskContractTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam().starts_with("fake")) {
      const bool lacking = GetParam() == "fake_lacking";
      disk_ = std::make_unique<FakeDisk>(
          FakeDiskOptions{.shares_extents = GetParam() == "fake_sharing", .links = !lacking, .renames_new = !lacking});
      if (GetParam() == "fake_stale") {
        server_ = std::move(disk_);
        disk_ = std::make_unique<StaleDisk>(*server_);
      }
      root_ = "/root";
      ASSERT_OK(disk_->MakeDirectory(root_, 0700));
      return;
    }
    disk_ = MakePosixDisk({.engine = {.io_uring = GetParam() == "io_uring"}});
    std::string name = testing::TempDir() + "/disk_contract.XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { EXPECT_OK(RemoveTree(*disk_, root_)); }

  std::string At(const std::string& name) const { return root_ + "/" + name; }

  void Write(const std::string& name, std::string_view text) {
    ASSERT_OK_AND_ASSIGN(const auto file, disk_->Open(At(name), {.writable = true, .create = true}));
    ASSERT_OK(file->WriteAt(0, Bytes(text)));
  }

  std::string Read(const std::string& name) {
    const auto text = ReadWhole(*disk_, At(name), 1 << 20);
    return text.ok() ? *text : text.status().ToString();
  }

  std::unique_ptr<Disk> server_;  // null: `disk_` is the disk itself
  std::unique_ptr<Disk> disk_;
  std::string root_;
};

INSTANTIATE_TEST_SUITE_P(Disks, DiskContractTest,
                         testing::Values("fake", "fake_sharing", "fake_lacking", "fake_stale", "io_uring", "threads"),
                         [](const auto& info) { return info.param; });

TEST_P(DiskContractTest, WritesAndReadsAtOffsets) {
  ASSERT_OK_AND_ASSIGN(const auto file, disk_->Open(At("a"), {.writable = true, .create = true}));
  EXPECT_EQ(file->path(), At("a"));
  ASSERT_OK(file->WriteAt(3, Bytes("def")));
  ASSERT_OK(file->WriteAt(1, Bytes("bc")));
  EXPECT_EQ(Read("a"), std::string_view("\0bcdef", 6));
  EXPECT_EQ(file->Info()->bytes, 6u);
  EXPECT_TRUE(file->Info()->is_regular());
  ASSERT_OK(file->Truncate(2));
  ASSERT_OK(file->Truncate(4));
  EXPECT_EQ(Read("a"), std::string_view("\0b\0\0", 4));
  EXPECT_OK(file->Sync());
}

TEST_P(DiskContractTest, ReadPastTheEndIsDataLossAndSaysHowMuchWasThere) {
  Write("a", "abcde");
  ASSERT_OK_AND_ASSIGN(const auto file, disk_->Open(At("a"), {}));
  std::byte buffer[8];
  EXPECT_STATUS(StatusCode::kDataLoss, file->ReadAt(2, buffer), "after 3 of 8 bytes");
  EXPECT_STATUS(StatusCode::kDataLoss, file->ReadAt(100, buffer), At("a") + " at 100");
  EXPECT_OK(file->ReadAt(100, {}));
}

TEST_P(DiskContractTest, AsyncTransfersAnswerOnceAsTheOthersDo) {
  ASSERT_OK_AND_ASSIGN(const auto file, disk_->Open(At("a"), {.writable = true, .create = true}));
  std::promise<absl::Status> written, read, short_read;
  file->WriteAsync(1, Bytes("bcd"), [&](absl::Status status) { written.set_value(status); });
  EXPECT_OK(written.get_future().get());
  std::byte buffer[5] = {};
  file->ReadAsync(0, std::span(buffer).first(4), [&](absl::Status status) { read.set_value(status); });
  EXPECT_OK(read.get_future().get());
  EXPECT_EQ(buffer[3], std::byte{'d'});
  file->ReadAsync(0, buffer, [&](absl::Status status) { short_read.set_value(status); });
  EXPECT_STATUS(StatusCode::kDataLoss, short_read.get_future().get(), "after 4 of 5 bytes");
}

TEST_P(DiskContractTest, CreateTruncatesAndExclusiveRefuses) {
  Write("a", "text");
  EXPECT_STATUS(StatusCode::kAlreadyExists, disk_->Open(At("a"), {.writable = true, .create = true, .exclusive = true}),
                At("a"));
  EXPECT_EQ(Read("a"), "text");
  EXPECT_OK(disk_->Open(At("a"), {.writable = true}));
  EXPECT_EQ(Read("a"), "text");
  EXPECT_OK(disk_->Open(At("a"), {.writable = true, .create = true}));
  EXPECT_EQ(Read("a"), "");
  EXPECT_OK(disk_->Open(At("b"), {.writable = true, .create = true, .exclusive = true, .mode = 0640}));
  EXPECT_EQ(disk_->Info(At("b"))->mode, 0100640u);
}

TEST_P(DiskContractTest, OpenTakesRegularFilesOnlyAndFollowsNoLink) {
  Write("a", "text");
  ASSERT_OK(disk_->Symlink("a", At("link")));
  EXPECT_STATUS(StatusCode::kInvalidArgument, disk_->Open(At("link"), {}), At("link"));
  EXPECT_STATUS(StatusCode::kInvalidArgument, disk_->Open(root_, {}), root_);
  EXPECT_STATUS(StatusCode::kNotFound, disk_->Open(At("none"), {}), At("none"));
  EXPECT_STATUS(StatusCode::kNotFound, disk_->Open(At("a/b"), {}), At("a/b"));
  EXPECT_STATUS(StatusCode::kInvalidArgument, disk_->Open(At(std::string(300, 'n')), {}), "nnn");
}

TEST_P(DiskContractTest, LinksOnTheWayAreFollowed) {
  ASSERT_OK(disk_->MakeDirectory(At("d"), 0750));
  Write("d/a", "a");
  ASSERT_OK(disk_->Symlink("d", At("link")));
  ASSERT_OK(disk_->Symlink("loop", At("loop")));
  EXPECT_EQ(Read("link/a"), "a");
  EXPECT_EQ(Read("d/../link/./a"), "a");
  EXPECT_TRUE(disk_->Info(At("link"))->is_symlink());
  EXPECT_EQ(disk_->ReadLink(At("link")).value(), "d");
  EXPECT_STATUS(StatusCode::kInvalidArgument, disk_->ReadLink(At("d")), At("d"));
  EXPECT_STATUS(StatusCode::kNotFound, disk_->ReadLink(At("none")), At("none"));
  EXPECT_TRUE(disk_->Info(At("link/."))->is_directory());
  EXPECT_EQ(disk_->List(At("link")).value(), (Names{"a"}));
  EXPECT_OK(disk_->SyncDirectory(At("link")));
  EXPECT_STATUS(StatusCode::kInvalidArgument, disk_->List(At("loop")), At("loop"));
}

TEST_P(DiskContractTest, RenameReplacesWhatMayBeReplaced) {
  ASSERT_OK(disk_->MakeDirectory(At("d"), 0700));
  ASSERT_OK(disk_->MakeDirectory(At("empty"), 0700));
  Write("d/a", "a");
  Write("b", "b");
  EXPECT_STATUS(StatusCode::kInvalidArgument, disk_->Rename(At("d"), At("d/e")), At("d/e"));
  EXPECT_STATUS(StatusCode::kNotFound, disk_->Rename(At("none"), At("b")), At("none"));
  EXPECT_STATUS(StatusCode::kNotFound, disk_->Rename(At("d"), At("b")), At("b"));
  EXPECT_STATUS(StatusCode::kInvalidArgument, disk_->Rename(At("b"), At("d")), At("d"));
  EXPECT_STATUS(StatusCode::kAlreadyExists, disk_->Rename(At("empty"), At("d")), At("d"));
  EXPECT_OK(disk_->Rename(At("d"), At("empty")));
  EXPECT_OK(disk_->Rename(At("b"), At("empty/a")));
  EXPECT_EQ(Read("empty/a"), "b");
  EXPECT_EQ(disk_->List(root_).value(), (Names{"empty"}));
}

TEST_P(DiskContractTest, LinkSharesTheFileAndNeverReplaces) {
  Write("a", "a");
  Write("b", "b");
  if (GetParam() == "fake_lacking") {
    EXPECT_STATUS(StatusCode::kFailedPrecondition, disk_->Link(At("a"), At("c")), At("c"));
    EXPECT_EQ(disk_->List(root_).value(), (Names{"a", "b"}));
    return;
  }
  EXPECT_STATUS(StatusCode::kAlreadyExists, disk_->Link(At("a"), At("b")), At("b"));
  EXPECT_STATUS(StatusCode::kNotFound, disk_->Link(At("none"), At("c")), At("none"));
  EXPECT_STATUS(StatusCode::kPermissionDenied, disk_->Link(root_, At("c")), root_);
  EXPECT_EQ(disk_->Info(At("a"))->links, 1u);
  ASSERT_OK(disk_->Link(At("a"), At("c")));
  EXPECT_EQ(disk_->Info(At("a"))->links, 2u);
  EXPECT_EQ(disk_->Info(At("a"))->inode, disk_->Info(At("c"))->inode);
  EXPECT_OK(disk_->Rename(At("a"), At("c")));  // two names of one file: both stay
  EXPECT_EQ(disk_->List(root_).value(), (Names{"a", "b", "c"}));
  EXPECT_STATUS(StatusCode::kAlreadyExists, disk_->Symlink("x", At("a")), At("a"));
}

TEST_P(DiskContractTest, RenameNewMovesAndNeverReplaces) {
  Write("a", "a");
  Write("b", "b");
  const absl::Status moved = disk_->RenameNew(At("a"), At("c"));
  if (GetParam() == "fake_lacking") {
    EXPECT_STATUS(StatusCode::kFailedPrecondition, moved, At("c"));
    EXPECT_EQ(disk_->List(root_).value(), (Names{"a", "b"}));
    return;
  }
  ASSERT_OK(moved);
  EXPECT_EQ(Read("c"), "a");
  EXPECT_STATUS(StatusCode::kAlreadyExists, disk_->RenameNew(At("c"), At("b")), At("b"));
  EXPECT_STATUS(StatusCode::kNotFound, disk_->RenameNew(At("none"), At("d")), At("none"));
  ASSERT_OK(disk_->MakeDirectory(At("empty"), 0700));
  EXPECT_STATUS(StatusCode::kAlreadyExists, disk_->RenameNew(At("c"), At("empty")), At("empty"));
  EXPECT_EQ(disk_->List(root_).value(), (Names{"b", "c", "empty"}));
  EXPECT_EQ(Read("b"), "b");
}

TEST_P(DiskContractTest, RealPathResolvesAllLinks) {
  ASSERT_OK(disk_->MakeDirectory(At("d"), 0700));
  ASSERT_OK(disk_->MakeDirectory(At("d/e"), 0700));
  Write("d/e/a", "a");
  ASSERT_OK(disk_->Symlink("d", At("relative")));
  ASSERT_OK(disk_->Symlink(At("relative/e"), At("absolute")));
  ASSERT_OK(disk_->Symlink("../e/a", At("d/e/file")));
  ASSERT_OK(disk_->Symlink("loop", At("loop")));
  ASSERT_OK(disk_->Symlink("none", At("dangling")));
  ASSERT_OK_AND_ASSIGN(const std::string root, disk_->RealPath(root_));  // the tests' folder may be behind links
  EXPECT_EQ(disk_->RealPath(At("d/e")).value(), root + "/d/e");
  EXPECT_EQ(disk_->RealPath(At("relative")).value(), root + "/d");
  EXPECT_EQ(disk_->RealPath(At("absolute/a")).value(), root + "/d/e/a");
  EXPECT_EQ(disk_->RealPath(At("absolute/file")).value(), root + "/d/e/a");
  EXPECT_EQ(disk_->RealPath(At("absolute/../../relative/./e/")).value(), root + "/d/e");
  EXPECT_EQ(disk_->RealPath("/").value(), "/");
  EXPECT_EQ(disk_->RealPath("/..").value(), "/");
  EXPECT_STATUS(StatusCode::kInvalidArgument, disk_->RealPath(At("loop")), At("loop"));
  EXPECT_STATUS(StatusCode::kInvalidArgument, disk_->RealPath(At("loop/a")), At("loop"));
  EXPECT_STATUS(StatusCode::kNotFound, disk_->RealPath(At("none")), At("none"));
  EXPECT_STATUS(StatusCode::kNotFound, disk_->RealPath(At("dangling")), At("dangling"));
  EXPECT_STATUS(StatusCode::kNotFound, disk_->RealPath(At("d/e/a/b")), At("d/e/a/b"));
}

TEST_P(DiskContractTest, AClonedFileIsOnesOwnCopyOrTheFileSystemCannot) {
  Write("a", std::string(10000, 'a'));
  const absl::Status cloned = disk_->Clone(At("a"), At("b"));
  if (absl::IsFailedPrecondition(cloned)) {
    EXPECT_NE(GetParam(), "fake_sharing");
    EXPECT_STATUS(StatusCode::kFailedPrecondition, cloned, At("b"));
    EXPECT_EQ(disk_->List(root_).value(), (Names{"a"})) << "nothing is left of it";
    return;
  }
  ASSERT_OK(cloned);
  EXPECT_EQ(Read("b"), std::string(10000, 'a'));
  {
    ASSERT_OK_AND_ASSIGN(const auto a, disk_->Open(At("a"), {.writable = true}));
    ASSERT_OK(a->WriteAt(0, Bytes("A")));
    ASSERT_OK_AND_ASSIGN(const auto b, disk_->Open(At("b"), {.writable = true}));
    ASSERT_OK(b->WriteAt(9999, Bytes("B")));
    ASSERT_OK(b->Truncate(20000));
    ASSERT_OK(b->Sync());
  }
  EXPECT_EQ(Read("a"), "A" + std::string(9999, 'a'));
  EXPECT_EQ(Read("b"), std::string(9999, 'a') + "B" + std::string(10000, '\0'));
  ASSERT_OK(disk_->Remove(At("a")));
  EXPECT_EQ(Read("b").size(), 20000u);
}

TEST_P(DiskContractTest, ACloneReplacesNothingAndNeedsAFile) {
  Write("a", "a");
  Write("b", "b");
  EXPECT_STATUS(StatusCode::kAlreadyExists, disk_->Clone(At("a"), At("b")), At("b"));
  EXPECT_EQ(Read("b"), "b");
  EXPECT_STATUS(StatusCode::kNotFound, disk_->Clone(At("none"), At("c")), At("none"));
  ASSERT_OK(disk_->Symlink("a", At("link")));
  EXPECT_STATUS(StatusCode::kInvalidArgument, disk_->Clone(At("link"), At("c")), At("link"));
  ASSERT_OK(disk_->MakeDirectory(At("d"), 0700));
  EXPECT_FALSE(disk_->Clone(At("d"), At("c")).ok());
  EXPECT_EQ(disk_->List(root_).value(), (Names{"a", "b", "d", "link"}));
}

TEST_P(DiskContractTest, RemoveTakesFilesLinksAndEmptyDirectories) {
  ASSERT_OK(disk_->MakeDirectory(At("d"), 0700));
  EXPECT_STATUS(StatusCode::kAlreadyExists, disk_->MakeDirectory(At("d"), 0700), At("d"));
  Write("d/a", "a");
  ASSERT_OK(disk_->Symlink("d", At("link")));
  EXPECT_STATUS(StatusCode::kAlreadyExists, disk_->Remove(At("d")), At("d"));
  EXPECT_OK(disk_->Remove(At("link")));
  EXPECT_OK(disk_->Remove(At("d/a")));
  EXPECT_OK(disk_->Remove(At("d")));
  EXPECT_STATUS(StatusCode::kNotFound, disk_->Remove(At("d")), At("d"));
  EXPECT_STATUS(StatusCode::kNotFound, disk_->Info(At("d")), At("d"));
  EXPECT_STATUS(StatusCode::kNotFound, disk_->List(At("d")), At("d"));
  EXPECT_STATUS(StatusCode::kNotFound, disk_->SyncDirectory(At("d")), At("d"));
}

TEST_P(DiskContractTest, RemovedFileIsReadableWhileOpen) {
  Write("a", "text");
  ASSERT_OK_AND_ASSIGN(const auto file, disk_->Open(At("a"), {}));
  ASSERT_OK(disk_->Remove(At("a")));
  std::byte buffer[4];
  EXPECT_OK(file->ReadAt(0, buffer));
}

TEST_P(DiskContractTest, ModeAndTimesAreSet) {
  Write("a", "a");
  ASSERT_OK(disk_->SetModeAndTimes(At("a"), 0440, {.tv_sec = 1, .tv_nsec = 2}, {.tv_sec = 3, .tv_nsec = 4000}));
  ASSERT_OK_AND_ASSIGN(const FileInfo info, disk_->Info(At("a")));
  EXPECT_EQ(info.mode, 0100440u);
  EXPECT_EQ(info.atime.tv_sec, 1);
  EXPECT_EQ(info.mtime.tv_sec, 3);
  EXPECT_EQ(info.mtime.tv_nsec, 4000);
  ASSERT_OK(disk_->Symlink("a", At("link")));
  EXPECT_STATUS(StatusCode::kInvalidArgument, disk_->SetModeAndTimes(At("link"), 0600, {}, {}), At("link"));
  EXPECT_STATUS(StatusCode::kNotFound, disk_->SetModeAndTimes(At("none"), 0600, {}, {}), At("none"));
}

TEST_P(DiskContractTest, FreeBytesAnswersForAnExistingPath) {
  EXPECT_GT(disk_->FreeBytes(root_).value(), 0u);
  EXPECT_STATUS(StatusCode::kNotFound, disk_->FreeBytes(At("none")), At("none"));
}

TEST_P(DiskContractTest, FileSystemTypeIsOneForAllBelowIt) {
  ASSERT_OK_AND_ASSIGN(const std::uint64_t type, disk_->FileSystemType(root_));
  EXPECT_NE(type, 0u);
  ASSERT_OK(disk_->MakeDirectory(At("d"), 0700));
  ASSERT_OK(disk_->Symlink("d", At("link")));
  EXPECT_EQ(disk_->FileSystemType(At("d")).value(), type);
  EXPECT_EQ(disk_->FileSystemType(At("link")).value(), type);
  EXPECT_STATUS(StatusCode::kNotFound, disk_->FileSystemType(At("none")), At("none"));
}

// How long something lies where it was moved to is told by that.
TEST_P(DiskContractTest, ARenameIsNotedInTheCtimeAndNotInTheMtime) {
  Write("file", "content");
  ASSERT_OK(disk_->MakeDirectory(At("folder"), 0700));
  for (const std::string name : {"file", "folder"}) {
    SCOPED_TRACE(name);
    ASSERT_OK_AND_ASSIGN(const FileInfo before, disk_->Info(At(name)));
    const auto later = [&before](const FileInfo& now) {
      return now.ctime.tv_sec > before.ctime.tv_sec ||
             (now.ctime.tv_sec == before.ctime.tv_sec && now.ctime.tv_nsec > before.ctime.tv_nsec);
    };
    // The kernel's clock ticks some hundred times a second, and a rename takes microseconds.
    FileInfo after = before;
    for (int n = 0; n < 1'000'000 && !later(after); ++n) {
      ASSERT_OK(disk_->Rename(At(name), At("moved")));
      ASSERT_OK_AND_ASSIGN(after, disk_->Info(At("moved")));
      ASSERT_OK(disk_->Rename(At("moved"), At(name)));
    }
    EXPECT_TRUE(later(after));
    EXPECT_EQ(after.mtime.tv_sec, before.mtime.tv_sec);
    EXPECT_EQ(after.mtime.tv_nsec, before.mtime.tv_nsec);
  }
}

TEST_P(DiskContractTest, InodeAndBirthStayWhereverAnInodeIsMoved) {
  ASSERT_OK(disk_->MakeDirectory(At("d"), 0700));
  Write("a", "a");
  ASSERT_OK_AND_ASSIGN(const FileInfo directory, disk_->Info(At("d")));
  ASSERT_OK_AND_ASSIGN(const FileInfo file, disk_->Info(At("a")));
  EXPECT_NE(directory.inode, file.inode);
  const auto expect_same = [this](const FileInfo& before, const std::string& name) {
    ASSERT_OK_AND_ASSIGN(const FileInfo after, disk_->Info(At(name)));
    EXPECT_EQ(after.inode, before.inode);
    EXPECT_EQ(after.device, before.device);
    ASSERT_EQ(after.birth.has_value(), before.birth.has_value());
    if (!before.birth) return;  // this file system tells none
    EXPECT_EQ(after.birth->tv_sec, before.birth->tv_sec);
    EXPECT_EQ(after.birth->tv_nsec, before.birth->tv_nsec);
  };
  ASSERT_OK(disk_->Rename(At("a"), At("d/b")));
  ASSERT_OK(disk_->Rename(At("d"), At("e")));
  ASSERT_OK(disk_->SetModeAndTimes(At("e"), 0750, {.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1, .tv_nsec = 0}));
  Write("e/b", "longer");
  expect_same(directory, "e");
  expect_same(file, "e/b");
  ASSERT_OK_AND_ASSIGN(const auto open, disk_->Open(At("e/b"), {}));
  ASSERT_OK_AND_ASSIGN(const FileInfo told, open->Info());
  EXPECT_EQ(told.inode, file.inode);
  EXPECT_EQ(told.bytes, 6u);
  EXPECT_EQ(told.birth.has_value(), file.birth.has_value());
}

TEST_P(DiskContractTest, HelpersWorkOnIt) {
  ASSERT_OK(MakeDirectories(*disk_, At("x/y/z"), 0700));
  ASSERT_OK(ReplaceFile(*disk_, At("x/y/z/a"), "one"));
  ASSERT_OK(ReplaceFile(*disk_, At("x/y/z/a"), "two"));
  EXPECT_EQ(Read("x/y/z/a"), "two");
  ASSERT_OK(CreateFileOnce(*disk_, At("x/y/z/b"), "one"));
  EXPECT_STATUS(StatusCode::kAlreadyExists, CreateFileOnce(*disk_, At("x/y/z/b"), "two"), At("x/y/z/b"));
  EXPECT_EQ(Read("x/y/z/b"), "one");
  EXPECT_EQ(FreshList(*disk_, At("x/y/z")).value(), (Names{"a", "b"}));
  EXPECT_EQ(disk_->List(At("x/y/z")).value(), (Names{"a", "b"}));
  EXPECT_OK(RemoveTree(*disk_, At("x")));
  EXPECT_EQ(disk_->List(root_).value(), Names{});
}

}  // namespace
}  // namespace cairn
