#include "tests/support/fake_disk.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "storage/io/disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using Names = std::vector<std::string>;

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

void Write(Disk& disk, const std::string& path, std::string_view text, bool sync = false) {
  ASSERT_OK_AND_ASSIGN(const auto file, disk.Open(path, {.writable = true, .create = true}));
  ASSERT_OK(file->WriteAt(0, Bytes(text)));
  if (sync) {
    ASSERT_OK(file->Sync());
  }
}

// The content, or "-" if the file is not there.
std::string Read(Disk& disk, const std::string& path) {
  const auto text = ReadWhole(disk, path, 1 << 20);
  if (absl::IsNotFound(text.status())) return "-";
  return text.ok() ? *text : text.status().ToString();
}

// All that may be found after `act`, a crash and a look.
template <typename Act, typename Look>
std::set<std::string> OutcomesOf(Act act, Look look) {
  std::set<std::string> outcomes;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    FakeDisk disk;
    act(disk);
    disk.Restart(seed);
    outcomes.insert(look(disk));
  }
  return outcomes;
}

TEST(FakeDiskTest, ReadsWhatWasWrittenBeforeAnySync) {
  FakeDisk disk;
  Write(disk, "/a", "text");
  EXPECT_EQ(Read(disk, "/a"), "text");
  ASSERT_OK_AND_ASSIGN(const auto file, disk.Open("/a", {}));
  std::byte buffer[8];
  EXPECT_STATUS(StatusCode::kDataLoss, file->ReadAt(1, buffer), "after 3 of 8 bytes");
  EXPECT_STATUS(StatusCode::kInvalidArgument, file->WriteAt(0, Bytes("x")), "not open for writing");
}

TEST(FakeDiskTest, SyncedFileWithSyncedNameSurvives) {
  const auto act = [](Disk& disk) {
    Write(disk, "/a", "text", /*sync=*/true);
    ASSERT_OK(disk.SyncDirectory("/"));
  };
  EXPECT_EQ(OutcomesOf(act, [](Disk& disk) { return Read(disk, "/a"); }), (std::set<std::string>{"text"}));
}

TEST(FakeDiskTest, UnsyncedNameMayBeLostWithASyncedFile) {
  const auto act = [](Disk& disk) { Write(disk, "/a", "text", /*sync=*/true); };
  EXPECT_EQ(OutcomesOf(act, [](Disk& disk) { return Read(disk, "/a"); }), (std::set<std::string>{"-", "text"}));
}

TEST(FakeDiskTest, UnsyncedDataMayBeLostOrZeroUnderASyncedName) {
  const auto act = [](Disk& disk) {
    Write(disk, "/a", "text");
    ASSERT_OK(disk.SyncDirectory("/"));
  };
  EXPECT_EQ(OutcomesOf(act, [](Disk& disk) { return Read(disk, "/a"); }),
            (std::set<std::string>{"", "text", std::string(4, '\0')}));
}

TEST(FakeDiskTest, LargeUnsyncedWriteMayBeTornAtBlocks) {
  const auto act = [](Disk& disk) {
    Write(disk, "/a", std::string(8192, 'o'), /*sync=*/true);
    ASSERT_OK(disk.SyncDirectory("/"));
    auto file = disk.Open("/a", {.writable = true});
    ASSERT_OK(file);
    ASSERT_OK((*file)->WriteAt(0, Bytes(std::string(8192, 'n'))));
  };
  const auto ends = [](Disk& disk) {
    const std::string text = Read(disk, "/a");
    return std::string{text.front(), text[4095], text[4096], text.back()};
  };
  EXPECT_EQ(OutcomesOf(act, ends), (std::set<std::string>{"oooo", "oonn", "nnoo", "nnnn"}));
}

TEST(FakeDiskTest, RenameHappensWholeOrNotAtAll) {
  const auto act = [](Disk& disk) {
    ASSERT_OK(disk.MakeDirectory("/d", 0700));
    ASSERT_OK(disk.SyncDirectory("/"));
    Write(disk, "/d/a", "new", /*sync=*/true);
    Write(disk, "/b", "old", /*sync=*/true);
    ASSERT_OK(disk.SyncDirectory("/d"));
    ASSERT_OK(disk.SyncDirectory("/"));
    ASSERT_OK(disk.Rename("/d/a", "/b"));
  };
  const auto look = [](Disk& disk) { return Read(disk, "/d/a") + " " + Read(disk, "/b"); };
  EXPECT_EQ(OutcomesOf(act, look), (std::set<std::string>{"new old", "- new"}));
}

