// Captures that start from an older file: what is written, and what becomes of bases that are not what they should be.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <latch>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/data/block_digests.h"
#include "storage/base/path.h"
#include "storage/base/transfer_shape.h"
#include "storage/io/posix_disk.h"
#include "tests/daemon/data/capture_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr char kOldFolder[] = "/cache/old";
constexpr char kOldPath[] = "/cache/old/Ckpt0-Rank0.fti";
constexpr std::uint64_t kBlock = kDigestBlockBytes;

// An older file, as its dataset has left it.
struct Old {
  Sample sample;
  CaptureResult result;
  std::string path;
};

class DifferentialTest : public CaptureFixture {
 protected:
  DifferentialTest() : CaptureFixture({.direct = true, .shares_extents = true}) {
    EXPECT_OK(fake_.MakeDirectory(kOldFolder, 0700));
  }

  Old MakeOld(Sample sample, const std::string& path = kOldPath, Disk* disk = nullptr) {
    const JobOptions options{.disk = disk, .path = path, .want_digests = true};
    Job job = Start(std::move(sample), options);
    absl::StatusOr<CaptureResult> result = Finish(job);
    EXPECT_OK(result);
    // What an earlier round has left: no file is cloned onto another.
    fake_.Remove(kWorkPath).IgnoreError();
    fake_.SyncAll();
    return {.sample = job.sample, .result = *std::move(result), .path = path};
  }

  static CaptureBase BaseOf(const Old& old, bool clone = false, bool digests = true) {
    return {.path = old.path,
            .clone = clone,
            .file_bytes = old.result.file_bytes,
            .data_bytes = old.sample.layout.data_bytes,
            .crc32c = old.result.crc32c,
            .digests = digests ? old.result.digests : nullptr};
  }

  // Which whole blocks of `next` a base of `old` does not hold.
  static std::vector<bool> Differing(const Sample& old, const Sample& next) {
    std::vector<bool> differs(next.data.size() / kBlock, true);
    for (std::size_t i = 0; i < std::min(differs.size(), old.data.size() / kBlock); ++i) {
      const auto at = static_cast<std::ptrdiff_t>(i * kBlock);
      differs[i] = !std::equal(next.data.begin() + at, next.data.begin() + at + kBlock, old.data.begin() + at);
    }
    return differs;
  }

  static std::uint64_t BytesFor(const std::vector<bool>& blocks, const Sample& next) {
    return static_cast<std::uint64_t>(std::count(blocks.begin(), blocks.end(), true)) * kBlock +
           next.data.size() % kBlock + next.layout.meta_bytes(ftiff::Letter::kF);
  }

  // Captures `next` and expects the file that a capture in full makes.
  absl::StatusOr<CaptureResult> Run(const Sample& next, const JobOptions& options) {
    Job job = Start(next, options);
    CAIRN_ASSIGN_OR_RETURN(CaptureResult result, Finish(job));
    ExpectFile(options.disk == nullptr ? fake_ : *options.disk, options.path, next, result);
    if (options.want_digests) {
      EXPECT_EQ(*result.digests, (BlockDigests{.data_bytes = next.data.size(), .blocks = DigestsOf(next.data)}));
    } else {
      EXPECT_EQ(result.digests, nullptr);
    }
    return result;
  }

  std::string Content(const std::string& path) {
    const absl::StatusOr<std::string> text = ReadWhole(fake_, path, 1 << 30);
    return text.ok() ? *text : text.status().ToString();
  }

  std::vector<std::uint32_t> ChecksumsOf(const std::string& path) {
    const std::string content = Content(path);
    return BlockChecksums(std::as_bytes(std::span(content)));
  }
};

