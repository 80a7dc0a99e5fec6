#include "storage/io/posix_disk.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <latch>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/refusals/refusals.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;

constexpr std::size_t kBlock = kDirectAlignment;

struct FreeDeleter {
  void operator()(std::byte* p) const { ::free(p); }
};

// Random bytes at an address that is right for direct I/O.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes, std::uint64_t seed = 1)
      : data_(static_cast<std::byte*>(::aligned_alloc(kBlock, (bytes + kBlock - 1) / kBlock * kBlock))), bytes_(bytes) {
    std::mt19937_64 random(seed);
    for (std::byte& b : span()) b = static_cast<std::byte>(random());
  }
  std::span<std::byte> span() { return {data_.get(), bytes_}; }
  std::span<std::byte> span(std::size_t offset, std::size_t bytes) { return span().subspan(offset, bytes); }
  bool operator==(const Buffer& other) const {
    return std::equal(data_.get(), data_.get() + bytes_, other.data_.get(), other.data_.get() + other.bytes_);
  }

 private:
  std::unique_ptr<std::byte, FreeDeleter> data_;
  std::size_t bytes_;
};

class PosixDiskTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/posix_disk.XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { EXPECT_OK(RemoveTree(*disk_, root_)); }

  // Null if the file system under test has no direct I/O.
  std::unique_ptr<File> OpenDirect(const std::string& path) {
    auto file = disk_->Open(path, {.direct = true, .writable = true, .create = true});
    EXPECT_OK(file);
    return file.ok() && (*file)->direct() ? *std::move(file) : nullptr;
  }

  // What is written comes back.
  void ExpectBack(Disk& disk, Buffer& out) {
    Buffer in(out.span().size(), 2);
    ASSERT_OK_AND_ASSIGN(const auto file, disk.Open(root_ + "/a", {.direct = true, .writable = true, .create = true}));
    std::promise<absl::Status> wrote;
    file->WriteAsync(0, out.span(), [&](const absl::Status& status) { wrote.set_value(status); });
    ASSERT_OK(wrote.get_future().get());
    ASSERT_OK(file->ReadAt(0, in.span()));
    EXPECT_EQ(out, in);
  }

  std::unique_ptr<PosixDisk> disk_ = MakePosixDisk();
  std::string root_;
};

TEST_F(PosixDiskTest, EngineIsIoUringWhereTheKernelGivesIt) {
  EXPECT_EQ(disk_->mechanisms().engine, ProbeIoUring().ok() ? "io_uring" : "threads");
  EXPECT_EQ(MakePosixDisk({.engine = {.io_uring = false}})->mechanisms().engine, "threads");
}

// --- What a kernel, a container or a limit refuses ---

TEST_F(PosixDiskTest, WithoutIoUringThreadsMoveTheSameBytes) {
  CAIRN_SKIP_UNLESS_REFUSED(NoIoUring(EPERM));
  for (const auto& [error, code] : {std::pair{EPERM, StatusCode::kPermissionDenied}, {ENOSYS, StatusCode::kInternal}}) {
    EXPECT_OK(RunRefused(NoIoUring(error), [this, error = error, code = code] {
      EXPECT_STATUS(code, ProbeIoUring(), std::strerror(error));
      const auto disk = MakePosixDisk();
      EXPECT_EQ(disk->mechanisms().engine, "threads");
      ASSERT_OK_AND_ASSIGN(const auto file, disk->Open(root_ + "/a", {.writable = true, .create = true}));
      Buffer out(4 * kBlock), in(4 * kBlock, 2);
      std::promise<absl::Status> wrote, read;
      file->WriteAsync(0, out.span(), [&](const absl::Status& status) { wrote.set_value(status); });
      ASSERT_OK(wrote.get_future().get());
      file->ReadAsync(0, in.span(), [&](const absl::Status& status) { read.set_value(status); });
      ASSERT_OK(read.get_future().get());
      EXPECT_EQ(out, in);
    }));
  }
}

// A disk may begin with io_uring, and be refused the ring of a further file system.
TEST_F(PosixDiskTest, OneEngineWithoutIoUringIsTold) {
  CAIRN_SKIP_UNLESS_REFUSED(NoIoUring(EPERM));
  if (!ProbeIoUring().ok()) GTEST_SKIP() << ProbeIoUring();
  ASSERT_OK_AND_ASSIGN(const auto here, disk_->Open(root_ + "/a", {.writable = true, .create = true}));
  const std::string other = fmt::format("/dev/shm/posix_disk.{}", ::getpid());
  EXPECT_OK(RunRefused(NoIoUring(EPERM), [&] {
    ASSERT_OK_AND_ASSIGN(const auto there, disk_->Open(other, {.writable = true, .create = true}));
    if (here->Info()->device == there->Info()->device) GTEST_SKIP() << "one file system";
    EXPECT_EQ(disk_->mechanisms().engine, "io_uring, threads");
  }));
  EXPECT_OK(disk_->Remove(other));
}

