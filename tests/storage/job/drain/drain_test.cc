#include "storage/job/drain/drain.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <string>
#include <utility>

#include "storage/base/unique_fd.h"
#include "tests/storage/job/drain/drain_fixture.h"

namespace cairn {
namespace {

using testing::Bytes;
using testing::DrainFixture;

class DrainTest : public DrainFixture {};

TEST_F(DrainTest, BringsFilesOfAllSizesAndFoldersAsTheyAre) {
  Put("empty", "");
  Put("a/small", Bytes(1234));
  Put("a/block", Bytes(4096));
  Put("a/b/window", Bytes(4 << 20));
  Put("a/b/large", Bytes((9 << 20) + 17));
  std::filesystem::create_directory(from_ + "/nothing");
  ASSERT_EQ(::chmod((from_ + "/a").c_str(), 0750), 0);
  const DrainReport report = Drained();
  EXPECT_TRUE(report.complete());
  EXPECT_EQ(report.files, 5U);
  EXPECT_TRUE(Files(to_) == Files(from_));
  EXPECT_TRUE(std::filesystem::is_directory(to_ + "/nothing"));
  EXPECT_EQ(std::filesystem::status(to_ + "/a").permissions(), std::filesystem::status(from_ + "/a").permissions());
  EXPECT_EQ(std::filesystem::last_write_time(to_ + "/a"), std::filesystem::last_write_time(from_ + "/a"));
}

TEST_F(DrainTest, AgainBringsNothingTwice) {
  Put("a", Bytes(100));
  Put("b/c", Bytes(5 << 20));
  Drained();
  std::atomic<int> writes{0};
  target_hooks_.before = [&](std::string_view what, const std::string&) {
    if (what == "write" || what == "create" || what == "rename to") ++writes;
    return absl::OkStatus();
  };
  Hook();
  const DrainReport report = Drained();
  EXPECT_EQ(report.files, 0U);
  EXPECT_EQ(report.there_files, 2U);
  EXPECT_EQ(writes, 0);
}

TEST_F(DrainTest, ABatchOfManySmallFiles) {
  for (int i = 0; i < 5000; ++i) Put("d" + std::to_string(i % 7) + "/f" + std::to_string(i), Bytes(i % 300, 'A'));
  const DrainReport report = Drained();
  EXPECT_EQ(report.files, 5000U);
  EXPECT_TRUE(Files(to_) == Files(from_));
}

TEST_F(DrainTest, KeepsModeTimesAndAttributes) {
  Put("f", Bytes(10));
  const std::string path = from_ + "/f";
  ASSERT_EQ(::chmod(path.c_str(), 0741), 0);
  const bool attributes = ::setxattr(path.c_str(), "user.cairn", "yes", 3, 0) == 0;
  const timespec times[2] = {{1000000000, 123456789}, {1100000000, 987654321}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  Drained();
  struct stat stat {};
  ASSERT_EQ(::stat((to_ + "/f").c_str(), &stat), 0);
  EXPECT_EQ(stat.st_mode & 07777, 0741U);
  EXPECT_EQ(stat.st_mtim.tv_sec, 1100000000);
  EXPECT_EQ(stat.st_mtim.tv_nsec, 987654321);
  std::array<char, 8> value{};
  if (attributes) {
    EXPECT_EQ(::getxattr((to_ + "/f").c_str(), "user.cairn", value.data(), value.size()), 3);
  }
}

TEST_F(DrainTest, NamesOfAnyBytes) {
  const std::set<std::string> names{"with\nnewline", "with\ttab and blank ", "-rf", "\xff\xfe", std::string(255, 'n')};
  for (const std::string& name : names) Put(name, name);
  EXPECT_TRUE(Drained().complete());
  EXPECT_TRUE(Files(to_) == Files(from_));
  EXPECT_EQ(Drained().there_files, names.size());  // and the journal can hold them
}

TEST_F(DrainTest, HardLinksStayHardLinks) {
  Put("first", Bytes(1000));
  Put("large", Bytes(6 << 20));
  std::filesystem::create_directory(from_ + "/z");
  std::filesystem::create_hard_link(from_ + "/first", from_ + "/z/second");
  std::filesystem::create_hard_link(from_ + "/large", from_ + "/z/large2");
  const DrainReport report = Drained();
  EXPECT_EQ(report.files, 2U);
  EXPECT_EQ(report.hard_links, 2U);
  EXPECT_TRUE(std::filesystem::equivalent(to_ + "/first", to_ + "/z/second"));
  EXPECT_TRUE(std::filesystem::equivalent(to_ + "/large", to_ + "/z/large2"));
  EXPECT_EQ(Drained().there_files, 4U);
}

TEST_F(DrainTest, WhereThereAreNoHardLinksTheyAreCopiedAndThatIsSaid) {
  Put("first", Bytes(1000));
  Put("large", Bytes(6 << 20));
  std::filesystem::create_hard_link(from_ + "/first", from_ + "/second");
  std::filesystem::create_hard_link(from_ + "/large", from_ + "/large2");
  target_hooks_.before = [](std::string_view what, const std::string&) {
    return what == "link" ? FailedPrecondition("no links") : absl::OkStatus();
  };
  Hook();
  const DrainReport report = Drained();
  EXPECT_TRUE(report.complete());
  EXPECT_EQ(report.links_copied, 2U);
  EXPECT_TRUE(Files(to_) == Files(from_));
}

TEST_F(DrainTest, HolesStayHoles) {
  for (const auto& [name, size, at] : {std::tuple{"small", 1 << 20, 700001}, {"large", 64 << 20, 33333333}}) {
    const UniqueFd fd(::open((from_ + "/" + name).c_str(), O_CREAT | O_RDWR, 0600));
    ASSERT_EQ(::ftruncate(fd.get(), size), 0);
    ASSERT_EQ(::pwrite(fd.get(), "data", 4, at), 4);
  }
  Put("all-hole", "");
  std::filesystem::resize_file(from_ + "/all-hole", 10 << 20);
  EXPECT_TRUE(Drained().complete());
  EXPECT_TRUE(Files(to_) == Files(from_));
  for (const char* name : {"small", "large", "all-hole"}) {
    struct stat before {
    }, after{};
    ASSERT_EQ(::stat((from_ + "/" + name).c_str(), &before), 0);
    ASSERT_EQ(::stat((to_ + "/" + name).c_str(), &after), 0);
    EXPECT_EQ(after.st_blocks, before.st_blocks) << name;
  }
}

TEST_F(DrainTest, LinksAreBroughtAsLinksAndNeverFollowed) {
  std::filesystem::create_directory(folder_ + "/outside");
  std::ofstream(folder_ + "/outside/secret") << "secret";
  Put("in/file", "inside");
  std::filesystem::create_symlink("file", from_ + "/in/near");
  std::filesystem::create_symlink("/etc/passwd", from_ + "/absolute");
  std::filesystem::create_symlink("../outside", from_ + "/folder");
  const DrainReport report = Drained();
  EXPECT_EQ(report.symlinks, 3U);
  EXPECT_EQ(report.outward.count(), 2U);
  EXPECT_EQ(std::filesystem::read_symlink(to_ + "/in/near"), "file");
  EXPECT_EQ(std::filesystem::read_symlink(to_ + "/absolute"), "/etc/passwd");
  EXPECT_EQ(std::filesystem::read_symlink(to_ + "/folder"), "../outside");
  EXPECT_EQ(Files(to_).size(), 1U);  // nothing of what they lead to
  EXPECT_EQ(Drained().there_files, 4U);
}

TEST_F(DrainTest, ALinkThatIsPutInTheWayDuringTheDrainIsNotFollowed) {
  Put("d/file", "mine");
  std::filesystem::create_directory(folder_ + "/outside");
  std::ofstream(folder_ + "/outside/file") << "hers";
  source_hooks_.before = [&](std::string_view what, const std::string& path) {
    if (what == "open" && path == "d/file" && !std::filesystem::is_symlink(from_ + "/d")) {
      std::filesystem::rename(from_ + "/d", folder_ + "/was");
      std::filesystem::create_symlink(folder_ + "/outside", from_ + "/d");
    }
    return absl::OkStatus();
  };
  Hook();
  const DrainReport report = Drained();
  EXPECT_EQ(report.files, 0U);
  EXPECT_NE(Why(report.failed, "d/file"), "");
  EXPECT_FALSE(IsThere("d/file"));
}

TEST_F(DrainTest, ALinkInTheTargetIsNotFollowedEither) {
  Put("d/file", "mine");
  std::filesystem::create_directory(folder_ + "/outside");
  std::filesystem::create_symlink(folder_ + "/outside", to_ + "/d");
  const DrainReport report = Drained();
  EXPECT_NE(Why(report.failed, "d/file"), "");
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/outside"));
}

TEST_F(DrainTest, WhatIsNoFileIsTold) {
  ASSERT_EQ(::mkfifo((from_ + "/pipe").c_str(), 0600), 0);
  Put("file", "x");
  const DrainReport report = Drained();
  EXPECT_FALSE(report.complete());
  EXPECT_EQ(report.left_out.count(), 1U);
  EXPECT_TRUE(IsThere("file"));
}

TEST_F(DrainTest, ASourceThatChangesWhileItIsReadIsNotCommitted) {
  Put("small", Bytes(1000));
  Put("large", Bytes(6 << 20));
  std::atomic<bool> changed{false};
  source_hooks_.came = [&](const std::string& path, std::span<std::byte>) {
    if (!changed) std::ofstream(from_ + "/" + path, std::ios::app) << "more";
  };
  Hook();
  DrainReport report = Drained();
  EXPECT_EQ(report.waiting.count(), 2U);
  EXPECT_EQ(report.files, 0U);
  EXPECT_TRUE(Files(to_).empty());
  changed = true;
  report = Drained();
  EXPECT_TRUE(report.complete());
  EXPECT_TRUE(Files(to_) == Files(from_));
}

TEST_F(DrainTest, ASourceThatVanishesIsTold) {
  for (int i = 0; i < 30; ++i) Put("d/f" + std::to_string(i), Bytes(100));
  source_hooks_.before = [&](std::string_view what, const std::string& path) {
    if (what == "open" && path == "d/f7") std::filesystem::remove_all(from_);
    return absl::OkStatus();
  };
  Hook();
  EXPECT_STATUS(absl::StatusCode::kNotFound, Run(), from_);
}

TEST_F(DrainTest, TwoAtOnceOfOneFolderTheSecondIsRefused) {
  Put("file", "bytes");
  const auto first = Drain::Open(*disk_, options_);
  ASSERT_OK(first);
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, Run(), std::to_string(::getpid()));
}

TEST_F(DrainTest, FoldersThatLieInEachOtherAreRefused) {
  std::filesystem::create_directory(from_ + "/sub");
  options_.to = from_ + "/sub";
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, Run(), "below");
  options_.from = from_ + "/sub";
  options_.to = from_;
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, Run(), "below");
  options_.from = folder_ + "/none";
  EXPECT_STATUS(absl::StatusCode::kNotFound, Run(), "none");
}

