#include "daemon/data/capture.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <latch>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "storage/base/transfer_shape.h"
#include "storage/io/posix_disk.h"
#include "tests/daemon/data/capture_fixture.h"
#include "tests/support/deep_disk.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class CaptureTest : public CaptureFixture {};

TEST_F(CaptureTest, AnyFileFromADirtyImageIsWrittenAndHashedExactly) {
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    Job job = Start(RandomSample(random_, 12 << 20));
    RunWhole(job);
  }
}

TEST_F(CaptureTest, AnyFileThroughAnyRingIsWrittenAndHashedExactly) {
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    Job job = Start(RandomSample(random_, 12 << 20), {.image_bytes = (1 + random_() % 4) * Image::kAlignment});
    RunWhole(job);
  }
}

TEST_F(CaptureTest, ARealDiskHoldsTheSame) {
  std::string folder = std::filesystem::temp_directory_path() / "cairn-capture-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  for (const bool io_uring : {true, false}) {
    const std::unique_ptr<PosixDisk> disk = MakePosixDisk({.engine = {.io_uring = io_uring}});
    for (int round = 0; round < 4 && !HasFailure(); ++round) {
      const JobOptions options{
          .image_bytes = round % 2 == 0 ? 0u : 4u << 20, .disk = disk.get(), .path = folder + "/work"};
      Job job = Start(RandomSample(random_, 40 << 20), options);
      RunWhole(job, options);
    }
  }
  std::filesystem::remove_all(folder);
}

TEST_F(CaptureTest, WritesAsMuchAtOnceAsTheDiskSays) {
  const std::uint32_t kMi = 1 << 20;
  for (const TransferShape& shape :
       {TransferShape{.bytes = kMi / 4, .depth = 8}, TransferShape{.bytes = kMi / 2, .depth = 2},
        TransferShape{.bytes = kMi, .depth = 1}, TransferShape{.bytes = kMi, .depth = 3},
        TransferShape{.bytes = 4 * kMi, .depth = 2}, TransferShape{}}) {
    DeepDisk disk(shape.depth);
    ASSERT_OK(disk.MakeDirectory("/cache", 0700));
    disk.UseShapes({.write = shape, .read = {}});
    const JobOptions options{.disk = &disk};
    Job job = Start(Make({40 * kMi}), options);
    RunWhole(job, options);
    EXPECT_EQ(disk.seen().bytes_max, shape.bytes);
    EXPECT_EQ(disk.seen().at_once_max, shape.depth) << shape.bytes;
  }
}

TEST_F(CaptureTest, AnyFileInTransfersOfAnySize) {
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    const std::uint32_t bytes = TransferShape::kBytesMin << random_() % 7;
    fake_.UseShapes({.write = {.bytes = bytes, .depth = 1 + static_cast<std::uint32_t>(random_() % 9)}, .read = {}});
    Job job = Start(RandomSample(random_, 12 << 20),
                    {.image_bytes = round % 2 == 0 ? 0 : (1 + random_() % 4) * Image::kAlignment});
    RunWhole(job);
  }
}

TEST_F(CaptureTest, AKeptImageIsTheFilesData) {
  Job job = Start(RandomSample(random_, 10 << 20));
  RunWhole(job);
  if (job.image == nullptr) return;
  EXPECT_TRUE(std::equal(job.sample.data.begin(), job.sample.data.end(), job.image->bytes().begin()));
}

TEST_F(CaptureTest, PiecesThatArePutAreAsGoodAsFilledOnes) {
  for (const std::uint64_t image_bytes : {0u, 4u << 20}) {
    Job job = Start(Make({7 << 20, 100, 5000}), {.image_bytes = image_bytes});
    const std::vector<PlanPiece>& plan = job.capture->plan();
    for (std::size_t i = 0; i < plan.size(); ++i) {
      ASSERT_TRUE(job.listener.WaitForReleased(plan[i].after_released));
      const auto bytes =
          std::span(job.sample.content[plan[i].variable]).subspan(plan[i].variable_offset, plan[i].bytes);
      ASSERT_OK(job.capture->Put(i, bytes, Crc32c(bytes)));
      EXPECT_EQ(job.capture->pieces_filled(), i + 1);
    }
    RunWhole(job);
  }
}