// Transfers from memory that was not pinned, and a second try from where it is not refused.
TEST_F(PosixDiskTest, WhatIsNotPinnedMovesTheSameBytesAndIsNotTriedAgain) {
  CAIRN_SKIP_UNLESS_REFUSED(NoPinning(ENOMEM));
  if (!ProbePinning(16 * kBlock).ok()) GTEST_SKIP() << ProbePinning(16 * kBlock);
  for (const auto& [refusals, code] : {std::pair{NoPinning(ENOMEM), StatusCode::kResourceExhausted},
                                       {NoPinning(EPERM), StatusCode::kPermissionDenied},
                                       {NoNumberedMemory(), StatusCode::kInvalidArgument}}) {
    const auto disk = MakePosixDisk();
    Buffer out(16 * kBlock);
    EXPECT_OK(RunRefused(refusals, [&, code = code] {
      EXPECT_STATUS(code, ProbePinning(16 * kBlock), "io_uring_register");
      EXPECT_EQ(disk->Pin(out.span()), nullptr);
    }));
    EXPECT_EQ(disk->mechanisms().engine, "io_uring");
    EXPECT_EQ(disk->Pin(out.span()), nullptr) << "an image more would be pinned up to the limit for nothing";
    ExpectBack(*disk, out);
  }
}

// Linux 6.18 counts rings as locked memory, too: without any there are none.
TEST_F(PosixDiskTest, WithoutLockedMemoryNothingIsPinned) {
  CAIRN_SKIP_UNLESS_REFUSED(NoLockedMemory());
  EXPECT_OK(RunRefused(NoLockedMemory(), [this] {
    EXPECT_FALSE(ProbePinning(16 * kBlock).ok());
    const auto disk = MakePosixDisk();
    EXPECT_EQ(disk->mechanisms().engine, ProbeIoUring().ok() ? "io_uring" : "threads");
    Buffer out(16 * kBlock);
    EXPECT_EQ(disk->Pin(out.span()), nullptr);
    ExpectBack(*disk, out);
  }));
}

TEST_F(PosixDiskTest, HowManyFilesGotDirectIoIsCounted) {
  CAIRN_SKIP_UNLESS_REFUSED(NoDirectIo());
  const auto open = [this](PosixDisk& disk, bool direct) {
    const auto file = disk.Open(root_ + "/a", {.direct = direct, .writable = true, .create = true});
    EXPECT_OK(file);
    return file.ok() && (*file)->direct();
  };
  EXPECT_FALSE(open(*disk_, false));
  EXPECT_EQ(disk_->mechanisms().files, 0u);
  EXPECT_TRUE(disk_->mechanisms().direct);
  const bool here = open(*disk_, true);
  EXPECT_EQ(disk_->mechanisms().files, 1u);
  EXPECT_EQ(disk_->mechanisms().files_direct, here ? 1u : 0u);
  EXPECT_OK(RunRefused(NoDirectIo(), [&] { EXPECT_FALSE(open(*disk_, true)); }));
  EXPECT_EQ(disk_->mechanisms().files, 2u);
  EXPECT_EQ(disk_->mechanisms().files_direct, here ? 1u : 0u);
  const auto without = MakePosixDisk({.engine = {}, .direct = false});
  EXPECT_FALSE(open(*without, true));
  EXPECT_FALSE(without->mechanisms().direct);
  EXPECT_EQ(without->mechanisms().files, 0u) << "nothing was refused to it";
}