TEST_F(DrainTest, ADryRunChangesNothing) {
  Put("a", "one");
  Put("b", "two");
  Drained();
  Put("b", "changed");
  options_.dry_run = true;
  const DrainReport report = Drained();
  EXPECT_EQ(report.files, 1U);
  EXPECT_EQ(report.there_files, 1U);
  EXPECT_EQ(At("b"), "two");
  options_.to = folder_ + "/none";
  EXPECT_EQ(Drained().files, 2U);
  EXPECT_FALSE(Is(folder_ + "/none"));
}

TEST_F(DrainTest, ADryRunTellsWhatWaitsForWhat) {
  options_.marker = "DONE";
  options_.dry_run = true;
  Put("a/file", "1");
  std::filesystem::create_hard_link(from_ + "/a/file", from_ + "/a/second");
  Put("a/DONE", "");
  {
    const UniqueFd writer(::open((from_ + "/a/file").c_str(), O_WRONLY));
    const DrainReport report = Drained();
    EXPECT_NE(Why(report.waiting, "a/second"), "");
    EXPECT_NE(Why(report.waiting, "a/DONE"), "");
    EXPECT_EQ(report.files, 0U);
  }
  const DrainReport report = Drained();
  EXPECT_TRUE(report.complete());
  EXPECT_EQ(report.files, 2U);
  EXPECT_EQ(report.hard_links, 1U);
}

