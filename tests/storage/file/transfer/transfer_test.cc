#include "storage/file/transfer/transfer.h"
#include "storage/base/path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "storage/base/checksum.h"
#include "storage/base/status.h"
#include "storage/file/transfer/work_file.h"
#include "storage/file/transfer/written_sums.h"
#include "storage/io/lost_syncs.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr auto kCancelled = absl::StatusCode::kCancelled;
constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr auto kResourceExhausted = absl::StatusCode::kResourceExhausted;
constexpr auto kUnavailable = absl::StatusCode::kUnavailable;

constexpr std::size_t kMiB = 1 << 20;

// Source and target are two disks, with direct I/O or without.
class TransferTest : public ::testing::TestWithParam<bool> {
 protected:
  TransferTest()
      : source_({.capacity = UINT64_MAX, .direct = GetParam()}),
        target_({.capacity = UINT64_MAX, .direct = GetParam()}) {
    EXPECT_OK(source_.MakeDirectory("/cache", 0700));
    source_.SyncAll();
  }

  // A file in the cache, and the job that copies it to /pfs/demo/ckpt.1/<name>.
  CopyJob Add(const std::string& name, std::size_t bytes) {
    contents_.push_back(std::make_unique<std::string>(TestContent(contents_.size() + 1, bytes)));
    entries_.push_back(std::make_unique<catalogue::FileEntry>(TestEntry(name, "ckpt.1/" + name, *contents_.back())));
    EXPECT_OK(WriteTestFile(source_, "/cache/" + name, *contents_.back()));
    return {.from = "/cache/" + name, .to = "/pfs/demo/ckpt.1/" + name, .entry = entries_.back().get()};
  }

  absl::Status Copy(const std::vector<CopyJob>& jobs) {
    progress_.bytes_done = 0;
    return CopyFiles(source_, target_, jobs, throttle_, progress_, &damaged_);
  }

  std::string TargetBytes(const std::string& path) {
    const auto bytes = ReadWhole(target_, path, 1 << 30);
    EXPECT_OK(bytes.status());
    return bytes.ok() ? *bytes : "";
  }

  std::size_t WorkFiles() {
    std::size_t found = 0;
    const auto names = target_.List("/pfs/demo/ckpt.1");
    if (!names.ok()) return 0;
    for (const std::string& name : *names) found += IsWorkName(name);
    return found;
  }

  FakeDisk source_, target_;
  std::vector<std::unique_ptr<std::string>> contents_;
  std::vector<std::unique_ptr<catalogue::FileEntry>> entries_;
  Throttle throttle_{0};
  TransferProgress progress_;
  std::size_t damaged_ = SIZE_MAX;
};

INSTANTIATE_TEST_SUITE_P(Disks, TransferTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Direct" : "Buffered"; });

TEST_P(TransferTest, FilesOfAnySizeArriveWholeAndSurviveAPowerFailure) {
  std::vector<CopyJob> jobs;
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{4095}, kMiB, kMiB + 1, 11 * kMiB + 4096}) {
    jobs.push_back(Add(fmt::format("file_{}", bytes), bytes));
  }
  ASSERT_OK(Copy(jobs));
  std::uint64_t bytes = 0;
  for (const auto& content : contents_) bytes += content->size();
  EXPECT_EQ(progress_.bytes_done, bytes);
  EXPECT_EQ(WorkFiles(), 0u);
  target_.Restart(1);
  for (std::size_t i = 0; i < jobs.size(); ++i) EXPECT_EQ(TargetBytes(jobs[i].to), *contents_[i]) << jobs[i].to;
}

TEST_P(TransferTest, ModesAndTimesAreGivenBackIfTheyAreKnown) {
  const CopyJob job = Add("field.dat", 100);
  entries_[0]->set_mode(0100640);
  entries_[0]->set_mtime_s(1234567);
  entries_[0]->set_mtime_ns(890);
  entries_[0]->set_atime_s(7654321);
  ASSERT_OK(Copy({job}));
  ASSERT_OK_AND_ASSIGN(const FileInfo info, target_.Info(job.to));
  EXPECT_EQ(info.mode & 07777, 0640u);
  EXPECT_EQ(info.mtime.tv_sec, 1234567);
  EXPECT_EQ(info.mtime.tv_nsec, 890);
  EXPECT_EQ(info.atime.tv_sec, 7654321);
}

