#include "tests/support/fuse/fuse_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "storage/io/disk.h"
#include "storage/io/posix_disk.h"
#include "tests/support/fuse/fuse_test.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using Names = std::vector<std::string>;

class FuseFolderTest : public FuseTest {
 protected:
  void SetUp() override {
    FuseTest::SetUp();
    disk_ = MakePosixDisk();
  }
  std::unique_ptr<Disk> disk_;
};

TEST_F(FuseFolderTest, ShowsTheFolderAndChangesIt) {
  CAIRN_MOUNT_OR_SKIP({});
  ASSERT_OK(disk_->MakeDirectory(Shown("d"), 0750));
  const std::string text(300'000, 't');
  ASSERT_OK(ReplaceFile(*disk_, Shown("d/a"), text, 0640));
  EXPECT_EQ(ReadWhole(*disk_, Real("d/a"), 1 << 20).value(), text);
  EXPECT_EQ(ReadWhole(*disk_, Shown("d/a"), 1 << 20).value(), text);
  EXPECT_EQ(disk_->Info(Shown("d/a"))->mode, 0100640u);
  EXPECT_EQ(disk_->Info(Shown("d/a"))->inode, disk_->Info(Real("d/a"))->inode);
  ASSERT_OK(disk_->Link(Shown("d/a"), Shown("d/b")));
  EXPECT_EQ(disk_->Info(Shown("d/b"))->links, 2u);
  ASSERT_OK(disk_->Symlink("a", Shown("d/link")));
  EXPECT_EQ(disk_->ReadLink(Shown("d/link")).value(), "a");
  ASSERT_OK(disk_->RenameNew(Shown("d/b"), Shown("d/c")));
  EXPECT_STATUS(StatusCode::kAlreadyExists, disk_->RenameNew(Shown("d/c"), Shown("d/a")), "d/a");
  EXPECT_EQ(disk_->List(Shown("d")).value(), (Names{"a", "c", "link"}));
  {
    ASSERT_OK_AND_ASSIGN(const auto file, disk_->Open(Shown("d/a"), {.writable = true}));
    ASSERT_OK(file->Truncate(5));
    EXPECT_EQ(file->Info()->bytes, 5u);
    ASSERT_OK(disk_->Remove(Shown("d/a")));
    std::byte buffer[5];
    EXPECT_OK(file->ReadAt(0, buffer)) << "open, though removed";
  }
  ASSERT_OK(disk_->SetModeAndTimes(Shown("d/c"), 0440, {.tv_sec = 1, .tv_nsec = 2}, {.tv_sec = 3, .tv_nsec = 4}));
  EXPECT_EQ(disk_->Info(Real("d/c"))->mtime.tv_nsec, 4);
  EXPECT_GT(disk_->FreeBytes(Shown("")).value(), 0u);
  ASSERT_OK(RemoveTree(*disk_, Shown("d")));
  EXPECT_EQ(disk_->List(Real("")).value(), Names{});
}

TEST_F(FuseFolderTest, ListsManyNames) {
  CAIRN_MOUNT_OR_SKIP({});
  Names names;
  for (int i = 1000; i < 2000; ++i) {
    names.push_back("name" + std::to_string(i));
    ASSERT_OK(disk_->Open(Real(names.back()), {.writable = true, .create = true}));
  }
  EXPECT_EQ(disk_->List(Shown("")).value(), names);
}

TEST_F(FuseFolderTest, LacksWhatItIsToLack) {
  for (const int error : {EPERM, ENOSYS, EOPNOTSUPP}) {
    CAIRN_MOUNT_OR_SKIP({.no_links = error, .no_rename_flags = error == ENOSYS ? ENOSYS : EINVAL});
    ASSERT_OK(ReplaceFile(*disk_, Shown("a"), "text"));
    EXPECT_STATUS(StatusCode::kFailedPrecondition, disk_->Link(Shown("a"), Shown("b")), "no hard links");
    EXPECT_STATUS(StatusCode::kFailedPrecondition, disk_->RenameNew(Shown("a"), Shown("b")), "without replacing");
    EXPECT_OK(disk_->Rename(Shown("a"), Shown("b")));
    EXPECT_OK(disk_->Remove(Shown("b")));
    Unmount();
  }
}

TEST_F(FuseFolderTest, FailsOnRequestSoOften) {
  CAIRN_MOUNT_OR_SKIP({});
  ASSERT_OK(ReplaceFile(*disk_, Shown("a"), "text"));
  ASSERT_OK(ReplaceFile(*disk_, Shown("b"), "text"));
  folder().Fail({.opcode = FUSE_OPEN, .name_part = "a", .error = EIO, .times = 2});
  EXPECT_OK(disk_->Open(Shown("b"), {}));
  EXPECT_STATUS(StatusCode::kUnavailable, disk_->Open(Shown("a"), {}), Shown("a"));
  EXPECT_FALSE(disk_->Open(Shown("a"), {}).ok());
  EXPECT_OK(disk_->Open(Shown("a"), {}));
}

TEST_F(FuseFolderTest, HangsUntilItIsReleasedAndOthersGoOn) {
  CAIRN_MOUNT_OR_SKIP({});
  ASSERT_OK(ReplaceFile(*disk_, Shown("a"), "text"));
  folder().Hang({.opcode = FUSE_UNLINK, .name_part = "a"});
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::unlink(Shown("a").c_str()) == 0 ? 7 : 1);
  for (int i = 0; i < 30'000 && folder().hanging() == 0; ++i) ::usleep(1000);
  ASSERT_NE(folder().hanging(), 0) << "it did not come to the file system";
  EXPECT_OK(disk_->Open(Real("a"), {}));
  EXPECT_OK(ReplaceFile(*disk_, Real("b"), "others")) << "the folder itself";
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), 0);
  folder().Release();
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_STATUS(StatusCode::kNotFound, disk_->Open(Real("a"), {}), "a");
}

TEST_F(FuseFolderTest, AKilledProcessDoesNotHang) {
  CAIRN_MOUNT_OR_SKIP({});
  ASSERT_OK(ReplaceFile(*disk_, Shown("a"), "text"));
  folder().Hang({.opcode = FUSE_UNLINK});
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::unlink(Shown("a").c_str()));
  for (int i = 0; i < 30'000 && folder().hanging() == 0; ++i) ::usleep(1000);
  ASSERT_NE(folder().hanging(), 0) << "it did not come to the file system";
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST_F(FuseFolderTest, NothingStaysBehindWhenATestIsKilled) {
  CAIRN_MOUNT_OR_SKIP({});
  Unmount();
  const auto device = disk_->Info(Shown(""))->device;
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  const pid_t test = ::fork();
  if (test == 0) {
    const auto folder = FuseFolder::Mount(Real(""), Shown(""));
    const char mounted = folder.ok() ? 'y' : 'n';
    [[maybe_unused]] const auto told = ::write(pipes[1], &mounted, 1);
    for (;;) ::pause();
  }
  char mounted = 0;
  ASSERT_EQ(::read(pipes[0], &mounted, 1), 1);
  EXPECT_EQ(mounted, 'y');
  EXPECT_NE(disk_->Info(Shown(""))->device, device) << "the namespace is this test's, too";
  ::kill(test, SIGKILL);
  ASSERT_EQ(::waitpid(test, nullptr, 0), test);
  for (const int fd : pipes) ::close(fd);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (;;) {
    const auto info = disk_->Info(Shown(""));
    if (info.ok() && info->device == device) break;
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "still mounted";
    ::usleep(1000);
  }
}

}  // namespace
}  // namespace cairn