TEST_F(CaptureTest, APutPieceThatIsNotTheNextOneOrDamagedIsRefusedAndMayComeAgain) {
  Job job = Start(Make({3 << 20, 100}));
  const PlanPiece& piece = job.capture->plan()[0];
  const auto bytes = std::span(job.sample.content[piece.variable]).subspan(piece.variable_offset, piece.bytes);
  const std::uint32_t crc32c = Crc32c(bytes);
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, job.capture->Put(1, bytes, crc32c), "piece 1 comes where 0");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, job.capture->Put(UINT64_MAX, bytes, crc32c), "");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, job.capture->Put(0, bytes.first(10), crc32c), "10 bytes");
  EXPECT_STATUS(absl::StatusCode::kDataLoss, job.capture->Put(0, bytes, crc32c ^ 1), "CRC32C");
  EXPECT_EQ(job.capture->pieces_filled(), 0u);
  EXPECT_OK(job.capture->Put(0, bytes, crc32c));
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, job.capture->Put(0, bytes, crc32c), "piece 0 comes where 1");
  RunWhole(job);
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, job.capture->Put(job.capture->plan().size(), {}, 0), "");
}

TEST_F(CaptureTest, CountsThatCannotBeAreRefused) {
  Job job = Start(Make({5 << 20}));
  const std::uint64_t pieces = job.capture->plan().size();
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, job.capture->Filled(pieces + 1), "the plan has 5");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, job.capture->Filled(UINT64_MAX), "");
  EXPECT_OK(job.capture->Filled(0));
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, job.capture->Commit(), "0 of 5");
  CopyPiece(job.sample, job.capture->plan()[0], job.image->bytes());
  CopyPiece(job.sample, job.capture->plan()[1], job.image->bytes());
  EXPECT_OK(job.capture->Filled(2));
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, job.capture->Filled(1), "1 pieces filled after 2");
  RunWhole(job);
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, job.capture->Commit(), "twice");
}

TEST_F(CaptureTest, ASlotThatWasNotReleasedCannotBeFilled) {
  std::latch blocked(1);
  fake_.SetHook([&blocked](FakeOp op, const std::string&) {
    if (op == FakeOp::kWrite) blocked.wait();
  });
  Job job = Start(Make({8 << 20}), {.image_bytes = 2 << 20});
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, job.capture->Filled(3), "before 1 windows were released, only 0");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, job.capture->Filled(8), "");
  blocked.count_down();
  RunWhole(job);
  EXPECT_EQ(job.listener.released(), 8u);
}

TEST_F(CaptureTest, NothingIsWrittenWhileAClientCopiesIntoAWholeImage) {
  Job job = Start(Make({8 << 20}));
  ASSERT_TRUE(FillAll(job.sample, *job.capture, *job.image, job.listener, 1));
  std::atomic<int> writes{0};
  fake_.SetHook([&writes](FakeOp op, const std::string&) { writes += op == FakeOp::kWrite ? 1 : 0; });
  EXPECT_EQ(writes, 0);
  ASSERT_OK(job.capture->Commit());
  ASSERT_OK(*job.listener.WaitForEnd());
  EXPECT_GE(writes, 2);
  EXPECT_EQ(job.listener.released(), 0u) << "never without a ring";
}

TEST_F(CaptureTest, AFileWithoutBytesIsMetadataOnly) {
  for (const std::vector<std::uint64_t>& sizes : {std::vector<std::uint64_t>{}, {0, 0}}) {
    Job job = Start(Make(sizes));
    EXPECT_EQ(job.image, nullptr);
    RunWhole(job);
  }
}

TEST_F(CaptureTest, AContainerThatLostItsContentKeepsItsLastHash) {
  Sample sample = Make({3 << 20, 5000});
  for (ftiff::Container& container : sample.layout.containers) {
    if (container.id != 7 || container.index == 0) continue;
    container.has_content = false;
    container.chunk_bytes = 0;
    const auto lost = sample.data.begin() + static_cast<std::ptrdiff_t>(container.file_offset);
    std::fill_n(lost, container.container_bytes, std::byte{0});
  }
  sample.variables[0].bytes = 1 << 20;
  const Md5Digest last = Md5(std::as_bytes(std::span("what it was")));
  Job job = Start(sample, {.last_hashes = {last, last, last, last}});
  RunWhole(job);
  const auto end = job.listener.WaitForEnd();
  EXPECT_EQ((*end)->chunk_hashes, (std::vector<Md5Digest>{Md5(std::span(sample.content[0]).first(1 << 20)), last, last,
                                                          Md5(sample.content[1])}));
  EXPECT_EQ((*end)->bytes_written, (*end)->file_bytes);
}

TEST_F(CaptureTest, WhateverAClientScribblesNothingButItsOwnFileSuffers) {
  Job job = Start(Make({9 << 20, 12345}));
  ASSERT_TRUE(FillAll(job.sample, *job.capture, *job.image, job.listener, 1));
  ASSERT_OK(job.capture->Commit());
  // Not through the mapping that the daemon reads from: a client has its own.
  std::vector<std::byte> junk(job.image->bytes().size());
  for (int i = 0; i < 20; ++i) {
    std::fill(junk.begin(), junk.end(), static_cast<std::byte>(random_()));
    ASSERT_GT(pwrite(job.image->fd(), junk.data(), junk.size(), 0), 0);
  }
  const auto end = job.listener.WaitForEnd();
  ASSERT_TRUE(end.has_value());
  ASSERT_OK(*end);
  EXPECT_EQ((*end)->file_bytes, job.sample.layout.file_bytes(ftiff::Letter::kF));
}