TEST_P(TransferTest, ADamagedSourceBlockIsNamedAndNothingIsPublished) {
  const CopyJob good = Add("good", 2 * kMiB), bad = Add("bad", 5 * kMiB);
  source_.FlipBit(bad.from, 8 * (3 * kMiB + 77));
  EXPECT_STATUS(kDataLoss, Copy({good, bad}), "source: /cache/bad: offset 3145728");
  EXPECT_EQ(damaged_, 1u);
  EXPECT_STATUS(kNotFound, target_.Info(good.to), "");  // all files of a dataset, or none
  EXPECT_STATUS(kNotFound, target_.Info(bad.to), "");
}

TEST_P(TransferTest, ASourceOfAnotherSizeIsDamaged) {
  const CopyJob job = Add("file", 3 * kMiB);
  ASSERT_OK(WriteTestFile(source_, job.from, contents_[0]->substr(0, kMiB)));
  EXPECT_STATUS(kDataLoss, Copy({job}), "source: /cache/file: 1048576 bytes instead of 3145728");
  EXPECT_EQ(damaged_, 0u);
}

TEST_P(TransferTest, AWrongCrc32OfTheWholeFileIsDamageToo) {
  const CopyJob job = Add("file", 3 * kMiB);
  entries_[0]->set_crc32(entries_[0]->crc32() ^ 1);
  EXPECT_STATUS(kDataLoss, Copy({job}), "CRC-32");
  EXPECT_EQ(damaged_, 0u);
  EXPECT_STATUS(kNotFound, target_.Info(job.to), "");
}

TEST_P(TransferTest, AMissingSourceIsNotFoundAndNoDamage) {
  const CopyJob job = Add("file", 10);
  ASSERT_OK(source_.Remove(job.from));
  EXPECT_STATUS(kNotFound, Copy({job}), "source: ");
  EXPECT_EQ(damaged_, SIZE_MAX);
}

TEST_P(TransferTest, OnceAFileHasFailedNoFurtherOneIsBegun) {
  const CopyJob missing = Add("missing", 10), good = Add("good", 10);
  ASSERT_OK(source_.Remove(missing.from));
  std::size_t touched = 0;
  target_.SetHook([&](FakeOp, const std::string& path) { touched += path.find("good") != std::string::npos; });
  EXPECT_STATUS(kNotFound, Copy({missing, good}), "source: ");
  EXPECT_EQ(touched, 0u);
}

TEST_P(TransferTest, AnUnreadableSourceSaysSoAndIsNoDamage) {
  const CopyJob job = Add("file", 11 * kMiB);
  FakeFault fault;
  fault.op = FakeOp::kRead;
  fault.nth = 3;
  source_.FailOn(fault);
  EXPECT_STATUS(kUnavailable, Copy({job}), "source: ");
  EXPECT_EQ(damaged_, SIZE_MAX);
  EXPECT_OK(Copy({job}));
}

TEST_P(TransferTest, AFullTargetSaysSoAndTheNextTryGoesOn) {
  const CopyJob job = Add("file", 5 * kMiB);
  target_.SetCapacity(3 * kMiB);
  EXPECT_STATUS(kResourceExhausted, Copy({job}), "target: ");
  EXPECT_STATUS(kNotFound, target_.Info(job.to), "");
  target_.SetCapacity(UINT64_MAX);
  ASSERT_OK(Copy({job}));
  EXPECT_EQ(TargetBytes(job.to), *contents_[0]);
}

TEST_P(TransferTest, AFailedWriteEndsTheCopyAndTheNextOneContinuesIt) {
  const CopyJob job = Add("file", 22 * kMiB + 5);
  FakeFault fault;
  fault.op = FakeOp::kWrite;
  fault.nth = 4;
  fault.times = 100;
  target_.FailOn(fault);
  EXPECT_STATUS(kUnavailable, Copy({job}), "target: ");
  target_.ClearFaults();
  EXPECT_EQ(WorkFiles(), 1u);
  std::uint64_t writes = 0;
  target_.SetHook([&](FakeOp op, const std::string&) { writes += op == FakeOp::kWrite; });
  ASSERT_OK(Copy({job}));
  target_.SetHook(nullptr);
  EXPECT_EQ(writes, 3u);  // three pieces of six had arrived, and half of the fourth
  EXPECT_EQ(progress_.bytes_done, contents_[0]->size());
  EXPECT_EQ(TargetBytes(job.to), *contents_[0]);
  EXPECT_EQ(WorkFiles(), 0u);
}

