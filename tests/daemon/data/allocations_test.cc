// How often a capture asks for memory: as often for many windows as for few.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/data/capture.h"
#include "tests/daemon/data/capture_fixture.h"
#include "tests/support/allocations/allocations.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

// A FakeDisk whose own memory does not count.
class UncountedDisk final : public FakeDisk {
 public:
  UncountedDisk() : FakeDisk({.direct = true}) {}

  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenOptions options) override {
    const UncountedHere uncounted;
    auto file = FakeDisk::Open(path, options);
    if (!file.ok()) return file.status();
    return std::make_unique<UncountedFile>(*std::move(file));
  }

 private:
  class UncountedFile final : public File {
   public:
    explicit UncountedFile(std::unique_ptr<File> file) : file_(std::move(file)) {}
    absl::Status ReadAt(std::uint64_t offset, std::span<std::byte> target) override {
      const UncountedHere uncounted;
      return file_->ReadAt(offset, target);
    }
    absl::Status WriteAt(std::uint64_t offset, std::span<const std::byte> bytes) override {
      const UncountedHere uncounted;
      return file_->WriteAt(offset, bytes);
    }
    void ReadAsync(std::uint64_t offset, std::span<std::byte> target, Done done) override {
      done(ReadAt(offset, target));
    }
    void WriteAsync(std::uint64_t offset, std::span<const std::byte> bytes, Done done) override {
      done(WriteAt(offset, bytes));
    }
    absl::Status Truncate(std::uint64_t bytes) override {
      const UncountedHere uncounted;
      return file_->Truncate(bytes);
    }
    absl::Status Sync() override {
      const UncountedHere uncounted;
      return file_->Sync();
    }
    absl::StatusOr<FileInfo> Info() override { return file_->Info(); }
    absl::Status TryLock() override { return file_->TryLock(); }
    bool direct() const override { return file_->direct(); }
    const std::string& path() const override { return file_->path(); }

   private:
    const std::unique_ptr<File> file_;
  };
};

class AllocationsTest : public CaptureFixture {
 protected:
  AllocationsTest() { EXPECT_OK(disk_.MakeDirectory("/cache", 0700)); }

  // Of one capture of so many windows, from its start to its end.
  std::size_t AllocationsOf(std::uint64_t windows, JobOptions options) {
    options.disk = &disk_;
    options.company = company_;
    const std::size_t before = Allocations();
    Job job;
    {
      const UncountedHere uncounted;
      job = Start(Make(std::vector<std::uint64_t>(kVariables, windows * kWindowBytes / kVariables)), options);
    }
    EXPECT_TRUE(FillAll(job.sample, *job.capture, *job.image, job.listener, 4));
    EXPECT_OK(job.capture->Commit());
    auto end = job.listener.WaitForEnd();
    const std::size_t after = Allocations();
    EXPECT_TRUE(end.has_value());
    EXPECT_OK(*end);
    result_ = **std::move(end);
    return after - before;
  }

  // In steady state: what is kept for the next one is there after a few. How often threads ask each other to go on, and
  // with it how often a queue grows, is the kernel's choice: so the least of as many as it takes.
  void ExpectNoneForAWindow(const JobOptions& options) {
    std::size_t few = std::numeric_limits<std::size_t>::max(), many = few;
    for (int i = 0; i < kTriesMax && (i < kUntilSteady || many > few) && !HasFailure(); ++i) {
      few = std::min(few, AllocationsOf(10, options));
      many = std::min(many, AllocationsOf(30, options));
    }
    EXPECT_LE(many, few);
  }

  static constexpr int kUntilSteady = 6, kTriesMax = 60;

  static constexpr std::uint64_t kVariables = 40;  // more than one job has lanes for
  UncountedDisk disk_;
  const std::shared_ptr<HashCompany> company_ = MakeHashCompany(pool_);
  CaptureResult result_;
};

TEST_F(AllocationsTest, NoneForAWindowOfAWholeImage) {
  ExpectNoneForAWindow({});
}

TEST_F(AllocationsTest, NoneForAWindowOfARing) {
  ExpectNoneForAWindow({.image_bytes = 4 << 20});
}

TEST_F(AllocationsTest, NoneForAWindowWithDigests) {
  ExpectNoneForAWindow({.want_digests = true});
}

}  // namespace
}  // namespace cairn