TEST_F(CaptureTest, AnyFailureOfTheDiskEndsItWithoutAWorkFile) {
  for (const std::uint64_t image_bytes : {0u, 4u << 20}) {
    const Sample sample = Make({9 << 20, 4321}, ftiff::Packing::kExact);
    std::uint64_t operations = 0;
    for (std::uint64_t nth = 0; nth <= operations && !HasFailure(); ++nth) {
      SCOPED_TRACE(nth);
      std::uint64_t count = 0;
      std::mutex mutex;
      fake_.SetHook([&](FakeOp op, const std::string&) {
        const std::lock_guard lock(mutex);
        if (op != FakeOp::kRemove) ++count;
      });
      // The first round fails nothing and counts.
      if (nth > 0) fake_.FailOn({.path_part = "Ckpt1", .nth = nth, .status = absl::UnavailableError("torn cable")});
      Job job = Start(sample, {.image_bytes = image_bytes});
      const bool filled = FillAll(job.sample, *job.capture, *job.image, job.listener, 2);
      const absl::Status committed = filled ? job.capture->Commit() : absl::OkStatus();
      const auto end = job.listener.WaitForEnd();
      fake_.SetHook({});
      fake_.ClearFaults();
      ASSERT_TRUE(end.has_value());
      if (nth == 0) {
        ASSERT_OK(*end);
        operations = count;
        EXPECT_GE(operations, 5u);
        continue;
      }
      EXPECT_STATUS(absl::StatusCode::kUnavailable, *end, "torn cable");
      EXPECT_TRUE(committed.ok() || committed.code() == absl::StatusCode::kUnavailable);
      ExpectNoWorkFile();
      EXPECT_OK(job.capture->Filled(job.capture->pieces_filled())) << "counted only";
      job.capture->Abort();  // changes nothing any more
    }
  }
}

TEST_F(CaptureTest, WhateverThrowsFailsTheCaptureAndNotTheProcess) {
  for (const std::uint64_t image_bytes : {0u, 4u << 20}) {
    const Sample sample = Make({9 << 20, 4321}, ftiff::Packing::kExact);
    bool failed = true;
    for (std::uint64_t nth = 1; failed && !HasFailure(); ++nth) {
      SCOPED_TRACE(nth);
      std::atomic<std::uint64_t> count = 0;
      fake_.SetHook([&](FakeOp op, const std::string& path) {
        if (op != FakeOp::kRemove && path.find("Ckpt1") != std::string::npos && ++count == nth) throw std::bad_alloc();
      });
      Job job = Start(sample, {.image_bytes = image_bytes});
      const bool filled = FillAll(job.sample, *job.capture, *job.image, job.listener, 2);
      if (filled) job.capture->Commit().IgnoreError();  // it may have failed already
      const auto end = job.listener.WaitForEnd();
      fake_.SetHook({});
      ASSERT_TRUE(end.has_value());
      failed = !end->ok();
      EXPECT_EQ(failed, count >= nth);
      if (!failed) continue;
      EXPECT_STATUS(absl::StatusCode::kResourceExhausted, *end, "out of memory");
      ExpectNoWorkFile();
    }
  }
}

TEST_F(CaptureTest, AFullDiskSaysSo) {
  fake_.SetCapacity(4 << 20);
  Job job = Start(Make({9 << 20}));
  FillAll(job.sample, *job.capture, *job.image, job.listener, 2);
  job.capture->Commit().IgnoreError();  // the disk may have failed already
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, *job.listener.WaitForEnd(), "");
  ExpectNoWorkFile();
}

TEST_F(CaptureTest, AFailureBeforeTheCommitIsTheCommitsAnswer) {
  fake_.FailOn({.op = FakeOp::kOpen, .status = absl::UnavailableError("no such disk")});
  Job job = Start(Make({3 << 20}));
  EXPECT_STATUS(absl::StatusCode::kUnavailable, *job.listener.WaitForEnd(), "no such disk");
  ASSERT_TRUE(FillAll(job.sample, *job.capture, *job.image, job.listener, 1));
  EXPECT_STATUS(absl::StatusCode::kUnavailable, job.capture->Commit(), "no such disk");
}