TEST_P(TransferTest, WhatOfAnInterruptedCopyDoesNotMatchIsCopiedAgain) {
  const CopyJob job = Add("file", 22 * kMiB + 5);
  FakeFault fault;
  fault.op = FakeOp::kRename;
  target_.FailOn(fault);
  EXPECT_STATUS(kUnavailable, Copy({job}), "target: ");
  target_.FlipBit(TransferWorkName(job.to, *job.entry), 8 * (2 * kMiB + 1));
  ASSERT_OK(Copy({job}));
  EXPECT_EQ(TargetBytes(job.to), *contents_[0]);
}

TEST_P(TransferTest, ALongerWorkFileIsCutToItsSize) {
  ASSERT_OK(MakeDirectories(target_, "/pfs/demo/ckpt.1"));
  for (const std::size_t bytes : {kMiB + 5, kMiB}) {
    const CopyJob job = Add(fmt::format("file_{}", bytes), bytes);
    const std::string work = TransferWorkName(job.to, *job.entry);
    ASSERT_OK(WriteTestFile(target_, work, std::string(bytes + 9000, 'x')));
    ASSERT_OK(Copy({job}));
    EXPECT_EQ(TargetBytes(job.to), *contents_.back());
  }
}

// Two nodes' caches have the dataset, and both their daemons flush it. Whoever is later writes to a file that is in its
// place by now: the same bytes, and no more.
TEST_P(TransferTest, TwoWhoCopyTheSameFileDoNotHarmEachOther) {
  const CopyJob job = Add("file", 3 * kMiB + 5);
  const std::string work = TransferWorkName(job.to, *job.entry);
  TransferProgress others;
  std::size_t damaged = SIZE_MAX;
  std::vector<CopiedFile> first;
  bool inside = false;
  std::uint64_t longest = 0;
  target_.SetHook([&](FakeOp op, const std::string& path) {
    if (std::exchange(inside, true)) return;
    for (const std::string& name : {work, job.to}) {
      if (const auto info = target_.Info(name); info.ok()) longest = std::max(longest, info->bytes);
    }
    if (op == FakeOp::kSync && path == work && first.empty()) {  // all is written, nothing is in its place yet
      auto copied = CopyToWork(source_, target_, {job}, throttle_, others, &damaged);
      ASSERT_OK(copied);
      first = *std::move(copied);
      ASSERT_OK(PutInPlace(target_, first));
    }
    inside = false;
  });
  EXPECT_STATUS(kNotFound, Copy({job}), "target: ") << "it is in its place: the next try finds it there";
  target_.SetHook(nullptr);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(longest, contents_[0]->size());
  EXPECT_EQ(TargetBytes(job.to), *contents_[0]);
  ASSERT_OK(Copy({job}));
  EXPECT_EQ(WorkFiles(), 0u);
}

TEST_P(TransferTest, WhatHasArrivedWholeIsNotCopiedAgainAndWhatDiffersIs) {
  const CopyJob arrived = Add("arrived", 2 * kMiB), changed = Add("changed", 2 * kMiB);
  ASSERT_OK(Copy({arrived, changed}));
  target_.FlipBit(changed.to, 12345);
  std::vector<std::string> opened;
  source_.SetHook([&](FakeOp op, const std::string& path) {
    if (op == FakeOp::kOpen) opened.push_back(path);
  });
  ASSERT_OK(Copy({arrived, changed}));
  EXPECT_EQ(opened, std::vector<std::string>({changed.from}));
  EXPECT_EQ(progress_.bytes_done, 4 * kMiB);
  EXPECT_EQ(TargetBytes(changed.to), *contents_[1]);
}