TEST(FakeDiskTest, UnsyncedOperationsOnDifferentNamesSurviveInAnyOrder) {
  const auto act = [](Disk& disk) {
    Write(disk, "/a", "a", /*sync=*/true);
    ASSERT_OK(disk.SyncDirectory("/"));
    ASSERT_OK(disk.Link("/a", "/b"));
    ASSERT_OK(disk.Remove("/a"));
  };
  const auto look = [](Disk& disk) { return Read(disk, "/a") + Read(disk, "/b"); };
  EXPECT_EQ(OutcomesOf(act, look), (std::set<std::string>{"a-", "aa", "--", "-a"}));
}

TEST(FakeDiskTest, OperationsOnOneNameKeepTheirOrder) {
  const auto act = [](Disk& disk) {
    Write(disk, "/work", "x", /*sync=*/true);
    ASSERT_OK(disk.Rename("/work", "/a"));
    ASSERT_OK(disk.Remove("/a"));
  };
  const auto look = [](Disk& disk) { return Read(disk, "/work") + Read(disk, "/a"); };
  EXPECT_EQ(OutcomesOf(act, look), (std::set<std::string>{"--", "x-", "-x"}));
}

TEST(FakeDiskTest, SyncedDirectoryIsLostIfNothingDurableLeadsToIt) {
  const auto act = [](Disk& disk) {
    ASSERT_OK(disk.MakeDirectory("/d", 0700));
    Write(disk, "/d/a", "a", /*sync=*/true);
    ASSERT_OK(disk.SyncDirectory("/d"));
  };
  EXPECT_EQ(OutcomesOf(act, [](Disk& disk) { return Read(disk, "/d/a"); }), (std::set<std::string>{"-", "a"}));
}

TEST(FakeDiskTest, SyncOfATargetDirectoryMakesTheRenameDurableOnBothSides) {
  const auto act = [](Disk& disk) {
    ASSERT_OK(disk.MakeDirectory("/d", 0700));
    ASSERT_OK(disk.SyncDirectory("/"));
    Write(disk, "/a", "a", /*sync=*/true);
    ASSERT_OK(disk.Rename("/a", "/d/a"));
    ASSERT_OK(disk.SyncDirectory("/d"));
  };
  const auto look = [](Disk& disk) { return Read(disk, "/a") + Read(disk, "/d/a"); };
  EXPECT_EQ(OutcomesOf(act, look), (std::set<std::string>{"-a"}));
}

TEST(FakeDiskTest, FailedSyncLosesTheDataAlthoughTheNextIsOk) {
  FakeDisk disk;
  ASSERT_OK_AND_ASSIGN(const auto file, disk.Open("/a", {.writable = true, .create = true}));
  ASSERT_OK(disk.SyncDirectory("/"));
  ASSERT_OK(file->WriteAt(0, Bytes("lost")));
  disk.FailOn({.op = FakeOp::kSync, .status = absl::UnavailableError("EIO")});
  EXPECT_STATUS(StatusCode::kUnavailable, file->Sync(), "EIO");
  EXPECT_OK(file->Sync());
  EXPECT_EQ(Read(disk, "/a"), "lost");  // still in the page cache, so to speak
  disk.Restart(1);
  EXPECT_EQ(Read(disk, "/a"), "");
}

TEST(FakeDiskTest, CrashFailsEverythingUntilRestartAndLeavesFilesStale) {
  FakeDisk disk;
  ASSERT_OK_AND_ASSIGN(const auto file, disk.Open("/a", {.writable = true, .create = true}));
  disk.CrashAt(2);
  EXPECT_OK(file->WriteAt(0, Bytes("x")));
  EXPECT_FALSE(disk.crashed());
  EXPECT_STATUS(StatusCode::kUnavailable, file->Sync(), "crashed");
  EXPECT_TRUE(disk.crashed());
  EXPECT_STATUS(StatusCode::kUnavailable, disk.List("/"), "crashed");
  EXPECT_EQ(disk.operations(), 3u);
  disk.Restart(1);
  EXPECT_OK(disk.List("/"));
  EXPECT_STATUS(StatusCode::kUnavailable, file->Sync(), "stale");
}

TEST(FakeDiskTest, CrashesAreRepeatable) {
  const auto outcome = [](std::uint64_t seed) {
    FakeDisk disk;
    for (int i = 0; i < 20; ++i) Write(disk, "/" + std::to_string(i), "text");
    disk.Restart(seed);
    const Names names = *disk.List("/");
    Names all = names;
    for (const std::string& name : names) all.push_back(Read(disk, "/" + name));
    return all;
  };
  EXPECT_EQ(outcome(7), outcome(7));
  EXPECT_NE(outcome(7), outcome(8));
}

