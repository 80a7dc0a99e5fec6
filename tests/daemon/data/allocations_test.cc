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

  // In steady state: what is kept for the next one is there after a few.
  std::size_t LeastOf(std::uint64_t windows, const JobOptions& options) {
    std::size_t least = std::numeric_limits<std::size_t>::max();
    for (int i = 0; i < 6; ++i) least = std::min(least, AllocationsOf(windows, options));
    return least;
  }

  static constexpr std::uint64_t kVariables = 40;  // more than one job has lanes for
  UncountedDisk disk_;
  const std::shared_ptr<HashCompany> company_ = MakeHashCompany(pool_);
  CaptureResult result_;
};

TEST_F(AllocationsTest, NoneForAWindowOfAWholeImage) {
  EXPECT_EQ(LeastOf(30, {}), LeastOf(10, {}));
}

TEST_F(AllocationsTest, NoneForAWindowOfARing) {
  const JobOptions ring{.image_bytes = 4 << 20};
  EXPECT_EQ(LeastOf(30, ring), LeastOf(10, ring));
}

TEST_F(AllocationsTest, NoneForAWindowWithDigests) {
  const JobOptions digests{.want_digests = true};
  EXPECT_EQ(LeastOf(30, digests), LeastOf(10, digests));
}

}  // namespace
}  // namespace cairn