TEST_F(DifferentialTest, AnyFileFromAnyBaseIsTheOneWrittenInFull) {
  for (int round = 0; round < 24 && !HasFailure(); ++round) {
    const bool clone = random_() % 2 == 0;
    const bool digests = random_() % 2 == 0;
    const Old old = MakeOld(RandomSample(random_, 6 << 20));
    const Sample next = random_() % 4 == 0 ? RandomSample(random_, 6 << 20)
                                           : NextSample(random_, old.sample, random_() % 2 == 0 ? 0.02 : 0.5);
    const JobOptions options{.image_bytes = random_() % 2 == 0 ? 0 : (1 + random_() % 3) * Image::kAlignment,
                             .base = BaseOf(old, clone, digests),
                             .want_digests = random_() % 2 == 0};
    ASSERT_OK_AND_ASSIGN(const CaptureResult result, Run(next, options));
    EXPECT_OK(result.base_status);
    EXPECT_EQ(result.bytes_written, BytesFor(Differing(old.sample, next), next));
    EXPECT_EQ(fake_.Info(kOldPath).ok(), clone);
    if (clone) {
      EXPECT_EQ(ChecksumsOf(kOldPath), old.result.crc32c);
    }
  }
}

TEST_F(DifferentialTest, ABaseThatIsNotComparedIsWrittenOverInFull) {
  for (int round = 0; round < 16 && !HasFailure(); ++round) {
    const std::uint64_t image_bytes = round % 4 >= 2 ? 2u << 20 : 0u;
    const Old old = MakeOld(RandomSample(random_, 6 << 20));
    const Sample next = round % 2 == 0 ? RandomSample(random_, 6 << 20) : NextSample(random_, old.sample, 0.1);
    ASSERT_OK_AND_ASSIGN(const FileInfo before, fake_.Info(kOldPath));
    CaptureBase base = BaseOf(old, /*clone=*/false, /*digests=*/round % 3 == 0);
    base.compared = false;
    const JobOptions options{.image_bytes = image_bytes, .base = std::move(base), .want_digests = random_() % 2 == 0};
    ASSERT_OK_AND_ASSIGN(const CaptureResult result, Run(next, options));
    EXPECT_OK(result.base_status);
    ASSERT_OK_AND_ASSIGN(const FileInfo after, fake_.Info(kWorkPath));
    EXPECT_EQ(after.inode, before.inode);
    EXPECT_FALSE(result.new_file);
    EXPECT_FALSE(fake_.Info(kOldPath).ok());
    EXPECT_EQ(result.bytes_written, result.file_bytes);
  }
}

// A window then takes several writes, and counts as written with the last of them.
TEST_F(DifferentialTest, ABaseThatIsNotComparedIsWrittenOverInTransfersBelowAWindow) {
  for (int round = 0; round < 16 && !HasFailure(); ++round) {
    const std::uint32_t bytes = TransferShape::kBytesMin << round % 2;
    fake_.UseShapes({.write = {.bytes = bytes, .depth = 1 + static_cast<std::uint32_t>(random_() % 9)}, .read = {}});
    const Old old = MakeOld(RandomSample(random_, 6 << 20));
    const Sample next = random_() % 2 == 0 ? RandomSample(random_, 6 << 20) : NextSample(random_, old.sample, 0.1);
    ASSERT_OK_AND_ASSIGN(const FileInfo before, fake_.Info(kOldPath));
    CaptureBase base = BaseOf(old, /*clone=*/false, /*digests=*/false);
    base.compared = false;
    std::atomic<std::uint64_t> writes{0};
    fake_.SetHook([&writes](FakeOp op, const std::string&) { writes += op == FakeOp::kWrite ? 1 : 0; });
    const std::uint64_t image_bytes = round % 4 >= 2 ? 2u << 20 : 0u;
    ASSERT_OK_AND_ASSIGN(const CaptureResult result,
                         Run(next, {.image_bytes = image_bytes, .base = std::move(base), .want_digests = false}));
    fake_.SetHook({});
    EXPECT_OK(result.base_status);
    ASSERT_OK_AND_ASSIGN(const FileInfo after, fake_.Info(kWorkPath));
    EXPECT_EQ(after.inode, before.inode);
    EXPECT_EQ(result.bytes_written, result.file_bytes);
    const std::uint64_t whole_blocks = next.data.size() / kBlock * kBlock;
    EXPECT_EQ(writes, (whole_blocks + bytes - 1) / bytes + 1) << "with the tail";
  }
}

