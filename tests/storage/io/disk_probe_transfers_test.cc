// What disk_probe.h does with its file, on a disk whose transfers end later than they are begun.
#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "storage/base/clock.h"
#include "storage/base/transfer_shape.h"
#include "storage/io/disk.h"
#include "storage/io/disk_probe.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr char kPath[] = "/cache/disk.cairn";
constexpr std::uint64_t kFileBytes = 16 << 20;
constexpr std::size_t kNone = SIZE_MAX;

// A run of transfers: all until the next sync, or until the probe turns from reads to writes.
struct TransferRun {
  bool write = false;
  std::uint32_t bytes = 0;    // of each
  std::size_t transfers = 0;  // so many
  std::size_t at_once = 0;    // at most
  bool operator==(const TransferRun&) const = default;
};

// The transfers that a run with this shape should have, on a disk that is as fast as the clock, which stands still.
TransferRun Expected(bool write, const TransferShape& shape) {
  const std::uint64_t bytes = std::max<std::uint64_t>(8 << 20, 2 * shape.bytes_in_flight());
  return {.write = write, .bytes = shape.bytes, .transfers = bytes / shape.bytes, .at_once = shape.depth};
}

std::vector<TransferRun> AllExpected() {
  std::vector<TransferRun> runs = {{.write = true, .bytes = 1 << 20, .transfers = kFileBytes >> 20, .at_once = 4}};
  std::vector<TransferShape> shapes(ProbedShapes().begin(), ProbedShapes().end());
  for (int round = 0; round < 2; ++round) {
    for (const TransferShape& shape : shapes) {
      for (const bool write : {true, false}) runs.push_back(Expected(write, shape));
    }
    std::ranges::reverse(shapes);
  }
  return runs;
}

// Ends transfers on a thread of its own, in the order in which they were begun: when as many are under way as the run
// should have at once, else when none has come for a while. The faults that it can make: a transfer fails, or throws
// when it is begun. Notes what no probe may do.
class LateDisk final : public FakeDisk {
 public:
  LateDisk() : FakeDisk({.direct = true}), ender_([this] { EndAll(); }) {}
  ~LateDisk() override {
    {
      const absl::MutexLock lock(&mutex_);
      over_ = true;
      changed_.SignalAll();
    }
    ender_.join();
  }

  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenOptions options) override {
    auto file = FakeDisk::Open(path, options);
    if (!file.ok()) return file.status();
    const absl::MutexLock lock(&mutex_);
    runs_.clear();
    open_ = false;
    return std::make_unique<LateFile>(*this, *std::move(file));
  }
  std::shared_ptr<void> Pin(std::span<std::byte> memory) override {
    pinned_ = memory;
    auto handle = std::make_shared<int>(1);
    pin_ = handle;
    return handle;
  }

  void FailAt(std::size_t nth) { fail_at_ = nth; }
  void ThrowAt(std::size_t nth) { throw_at_ = nth; }
  bool is_pinned() const { return !pin_.expired(); }
  std::size_t under_way() {
    const absl::MutexLock lock(&mutex_);
    return under_way_.size();
  }
  std::size_t begun() {
    const absl::MutexLock lock(&mutex_);
    return begun_;
  }
  std::vector<TransferRun> runs() {
    const absl::MutexLock lock(&mutex_);
    return runs_;
  }
  std::set<std::string> wrong() {
    const absl::MutexLock lock(&mutex_);
    return wrong_;
  }

 private:
  struct Transfer {
    std::span<const std::byte> bytes;
    std::function<absl::Status()> work;
    File::Done done;
  };

  class LateFile final : public File {
   public:
    LateFile(LateDisk& disk, std::unique_ptr<File> file) : disk_(disk), file_(std::move(file)) {}
    absl::Status ReadAt(std::uint64_t at, std::span<std::byte> target) override { return file_->ReadAt(at, target); }
    absl::Status WriteAt(std::uint64_t at, std::span<const std::byte> bytes) override {
      return file_->WriteAt(at, bytes);
    }
    void ReadAsync(std::uint64_t at, std::span<std::byte> target, Done done) override {
      disk_.Begin(/*write=*/false, at,
                  {.bytes = target, .work = [=, this] { return ReadAt(at, target); }, .done = std::move(done)});
    }
    void WriteAsync(std::uint64_t at, std::span<const std::byte> bytes, Done done) override {
      disk_.Begin(/*write=*/true, at,
                  {.bytes = bytes, .work = [=, this] { return WriteAt(at, bytes); }, .done = std::move(done)});
    }
    absl::Status Truncate(std::uint64_t bytes) override { return file_->Truncate(bytes); }
    absl::Status Sync() override {
      disk_.Synced();
      return file_->Sync();
    }
    absl::StatusOr<FileInfo> Info() override { return file_->Info(); }
    absl::Status TryLock() override { return file_->TryLock(); }
    bool direct() const override { return file_->direct(); }
    const std::string& path() const override { return file_->path(); }

   private:
    LateDisk& disk_;
    const std::unique_ptr<File> file_;
  };

  void Begin(bool write, std::uint64_t at, Transfer transfer) {
    const absl::MutexLock lock(&mutex_);
    if (++begun_ == throw_at_) throw std::bad_alloc();
    if (!open_ || runs_.back().write != write) {
      runs_.push_back({.write = write, .bytes = static_cast<std::uint32_t>(transfer.bytes.size())});
      at_ = 0;
    }
    open_ = true;
    Check(write, at, transfer.bytes);
    under_way_.push_back(std::move(transfer));
    TransferRun& run = runs_.back();
    ++run.transfers;
    run.at_once = std::max(run.at_once, under_way_.size());
    changed_.SignalAll();
  }

  void Check(bool write, std::uint64_t at, std::span<const std::byte> bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (bytes.size() != runs_.back().bytes) wrong_.insert("transfers of several sizes");
    if (at != std::exchange(at_, (at + bytes.size()) % kFileBytes)) wrong_.insert("not one behind the other");
    if (at + bytes.size() > kFileBytes) wrong_.insert("behind the file's end");
    if (bytes.data() < pinned_.data() || bytes.data() + bytes.size() > pinned_.data() + pinned_.size()) {
      wrong_.insert("memory that is not pinned");
    }
    for (const Transfer& other : under_way_) {
      if (bytes.data() < other.bytes.data() + other.bytes.size() && other.bytes.data() < bytes.data() + bytes.size()) {
        wrong_.insert("two transfers in one place");
      }
    }
    std::set<std::uint64_t> words;
    for (std::size_t i = 0; i < 4096 / 8; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i * 8, 8);
      words.insert(word);
    }
    if (write && words.size() < 4096 / 8) wrong_.insert("bytes that can be made smaller");
  }

  void Synced() {
    const absl::MutexLock lock(&mutex_);
    if (!under_way_.empty()) wrong_.insert("a sync beside transfers");
    if (!open_ || !runs_.back().write) wrong_.insert("a sync without a write");
    open_ = false;
  }

  std::size_t AtOnce() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return runs_.size() <= expected_.size() ? expected_[runs_.size() - 1].at_once : 1;
  }

  void EndAll() {
    std::size_t ended = 0;
    for (;;) {
      Transfer next;
      {
        const absl::MutexLock lock(&mutex_);
        while (under_way_.empty() && !over_) changed_.Wait(&mutex_);
        if (under_way_.empty()) return;
        bool came = true;
        while (came && under_way_.size() < AtOnce()) {
          came = !changed_.WaitWithTimeout(&mutex_, absl::Milliseconds(20));
        }
        // A probe that begins more than it may does so now.
        if (came) changed_.WaitWithTimeout(&mutex_, absl::Microseconds(300));
        next = under_way_.front();
      }
      absl::Status status = next.work();
      if (++ended == fail_at_) status = absl::UnavailableError("injected");
      {
        const absl::MutexLock lock(&mutex_);
        under_way_.pop_front();
      }
      next.done(status);
    }
  }

  const std::vector<TransferRun> expected_ = AllExpected();
  std::span<std::byte> pinned_;
  std::weak_ptr<void> pin_;
  std::size_t fail_at_ = kNone, throw_at_ = kNone;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::deque<Transfer> under_way_ ABSL_GUARDED_BY(mutex_);
  std::vector<TransferRun> runs_ ABSL_GUARDED_BY(mutex_);
  bool open_ ABSL_GUARDED_BY(mutex_) = false;     // the last run
  std::uint64_t at_ ABSL_GUARDED_BY(mutex_) = 0;  // of the next transfer
  std::size_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<std::string> wrong_ ABSL_GUARDED_BY(mutex_);
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread ender_;  // last
};

