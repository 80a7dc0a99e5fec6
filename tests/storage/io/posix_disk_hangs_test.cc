// Transfers of a file system that hangs hold up none of another's, nor, where the kernel's workers make them, those of
// its other files.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
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

TEST_F(PosixDiskHangsTest, ManyFileSystemsShareABoundedNumberOfEngines) {
  CAIRN_MOUNT_OR_SKIP({});
  std::vector<std::unique_ptr<FuseFolder>> mounted;
  for (std::size_t i = 0; i < PosixDisk::kEnginesMax + 3; ++i) {
    std::filesystem::create_directories(Real(std::to_string(i)));
    auto folder = FuseFolder::Mount(Real(""), Real(std::to_string(i)));
    ASSERT_OK(folder);
    mounted.push_back(*std::move(folder));
  }
  const std::ptrdiff_t before = ThreadsHere();
  const std::unique_ptr<Disk> disk = MakePosixDisk({.engine = {.io_uring = false, .threads = 1}});
  for (const auto& one : mounted) {
    const auto file = Open(*disk, one->mount_point() + "/a");
    auto written = Write(*file);
    EXPECT_TRUE(Comes(written)) << one->mount_point();
  }
  EXPECT_EQ(ThreadsHere(), before + static_cast<std::ptrdiff_t>(PosixDisk::kEnginesMax));
}

}  // namespace
}  // namespace cairn
