// Transfers of a file system that hangs hold up none of another's, nor, where the kernel's workers make them, those of
// its other files.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "storage/io/disk.h"
#include "storage/io/io_engine.h"
#include "storage/io/posix_disk.h"
#include "tests/support/fuse/fuse_test.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr std::chrono::seconds kPatience(60);
constexpr std::size_t kBytes = kDirectAlignment;

class PosixDiskHangsTest : public FuseTest {
 protected:
  // Files that are written to and read at once, as a flush and a restart do it.
  std::unique_ptr<File> Open(Disk& disk, const std::string& path) {
    auto file = disk.Open(path, {.direct = true, .writable = true, .create = true});
    EXPECT_OK(file);
    return file.ok() ? *std::move(file) : nullptr;
  }
  std::future<absl::Status> Write(File& file) {
    auto written = std::make_shared<std::promise<absl::Status>>();
    file.WriteAsync(0, bytes_, [written](absl::Status status) { written->set_value(std::move(status)); });
    return written->get_future();
  }
  static bool Comes(std::future<absl::Status>& written) {
    return written.wait_for(kPatience) == std::future_status::ready && written.get().ok();
  }

  alignas(kDirectAlignment) std::array<std::byte, kBytes> bytes_{};
};

TEST_F(PosixDiskHangsTest, AFileSystemHoldsUpNoTransferOfAnother) {
  CAIRN_MOUNT_OR_SKIP({});
  for (const bool io_uring : {true, false}) {
    const std::unique_ptr<Disk> disk = MakePosixDisk({.engine = {.io_uring = io_uring}});
    const auto hung = Open(*disk, Shown("a")), other = Open(*disk, Real("b"));
    folder().Hang({.opcode = FUSE_WRITE, .times = UINT32_MAX});
    std::vector<std::future<absl::Status>> waiting;
    for (int i = 0; i < 100; ++i) waiting.push_back(Write(*hung));  // more than an engine has in flight
    auto written = Write(*other);
    EXPECT_TRUE(Comes(written)) << io_uring;
    folder().Release();
    for (auto& late : waiting) EXPECT_TRUE(Comes(late)) << io_uring;
  }
}

TEST_F(PosixDiskHangsTest, AFileHoldsUpNoOtherOnTheSameFileSystem) {
  CAIRN_MOUNT_OR_SKIP({});
  if (!ProbeIoUring().ok()) GTEST_SKIP() << "no io_uring here: " << ProbeIoUring();
  const std::unique_ptr<Disk> disk = MakePosixDisk({.engine = {.may_hang = true}});
  const auto hung = Open(*disk, Shown("a")), other = Open(*disk, Shown("b"));
  folder().Hang({.opcode = FUSE_WRITE, .name_part = "a", .times = UINT32_MAX});
  auto waiting = Write(*hung);
  auto written = Write(*other);
  EXPECT_TRUE(Comes(written));
  folder().Release();
  EXPECT_TRUE(Comes(waiting));
}

std::ptrdiff_t ThreadsHere() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

class ManyFileSystemsTest : public PosixDiskHangsTest {
 protected:
  // More than there are engines. Each engine has one thread.
  static constexpr std::size_t kMany = PosixDisk::kEnginesMax + 3;

  void MountMany() {
    for (std::size_t i = 0; i < kMany; ++i) {
      std::filesystem::create_directories(Real(std::to_string(i)));
      auto folder = FuseFolder::Mount(Real(""), Real(std::to_string(i)));
      ASSERT_OK(folder);
      mounted_.push_back(*std::move(folder));
    }
    threads_before_ = ThreadsHere();
    disk_ = MakePosixDisk({.engine = {.io_uring = false, .threads = 1}});
  }
  void TearDown() override {
    disk_.reset();
    mounted_.clear();
    PosixDiskHangsTest::TearDown();
  }
  std::unique_ptr<File> OpenOn(std::size_t i) { return Open(*disk_, mounted_[i]->mount_point() + "/a"); }
  std::size_t engines() const { return static_cast<std::size_t>(ThreadsHere() - threads_before_); }

  std::vector<std::unique_ptr<FuseFolder>> mounted_;
  std::ptrdiff_t threads_before_ = 0;
  std::unique_ptr<PosixDisk> disk_;
};

TEST_F(ManyFileSystemsTest, AtOnceTheyShareABoundedNumberOfEngines) {
  CAIRN_MOUNT_OR_SKIP({});
  ASSERT_NO_FATAL_FAILURE(MountMany());
  std::vector<std::unique_ptr<File>> files;
  for (std::size_t i = 0; i < kMany; ++i) {
    files.push_back(OpenOn(i));
    auto written = Write(*files.back());
    EXPECT_TRUE(Comes(written)) << i;
    EXPECT_EQ(engines(), std::min(i + 1, PosixDisk::kEnginesMax));
  }
}

TEST_F(ManyFileSystemsTest, OneAfterTheOtherTheyHaveTheSameEngine) {
  CAIRN_MOUNT_OR_SKIP({});
  ASSERT_NO_FATAL_FAILURE(MountMany());
  for (std::size_t i = 0; i < kMany; ++i) {
    const auto file = OpenOn(i), again = OpenOn(i);
    EXPECT_OK(file->WriteAt(0, bytes_));
  }
  EXPECT_EQ(engines(), 1u);
}

// All engines but one belong to file systems that hang, some of them without an open file.
TEST_F(ManyFileSystemsTest, NoneComesToAnEngineThatHangsWhileThereIsAFreeOne) {
  CAIRN_MOUNT_OR_SKIP({});
  ASSERT_NO_FATAL_FAILURE(MountMany());
  std::vector<std::unique_ptr<File>> files;
  std::vector<std::future<absl::Status>> waiting;
  for (std::size_t i = 0; i + 1 < PosixDisk::kEnginesMax; ++i) {
    files.push_back(OpenOn(i));
    mounted_[i]->Hang({.opcode = FUSE_WRITE, .times = UINT32_MAX});
    waiting.push_back(Write(*files.back()));
    if (i % 2 == 0) files.pop_back();  // its transfer goes on
  }
  for (std::size_t i = PosixDisk::kEnginesMax - 1; i < kMany; ++i) OpenOn(i);
  const auto file = OpenOn(kMany - 1);
  auto written = Write(*file);
  EXPECT_TRUE(Comes(written));
  for (const auto& folder : mounted_) folder->Release();
  for (auto& late : waiting) EXPECT_TRUE(Comes(late));
}

}  // namespace
}  // namespace cairn