// Another dataset has brought the same bytes under the name meanwhile. What is left has the length of a whole file: it
// would be put over the good one.
TEST_P(TransferTest, OfAnInterruptedCopyNothingIsLeftOnceTheFileHasArrived) {
  const CopyJob job = Add("file", 3 * kMiB);
  ASSERT_OK(Copy({job}));
  const std::string work = TransferWorkName(job.to, *job.entry);
  ASSERT_OK(WriteTestFile(target_, work, std::string(3 * kMiB, '\0')));
  ASSERT_OK(target_.SyncDirectory("/pfs/demo/ckpt.1"));
  ASSERT_OK(Copy({job}));
  for (std::uint64_t seed = 1; seed <= 8; ++seed) target_.Restart(seed);
  EXPECT_STATUS(kNotFound, target_.Info(work), "");
  EXPECT_EQ(TargetBytes(job.to), *contents_[0]);
}

TEST_P(TransferTest, AFailedSyncLeavesNothingToContinueFrom) {
  const CopyJob job = Add("file", 3 * kMiB);
  FakeFault fault;
  fault.op = FakeOp::kSync;
  target_.FailOn(fault);
  EXPECT_STATUS(kUnavailable, Copy({job}), "target: ");
  EXPECT_STATUS(kNotFound, target_.Info(job.to), "");
  EXPECT_EQ(WorkFiles(), 0u);
  ASSERT_OK(Copy({job}));
  target_.Restart(2);
  EXPECT_EQ(TargetBytes(job.to), *contents_[0]);
}

// The directory has lost its write permission, or the file system has become read-only, for a while.
TEST_P(TransferTest, NorDoesAFailedSyncWhoseWorkFileCannotBeRemoved) {
  for (const absl::Status& why : {absl::PermissionDeniedError("EACCES"), absl::UnavailableError("EROFS")}) {
    const CopyJob job = Add(std::string(why.message()), 3 * kMiB + 7);
    target_.FailOn({.op = FakeOp::kSync});
    target_.FailOn({.op = FakeOp::kRemove, .path_part = job.to, .status = why});
    EXPECT_STATUS(kUnavailable, Copy({job}), "target: ");
    ASSERT_EQ(WorkFiles(), 1u);
    target_.ClearFaults();
    ASSERT_OK(Copy({job}));
    target_.Restart(2);
    EXPECT_TRUE(TargetBytes(job.to) == *contents_.back()) << why;
  }
}

// Another node's daemon has put it in its place, and made the next one of that name: that is the one which is removed.
TEST_P(TransferTest, AFileThatHasLostASyncIsNotForgottenWithAnotherOfItsName) {
  const CopyJob job = Add("file", 3 * kMiB);
  const std::string work = TransferWorkName(job.to, *job.entry);
  bool moved = false;
  target_.SetHook([&](FakeOp op, const std::string& path) {
    if (op != FakeOp::kSync || path != work || std::exchange(moved, true)) return;
    ASSERT_OK(target_.Rename(work, job.to));
    ASSERT_OK(target_.Open(work, {.writable = true, .create = true}));
  });
  target_.FailOn({.op = FakeOp::kSync, .path_part = work});
  EXPECT_STATUS(kUnavailable, Copy({job}), "target: ");
  target_.SetHook(nullptr);
  ASSERT_TRUE(moved);
  ASSERT_OK_AND_ASSIGN(const FileInfo info, target_.Info(job.to));
  EXPECT_TRUE(HasLostSync(info));
}

TEST_P(TransferTest, WhatIsInPlaceIsNotTrustedAfterAFailedSync) {
  const CopyJob job = Add("file", 3 * kMiB);
  ASSERT_OK(MakeDirectories(target_, "/pfs/demo/ckpt.1"));
  ASSERT_OK_AND_ASSIGN(const auto there, target_.Open(job.to, {.writable = true, .create = true}));
  ASSERT_OK(there->WriteAt(0, std::as_bytes(std::span(*contents_[0]))));
  ASSERT_OK(target_.SyncDirectory("/pfs/demo/ckpt.1"));
  target_.FailOn({.op = FakeOp::kSync, .times = 2});
  EXPECT_STATUS(kUnavailable, Copy({job}), "target: ");
  ASSERT_OK(Copy({job}));
  target_.Restart(2);
  EXPECT_TRUE(TargetBytes(job.to) == *contents_[0]);
}