// A second change within one tick of the clock cannot be seen.
TEST_F(DrainTest, ASourceThatChangesWithinASecondOfAFileSystemWithoutFinerTimes) {
  Put("file", "one");
  source_hooks_.coarse_times = true;
  bool changed = false;
  source_hooks_.came = [&](const std::string&, std::span<std::byte>) {
    if (!std::exchange(changed, true)) Put("file", "two");
  };
  Hook();
  EXPECT_EQ(Drained().files, 0U);
  EXPECT_TRUE(Drained().complete());
  EXPECT_EQ(At("file"), "two");
}

TEST_F(DrainTest, StopsWhenToldAndGoesOnLater) {
  for (int i = 0; i < 40; ++i) Put("f" + std::to_string(i), Bytes(100));
  std::atomic<int> reads{0};
  source_hooks_.came = [&](const std::string&, std::span<std::byte>) {
    if (++reads == 5) stop_ = true;
  };
  Hook();
  DrainReport report = Drained();
  EXPECT_TRUE(report.stopped);
  EXPECT_GT(report.files, 0U);
  EXPECT_LT(report.files, 40U);
  stop_ = false;
  const std::uint64_t before = report.files;
  report = Drained();
  EXPECT_EQ(report.files + before, 40U);
  EXPECT_TRUE(Files(to_) == Files(from_));
}