TEST(FakeDiskTest, FaultsHitTheNthMatchingOperationAsOftenAsAsked) {
  FakeDisk disk;
  Write(disk, "/a", "a");
  Write(disk, "/b", "b");
  disk.FailOn(
      {.op = FakeOp::kInfo, .path_part = "b", .nth = 2, .times = 2, .status = absl::PermissionDeniedError("no")});
  EXPECT_OK(disk.Info("/a"));
  EXPECT_OK(disk.Info("/b"));
  EXPECT_STATUS(StatusCode::kPermissionDenied, disk.Info("/b"), "/b: no");
  EXPECT_OK(disk.Info("/a"));
  EXPECT_STATUS(StatusCode::kPermissionDenied, disk.Info("/b"), "no");
  EXPECT_OK(disk.Info("/b"));
  disk.FailOn({.op = FakeOp::kRename, .path_part = "target"});
  EXPECT_STATUS(StatusCode::kUnavailable, disk.Rename("/a", "/target"), "injected");
  disk.FailOn({});
  disk.ClearFaults();
  EXPECT_OK(disk.Rename("/a", "/target"));
}

TEST(FakeDiskTest, FailedWriteHasPutDownItsFirstHalf) {
  FakeDisk disk;
  ASSERT_OK_AND_ASSIGN(const auto file, disk.Open("/a", {.writable = true, .create = true}));
  disk.FailOn({.op = FakeOp::kWrite});
  EXPECT_STATUS(StatusCode::kUnavailable, file->WriteAt(0, Bytes("abcd")), "injected");
  EXPECT_EQ(Read(disk, "/a"), "ab");
}

TEST(FakeDiskTest, FullDiskTakesWhatFitsAndRefusesTheRest) {
  FakeDisk disk({.capacity = 6});
  Write(disk, "/a", "1234");
  EXPECT_EQ(disk.FreeBytes("/").value(), 2u);
  ASSERT_OK_AND_ASSIGN(const auto file, disk.Open("/b", {.writable = true, .create = true}));
  EXPECT_STATUS(StatusCode::kResourceExhausted, file->WriteAt(0, Bytes("1234")), "/b at 2");
  EXPECT_EQ(Read(disk, "/b"), "12");
  EXPECT_STATUS(StatusCode::kResourceExhausted, file->Truncate(3), "/b");
  ASSERT_OK(disk.Remove("/a"));
  EXPECT_OK(file->WriteAt(0, Bytes("1234")));
  disk.SetCapacity(4);
  EXPECT_STATUS(StatusCode::kResourceExhausted, file->WriteAt(4, Bytes("5")), "/b at 4");
}

TEST(FakeDiskTest, HookSeesEveryOperationAndMayCrashIt) {
  FakeDisk disk;
  std::vector<FakeOp> seen;
  disk.SetHook([&](FakeOp op, const std::string& path) {
    seen.push_back(op);
    if (path == "/trap") disk.CrashAt(1);
  });
  EXPECT_OK(disk.MakeDirectory("/d", 0700));
  EXPECT_STATUS(StatusCode::kUnavailable, disk.MakeDirectory("/trap", 0700), "crashed");
  EXPECT_EQ(seen, (std::vector<FakeOp>{FakeOp::kMakeDirectory, FakeOp::kMakeDirectory}));
}

TEST(FakeDiskTest, FlippedBitSurvivesCrashes) {
  FakeDisk disk;
  Write(disk, "/a", "abc", /*sync=*/true);
  ASSERT_OK(disk.SyncDirectory("/"));
  disk.FlipBit("/a", 9);
  EXPECT_EQ(Read(disk, "/a"), "a`c");
  disk.Restart(3);
  EXPECT_EQ(Read(disk, "/a"), "a`c");
}

TEST(FakeDiskTest, AsyncTransfersEndBeforeTheCallReturns) {
  FakeDisk disk;
  ASSERT_OK_AND_ASSIGN(const auto file, disk.Open("/a", {.writable = true, .create = true}));
  absl::Status written = absl::UnknownError("");
  file->WriteAsync(0, Bytes("abcd"), [&](absl::Status status) { written = std::move(status); });
  EXPECT_OK(written);
  std::byte buffer[8];
  absl::Status read;
  file->ReadAsync(0, buffer, [&](absl::Status status) { read = std::move(status); });
  EXPECT_STATUS(StatusCode::kDataLoss, read, "4 of 8");
}

