#include "tests/daemon/data/capture_fixture.h"

#include <algorithm>
#include <utility>

#include "tests/support/status_matchers.h"

namespace cairn {

CaptureFixture::CaptureFixture(FakeDiskOptions options)
    : seed_(TestSeed()), random_(seed_), trace_(__FILE__, __LINE__, SeedText(seed_)), fake_(options) {
  EXPECT_OK(fake_.MakeDirectory("/cache", 0700));
  fake_.SyncAll();
}

Job CaptureFixture::Start(Sample sample, const JobOptions& options) {
  Job job{.sample = std::move(sample), .image = nullptr, .listener = {}, .capture = nullptr};
  const std::uint64_t wanted = options.image_bytes == 0 ? job.sample.windows_bytes() : options.image_bytes;
  if (wanted > 0) {
    absl::StatusOr<std::shared_ptr<Image>> image = Image::Make(budget_, wanted);
    EXPECT_OK(image);
    job.image = *std::move(image);
    std::fill(job.image->bytes().begin(), job.image->bytes().end(), std::byte{0xA5});
  }
  const std::uint64_t bytes = job.image == nullptr ? 0 : job.image->bytes().size();
  absl::StatusOr<std::vector<PlanPiece>> plan = MakePlan(job.sample.layout, job.sample.variables, bytes);
  EXPECT_OK(plan);
  job.capture = Capture::Start(options.disk == nullptr ? fake_ : *options.disk, pool_,
                               {.layout = job.sample.layout,
                                .letter = options.letter,
                                .last_hashes = options.last_hashes,
                                .base = options.base,
                                .want_digests = options.want_digests,
                                .scans = options.scans,
                                .plan = *std::move(plan),
                                .image = job.image,
                                .checkpoint_id = 5,
                                .timestamp_ns = 1234567890123,
                                .work_path = options.path,
                                .waits = options.waits},
                               job.listener.callbacks(), nullptr, options.company);
  return job;
}

Sample CaptureFixture::Make(const std::vector<std::uint64_t>& sizes, ftiff::Packing packing) {
  return MakeSample(random_, sizes, packing);
}

absl::StatusOr<CaptureResult> CaptureFixture::Finish(Job& job) {
  const bool filled =
      job.image == nullptr || FillAll(job.sample, *job.capture, *job.image, job.listener, 1 + random_() % 20);
  // A capture that has failed already says so at the end, too.
  if (filled) job.capture->Commit().IgnoreError();
  auto end = job.listener.WaitForEnd();
  if (!end.has_value()) return absl::DeadlineExceededError("no end");
  return *std::move(end);
}

void CaptureFixture::RunWhole(Job& job, const JobOptions& options) {
  ASSERT_OK_AND_ASSIGN(const CaptureResult result, Finish(job));
  EXPECT_EQ(job.capture->pieces_filled(), job.capture->plan().size());
  ExpectFile(options.disk == nullptr ? fake_ : *options.disk, options.path, job.sample, result);
}

void CaptureFixture::ExpectNoWorkFile() {
  EXPECT_STATUS(absl::StatusCode::kNotFound, fake_.Info(kWorkPath), "");
}

}  // namespace cairn