// What the base holds is replaced by a mark behind the back of its digests: where it is still there, nothing was
// written.
TEST_F(DifferentialTest, ExactlyTheBlocksThatDifferAreWrittenAdjacentOnesAtOnce) {
  for (int round = 0; round < 12 && !HasFailure(); ++round) {
    const Old old = MakeOld(RandomSample(random_, 6 << 20));
    const Sample next = NextSample(random_, old.sample, 0.1);
    ASSERT_OK(ReplaceFile(fake_, kOldPath, std::string(old.result.file_bytes, 'M')));
    std::atomic<std::uint64_t> writes{0};
    fake_.SetHook([&writes](FakeOp op, const std::string&) { writes += op == FakeOp::kWrite ? 1 : 0; });
    const bool ring = round % 2 != 0;
    Job job = Start(next, {.image_bytes = ring ? 2u << 20 : 0u, .base = BaseOf(old, round % 3 == 0)});
    ASSERT_OK_AND_ASSIGN(const CaptureResult result, Finish(job));
    fake_.SetHook({});
    const std::vector<bool> differs = Differing(old.sample, next);
    const std::string file = Content(kWorkPath);
    ASSERT_EQ(file.size(), result.file_bytes);
    std::uint64_t runs = 1;  // with the tail
    for (std::size_t i = 0; i < differs.size(); ++i) {
      const std::string_view block = std::string_view(file).substr(i * kBlock, kBlock);
      const auto wanted = std::as_bytes(std::span(next.data)).subspan(i * kBlock, kBlock);
      const bool written = std::ranges::equal(std::as_bytes(std::span(block)), wanted);
      const bool marked = block == std::string(kBlock, 'M');
      ASSERT_TRUE(differs[i] ? written : marked) << "block " << i << " of " << differs.size();
      const bool goes_on = i % (kWindowBytes / kBlock) != 0 && differs[i - 1];
      if (differs[i] && !goes_on) ++runs;
    }
    EXPECT_EQ(writes, runs);
    EXPECT_EQ(result.bytes_written, BytesFor(differs, next));
  }
}

TEST_F(DifferentialTest, TwoFilesThatAlternateStayRightForManySteps) {
  std::vector<Old> files;
  Sample sample = Make({3 << 20, 100000, 1 << 20});
  files.push_back(MakeOld(sample, "/cache/old/0"));
  files.push_back(MakeOld(NextSample(random_, sample, 0.05), "/cache/old/1"));
  for (int step = 2; step < 16 && !HasFailure(); ++step) {
    Old& base = files.front();
    const Sample next = NextSample(random_, files.back().sample, 0.05);
    // Every fourth is a restart: digests are gone.
    ASSERT_OK_AND_ASSIGN(CaptureResult result,
                         Run(next, {.base = BaseOf(base, false, step % 4 != 0), .want_digests = true}));
    EXPECT_EQ(result.bytes_written, BytesFor(Differing(base.sample, next), next));
    const std::string path = "/cache/old/" + std::to_string(step);
    ASSERT_OK(fake_.Rename(kWorkPath, path));
    files.erase(files.begin());
    files.push_back({.sample = next, .result = std::move(result), .path = path});
  }
}

TEST_F(DifferentialTest, ARealDiskHoldsTheSame) {
  std::string folder = std::filesystem::temp_directory_path() / "cairn-differential-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  for (const bool io_uring : {true, false}) {
    const std::unique_ptr<PosixDisk> disk = MakePosixDisk({.engine = {.io_uring = io_uring}});
    for (int round = 0; round < 6 && !HasFailure(); ++round) {
      disk->Remove(folder + "/work").IgnoreError();  // of an earlier round
      const Old old = MakeOld(RandomSample(random_, 20 << 20), folder + "/old", disk.get());
      const Sample next = NextSample(random_, old.sample, 0.05);
      const JobOptions options{.image_bytes = round % 2 == 0 ? 0u : 4u << 20,
                               .disk = disk.get(),
                               .path = folder + "/work",
                               .base = BaseOf(old, round % 4 >= 2, round % 3 == 0),
                               .want_digests = true};
      ASSERT_OK_AND_ASSIGN(const CaptureResult result, Run(next, options));
      // A file system that cannot clone has the file written in full.
      if (result.base_status.ok()) {
        EXPECT_EQ(result.bytes_written, BytesFor(Differing(old.sample, next), next));
      } else {
        EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, result.base_status, "share extents");
      }
    }
  }
  std::filesystem::remove_all(folder);
}