TEST_P(TransferTest, AFailedSyncOfTheDirectoryFailsTheCopy) {
  const CopyJob job = Add("file", 10);
  ASSERT_OK(MakeDirectories(target_, "/pfs/demo/ckpt.1"));
  FakeFault fault;
  fault.op = FakeOp::kSyncDirectory;
  target_.FailOn(fault);
  EXPECT_STATUS(kUnavailable, Copy({job}), "target: ");
  EXPECT_OK(Copy({job}));
}

TEST_P(TransferTest, StopEndsTheCopyAtTheNextBlock) {
  const CopyJob job = Add("file", 20 * kMiB);
  std::uint64_t writes = 0;
  target_.SetHook([&](FakeOp op, const std::string&) {
    if (op == FakeOp::kWrite && ++writes == 3) progress_.stop = true;
  });
  EXPECT_STATUS(kCancelled, Copy({job}), "stopped");
  EXPECT_EQ(writes, 3u);
  target_.SetHook(nullptr);
  progress_.stop = false;
  ASSERT_OK(Copy({job}));
  EXPECT_EQ(TargetBytes(job.to), *contents_[0]);
}

// What hangs is taken for hung after a while: so whoever looks must see that something goes on.
TEST_P(TransferTest, ToCompareWhatIsThereAlreadyIsToGetOn) {
  const CopyJob job = Add("file", 9 * kMiB);
  ASSERT_OK(Copy({job}));
  std::uint64_t seen = 0;
  EXPECT_TRUE(progress_.GotOn(seen));
  EXPECT_FALSE(progress_.GotOn(seen));
  progress_.bytes_done = 0;
  EXPECT_TRUE(progress_.GotOn(seen));
  std::uint64_t got_on = 0;
  target_.SetHook([&](FakeOp op, const std::string&) {
    if (op == FakeOp::kSync) got_on += progress_.GotOn(seen);
  });
  ASSERT_OK(Copy({job}));
  target_.SetHook(nullptr);
  EXPECT_EQ(got_on, 1u) << "before a byte counts as done";
}

// What memory is refused to fails the copy, and leaves nobody waiting.
TEST_P(TransferTest, WhatThrowsInATransferFailsTheCopy) {
  const CopyJob job = Add("file", 20 * kMiB);
  for (FakeDisk* const disk : {&source_, &target_}) {
    const FakeOp thrown = disk == &source_ ? FakeOp::kRead : FakeOp::kWrite;
    std::uint64_t seen = 0;
    disk->SetHook([&](FakeOp op, const std::string&) {
      if (op == thrown && ++seen == 2) throw std::bad_alloc();
    });
    EXPECT_STATUS(kResourceExhausted, Copy({job}), "out of memory");
    disk->SetHook(nullptr);
  }
  ASSERT_OK(Copy({job}));
  EXPECT_EQ(TargetBytes(job.to), *contents_[0]);
}

TEST_P(TransferTest, APowerFailureAnywhereLeavesTheWholeFileOrNoneAndTheNextTryMendsIt) {
  const CopyJob first = Add("first", kMiB + 100), second = Add("second", 3000);
  ASSERT_OK(target_.MakeDirectory("/pfs", 0700));
  target_.SyncAll();
  for (std::uint64_t n = 1;; ++n) {
    SCOPED_TRACE(fmt::format("power fails at operation {}", n));
    ASSERT_OK(RemoveTree(target_, "/pfs/demo"));
    target_.SyncAll();
    target_.CrashAt(n);
    const bool promised = Copy({first, second}).ok();
    target_.Restart(n);
    for (const CopyJob& job : {first, second}) {
      const absl::Status there = VerifyFile(target_, job.to, *job.entry);
      EXPECT_TRUE(there.ok() || (!promised && absl::IsNotFound(there))) << there.ToString();
    }
    ASSERT_OK(Copy({first, second}));
    EXPECT_EQ(TargetBytes(first.to), *contents_[0]);
    if (promised) break;
  }
}

TEST_P(TransferTest, TwoContentsForOneNameDoNotShareAWorkFile) {
  const auto a = TestEntry("x", "x", "aaaa"), b = TestEntry("x", "x", "bbbb");
  EXPECT_NE(TransferWorkName("/pfs/x", a), TransferWorkName("/pfs/x", b));
  EXPECT_EQ(TransferWorkName("/pfs/x", a), TransferWorkName("/pfs/x", a));
  const std::string name(255, 'n');
  const std::string work = TransferWorkName("/pfs/" + name, a);
  EXPECT_TRUE(IsWorkName(BaseOf(work)));
  EXPECT_EQ(BaseOf(work).size(), 255u);
}