TEST_F(DrainTest, KeepsToTheBandwidth) {
  for (int i = 0; i < 8; ++i) Put("f" + std::to_string(i), Bytes(100'000));
  options_.bytes_per_s = 2'000'000;
  const DrainReport report = Drained();
  EXPECT_TRUE(report.complete());
  EXPECT_GE(report.milliseconds, 250U);  // 0.8 MB, of which some may go at once
}

// An ordinary user may not read one file of several.
TEST_F(DrainTest, OneFileWithoutRightsFailsAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, who becomes another user";
  Put("mine", "mine");
  Put("closed", "closed");
  ASSERT_EQ(::chmod((from_ + "/closed").c_str(), 0600), 0);
  ASSERT_EQ(::chmod((from_ + "/mine").c_str(), 0644), 0);
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  ASSERT_EQ(::chmod(from_.c_str(), 0755), 0);
  ASSERT_EQ(::chown(to_.c_str(), 65534, 65534), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(2);
    options_.settle_ms = 0;
    const auto disk = MakePosixDisk();
    auto drain = Drain::Open(*disk, options_);
    if (!drain.ok()) ::_exit(3);
    const auto report = (*drain)->Pass(stop_);
    const bool right =
        report.ok() && report->files == 1 && report->failed.count() == 1 && report->failed.list()[0].path == "closed";
    ::_exit(right ? 0 : 4);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  // 3: the way to the folder is closed to others on this machine.
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) GTEST_SKIP() << "another user cannot reach " << folder_;
  EXPECT_EQ(status, 0);
  EXPECT_EQ(At("mine"), "mine");
  EXPECT_FALSE(IsThere("closed"));
}

// A folder that lets nothing in gets its mode when all that belongs into it has come.
TEST_F(DrainTest, AFolderThatIsReadOnlyIsFilledInAnyNumberOfPasses) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, who becomes another user";
  Put("out/first", "1");
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  for (const std::string& path : {from_, from_ + "/out", from_ + "/out/first", to_}) {
    ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
    ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  }
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(2);
    const std::string out = from_ + "/out";
    if (::access(from_.c_str(), X_OK) != 0) ::_exit(3);
    if (::chmod(out.c_str(), 0555) != 0) ::_exit(5);
    options_.settle_ms = 600'000;
    const auto waits = Run();
    if (!waits.ok()) ::_exit(3);
    options_.settle_ms = 0;
    const auto comes = Run();
    if (waits->waiting.count() != 1 || !comes.ok() || !comes->complete()) ::_exit(4);
    if (::chmod(out.c_str(), 0755) != 0) ::_exit(5);
    Put("out/empty/sub/file", "2");
    std::filesystem::remove(out + "/empty/sub/file");
    if (::chmod(out.c_str(), 0555) != 0) ::_exit(5);
    const auto again = Run();
    ::_exit(again.ok() && again->complete() ? 0 : 6);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) GTEST_SKIP() << "another user cannot reach " << folder_;
  EXPECT_EQ(status, 0);
  EXPECT_EQ(At("out/first"), "1");
  EXPECT_TRUE(IsThere("out/empty/sub"));
  EXPECT_EQ(static_cast<int>(std::filesystem::status(to_ + "/out").permissions()), 0555);
}

}  // namespace
}  // namespace cairn