TEST_F(CaptureTest, AnAbortBetweenAnyPiecesEndsItCancelledWithoutAWorkFile) {
  for (int round = 0; round < 24 && !HasFailure(); ++round) {
    Job job = Start(Make({9 << 20, 4321}), {.image_bytes = round % 2 == 0 ? 0u : 4u << 20});
    const std::uint64_t pieces = random_() % (job.capture->plan().size() + 1);
    for (std::uint64_t i = 0; i < pieces; ++i) {
      ASSERT_TRUE(job.listener.WaitForReleased(job.capture->plan()[i].after_released));
      CopyPiece(job.sample, job.capture->plan()[i], job.image->bytes());
      ASSERT_OK(job.capture->Filled(i + 1));
    }
    job.capture->Abort();
    EXPECT_STATUS(absl::StatusCode::kCancelled, *job.listener.WaitForEnd(), "aborted");
    EXPECT_STATUS(absl::StatusCode::kCancelled, job.capture->Commit(), "aborted");
    ExpectNoWorkFile();
  }
}

TEST_F(CaptureTest, AnAbortDuringAnyOperationEndsItCancelledWithoutAWorkFile) {
  // Open, truncate, three writes, the tail, truncate, sync.
  for (std::uint64_t nth = 1; nth <= 8 && !HasFailure(); ++nth) {
    SCOPED_TRACE(nth);
    std::atomic<std::uint64_t> operations{0};
    std::latch reached(1);
    std::latch aborted(1);
    fake_.SetHook([&](FakeOp, const std::string&) {
      if (++operations != nth) return;
      reached.count_down();
      aborted.wait();
    });
    Job job = Start(Make({9 << 20, 4321}));
    ASSERT_TRUE(FillAll(job.sample, *job.capture, *job.image, job.listener, 2));
    ASSERT_OK(job.capture->Commit());
    reached.wait();
    job.capture->Abort();
    aborted.count_down();
    EXPECT_STATUS(absl::StatusCode::kCancelled, *job.listener.WaitForEnd(), "aborted");
    fake_.SetHook({});
    ExpectNoWorkFile();
  }
}

TEST_F(CaptureTest, AnAbortAfterTheCommitIsInTimeOrTooLate) {
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    Job job = Start(Make({random_() % (4 << 20)}));
    ASSERT_TRUE(FillAll(job.sample, *job.capture, *job.image, job.listener, 2));
    ASSERT_OK(job.capture->Commit());
    job.capture->Abort();
    const auto end = job.listener.WaitForEnd();
    ASSERT_TRUE(end.has_value());
    if (end->ok()) {
      ExpectFile(fake_, kWorkPath, job.sample, **end);
    } else {
      EXPECT_STATUS(absl::StatusCode::kCancelled, *end, "aborted");
      ExpectNoWorkFile();
    }
  }
}

TEST_F(CaptureTest, SeveralAtOnceShareThePool) {
  std::vector<Job> jobs;
  std::vector<JobOptions> options;
  for (int i = 0; i < 6; ++i) {
    options.push_back({.image_bytes = i % 2 == 0 ? 0u : 2u << 20, .path = kWorkPath + std::to_string(i)});
    jobs.push_back(Start(RandomSample(random_, 6 << 20), options.back()));
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) RunWhole(jobs[i], options[i]);
}

TEST_F(CaptureTest, ItIsHashedWhetherOrNotAnotherClientCopies) {
  for (int round = 0; round < 30 && !HasFailure(); ++round) {
    auto other_client = std::make_unique<WorkPool::Hold>(pool_.HoldForClient());
    Job job = Start(Make({5 << 20, 70000}));
    ASSERT_TRUE(FillAll(job.sample, *job.capture, *job.image, job.listener, 5));
    ASSERT_OK(job.capture->Commit());
    for (std::uint64_t n = random_() % 4096; n > 0; --n) std::this_thread::yield();
    other_client.reset();
    const auto end = job.listener.WaitForEnd();
    ASSERT_TRUE(end.has_value());
    ASSERT_OK(*end);
    ExpectFile(fake_, kWorkPath, job.sample, **end);
  }
}

TEST_F(CaptureTest, WhatIsLeftOfAnOlderFileOfThatNameIsGone) {
  ASSERT_OK(ReplaceFile(fake_, kWorkPath, std::string(30 << 20, 'x')));
  Job job = Start(Make({3 << 20, 77}));
  RunWhole(job);
}

TEST_F(CaptureTest, WhenItEndsTheFileIsDurable) {
  Job job = Start(Make({3 << 20, 77}));
  RunWhole(job);
  const auto result = job.listener.WaitForEnd();
  ASSERT_OK(fake_.SyncDirectory("/cache"));
  fake_.Restart(seed_);
  ExpectFile(fake_, kWorkPath, job.sample, **result);
}

}  // namespace
}  // namespace cairn