TEST_F(DifferentialTest, AMiBOfTheBaseThatIsDamagedCountsAsChanged) {
  for (const std::uint64_t image_bytes : {0u, 2u << 20}) {
    const Old old = MakeOld(Make({4 << 20, 700000}, ftiff::Packing::kExact));
    fake_.FlipBit(kOldPath, ((2 << 20) + 12345) * 8);
    Sample next = old.sample;
    next.content[0][17] ^= std::byte{1};
    FillData(next);
    ASSERT_OK_AND_ASSIGN(const CaptureResult result,
                         Run(next, {.image_bytes = image_bytes, .base = BaseOf(old, false, false)}));
    EXPECT_STATUS(absl::StatusCode::kDataLoss, result.base_status, "1 of its MiB are not what its catalogue says");
    EXPECT_EQ(result.bytes_written, (1 + 256) * kBlock + next.data.size() % kBlock + result.metadata.size());
  }
}

TEST_F(DifferentialTest, DamageInTheMetadataOfTheBaseCostsItsLastMiBOnly) {
  const Old old = MakeOld(Make({2 << 20, 40960}));
  fake_.FlipBit(kOldPath, (old.result.file_bytes - 3) * 8);
  ASSERT_OK_AND_ASSIGN(const CaptureResult result, Run(old.sample, {.base = BaseOf(old, false, false)}));
  EXPECT_EQ(result.bytes_written, 40960 + result.metadata.size());
}

TEST_F(DifferentialTest, ABaseThatIsNotWhatItIsSaidToBeIsNotUsed) {
  const auto expect_full = [this](const Old& old, const CaptureBase& base, absl::StatusCode code) {
    const Sample next = NextSample(random_, old.sample, 0.1);
    absl::StatusOr<CaptureResult> result = Run(next, {.base = base, .want_digests = true});
    ASSERT_OK(result);
    EXPECT_STATUS(code, result->base_status, base.path);
    EXPECT_EQ(result->bytes_written, result->file_bytes);
  };
  for (const bool clone : {false, true}) {
    const Old old = MakeOld(Make({3 << 20, 5000}));
    CaptureBase base = BaseOf(old, clone);
    base.file_bytes += 1;  // the file is shorter
    expect_full(old, base, absl::StatusCode::kDataLoss);
    base.file_bytes -= 2;  // longer
    expect_full(old, base, absl::StatusCode::kDataLoss);
    base = BaseOf(old, clone);
    base.data_bytes = base.file_bytes + 1;
    expect_full(old, base, absl::StatusCode::kInvalidArgument);
    base = BaseOf(old, clone);
    base.data_bytes -= 4096;  // not what the digests are of
    expect_full(old, base, absl::StatusCode::kInvalidArgument);
    base = BaseOf(old, clone, false);
    base.crc32c.pop_back();
    expect_full(old, base, absl::StatusCode::kInvalidArgument);
    ExpectFile(fake_, kOldPath, old.sample, old.result);
    base = BaseOf(old, clone);
    base.path = "/cache/old/none";
    expect_full(old, base, absl::StatusCode::kNotFound);
    base.path = kOldFolder;
    expect_full(old, base, absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(DifferentialTest, ASymbolicLinkInThePlaceOfTheBaseIsNotFollowed) {
  const Old old = MakeOld(Make({3 << 20}), "/cache/precious");
  ASSERT_OK(fake_.Symlink("/cache/precious", kOldPath));
  CaptureBase base = BaseOf(old);
  base.path = kOldPath;
  ASSERT_OK_AND_ASSIGN(const CaptureResult result, Run(NextSample(random_, old.sample, 0.5), {.base = base}));
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, result.base_status, "");
  EXPECT_EQ(ChecksumsOf("/cache/precious"), old.result.crc32c);
}

TEST_F(DifferentialTest, AFileThatSomebodyKeepsUnderAnotherNameIsNotWrittenOver) {
  const Old old = MakeOld(Make({3 << 20}));
  ASSERT_OK(fake_.Link(kOldPath, "/cache/kept"));
  const Sample next = NextSample(random_, old.sample, 0.5);
  ASSERT_OK_AND_ASSIGN(const CaptureResult result, Run(next, {.base = BaseOf(old)}));
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, result.base_status, "has 2 names");
  EXPECT_EQ(ChecksumsOf("/cache/kept"), old.result.crc32c);
}

TEST_F(DifferentialTest, WhereExtentsCannotBeSharedTheFileIsWrittenInFull) {
  FakeDisk other({.direct = true});
  ASSERT_OK(other.MakeDirectory("/cache", 0700));
  ASSERT_OK(other.MakeDirectory(kOldFolder, 0700));
  const Old old = MakeOld(Make({3 << 20}), kOldPath, &other);
  const Sample next = NextSample(random_, old.sample, 0.1);
  ASSERT_OK_AND_ASSIGN(const CaptureResult result, Run(next, {.disk = &other, .base = BaseOf(old, true)}));
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, result.base_status, "share extents");
  EXPECT_EQ(result.bytes_written, result.file_bytes);
  ExpectFile(other, kOldPath, old.sample, old.result);
}

