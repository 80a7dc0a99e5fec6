#include "storage/io/disk_probe.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "storage/base/caught.h"
#include "storage/base/clock.h"
#include "storage/base/path.h"
#include "storage/base/size_text.h"
#include "storage/base/status.h"
#include "storage/io/scratch.h"

namespace cairn {
namespace {

constexpr std::uint32_t kKi = 1 << 10, kMi = 1 << 20;
constexpr auto kShapes = std::to_array<TransferShape>({
    {.bytes = 1 * kMi, .depth = 1},
    {.bytes = 256 * kKi, .depth = 4},
    {.bytes = 1 * kMi, .depth = 4},
    {.bytes = 256 * kKi, .depth = 16},
    {.bytes = 4 * kMi, .depth = 2},
    {.bytes = 1 * kMi, .depth = 8},
    {.bytes = 4 * kMi, .depth = 4},
    {.bytes = 4 * kMi, .depth = 8},
});
constexpr TransferShape kFirst{.bytes = 1 * kMi, .depth = 4};  // of the file's first write
constexpr std::size_t kBufferBytes = 32 * kMi;                 // as much as the largest shape has in flight
constexpr int kRounds = 2;
// Of a measurement: long enough to tell shapes apart, short enough for all of them within the time.
constexpr double kSampleSeconds = 0.015;
constexpr std::uint64_t kSampleBytesMin = 8 * kMi, kSampleBytesMax = 32 * kMi;
constexpr std::uint64_t kShareOfFree = 32;

struct Free {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using Buffer = std::unique_ptr<std::byte, Free>;

// Bytes that no file system can make smaller.
absl::StatusOr<Buffer> MakeBuffer() {
  Buffer buffer(static_cast<std::byte*>(std::aligned_alloc(2 * kMi, kBufferBytes)));
  if (buffer == nullptr) return ResourceExhausted("no memory for {}", SizeText(kBufferBytes));
  madvise(buffer.get(), kBufferBytes, MADV_HUGEPAGE);  // as images are; refused: small pages do
  std::uint64_t number = 0x9e3779b97f4a7c15;
  for (std::size_t at = 0; at < kBufferBytes; at += sizeof(number)) {
    number ^= number << 13;
    number ^= number >> 7;
    number ^= number << 17;
    std::memcpy(buffer.get() + at, &number, sizeof(number));
  }
  return buffer;
}

struct Sample {
  double bytes_per_s = 0;
  bool whole = true;  // false: the time was over before
};

class Transfers {
 public:
  Transfers(File& file, std::uint64_t file_bytes, std::byte* buffer, std::chrono::steady_clock::time_point end,
            const std::function<bool()>& stop)
      : file_(file), file_bytes_(file_bytes), buffer_(buffer), end_(end), stop_(stop) {}

  // Transfers so many bytes in this shape, from the begin of the file on and again from there. Nothing is under way
  // when it returns.
  absl::StatusOr<Sample> Run(bool write, const TransferShape& shape, std::uint64_t bytes) {
    const auto begin = SteadyNow();
    absl::Status begun;
    std::uint64_t at = 0;
    for (; at < bytes && AwaitTurn(shape.depth) && SteadyNow() <= end_; at += shape.bytes) {
      begun = CheckGoesOn();
      if (begun.ok()) begun = Begin(write, shape.bytes, at);
      if (!begun.ok()) break;
    }
    absl::Status ended = AwaitAll();
    CAIRN_RETURN_IF_ERROR(begun);
    CAIRN_RETURN_IF_ERROR(ended);
    if (write) CAIRN_RETURN_IF_ERROR(CheckGoesOn());
    if (write) CAIRN_RETURN_IF_ERROR(file_.Sync());
    const double seconds = std::chrono::duration<double>(SteadyNow() - begin).count();
    return Sample{.bytes_per_s = seconds > 0 ? static_cast<double>(at) / seconds : 0, .whole = at >= bytes};
  }

 private:
  absl::Status CheckGoesOn() const { return stop_() ? Cancelled("{}: stopped", file_.path()) : absl::OkStatus(); }

  absl::Status Begin(bool write, std::uint32_t bytes, std::uint64_t at) {
    const auto done = [this](const absl::Status& status) {
      const absl::MutexLock lock(&mutex_);
      --under_way_;
      status_.Update(status);
      changed_.SignalAll();
    };
    const std::span<std::byte> part(buffer_ + at % kBufferBytes, bytes);
    {
      const absl::MutexLock lock(&mutex_);
      ++under_way_;
    }
    absl::Status begun = Caught([&] {
      write ? file_.WriteAsync(at % file_bytes_, part, done) : file_.ReadAsync(at % file_bytes_, part, done);
    });
    if (!begun.ok()) done(begun);  // whoever throws has not taken it over
    return begun;
  }

