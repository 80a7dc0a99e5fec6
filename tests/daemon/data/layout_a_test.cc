// Captures whose file is of layout A.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/path.h"
#include "storage/format/ftiff/codec.h"
#include "storage/format/ftiff/variables.h"
#include "tests/daemon/data/capture_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ftiff::Letter;

class LayoutATest : public CaptureFixture {
 protected:
  // The file is of layout A, sound, holds the sample's variables, and has the checksums of the result.
  void ExpectFileA(const Sample& sample, const CaptureResult& result) {
    ASSERT_OK_AND_ASSIGN(const std::string text, ReadWhole(fake_, kWorkPath, 1 << 30));
    const std::span<const std::byte> file = std::as_bytes(std::span(text));
    ASSERT_EQ(file.size(), sample.layout.file_bytes(Letter::kA));
    EXPECT_EQ(result.file_bytes, file.size());
    EXPECT_EQ(result.bytes_written, file.size());
    EXPECT_EQ(result.crc32c, BlockChecksums(file));
    EXPECT_EQ(result.crc32, Crc32(file));
    EXPECT_TRUE(result.metadata.empty());
    EXPECT_EQ(result.digests, nullptr);
    EXPECT_EQ(result.layout.containers, sample.layout.containers) << "with the offsets of layout F";

    const ftiff::ReadAt read = [file](std::uint64_t offset, std::span<std::byte> target) {
      std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(offset), target.size(), target.begin());
      return absl::OkStatus();
    };
    ASSERT_OK_AND_ASSIGN(const ftiff::FileMetadata metadata, ftiff::DecodeMetadata(kWorkPath, file.size(), read));
    EXPECT_EQ(metadata.letter, Letter::kA);
    ASSERT_OK_AND_ASSIGN(const ftiff::Verdict verdict, ftiff::VerifyData(kWorkPath, metadata, read));
    EXPECT_TRUE(verdict.ok()) << verdict.bad_checksum;
    const ftiff::Variables variables(metadata.layout);
    for (std::size_t i = 0; i < sample.variables.size(); ++i) {
      std::vector<std::byte> content(sample.variables[i].bytes);
      ASSERT_OK(variables.Read(kWorkPath, sample.variables[i].id, 0, content, read));
      EXPECT_TRUE(content == sample.content[i]) << "variable " << i;
    }
  }

  void ExpectWorkNamesOnly(std::size_t count) {
    ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, fake_.List("/cache"));
    EXPECT_EQ(names.size(), count);
    for (const std::string& name : names) EXPECT_TRUE(IsWorkName(name)) << name;
  }
};

// Without variables a rank has no file.
Sample SomeSample(std::mt19937_64& random) {
  Sample sample = RandomSample(random, 6 << 20);
  while (sample.variables.empty()) sample = RandomSample(random, 6 << 20);
  return sample;
}

TEST_F(LayoutATest, AnyFileThroughAnyImageIsThatOfItsVariables) {
  for (int round = 0; round < 16 && !HasFailure(); ++round) {
    const JobOptions options{.image_bytes = round % 2 == 0 ? 0 : (1 + random_() % 3) * Image::kAlignment,
                             .letter = Letter::kA};
    Sample sample = SomeSample(random_);
    if (round % 4 >= 2) sample = NextSample(random_, sample, 0.1);  // of several blocks
    Job job = Start(sample, options);
    ASSERT_OK_AND_ASSIGN(const CaptureResult result, Finish(job));
    ExpectFileA(job.sample, result);
    ExpectWorkNamesOnly(1);
  }
}

TEST_F(LayoutATest, NoBaseIsUsedAndNoDigestsAreMade) {
  const std::string spare = "/cache/spare";
  Job old = Start(Make({2 << 20}), {.path = spare, .want_digests = true});
  ASSERT_OK_AND_ASSIGN(const CaptureResult old_result, Finish(old));
  const CaptureBase base{.path = spare,
                         .file_bytes = old_result.file_bytes,
                         .data_bytes = old.sample.layout.data_bytes,
                         .crc32c = old_result.crc32c,
                         .digests = old_result.digests};
  Job job = Start(old.sample, {.letter = Letter::kA, .base = base, .want_digests = true});
  ASSERT_OK_AND_ASSIGN(const CaptureResult result, Finish(job));
  ExpectFileA(job.sample, result);
  ExpectFile(fake_, spare, old.sample, old_result);
}