TEST_F(DifferentialTest, NoFailureOfTheBaseFailsTheCapture) {
  for (const FakeOp op :
       {FakeOp::kInfo, FakeOp::kRename, FakeOp::kClone, FakeOp::kOpen, FakeOp::kRead, FakeOp::kTruncate}) {
    for (const std::uint64_t image_bytes : {0u, 2u << 20}) {
      SCOPED_TRACE(static_cast<int>(op));
      const bool clone = op == FakeOp::kClone || (op != FakeOp::kRename && random_() % 2 == 0);
      const Old old = MakeOld(Make({5 << 20, 4321}));
      fake_.FailOn({.op = op,
                    .path_part = op == FakeOp::kInfo ? kOldPath : kWorkPath,
                    .nth = op == FakeOp::kRead ? 1 + random_() % 4 : 1,
                    .status = absl::UnavailableError("torn cable")});
      Job job = Start(old.sample, {.image_bytes = image_bytes, .base = BaseOf(old, clone, false)});
      ASSERT_OK_AND_ASSIGN(const CaptureResult result, Finish(job));
      fake_.ClearFaults();
      ExpectFile(fake_, kWorkPath, old.sample, result);
      EXPECT_STATUS(absl::StatusCode::kUnavailable, result.base_status, "torn cable");
      EXPECT_EQ(result.bytes_written, result.file_bytes);
      if (clone) ExpectFile(fake_, kOldPath, old.sample, old.result);
    }
  }
}

TEST_F(DifferentialTest, ADiskThatHasNoRoomForMoreWithTheBaseHasItWithout) {
  const Old old = MakeOld(Make({6 << 20}));
  Sample next = Make({7 << 20});
  fake_.SetCapacity(8 << 20);
  ASSERT_OK_AND_ASSIGN(const CaptureResult renamed, Run(next, {.base = BaseOf(old)}));
  EXPECT_OK(renamed.base_status);
  ASSERT_OK(fake_.Remove(kWorkPath));
  fake_.SetCapacity(14 << 20);
  MakeOld(old.sample);
  fake_.SetCapacity(13 << 20);  // what a clone would share counts in full on this disk
  ASSERT_OK_AND_ASSIGN(const CaptureResult cloned, Run(Make({5 << 20}), {.base = BaseOf(old, true)}));
  EXPECT_OK(cloned.base_status);
}