// What records compare with what other programs saw must be what stat(2) tells.
TEST_F(PosixDiskTest, InfoTellsWhatTheKernelTells) {
  ASSERT_OK_AND_ASSIGN(const auto file, disk_->Open(root_ + "/a", {.writable = true, .create = true, .mode = 0640}));
  ASSERT_OK(file->WriteAt(0, std::as_bytes(std::span("text"))));
  ASSERT_OK(disk_->Symlink("a", root_ + "/link"));
  for (const char* const name : {"", "/a", "/link"}) {
    const std::string path = root_ + name;
    struct stat told {};
    ASSERT_EQ(::lstat(path.c_str(), &told), 0);
    struct statx born {};
    ASSERT_EQ(::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_BTIME, &born), 0);
    ASSERT_OK_AND_ASSIGN(const FileInfo info, disk_->Info(path));
    EXPECT_EQ(info.bytes, static_cast<std::uint64_t>(told.st_size)) << path;
    EXPECT_EQ(info.allocated_bytes, static_cast<std::uint64_t>(told.st_blocks) * 512) << path;
    EXPECT_EQ(info.inode, told.st_ino) << path;
    EXPECT_EQ(info.device, told.st_dev) << path;
    EXPECT_EQ(info.mode, told.st_mode) << path;
    EXPECT_EQ(info.uid, told.st_uid) << path;
    EXPECT_EQ(info.gid, told.st_gid) << path;
    EXPECT_EQ(info.links, told.st_nlink) << path;
    EXPECT_EQ(info.mtime.tv_sec, told.st_mtim.tv_sec) << path;
    EXPECT_EQ(info.mtime.tv_nsec, told.st_mtim.tv_nsec) << path;
    EXPECT_EQ(info.ctime.tv_nsec, told.st_ctim.tv_nsec) << path;
    EXPECT_EQ(info.atime.tv_nsec, told.st_atim.tv_nsec) << path;
    ASSERT_EQ(info.birth.has_value(), (born.stx_mask & STATX_BTIME) != 0) << path;
    if (!info.birth) continue;
    EXPECT_EQ(info.birth->tv_sec, born.stx_btime.tv_sec) << path;
    EXPECT_EQ(info.birth->tv_nsec, born.stx_btime.tv_nsec) << path;
  }
  ASSERT_OK_AND_ASSIGN(const FileInfo open, file->Info());
  EXPECT_EQ(open.inode, disk_->Info(root_ + "/a")->inode);
  EXPECT_EQ(open.mode, 0100640u);
  EXPECT_STATUS(StatusCode::kNotFound, disk_->Info(""), "stat");
}

TEST_F(PosixDiskTest, FileSystemTypeIsTheKernels) {
  struct statfs told {};
  ASSERT_EQ(::statfs(root_.c_str(), &told), 0);
  EXPECT_EQ(disk_->FileSystemType(root_).value(), static_cast<std::uint32_t>(told.f_type));
  EXPECT_EQ(disk_->FileSystemType("/proc").value(), 0x9FA0u);  // PROC_SUPER_MAGIC in <linux/magic.h>
}

TEST_F(PosixDiskTest, DirectFileIsReadAndWrittenInBlocks) {
  const auto file = OpenDirect(root_ + "/a");
  if (file == nullptr) GTEST_SKIP() << "no direct I/O in " << root_;
  Buffer out(4 * kBlock), in(4 * kBlock, 2);
  ASSERT_OK(file->WriteAt(0, out.span()));
  ASSERT_OK(file->ReadAt(0, in.span()));
  EXPECT_EQ(out, in);
}

TEST_F(PosixDiskTest, UnalignedDirectTransfersAreRefusedBeforeTheKernel) {
  const auto file = OpenDirect(root_ + "/a");
  if (file == nullptr) GTEST_SKIP() << "no direct I/O in " << root_;
  Buffer buffer(2 * kBlock);
  EXPECT_STATUS(StatusCode::kInvalidArgument, file->WriteAt(512, buffer.span(0, kBlock)), "not aligned");
  EXPECT_STATUS(StatusCode::kInvalidArgument, file->WriteAt(0, buffer.span(512, kBlock)), "not aligned");
  EXPECT_STATUS(StatusCode::kInvalidArgument, file->ReadAt(0, buffer.span(0, 512)), "not aligned");
  absl::Status status;
  file->WriteAsync(1, buffer.span(), [&](absl::Status s) { status = s; });
  EXPECT_STATUS(StatusCode::kInvalidArgument, status, "not aligned");
  file->ReadAsync(1, buffer.span(), [&](absl::Status s) { status = s; });
  EXPECT_STATUS(StatusCode::kInvalidArgument, status, "not aligned");
}

