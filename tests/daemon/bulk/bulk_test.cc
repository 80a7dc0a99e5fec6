// Files of another node, over real doors on loopback: what a Disk promises, and who may have it.
#include <absl/synchronization/mutex.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/bulk/bulk.h"
#include "tests/daemon/bulk/bulk_node.h"
#include "tests/daemon/trust/members.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using testing::Barrier;
using testing::BulkNode;
using testing::NewAuthority;
using testing::Pattern;
using testing::ReadAll;
using testing::ReadInHand;
using testing::RunOf;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr auto kPermissionDenied = absl::StatusCode::kPermissionDenied;
constexpr auto kUnavailable = absl::StatusCode::kUnavailable;
constexpr std::size_t kMiB = 1 << 20;

const RunId kRun = RunOf(1);

class BulkTest : public ::testing::Test {
 protected:
  explicit BulkTest(const BulkOptions& serving = {}) : there_(2, serving) {
    here_.Enter(authority_);
    there_.Enter(authority_);
    files_ = here_.FilesOf(kRun, there_);
  }

  const std::shared_ptr<const Authority> authority_ = NewAuthority(kRun);
  BulkNode here_{1};
  BulkNode there_;
  std::shared_ptr<Disk> files_;
};

TEST_F(BulkTest, BytesAreTheSame) {
  const std::string bytes = Pattern(5 * kMiB + 123);
  ASSERT_OK(there_.disk().MakeDirectory("/cache/set", 0700));
  there_.Write("/cache/set/file", bytes);
  ASSERT_OK_AND_ASSIGN(const std::string all, ReadAll(*files_, "/set/file"));
  EXPECT_TRUE(all == bytes);
  ASSERT_OK_AND_ASSIGN(const auto file, files_->Open("/set/file", {.direct = true}));
  EXPECT_FALSE(file->direct());
  EXPECT_EQ(file->path(), "/set/file");
  const std::vector<std::pair<std::size_t, std::size_t>> parts = {
      {0, 1}, {kMiB - 1, 2}, {17, 2 * kMiB}, {bytes.size() - 1, 1}, {3, bytes.size() - 3}, {bytes.size(), 0}};
  for (const auto& [offset, count] : parts) {
    std::string part(count, '\0');
    ASSERT_OK(file->ReadAt(offset, std::as_writable_bytes(std::span(part))));
    EXPECT_TRUE(part == bytes.substr(offset, count)) << offset;
  }
}

TEST_F(BulkTest, ReadsGoOnAtOnce) {
  const std::string bytes = Pattern(32 * kMiB);
  there_.Write("/cache/file", bytes);
  ASSERT_OK_AND_ASSIGN(const auto file, files_->Open("/file", {}));
  std::vector<std::unique_ptr<ReadInHand>> reads;
  {
    Barrier barrier(there_.disk());
    for (std::size_t i = 0; i < 64; ++i) {
      reads.push_back(std::make_unique<ReadInHand>(*file, i * kMiB / 2, kMiB / 2));
    }
    barrier.AwaitReads(BulkOptions().disk_threads);
  }
  for (std::size_t i = 0; i < reads.size(); ++i) {
    ASSERT_OK(reads[i]->Wait());
    EXPECT_TRUE(reads[i]->bytes() == bytes.substr(i * kMiB / 2, kMiB / 2)) << i;
  }
}