TEST_F(DifferentialTest, AFailedWriteOrSyncIsFinal) {
  for (const bool clone : {false, true}) {
    for (const FakeOp op : {FakeOp::kWrite, FakeOp::kSync}) {
      const Old old = MakeOld(Make({5 << 20, 4321}));
      Sample next = old.sample;
      for (std::size_t at = 0; at < next.content[0].size(); at += 1 << 20) next.content[0][at] ^= std::byte{1};
      FillData(next);
      const std::uint64_t nth = op == FakeOp::kWrite ? 1 + random_() % 6 : 1;
      fake_.FailOn({.op = op, .path_part = kWorkPath, .nth = nth, .status = absl::UnavailableError("torn cable")});
      Job job = Start(next, {.base = BaseOf(old, clone)});
      EXPECT_STATUS(absl::StatusCode::kUnavailable, Finish(job), "torn cable");
      fake_.ClearFaults();
      ExpectNoWorkFile();
      EXPECT_EQ(fake_.Info(kOldPath).ok(), clone);
    }
  }
}

TEST_F(DifferentialTest, ACrashAnywhereLeavesWorkNamesAndWholeClonesOnly) {
  for (const bool clone : {false, true}) {
    std::uint64_t operations = 0;
    for (std::uint64_t nth = 0; nth <= operations && !HasFailure(); ++nth) {
      SCOPED_TRACE(nth);
      ASSERT_OK(RemoveTree(fake_, "/cache"));
      ASSERT_OK(fake_.MakeDirectory("/cache", 0700));
      ASSERT_OK(fake_.MakeDirectory(kOldFolder, 0700));
      const Old old = MakeOld(Make({2 << 20, 4321}));
      const Sample next = NextSample(random_, old.sample, 0.01);
      const std::uint64_t before = fake_.operations();
      if (nth > 0) fake_.CrashAt(nth);
      Job job = Start(next, {.base = BaseOf(old, clone, false)});
      const absl::StatusOr<CaptureResult> result = Finish(job);
      if (nth == 0) {
        ASSERT_OK(result);
        operations = fake_.operations() - before;
        EXPECT_GE(operations, 5u);  // opening, renaming, syncing: more if chance changed any block
        continue;
      }
      fake_.Restart(random_());
      ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, fake_.List("/cache"));
      for (const std::string& name : names) EXPECT_TRUE(name == "old" || IsWorkName(name)) << name;
      if (clone) ExpectFile(fake_, kOldPath, old.sample, old.result);
      // Whatever is left of a spare file may be given again: what it has become is seen.
      const Sample third = NextSample(random_, next, 0.01);
      ASSERT_OK(Run(third, {.base = BaseOf(old, clone, false)}));
    }
  }
}

TEST_F(DifferentialTest, WhenItEndsTheFileIsDurable) {
  const Old old = MakeOld(Make({3 << 20, 77}));
  const Sample next = NextSample(random_, old.sample, 0.05);
  ASSERT_OK_AND_ASSIGN(const CaptureResult result, Run(next, {.base = BaseOf(old)}));
  ASSERT_OK(fake_.SyncDirectory("/cache"));
  fake_.Restart(seed_);
  ExpectFile(fake_, kWorkPath, next, result);
}

TEST_F(DifferentialTest, WhateverAClientScribblesTheBaseThatWasClonedIsWhole) {
  for (const std::uint64_t image_bytes : {0u, 2u << 20}) {
    const Old old = MakeOld(Make({9 << 20, 12345}));
    Job job = Start(NextSample(random_, old.sample, 0.05), {.image_bytes = image_bytes, .base = BaseOf(old, true)});
    ASSERT_TRUE(FillAll(job.sample, *job.capture, *job.image, job.listener, 1));
    ASSERT_OK(job.capture->Commit());
    std::vector<std::byte> junk(job.image->bytes().size());
    for (int i = 0; i < 20; ++i) {
      std::fill(junk.begin(), junk.end(), static_cast<std::byte>(random_()));
      ASSERT_GT(pwrite(job.image->fd(), junk.data(), junk.size(), 0), 0);
    }
    ASSERT_OK(*job.listener.WaitForEnd());
    ExpectFile(fake_, kOldPath, old.sample, old.result);
  }
}