TEST_F(PosixDiskTest, DirectReadMayEndInTheLastBlockOnly) {
  const auto file = OpenDirect(root_ + "/a");
  if (file == nullptr) GTEST_SKIP() << "no direct I/O in " << root_;
  Buffer out(2 * kBlock), in(3 * kBlock, 2);
  ASSERT_OK(file->WriteAt(0, out.span()));
  ASSERT_OK(file->Truncate(kBlock + 100));
  EXPECT_OK(file->ReadAt(0, in.span(0, 2 * kBlock)));
  EXPECT_TRUE(std::ranges::equal(in.span(0, kBlock + 100), out.span(0, kBlock + 100)));
  for (const std::byte b : in.span(kBlock + 100, kBlock - 100)) ASSERT_EQ(b, std::byte{0});
  EXPECT_STATUS(StatusCode::kDataLoss, file->ReadAt(0, in.span()), "after 4196 of 12288 bytes");
  std::promise<absl::Status> answer;
  file->ReadAsync(kBlock, in.span(0, kBlock), [&](absl::Status status) { answer.set_value(status); });
  EXPECT_OK(answer.get_future().get());
  ASSERT_OK(file->Truncate(kBlock));
  EXPECT_STATUS(StatusCode::kDataLoss, file->ReadAt(0, in.span(0, 2 * kBlock)), "after 4096 of 8192 bytes");
}

TEST_F(PosixDiskTest, FileSystemWithoutDirectIoGetsBufferedFilesOnce) {
  // /dev/shm may or may not have direct I/O; either way the exclusive open must make the file and succeed.
  const std::string path = "/dev/shm/cairn_posix_disk_test." + std::to_string(::getpid());
  const auto file = disk_->Open(path, {.direct = true, .writable = true, .create = true, .exclusive = true});
  if (absl::IsNotFound(file.status())) GTEST_SKIP() << "no /dev/shm here";
  ASSERT_OK(file);
  Buffer buffer(kBlock);
  ASSERT_OK((*file)->WriteAt(0, buffer.span()));
  EXPECT_OK(disk_->Remove(path));
}

TEST_F(PosixDiskTest, AFileIsHandedOutForDirectReadsOfOthers) {
  Buffer out(2 * kBlock), in(2 * kBlock, 2);
  {
    const auto file = OpenDirect(root_ + "/a");
    if (file == nullptr) GTEST_SKIP() << "no direct I/O in " << root_;
    ASSERT_OK(file->WriteAt(0, out.span()));
    ASSERT_OK(file->Truncate(kBlock + 100));
  }
  const auto handed = disk_->OpenForHanding(root_ + "/a");
  if (absl::IsFailedPrecondition(handed.status())) GTEST_SKIP() << handed.status();
  ASSERT_OK(handed);
  EXPECT_EQ(handed->bytes, kBlock + 100);
  EXPECT_GT(handed->memory_alignment, 0u);
  EXPECT_EQ(kDirectAlignment % handed->memory_alignment, 0u);
  EXPECT_EQ(::fcntl(handed->fd.get(), F_GETFL) & (O_ACCMODE | O_DIRECT), O_RDONLY | O_DIRECT);
  // At any address that is so aligned.
  const auto fits = in.span(handed->memory_alignment % kDirectAlignment, kBlock);
  EXPECT_EQ(::pread(handed->fd.get(), fits.data(), fits.size(), 0), static_cast<ssize_t>(kBlock));
  EXPECT_TRUE(std::ranges::equal(fits, out.span(0, kBlock)));
}

TEST_F(PosixDiskTest, WhatOthersCannotReadForSureIsNotHandedOut) {
  ASSERT_OK(disk_->Open(root_ + "/a", {.writable = true, .create = true}));
  ASSERT_EQ(::symlink("a", (root_ + "/link").c_str()), 0);
  ASSERT_EQ(::mkfifo((root_ + "/pipe").c_str(), 0600), 0);
  EXPECT_FALSE(disk_->OpenForHanding(root_ + "/link").ok());
  EXPECT_STATUS(StatusCode::kInvalidArgument, disk_->OpenForHanding(root_ + "/pipe").status(), "not a regular file");
  EXPECT_STATUS(StatusCode::kNotFound, disk_->OpenForHanding(root_ + "/none").status(), "none");
  EXPECT_STATUS(StatusCode::kFailedPrecondition, disk_->OpenForHanding("/proc/self/status").status(), "direct I/O");
  const auto without = MakePosixDisk({.engine = {}, .direct = false});
  EXPECT_STATUS(StatusCode::kFailedPrecondition, without->OpenForHanding(root_ + "/a").status(), "direct I/O");
}

TEST_F(PosixDiskTest, NamedPipeNeitherHoldsNorOpens) {
  ASSERT_EQ(::mkfifo((root_ + "/pipe").c_str(), 0600), 0);
  EXPECT_STATUS(StatusCode::kInvalidArgument, disk_->Open(root_ + "/pipe", {}), "not a regular file");
}