TEST(FakeDiskTest, SaysWhichFileSystemItIsAsAsked) {
  EXPECT_EQ(FakeDisk().FileSystemType("/").value(), 0xEF53u);
  FakeDisk disk({.file_system = 0x6969});
  EXPECT_EQ(disk.FileSystemType("/").value(), 0x6969u);
  disk.FailOn({.op = FakeOp::kFileSystemType});
  EXPECT_STATUS(StatusCode::kUnavailable, disk.FileSystemType("/"), "injected");
}

TEST(FakeDiskTest, BirthTimesDifferAndMayBeUntold) {
  for (const bool tells : {true, false}) {
    FakeDisk disk({.tells_birth = tells});
    Write(disk, "/a", "a");
    const auto birth = disk.Info("/a")->birth;
    ASSERT_EQ(birth.has_value(), tells);
    EXPECT_EQ(disk.Info("/")->birth.has_value(), tells);
    ASSERT_OK(disk.Remove("/a"));
    Write(disk, "/a", "a");
    if (tells) {
      EXPECT_LT(birth->tv_sec, disk.Info("/a")->birth->tv_sec);
    }
  }
}

TEST(FakeDiskTest, ACopiedTreeIsTheSameInOtherInodes) {
  FakeDisk disk;
  ASSERT_OK(MakeDirectories(disk, "/d/e"));
  Write(disk, "/d/e/a", "text");
  ASSERT_OK(disk.Link("/d/e/a", "/d/b"));
  ASSERT_OK(disk.Symlink("e/a", "/d/link"));
  ASSERT_OK(disk.SetModeAndTimes("/d/e", 0750, {.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 2, .tv_nsec = 0}));
  const std::uint64_t operations = disk.operations();
  disk.SetHook([](FakeOp, const std::string& path) { FAIL() << path; });
  disk.CopyTree("/d", "/copy");
  disk.SetHook(nullptr);
  EXPECT_EQ(disk.operations(), operations);
  EXPECT_EQ(disk.List("/copy").value(), (Names{"b", "e", "link"}));
  EXPECT_EQ(Read(disk, "/copy/e/a"), "text");
  EXPECT_EQ(disk.ReadLink("/copy/link").value(), "e/a");
  for (const char* const name : {"", "/e", "/e/a", "/link"}) {
    ASSERT_OK_AND_ASSIGN(const FileInfo from, disk.Info(std::string("/d") + name));
    ASSERT_OK_AND_ASSIGN(const FileInfo to, disk.Info(std::string("/copy") + name));
    EXPECT_NE(to.inode, from.inode) << name;
    EXPECT_GT(to.birth->tv_sec, from.birth->tv_sec) << name;
    EXPECT_EQ(to.mode, from.mode) << name;
    EXPECT_EQ(to.mtime.tv_sec, from.mtime.tv_sec) << name;
    EXPECT_EQ(to.links, from.links) << name;
  }
  EXPECT_EQ(disk.Info("/copy/b")->inode, disk.Info("/copy/e/a")->inode);  // one file there, too
  Write(disk, "/copy/e/a", "other");
  EXPECT_EQ(Read(disk, "/d/e/a"), "text");
}

TEST(FakeDiskTest, ACopiedTreeMayBeLostUntilAllIsSynced) {
  const auto act = [](bool sync) {
    return [sync](FakeDisk& disk) {
      Write(disk, "/a", "text", /*sync=*/true);
      ASSERT_OK(disk.SyncDirectory("/"));
      disk.CopyTree("/a", "/b");
      if (sync) disk.SyncAll();
    };
  };
  const auto look = [](Disk& disk) { return Read(disk, "/b"); };
  EXPECT_EQ(OutcomesOf(act(true), look), (std::set<std::string>{"text"}));
  EXPECT_TRUE(OutcomesOf(act(false), look).contains("-"));
}

TEST(FakeDiskTest, DirectFilesInsistOnAlignment) {
  FakeDisk disk({.direct = true});
  Write(disk, "/a", std::string(5000, 'x'));
  ASSERT_OK_AND_ASSIGN(const auto file, disk.Open("/a", {.direct = true}));
  EXPECT_TRUE(file->direct());
  alignas(4096) static std::byte buffer[3 * 4096];
  EXPECT_STATUS(StatusCode::kInvalidArgument, file->ReadAt(1, std::span(buffer).first(4096)), "not aligned");
  buffer[5000] = std::byte{1};
  EXPECT_OK(file->ReadAt(0, std::span(buffer).first(8192)));
  EXPECT_EQ(buffer[4999], std::byte{'x'});
  EXPECT_EQ(buffer[5000], std::byte{0});
  EXPECT_STATUS(StatusCode::kDataLoss, file->ReadAt(0, buffer), "5000 of 12288");
}

}  // namespace
}  // namespace cairn