TEST_P(TransferTest, AJobWithoutOrWithWrongChecksumsIsRefused) {
  CopyJob job = Add("file", 2 * kMiB);
  entries_[0]->add_crc32c(1);
  EXPECT_STATUS(kInvalidArgument, Copy({job}), "2 blocks, the catalogue has 3 checksums");
  EXPECT_STATUS(kInvalidArgument, VerifyFile(source_, job.from, *entries_[0]), "checksums");
  job.entry = nullptr;
  EXPECT_STATUS(kInvalidArgument, Copy({job}), "nothing is known");
}

TEST_P(TransferTest, DatasetsAreCopiedAtTheSameTime) {
  std::vector<CopyJob> jobs;
  for (int i = 0; i < 4; ++i) jobs.push_back(Add(fmt::format("file_{}", i), 9 * kMiB + static_cast<std::size_t>(i)));
  std::vector<absl::Status> results(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      std::size_t damaged = 0;
      TransferProgress progress;
      results[i] = CopyFiles(source_, target_, {jobs[i]}, throttle_, progress, &damaged);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_OK(results[i]);
    EXPECT_OK(VerifyFile(target_, jobs[i].to, *jobs[i].entry));
  }
}

TEST_P(TransferTest, VerifyNamesTheFirstBlockThatDiffers) {
  const CopyJob job = Add("file", 9 * kMiB + 17);
  EXPECT_OK(VerifyFile(source_, job.from, *job.entry));
  source_.FlipBit(job.from, 8 * (9 * kMiB + 16));
  EXPECT_STATUS(kDataLoss, VerifyFile(source_, job.from, *job.entry), "/cache/file: offset 9437184: 17 bytes");
  EXPECT_STATUS(kNotFound, VerifyFile(source_, "/cache/none", *job.entry), "");
  ASSERT_OK(WriteTestFile(source_, job.from, "x"));
  EXPECT_STATUS(kDataLoss, VerifyFile(source_, job.from, *job.entry), "1 bytes instead of");
}

TEST_P(TransferTest, VerifyWithinAFlushEndsAtTheNextPieceWhenItIsStopped) {
  const CopyJob job = Add("file", 20 * kMiB);
  EXPECT_OK(VerifyFile(source_, job.from, *job.entry, throttle_, progress_));
  EXPECT_EQ(progress_.bytes_done, 20 * kMiB);
  progress_.bytes_done = 0;
  source_.SetHook([&](FakeOp op, const std::string&) { progress_.stop = progress_.stop || op == FakeOp::kRead; });
  EXPECT_STATUS(kCancelled, VerifyFile(source_, job.from, *job.entry, throttle_, progress_), "/cache/file");
  EXPECT_LT(progress_.bytes_done, 20 * kMiB);
}

TEST_P(TransferTest, VerifyWithinAFlushTakesItsShareOfTheBandwidth) {
  const CopyJob job = Add("file", 3 * kMiB);
  Throttle slow(1);
  ASSERT_TRUE(TakeBandwidth(slow, kMiB, progress_));  // twelve days at this rate
  std::atomic<bool> ended = false;
  absl::Status verified;
  std::thread verifying([&] {
    verified = VerifyFile(source_, job.from, *job.entry, slow, progress_);
    ended = true;
  });
  while (progress_.throttled == 0 && !ended) std::this_thread::yield();
  progress_.stop = true;
  verifying.join();
  EXPECT_STATUS(kCancelled, verified, "/cache/file");
  EXPECT_EQ(progress_.bytes_done, 0u);
}