  // False: one has failed, and AwaitAll says why.
  bool AwaitTurn(std::uint32_t depth) {
    const absl::MutexLock lock(&mutex_);
    while (status_.ok() && under_way_ >= depth) changed_.Wait(&mutex_);
    return status_.ok();
  }

  absl::Status AwaitAll() {
    const absl::MutexLock lock(&mutex_);
    while (under_way_ > 0) changed_.Wait(&mutex_);
    return std::exchange(status_, absl::OkStatus());
  }

  File& file_;
  const std::uint64_t file_bytes_;
  std::byte* const buffer_;
  const std::chrono::steady_clock::time_point end_;
  const std::function<bool()>& stop_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::uint32_t under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::uint64_t> FileBytes(Disk& disk, const std::string& path, const DiskProbeLimits& limits) {
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t free, disk.FreeBytes(ParentOf(path)));
  const std::uint64_t bytes = std::min(limits.file_bytes, free / kShareOfFree) / kSampleBytesMin * kSampleBytesMin;
  if (bytes >= limits.file_bytes_min) return bytes;
  return ResourceExhausted("{}: {} are free, {} are needed to measure", ParentOf(path), SizeText(free),
                           SizeText(limits.file_bytes_min * kShareOfFree));
}

void TakeBetter(ShapeSpeed& known, double bytes_per_s) {
  known.bytes_per_s = std::max(known.bytes_per_s, bytes_per_s);
}

// False: the time was over before.
absl::StatusOr<bool> MeasureAll(Transfers& transfers, double speed, DiskSpeeds& speeds) {
  for (const TransferShape& shape : kShapes) {
    speeds.write.push_back({.shape = shape});
    speeds.read.push_back({.shape = shape});
  }
  const std::uint64_t of_time = static_cast<std::uint64_t>(std::min(speed * kSampleSeconds, 1e9)) / kMi * kMi;
  const std::uint64_t sample = std::clamp(of_time, kSampleBytesMin, kSampleBytesMax);
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kShapes.size(); ++i) {
      // The other way round in every other round: what changes with time is not taken for the shapes' difference.
      const std::size_t which = round % 2 == 0 ? i : kShapes.size() - 1 - i;
      const TransferShape& shape = kShapes[which];
      const std::uint64_t bytes = std::max(sample, 2 * shape.bytes_in_flight()) / shape.bytes * shape.bytes;
      CAIRN_ASSIGN_OR_RETURN(const Sample written, transfers.Run(/*write=*/true, shape, bytes));
      if (!written.whole) return false;
      CAIRN_ASSIGN_OR_RETURN(const Sample read, transfers.Run(/*write=*/false, shape, bytes));
      if (!read.whole) return false;
      TakeBetter(speeds.write[which], written.bytes_per_s);
      TakeBetter(speeds.read[which], read.bytes_per_s);
    }
  }
  return true;
}

absl::StatusOr<DiskSpeeds> Measure(Disk& disk, File& file, std::uint64_t file_bytes, const DiskProbeLimits& limits,
                                   const std::function<bool()>& stop) {
  const auto end = SteadyNow() + limits.time;
  CAIRN_RETURN_IF_ERROR(file.Truncate(file_bytes));
  CAIRN_ASSIGN_OR_RETURN(const Buffer buffer, MakeBuffer());
  const std::shared_ptr<void> pinned = disk.Pin({buffer.get(), kBufferBytes});
  Transfers transfers(file, file_bytes, buffer.get(), end, stop);
  DiskSpeeds speeds;
  CAIRN_ASSIGN_OR_RETURN(const Sample first, transfers.Run(/*write=*/true, kFirst, file_bytes));
  speeds.bytes_per_s = first.bytes_per_s;
  if (!first.whole || first.bytes_per_s < static_cast<double>(limits.speed_min)) return speeds;
  CAIRN_ASSIGN_OR_RETURN(const bool all, MeasureAll(transfers, first.bytes_per_s, speeds));
  if (!all) speeds.write.clear(), speeds.read.clear();
  return speeds;
}

}  // namespace

std::span<const TransferShape> ProbedShapes() {
  return kShapes;
}

absl::StatusOr<DiskSpeeds> ProbeDisk(Disk& disk, const std::string& path, const DiskProbeLimits& limits,
                                     const std::function<bool()>& stop) {
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t file_bytes, FileBytes(disk, path, limits));
  CAIRN_ASSIGN_OR_RETURN(ScratchFile scratch, ScratchFile::Open(disk, path));
  if (!scratch.file().direct()) return FailedPrecondition("{}: no direct I/O there", ParentOf(path));
  absl::StatusOr<DiskSpeeds> speeds = Measure(disk, scratch.file(), file_bytes, limits, stop);
  const absl::Status removed = scratch.Remove();
  if (speeds.ok()) CAIRN_RETURN_IF_ERROR(removed);
  return speeds;
}

}  // namespace cairn