class DiskProbeTransfersTest : public ::testing::Test {
 protected:
  DiskProbeTransfersTest() { EXPECT_OK(disk_.MakeDirectory("/cache", 0700)); }
  absl::StatusOr<DiskSpeeds> Probe(const std::function<bool()>& stop = [] { return false; }) {
    const DiskProbeLimits limits{.file_bytes = kFileBytes, .speed_min = 0};
    auto speeds = ProbeDisk(disk_, kPath, limits, stop);
    EXPECT_EQ(disk_.under_way(), 0u);
    EXPECT_FALSE(disk_.is_pinned());
    EXPECT_EQ(disk_.wrong(), std::set<std::string>());
    EXPECT_EQ(*disk_.List("/cache"), std::vector<std::string>());
    return speeds;
  }

  // It stands still: no time is ever over, and no disk is slow.
  ScopedClock clock_{{.wall = [] { return std::chrono::system_clock::time_point(); },
                      .steady = [] { return std::chrono::steady_clock::time_point(); },
                      .sleep = [](std::chrono::nanoseconds) {}}};
  LateDisk disk_;
};

TEST_F(DiskProbeTransfersTest, EachRunHasItsShapeAndTheRoundsGoBothWays) {
  ASSERT_OK(Probe());
  const std::vector<TransferRun> runs = disk_.runs(), expected = AllExpected();
  ASSERT_EQ(runs.size(), expected.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].write, expected[i].write) << i;
    EXPECT_EQ(runs[i].bytes, expected[i].bytes) << i;
    EXPECT_EQ(runs[i].transfers, expected[i].transfers) << i;
    EXPECT_EQ(runs[i].at_once, expected[i].at_once) << i;
  }
}

TEST_F(DiskProbeTransfersTest, WhoeverStopsItWaitsForWhatIsUnderWayAndForNothingElse) {
  for (const std::size_t stop_at : {1u, 3u, 7u, 20u, 90u}) {
    std::size_t asked = 0, begun = 0;
    const auto stopped = Probe([&] {
      if (++asked == stop_at) begun = disk_.begun();
      return asked >= stop_at;
    });
    EXPECT_EQ(stopped.status().code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(disk_.begun(), begun) << stop_at;
  }
}

TEST_F(DiskProbeTransfersTest, ATransferThatFailsLaterEndsIt) {
  disk_.FailAt(30);
  EXPECT_EQ(Probe().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_LE(disk_.begun(), 30u + 4);
}

TEST_F(DiskProbeTransfersTest, ATransferThatCannotBeBegunEndsIt) {
  for (const std::size_t nth : {std::size_t{1}, std::size_t{6}}) {
    disk_.ThrowAt(disk_.begun() + nth);
    EXPECT_FALSE(Probe().ok());
  }
}

}  // namespace
}  // namespace cairn