TEST_F(LayoutATest, TheLastHashOfAnEmptiedContainerIsKeptForTheNextCheckpoint) {
  Sample sample = Make({3 << 20});
  sample.layout.containers.back().has_content = false;
  sample.layout.containers.back().chunk_bytes = 0;
  sample.variables[0].bytes = 2 << 20;
  sample.content[0].resize(2 << 20);
  FillData(sample);
  const Md5Digest last = Md5(std::as_bytes(std::span("what it was")));
  Job job = Start(sample, {.letter = Letter::kA, .last_hashes = {last, last, last}});
  ASSERT_OK_AND_ASSIGN(const CaptureResult result, Finish(job));
  ExpectFileA(job.sample, result);
  EXPECT_EQ(result.chunk_hashes.back(), last);
  EXPECT_NE(result.chunk_hashes.front(), last);
}

TEST_F(LayoutATest, AnyFailureOfTheDiskLeavesNothing) {
  const Sample sample = Make({2 << 20, 4321});
  std::uint64_t operations = 0;
  for (std::uint64_t nth = 0; nth <= operations && !HasFailure(); ++nth) {
    SCOPED_TRACE(nth);
    const std::uint64_t before = fake_.operations();
    if (nth > 0) fake_.FailOn({.path_part = "Ckpt1", .nth = nth, .status = absl::UnavailableError("torn cable")});
    Job job = Start(sample, {.letter = Letter::kA});
    const absl::StatusOr<CaptureResult> result = Finish(job);
    fake_.ClearFaults();
    if (nth == 0) {
      ASSERT_OK(result);
      operations = fake_.operations() - before;
      EXPECT_GE(operations, 12u);
      ASSERT_OK(fake_.Remove(kWorkPath));
      continue;
    }
    EXPECT_STATUS(absl::StatusCode::kUnavailable, result, "torn cable");
    ExpectWorkNamesOnly(0);
  }
}

TEST_F(LayoutATest, AnAbortDuringAnyOperationLeavesNothingOrComesTooLate) {
  bool too_late = false;
  for (std::uint64_t nth = 1; !too_late && !HasFailure(); ++nth) {
    SCOPED_TRACE(nth);
    std::atomic<std::uint64_t> operations{0};
    Job job;
    std::latch started(1);
    fake_.SetHook([&](FakeOp, const std::string&) {
      started.wait();
      if (++operations == nth) job.capture->Abort();
    });
    job = Start(Make({2 << 20, 4321}), {.letter = Letter::kA});
    started.count_down();
    const absl::StatusOr<CaptureResult> result = Finish(job);
    fake_.SetHook({});
    too_late = operations < nth;
    if (too_late) {
      ASSERT_OK(result);
      continue;
    }
    EXPECT_STATUS(absl::StatusCode::kCancelled, result, "");
    ExpectWorkNamesOnly(0);
  }
}

TEST_F(LayoutATest, ACrashAnywhereLeavesWorkNamesOnly) {
  const Sample sample = Make({2 << 20, 4321});
  std::uint64_t operations = 0;
  for (std::uint64_t nth = 0; nth <= operations && !HasFailure(); ++nth) {
    SCOPED_TRACE(nth);
    const std::uint64_t before = fake_.operations();
    if (nth > 0) fake_.CrashAt(nth);
    Job job = Start(sample, {.letter = Letter::kA});
    const absl::StatusOr<CaptureResult> result = Finish(job);
    if (nth == 0) {
      ASSERT_OK(result);
      operations = fake_.operations() - before;
      continue;
    }
    EXPECT_STATUS(absl::StatusCode::kUnavailable, result, "crashed");
    fake_.Restart(random_());
    ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, fake_.List("/cache"));
    for (const std::string& name : names) EXPECT_TRUE(IsWorkName(name)) << name;
  }
}

TEST_F(LayoutATest, WhenItEndsTheFileIsDurable) {
  Job job = Start(Make({2 << 20, 77}), {.letter = Letter::kA});
  ASSERT_OK_AND_ASSIGN(const CaptureResult result, Finish(job));
  ASSERT_OK(fake_.SyncDirectory("/cache"));
  fake_.Restart(seed_);
  ExpectFileA(job.sample, result);
}

TEST_F(LayoutATest, AClientThatScribblesFailsItsOwnCaptureAtMost) {
  Job job = Start(Make({9 << 20, 12345}), {.letter = Letter::kA});
  ASSERT_TRUE(FillAll(job.sample, *job.capture, *job.image, job.listener, 1));
  ASSERT_OK(job.capture->Commit());
  std::vector<std::byte> junk(job.image->bytes().size());
  for (int i = 0; i < 20; ++i) {
    std::fill(junk.begin(), junk.end(), static_cast<std::byte>(random_()));
    ASSERT_GT(pwrite(job.image->fd(), junk.data(), junk.size(), 0), 0);
  }
  const auto end = job.listener.WaitForEnd();
  ASSERT_TRUE(end.has_value());
  if (end->ok()) return;
  EXPECT_STATUS(absl::StatusCode::kDataLoss, *end, "");
  ExpectWorkNamesOnly(0);
}

}  // namespace
}  // namespace cairn