TEST_F(DifferentialTest, AnAbortDuringAnyOperationEndsItCancelledWithoutAWorkFile) {
  for (const bool clone : {false, true}) {
    bool reached_all = false;
    for (std::uint64_t nth = 1; !reached_all && !HasFailure(); ++nth) {
      SCOPED_TRACE(nth);
      const Old old = MakeOld(Make({3 << 20, 4321}));
      Sample next = old.sample;
      for (std::size_t at = 0; at < next.content[0].size(); at += 1 << 20) next.content[0][at] ^= std::byte{1};
      FillData(next);
      std::atomic<std::uint64_t> operations{0};
      Job job;
      std::latch started(1);
      fake_.SetHook([&](FakeOp, const std::string&) {
        started.wait();
        if (++operations == nth) job.capture->Abort();
      });
      job = Start(next, {.base = BaseOf(old, clone, false)});
      started.count_down();
      const absl::StatusOr<CaptureResult> result = Finish(job);
      fake_.SetHook({});
      reached_all = result.ok();
      if (reached_all) {
        ExpectFile(fake_, kWorkPath, next, *result);
        EXPECT_GE(operations, 10u);
        continue;
      }
      EXPECT_STATUS(absl::StatusCode::kCancelled, result, "aborted");
      ExpectNoWorkFile();
      if (clone) ExpectFile(fake_, kOldPath, old.sample, old.result);
    }
    ASSERT_OK(fake_.Remove(kWorkPath));
  }
}

TEST_F(DifferentialTest, ASlotOfARingIsReleasedWhenItsWindowIsFoundEqual) {
  const Old old = MakeOld(Make({8 << 20}));
  std::atomic<int> writes{0};
  fake_.SetHook([&writes](FakeOp op, const std::string&) { writes += op == FakeOp::kWrite ? 1 : 0; });
  Job job = Start(old.sample, {.image_bytes = 2 << 20, .base = BaseOf(old)});
  ASSERT_TRUE(FillAll(job.sample, *job.capture, *job.image, job.listener, 1));
  EXPECT_TRUE(job.listener.WaitForReleased(8));
  EXPECT_EQ(writes, 0);
  ASSERT_OK(job.capture->Commit());
  ASSERT_OK(*job.listener.WaitForEnd());
  EXPECT_EQ(writes, 1) << "the tail";
  fake_.SetHook({});
}

TEST_F(DifferentialTest, NothingIsWrittenWhileAClientCopiesIntoAWholeImage) {
  const Old old = MakeOld(Make({4 << 20}));
  std::atomic<int> writes{0};
  fake_.SetHook([&writes](FakeOp op, const std::string&) { writes += op == FakeOp::kWrite ? 1 : 0; });
  Job job = Start(Make({4 << 20}), {.base = BaseOf(old)});
  ASSERT_TRUE(FillAll(job.sample, *job.capture, *job.image, job.listener, 1));
  EXPECT_EQ(writes, 0);
  ASSERT_OK(job.capture->Commit());
  ASSERT_OK(*job.listener.WaitForEnd());
  EXPECT_EQ(writes, 5);
  fake_.SetHook({});
}

TEST_F(DifferentialTest, DigestsOfAFileWrittenInFullAreThoseOfItsBlocks) {
  for (int round = 0; round < 12 && !HasFailure(); ++round) {
    const Sample sample = RandomSample(random_, 6 << 20);
    ASSERT_OK(Run(sample, {.image_bytes = round % 2 == 0 ? 0u : 2u << 20, .want_digests = true}));
  }
}

TEST_F(DifferentialTest, FilesWithoutDataOrWithLessThanABlockWorkFromAnyBase) {
  const Old old = MakeOld(Make({10000}));
  const Old empty = MakeOld(Make({0}), "/cache/old/empty");
  for (const Old* base : {&empty, &old}) {
    for (const std::vector<std::uint64_t>& sizes : {std::vector<std::uint64_t>{}, {0}, {100}, {4096}, {20000}}) {
      const Sample next = Make(sizes, ftiff::Packing::kExact);
      for (const bool digests : {true, false}) {
        ASSERT_OK_AND_ASSIGN(const CaptureResult result,
                             Run(next, {.base = BaseOf(*base, true, digests), .want_digests = true}));
        EXPECT_OK(result.base_status);
        ASSERT_OK(fake_.Remove(kWorkPath));
      }
    }
  }
}

}  // namespace
}  // namespace cairn