TEST_F(PosixDiskTest, OffsetsBeyondAnyFileAreRefused) {
  ASSERT_OK_AND_ASSIGN(const auto file, disk_->Open(root_ + "/a", {.writable = true, .create = true}));
  Buffer buffer(8);
  EXPECT_STATUS(StatusCode::kInvalidArgument, file->WriteAt(UINT64_MAX - 4, buffer.span()), root_ + "/a");
  EXPECT_STATUS(StatusCode::kInvalidArgument, file->ReadAt(INT64_MAX, buffer.span()), root_ + "/a");
  EXPECT_STATUS(StatusCode::kInvalidArgument, file->Truncate(UINT64_MAX), root_ + "/a");
}

TEST_F(PosixDiskTest, WriteIntoAReadOnlyFileFailsNamingPathAndOffset) {
  ASSERT_OK(disk_->Open(root_ + "/a", {.writable = true, .create = true}));
  ASSERT_OK_AND_ASSIGN(const auto file, disk_->Open(root_ + "/a", {}));
  Buffer buffer(8);
  EXPECT_FALSE(file->WriteAt(16, buffer.span()).ok());
  std::promise<absl::Status> answer;
  file->WriteAsync(16, buffer.span(), [&](absl::Status status) { answer.set_value(status); });
  EXPECT_STATUS(StatusCode::kInternal, answer.get_future().get(), "write " + root_ + "/a at 16: Bad file descriptor");
}

TEST_F(PosixDiskTest, GrowingReservesBlocksOrSaysThatThereAreNone) {
  ASSERT_OK_AND_ASSIGN(const auto file, disk_->Open(root_ + "/a", {.writable = true, .create = true}));
  ASSERT_OK(file->Truncate(1 << 20));
  EXPECT_EQ(file->Info()->bytes, 1u << 20);
  EXPECT_STATUS(StatusCode::kResourceExhausted, file->Truncate(std::uint64_t{1} << 60), root_ + "/a");
  EXPECT_EQ(file->Info()->bytes, 1u << 20);
  ASSERT_OK(file->Truncate(10));
  EXPECT_EQ(file->Info()->bytes, 10u);
}

TEST_F(PosixDiskTest, FileMayGoBeforeItsTransfersEnd) {
  Buffer out(1 << 20), in(1 << 20, 2);
  std::promise<absl::Status> written, read;
  {
    ASSERT_OK_AND_ASSIGN(const auto file, disk_->Open(root_ + "/a", {.writable = true, .create = true}));
    file->WriteAsync(0, out.span(), [&](absl::Status status) { written.set_value(status); });
  }
  ASSERT_OK(written.get_future().get());
  {
    ASSERT_OK_AND_ASSIGN(const auto file, disk_->Open(root_ + "/a", {}));
    file->ReadAsync(0, in.span(), [&](absl::Status status) { read.set_value(status); });
  }
  ASSERT_OK(read.get_future().get());
  EXPECT_EQ(out, in);
}

TEST_F(PosixDiskTest, ManyThreadsWriteOneFileAtDifferentPlaces) {
  constexpr std::size_t kThreads = 4, kPieces = 200;
  Buffer out(kThreads * kPieces * kBlock), in(kThreads * kPieces * kBlock, 2);
  ASSERT_OK_AND_ASSIGN(const auto file, disk_->Open(root_ + "/a", {.direct = true, .writable = true, .create = true}));
  ASSERT_OK(file->Truncate(out.span().size()));
  std::latch left(kThreads * kPieces);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t p = 0; p < kPieces; ++p) {
        const std::size_t offset = (p * kThreads + t) * kBlock;
        file->WriteAsync(offset, out.span(offset, kBlock), [&](absl::Status status) {
          EXPECT_OK(status);
          left.count_down();
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  left.wait();
  ASSERT_OK(file->Sync());
  ASSERT_OK(file->ReadAt(0, in.span()));
  EXPECT_EQ(out, in);
}

TEST_F(PosixDiskTest, ListOfManyNamesIsSorted) {
  std::vector<std::string> names;
  for (int i = 100; i < 400; ++i) {
    names.push_back(std::to_string(i));
    ASSERT_OK(disk_->Open(root_ + "/" + names.back(), {.writable = true, .create = true}));
  }
  EXPECT_EQ(disk_->List(root_).value(), names);
}

TEST_F(PosixDiskTest, NobodyGetsDirectIoWhereItIsSwitchedOff) {
  const std::unique_ptr<PosixDisk> disk = MakePosixDisk({.engine = {}, .direct = false});
  const auto file = disk->Open(root_ + "/f", {.direct = true, .writable = true, .create = true});
  ASSERT_OK(file);
  EXPECT_FALSE((*file)->direct());
}

}  // namespace
}  // namespace cairn