TEST_P(TransferTest, ChecksumFileTakesWhatTheCatalogueNeeds) {
  const CopyJob job = Add("file", 3 * kMiB + 5);
  ASSERT_OK(source_.SetModeAndTimes(job.from, 0644, {.tv_sec = 5, .tv_nsec = 6}, {.tv_sec = 7, .tv_nsec = 8}));
  ASSERT_OK_AND_ASSIGN(const FileInfo info, source_.Info(job.from));
  catalogue::FileEntry entry;
  entry.add_crc32c(99);  // of an earlier try
  ASSERT_OK(ChecksumFile(source_, job.from, info, true, &entry));
  EXPECT_EQ(entry.bytes(), contents_[0]->size());
  EXPECT_EQ(entry.crc32(), entries_[0]->crc32());
  EXPECT_TRUE(entry.has_crc32());
  EXPECT_TRUE(std::equal(entry.crc32c().begin(), entry.crc32c().end(), entries_[0]->crc32c().begin(),
                         entries_[0]->crc32c().end()));
  EXPECT_EQ(entry.mode() & 07777, 0644u);
  EXPECT_EQ(entry.mtime_s(), 7);
  EXPECT_EQ(entry.mtime_ns(), 8u);
  EXPECT_EQ(entry.atime_s(), 5);
}

TEST_P(TransferTest, SumsTakenWhileAFileIsWrittenAreThoseOfTheFile) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, 3 * kMiB, 3 * kMiB + 5}) {
    SCOPED_TRACE(bytes);
    const std::string path = "/cache/written", content = TestContent(3, bytes);
    ASSERT_OK_AND_ASSIGN(const auto file, source_.Open(path, {.writable = true, .create = true}));
    WrittenSums sums;
    for (std::size_t step = 100; sums.bytes() < bytes; step = step * 3 + 1) {  // a header, and larger pieces
      const auto part = std::as_bytes(std::span(content)).subspan(sums.bytes());
      const auto now = part.first(std::min(step, part.size()));
      ASSERT_OK(file->WriteAt(sums.bytes(), now));
      sums.Add(now);
    }
    ASSERT_OK_AND_ASSIGN(const FileInfo info, file->Info());
    ASSERT_OK_AND_ASSIGN(const catalogue::FileEntry taken, sums.Finish(*file, info));
    catalogue::FileEntry read;
    ASSERT_OK(ChecksumFile(source_, path, info, false, &read));
    EXPECT_EQ(taken.SerializeAsString(), read.SerializeAsString());
    ASSERT_OK(file->WriteAt(bytes, std::as_bytes(std::span("x", 1))));
    ASSERT_OK_AND_ASSIGN(const FileInfo longer, file->Info());
    EXPECT_STATUS(kFailedPrecondition, sums.Finish(*file, longer), path);
  }
}

TEST_P(TransferTest, ChecksumFileSyncsIfAskedAndAFailedSyncIsAnError) {
  const CopyJob job = Add("file", 100);
  ASSERT_OK_AND_ASSIGN(const FileInfo info, source_.Info(job.from));
  FakeFault fault;
  fault.op = FakeOp::kSync;
  source_.FailOn(fault);
  catalogue::FileEntry entry;
  EXPECT_OK(ChecksumFile(source_, job.from, info, false, &entry));
  EXPECT_STATUS(kUnavailable, ChecksumFile(source_, job.from, info, true, &entry), "");
}

TEST_P(TransferTest, AFileThatChangesBeforeOrWhileItIsReadIsRefused) {
  const CopyJob job = Add("file", 3 * kMiB);
  ASSERT_OK_AND_ASSIGN(const FileInfo info, source_.Info(job.from));
  catalogue::FileEntry entry;
  const auto write = [&] {
    const auto file = source_.Open(job.from, {.writable = true});
    ASSERT_OK(file.status());
    ASSERT_OK((*file)->WriteAt(0, std::as_bytes(std::span("x", 1))));
  };
  bool written = false;
  source_.SetHook([&](FakeOp op, const std::string&) {
    if (op != FakeOp::kRead || written) return;
    written = true;
    write();
  });
  EXPECT_STATUS(kFailedPrecondition, ChecksumFile(source_, job.from, info, false, &entry), "changed");
  source_.SetHook(nullptr);
  ASSERT_TRUE(written);
  EXPECT_STATUS(kFailedPrecondition, ChecksumFile(source_, job.from, info, false, &entry), "changed");
  ASSERT_OK(source_.Remove(job.from));
  ASSERT_OK(WriteTestFile(source_, job.from, *contents_[0]));
  EXPECT_STATUS(kFailedPrecondition, ChecksumFile(source_, job.from, info, false, &entry), "inode");
}

}  // namespace
}  // namespace cairn