TEST_F(BulkTest, SeveralThreadsMayRead) {
  const std::string bytes = Pattern(3 * kMiB);
  there_.Write("/cache/file", bytes);
  std::vector<std::thread> readers;
  for (int i = 0; i < 8; ++i) {
    readers.emplace_back([&] {
      for (int k = 0; k < 4; ++k) {
        const auto all = ReadAll(*files_, "/file");
        EXPECT_OK(all);
        EXPECT_TRUE(all.ok() && *all == bytes);
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
}

TEST_F(BulkTest, InfoAndListAreTheDisks) {
  ASSERT_OK(there_.disk().MakeDirectory("/cache/set", 0700));
  for (int i = 0; i < 5000; ++i) there_.Write(fmt::format("/cache/set/{:0>240}", i), "");
  there_.Write("/cache/file", "12345");
  ASSERT_OK_AND_ASSIGN(const auto expected, there_.disk().List("/cache/set"));
  ASSERT_OK_AND_ASSIGN(const auto names, files_->List("/set"));
  EXPECT_EQ(names, expected);
  EXPECT_EQ(*files_->List("/"), (std::vector<std::string>{"file", "set"}));
  ASSERT_OK_AND_ASSIGN(const FileInfo theirs, there_.disk().Info("/cache/file"));
  ASSERT_OK_AND_ASSIGN(const FileInfo info, files_->Info("/file"));
  EXPECT_EQ(info.bytes, 5u);
  EXPECT_EQ(info.inode, theirs.inode);
  EXPECT_EQ(info.mtime.tv_sec, theirs.mtime.tv_sec);
  EXPECT_EQ(info.mtime.tv_nsec, theirs.mtime.tv_nsec);
  EXPECT_TRUE(info.is_regular());
  EXPECT_TRUE(files_->Info("/set")->is_directory());
  EXPECT_EQ(*files_->RealPath("/set"), "/set");
  EXPECT_STATUS(kNotFound, files_->RealPath("/none"), "none");
  EXPECT_STATUS(kInvalidArgument, files_->ReadLink("/file"), "not a symbolic link");
  EXPECT_STATUS(kInvalidArgument, files_->Open("/set", {}), "/set");
}

TEST_F(BulkTest, AFileMayGrowAndShrink) {
  there_.Write("/cache/file", "0123456789");
  ASSERT_OK_AND_ASSIGN(const auto file, files_->Open("/file", {}));
  std::string part(12, '\0');
  EXPECT_STATUS(kDataLoss, file->ReadAt(0, std::as_writable_bytes(std::span(part))), "/file");
  ASSERT_OK_AND_ASSIGN(const auto theirs, there_.disk().Open("/cache/file", {.writable = true}));
  const std::string more = "ab";
  ASSERT_OK(theirs->WriteAt(10, std::as_bytes(std::span(more))));
  EXPECT_EQ(file->Info()->bytes, 12u);
  ASSERT_OK(file->ReadAt(0, std::as_writable_bytes(std::span(part))));
  EXPECT_EQ(part, "0123456789ab");
  ASSERT_OK(theirs->Truncate(4));
  EXPECT_EQ(file->Info()->bytes, 4u);
  EXPECT_STATUS(kDataLoss, file->ReadAt(0, std::as_writable_bytes(std::span(part))), "/file");
}

TEST_F(BulkTest, AFileThatVanishesIsNotFound) {
  there_.Write("/cache/file", "0123456789");
  ASSERT_OK_AND_ASSIGN(const auto file, files_->Open("/file", {}));
  std::string part(4, '\0');
  const auto target = std::as_writable_bytes(std::span(part));
  ASSERT_OK(file->ReadAt(0, target));
  ASSERT_OK(there_.disk().Remove("/cache/file"));
  EXPECT_STATUS(kNotFound, file->ReadAt(0, target), "/file");
  EXPECT_STATUS(kNotFound, file->Info(), "/file");
  EXPECT_STATUS(kNotFound, files_->Open("/file", {}), "/file");
  there_.Write("/cache/file", "another");
  EXPECT_STATUS(kNotFound, file->ReadAt(0, target), "another file");
  EXPECT_OK(ReadAll(*files_, "/file"));
}

TEST_F(BulkTest, WhatTheDiskSaysArrives) {
  there_.Write("/cache/file", Pattern(4 * kMiB));
  ASSERT_OK_AND_ASSIGN(const auto file, files_->Open("/file", {}));
  there_.disk().FailOn({.op = FakeOp::kRead, .nth = 3, .status = absl::UnavailableError("the disk hums")});
  std::vector<std::byte> target(4 * kMiB);
  EXPECT_STATUS(kUnavailable, file->ReadAt(0, target), "hums");
  EXPECT_OK(file->ReadAt(0, target));
}

TEST_F(BulkTest, NothingIsChanged) {
  there_.Write("/cache/file", "0123456789");
  ASSERT_OK_AND_ASSIGN(const auto file, files_->Open("/file", {}));
  const std::vector<std::byte> bytes(4);
  const std::uint64_t before = there_.disk().operations();
  for (const absl::Status& status :
       {files_->Open("/file", {.writable = true}).status(), files_->Open("/new", {.create = true}).status(),
        files_->Rename("/file", "/b"), files_->RenameNew("/file", "/b"), files_->Link("/file", "/b"),
        files_->Clone("/file", "/b"), files_->Symlink("/file", "/b"), files_->Remove("/file"),
        files_->MakeDirectory("/b", 0700), files_->SyncDirectory("/"), files_->SetModeAndTimes("/file", 0, {}, {}),
        file->WriteAt(0, bytes), file->Truncate(0), file->Sync(), file->TryLock()}) {
    EXPECT_STATUS(kPermissionDenied, status, "only read");
  }
  absl::Status told;
  file->WriteAsync(0, bytes, [&](absl::Status status) { told = std::move(status); });
  EXPECT_STATUS(kPermissionDenied, told, "only read");
  EXPECT_EQ(there_.disk().operations(), before);
}

TEST_F(BulkTest, NamesThatLeadOutAreRefusedOnBothSides) {
  ASSERT_OK(there_.disk().Symlink("/", "/cache/up"));
  for (const char* path : {"/../cache/file", "/./file", "//file", "/set/", "file", ""}) {
    EXPECT_STATUS(kInvalidArgument, files_->Info(path), "") << path;
  }
  EXPECT_STATUS(kInvalidArgument, files_->Open("/up/cache/file", {}), "symbolic link");
  EXPECT_STATUS(kInvalidArgument, files_->List("/up"), "symbolic link");
}

// --- Who may ---

TEST_F(BulkTest, AnotherNodeAtTheAddressIsRefused) {
  BulkNode third(3);
  third.Enter(authority_);
  const auto files = here_.FilesOf(kRun, third, there_.door().address());
  EXPECT_STATUS(kPermissionDenied, files->Info("/"), there_.node());
}

TEST_F(BulkTest, EachRunSeesItsOwnFilesOnly) {
  const auto other = NewAuthority(RunOf(2));
  there_.Write("/cache/file", "of run 1");
  here_.door().Enter(other);
  const auto files = here_.FilesOf(RunOf(2), there_);
  EXPECT_STATUS(kUnavailable, files->Info("/file"), "does not serve this run");
  there_.door().Enter(other);
  EXPECT_STATUS(kUnavailable, files->Info("/file"), "no files");
  ASSERT_OK(there_.disk().MakeDirectory("/other", 0700));
  there_.bulk().Serve(RunOf(2), there_.disk(), "/other");
  EXPECT_STATUS(kNotFound, files->Info("/file"), "file");
  EXPECT_OK(files_->Info("/file"));
}

TEST_F(BulkTest, WhoIsNoMemberIsRefused) {
  const auto pretender = NewAuthority(kRun);  // of the same name
  BulkNode stranger(3);
  stranger.Enter(pretender);
  EXPECT_STATUS(kPermissionDenied, stranger.FilesOf(kRun, there_)->Info("/"), "");
  EXPECT_STATUS(kUnavailable, stranger.FilesOf(RunOf(7), there_)->Info("/"), "no part");
}

TEST_F(BulkTest, NoMoreOnceUnserved) {
  there_.Write("/cache/file", "0123456789");
  ASSERT_OK_AND_ASSIGN(const auto file, files_->Open("/file", {}));
  there_.bulk().Unserve(kRun);
  std::vector<std::byte> target(4);
  EXPECT_STATUS(kUnavailable, file->ReadAt(0, target), "no files");
}

TEST_F(BulkTest, ADoorWithoutBulkRefuses) {
  there_.Shut();
  EXPECT_STATUS(kUnavailable, files_->Info("/"), "no files are served here");
}

TEST_F(BulkTest, NobodyThere) {
  EXPECT_STATUS(kUnavailable, here_.FilesOf(kRun, there_, "127.0.0.1:1")->Info("/"), "cannot be reached");
  EXPECT_STATUS(kUnavailable, here_.FilesOf(kRun, there_, "nonsense")->Info("/"), "nonsense");
}

// --- Bounds ---

class BulkBoundsTest : public BulkTest {
 protected:
  BulkBoundsTest() : BulkTest({.serving_windows_max = 3, .disk_threads = 8}) {}
};

TEST_F(BulkBoundsTest, MemoryIsSharedByAllWhoAsk) {
  const std::string bytes = Pattern(16 * kMiB);
  there_.Write("/cache/file", bytes);
  ASSERT_OK_AND_ASSIGN(const auto file, files_->Open("/file", {}));
  Barrier barrier(there_.disk());
  ReadInHand read(*file, 0, bytes.size());
  barrier.AwaitReads(3);
  // Meanwhile others are answered, if that needs no window; by then a fourth read would be there.
  BulkNode third(3);
  third.Enter(authority_);
  const auto files = third.FilesOf(kRun, there_);
  for (int i = 0; i < 200; ++i) EXPECT_OK(files->Info("/file"));
  barrier.LetGo();
  ASSERT_OK(read.Wait());
  EXPECT_TRUE(read.bytes() == bytes);
  EXPECT_EQ(barrier.most(), 3u);
}

TEST(BulkLimitsTest, ConnectionsOfANodeHaveANumber) {
  const auto authority = NewAuthority(kRun);
  BulkNode here(1, {.connections_max = 4});
  BulkNode there(2, {.serving_per_node_max = 1});
  here.Enter(authority);
  there.Enter(authority);
  const std::string bytes = Pattern(8 * kMiB);
  there.Write("/cache/file", bytes);
  const auto files = here.FilesOf(kRun, there);
  const testing::WarningsHeard log;
  testing::Cutter counter(there.door().port(), 0, 0);
  ASSERT_OK_AND_ASSIGN(const std::string all, ReadAll(*here.FilesOf(kRun, there, counter.address()), "/file"));
  EXPECT_TRUE(all == bytes);
  EXPECT_GE(counter.connections(), 2);  // that it wanted
  EXPECT_TRUE(log.Wait("there are too many connections of it already")) << log.all();
}

TEST(BulkLimitsTest, CallsOfAPeerHaveANumber) {
  const auto authority = NewAuthority(kRun);
  BulkNode here(1, {.calls_max = 3});
  BulkNode there(2);
  here.Enter(authority);
  there.Enter(authority);
  there.Write("/cache/file", "0123456789");
  const auto files = here.FilesOf(kRun, there);
  ASSERT_OK_AND_ASSIGN(const auto file, files->Open("/file", {}));
  Barrier barrier(there.disk());
  ReadInHand a(*file, 0, 1), b(*file, 1, 1), c(*file, 2, 1), d(*file, 3, 1);
  EXPECT_STATUS(kUnavailable, d.Wait(), "3 calls are under way");
  barrier.LetGo();
  for (ReadInHand* read : {&a, &b, &c}) EXPECT_OK(read->Wait());
  EXPECT_OK(ReadInHand(*file, 3, 1).Wait());
}

TEST(BulkLimitsTest, ConnectionsThatAreNotUsedEndAndAreMadeAgain) {
  const auto authority = NewAuthority(kRun);
  BulkNode here(1, {.connections_max = 1, .idle = std::chrono::milliseconds(0)});
  BulkNode there(2);
  here.Enter(authority);
  there.Enter(authority);
  testing::Cutter counter(there.door().port(), 0, 0);
  const auto files = here.FilesOf(kRun, there, counter.address());
  // As often as it takes: whether a connection has ended by the next call is a matter of time.
  for (int i = 0; i < 10'000 && counter.connections() < 3; ++i) EXPECT_OK(files->Info("/"));
  EXPECT_GE(counter.connections(), 3);
}

}  // namespace
}  // namespace cairn
