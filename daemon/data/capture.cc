#include "daemon/data/capture.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "daemon/data/lane_hash.h"
#include "daemon/data/tail.h"
#include "daemon/data/window_table.h"
#include "storage/base/status.h"
#include "storage/ftiff/codec.h"

namespace cairn {
namespace {

constexpr std::uint64_t kRunWindowsMax = 4;         // adjacent windows in one write
constexpr std::size_t kWritesMax = 8;               // in flight
constexpr std::uint64_t kLaneBytesMax = 512 << 10;  // of one chunk in one job: 16 lanes take some 2 ms
constexpr std::uint64_t kLaneBytesMin = 64 << 10;   // less than this does not count as a lane of its job
constexpr std::size_t kChunksOfJobMax = 1024;

class CaptureImpl final : public Capture {
 public:
  CaptureImpl(Disk& disk, WorkPool& pool, Spec spec, Callbacks callbacks)
      : disk_(disk),
        pool_(pool),
        spec_(std::move(spec)),
        image_(spec_.image == nullptr ? std::span<std::byte>() : spec_.image->bytes()),
        callbacks_(std::move(callbacks)),
        table_(spec_.layout, spec_.plan, image_.size()),
        data_rest_(spec_.layout.data_bytes % kDirectAlignment) {
    chunks_unhashed_ = table_.chunks().size();
    for (const WindowTable::Window& window : table_.windows()) {
      if (!table_.ring() || window.content > 0) ++windows_unwritten_;
    }
  }

  void Begin() {
    const absl::MutexLock lock(&mutex_);
    if (!table_.ring() && !spec_.plan.empty()) hold_.emplace(pool_.HoldForClient());
    ++busy_;
    pool_.PostWaiting([self = Self()] { self->Open(); });
  }

  const std::vector<PlanPiece>& plan() const override { return spec_.plan; }
  absl::Status Filled(std::uint64_t pieces) override;
  absl::Status Put(std::uint64_t index, std::span<const std::byte> bytes, std::uint32_t crc32c) override;
  std::uint64_t pieces_filled() const override {
    const absl::MutexLock lock(&mutex_);
    return filled_;
  }
  absl::Status Commit() override;
  void Abort() override;

 private:
  // The adjacent windows of one write.
  struct Run {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  // A part of a chunk that a job hashes.
  struct Claim {
    std::size_t chunk = 0;
    std::size_t window = 0;
    std::uint64_t bytes = 0;
    std::uint64_t behind = 0;  // bytes of the window after these
    BlockCrc share;
  };

  std::shared_ptr<CaptureImpl> Self() { return std::static_pointer_cast<CaptureImpl>(shared_from_this()); }

  absl::Status CheckFilled(std::uint64_t pieces) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakePieces(std::uint64_t pieces) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropHold() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void MakeReady(std::size_t chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PostHashing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HashSome(std::uint64_t epoch);
  bool ClaimSome(std::uint64_t epoch, std::vector<Claim>& claims, std::vector<HashLane>& lanes);
  void Publish(std::uint64_t epoch, const std::vector<Claim>& claims, const std::vector<HashLane>& lanes);

  void Open();
  void PostWriting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Run> NextRun() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteSome();
  void Write(const Run& run);
  void Written(const Run& run, const absl::Status& status);
  void Release() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void Fail(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish();
  absl::StatusOr<CaptureResult> WriteEnd();

  Disk& disk_;
  WorkPool& pool_;
  const Spec spec_;
  const std::span<std::byte> image_;

  mutable absl::Mutex mutex_;
  Callbacks callbacks_ ABSL_GUARDED_BY(mutex_);
  // Places never change; the rest is guarded by mutex_.
  WindowTable table_;
  std::vector<std::byte> data_rest_;  // what the last window leaves to WriteTail; of its writer, then of Finish
  std::unique_ptr<File> file_;        // set by Open before any other waiter runs
  std::optional<WorkPool::Hold> hold_ ABSL_GUARDED_BY(mutex_);

  std::uint64_t filled_ ABSL_GUARDED_BY(mutex_) = 0;
  bool committed_ ABSL_GUARDED_BY(mutex_) = false;

  // Hashing. A new epoch voids what was claimed in older ones: a job on an idle thread may starve for long while
  // others could go on, so that it works on copies and its results count only in the epoch in which it began.
  std::atomic<std::uint64_t> epoch_{0};                                               // changes under mutex_
  std::vector<std::pair<std::uint64_t, std::size_t>> ready_ ABSL_GUARDED_BY(mutex_);  // heap: bytes left, chunk
  std::vector<bool> taken_ ABSL_GUARDED_BY(mutex_);                                   // chunk is in ready_ or claimed
  std::size_t jobs_ ABSL_GUARDED_BY(mutex_) = 0;         // of this epoch, posted or running
  std::size_t jobs_posted_ ABSL_GUARDED_BY(mutex_) = 0;  // of these, not yet running
  std::size_t chunks_unhashed_ ABSL_GUARDED_BY(mutex_) = 0;

  // Writing.
  bool opened_ ABSL_GUARDED_BY(mutex_) = false;
  bool writer_posted_ ABSL_GUARDED_BY(mutex_) = false;
  std::size_t writes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t next_window_ ABSL_GUARDED_BY(mutex_) = 0;       // whole file: the next one to be written
  std::deque<std::size_t> writable_ ABSL_GUARDED_BY(mutex_);  // ring: complete windows
  std::size_t windows_unwritten_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::size_t> unreleased_ ABSL_GUARDED_BY(mutex_);  // ring: in the order of their completion
  std::uint64_t released_ ABSL_GUARDED_BY(mutex_) = 0;

  // The end. `busy_` counts what still uses the file: the opening, the writer, writes in flight.
  std::size_t busy_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

// --- What the client says ---

absl::Status CaptureImpl::CheckFilled(std::uint64_t pieces) const {
  if (pieces < filled_ || pieces > spec_.plan.size()) {
    return InvalidArgument("capture {}: {} pieces filled after {}, the plan has {}", spec_.work_path, pieces, filled_,
                           spec_.plan.size());
  }
  for (std::uint64_t i = filled_; table_.ring() && i < pieces; ++i) {
    if (spec_.plan[i].after_released > released_) {
      return InvalidArgument("capture {}: piece {} filled before {} windows were released, only {} are",
                             spec_.work_path, i, spec_.plan[i].after_released, released_);
    }
  }
  return absl::OkStatus();
}

void CaptureImpl::TakePieces(std::uint64_t pieces) {
  for (; filled_ < pieces; ++filled_) {
    const PlanPiece& piece = spec_.plan[filled_];
    const std::size_t chunk = table_.ChunkOfPiece(filled_);
    table_.chunks()[chunk].filled += piece.bytes;
    MakeReady(chunk);
    const std::size_t index = table_.WindowAt(piece.file_offset);
    WindowTable::Window& window = table_.windows()[index];
    window.unfilled -= piece.bytes;
    if (window.unfilled > 0 || !table_.ring()) continue;
    writable_.push_back(index);
    unreleased_.push_back(index);
  }
}

absl::Status CaptureImpl::Filled(std::uint64_t pieces) {
  const absl::MutexLock lock(&mutex_);
  CAIRN_RETURN_IF_ERROR(CheckFilled(pieces));
  TakePieces(pieces);
  PostHashing();
  PostWriting();
  return absl::OkStatus();
}

absl::Status CaptureImpl::Put(std::uint64_t index, std::span<const std::byte> bytes, std::uint32_t crc32c) {
  {
    const absl::MutexLock lock(&mutex_);
    if (index != filled_ || index >= spec_.plan.size()) {
      return InvalidArgument("capture {}: piece {} comes where {} of {} is due", spec_.work_path, index, filled_,
                             spec_.plan.size());
    }
    if (bytes.size() != spec_.plan[index].bytes) {
      return InvalidArgument("capture {}: piece {} has {} bytes, expected {}", spec_.work_path, index, bytes.size(),
                             spec_.plan[index].bytes);
    }
    CAIRN_RETURN_IF_ERROR(CheckFilled(index + 1));
    DropHold();  // no client shares the cores: the bytes come from elsewhere
  }
  if (const std::uint32_t found = Crc32c(bytes); found != crc32c) {
    return DataLoss("capture {}: piece {} has CRC32C {:08x}, expected {:08x}", spec_.work_path, index, found, crc32c);
  }
  std::memcpy(image_.data() + spec_.plan[index].image_offset, bytes.data(), bytes.size());
  return Filled(index + 1);
}

absl::Status CaptureImpl::Commit() {
  const absl::MutexLock lock(&mutex_);
  if (committed_) return FailedPrecondition("capture {}: committed twice", spec_.work_path);
  if (!failure_.ok()) return failure_;
  if (filled_ < spec_.plan.size()) {
    return FailedPrecondition("capture {}: committed with {} of {} pieces filled", spec_.work_path, filled_,
                              spec_.plan.size());
  }
  committed_ = true;
  DropHold();
  PostHashing();
  PostWriting();
  Settle();
  return absl::OkStatus();
}

void CaptureImpl::Abort() {
  const absl::MutexLock lock(&mutex_);
  Fail(Cancelled("capture {}: aborted", spec_.work_path));
  Settle();
}

// What idle threads have claimed is anybody's again.
void CaptureImpl::DropHold() {
  if (!hold_.has_value()) return;
  hold_.reset();
  ++epoch_;
  jobs_ = jobs_posted_ = 0;
  ready_.clear();
  taken_.clear();
  for (std::size_t i = 0; i < table_.chunks().size(); ++i) {
    const WindowTable::Chunk& chunk = table_.chunks()[i];
    if (chunk.filled > chunk.hashed) MakeReady(i);
  }
}

// --- Hashing ---

// The chunk with the most bytes left comes first: so all end at about the same time, and lanes stay full.
void CaptureImpl::MakeReady(std::size_t chunk) {
  taken_.resize(table_.chunks().size());
  if (taken_[chunk]) return;
  taken_[chunk] = true;
  const WindowTable::Chunk& of = table_.chunks()[chunk];
  ready_.emplace_back(of.bytes - of.hashed, chunk);
  std::push_heap(ready_.begin(), ready_.end());
}

void CaptureImpl::PostHashing() {
  if (!failure_.ok()) return;
  // As long as the client copies only full lanes are worth their while; there is time later.
  const std::size_t rounding = committed_ || table_.ring() ? kMd5LanesMax - 1 : 0;
  const std::size_t wanted = (ready_.size() + rounding) / kMd5LanesMax;
  while (jobs_posted_ < wanted && jobs_ < pool_.threads()) {
    ++jobs_;
    ++jobs_posted_;
    pool_.Post([self = Self(), epoch = epoch_.load()] { self->HashSome(epoch); });
  }
}

bool CaptureImpl::ClaimSome(std::uint64_t epoch, std::vector<Claim>& claims, std::vector<HashLane>& lanes) {
  const absl::MutexLock lock(&mutex_);
  if (epoch != epoch_) return false;
  --jobs_posted_;
  std::size_t full_lanes = 0;
  while (!ready_.empty() && full_lanes < kMd5LanesMax && claims.size() < kChunksOfJobMax) {
    const std::size_t index = ready_.front().second;
    std::pop_heap(ready_.begin(), ready_.end());
    ready_.pop_back();
    const WindowTable::Chunk& chunk = table_.chunks()[index];
    const std::uint64_t at = chunk.file_offset + chunk.hashed;
    const std::size_t window = table_.WindowAt(at);
    const std::uint64_t window_end = table_.WindowBegin(window) + table_.windows()[window].bytes;
    const std::uint64_t bytes = std::min({chunk.filled - chunk.hashed, window_end - at, kLaneBytesMax});
    claims.push_back({index, window, bytes, window_end - at - bytes, {}});
    lanes.push_back({chunk.hash, image_.subspan(table_.ImageOffset(at), bytes), {}});
    if (bytes >= kLaneBytesMin) ++full_lanes;
  }
  if (claims.empty()) --jobs_;
  return !claims.empty();
}

void CaptureImpl::HashSome(std::uint64_t epoch) {
  std::vector<Claim> claims;
  std::vector<HashLane> lanes;
  if (!ClaimSome(epoch, claims, lanes)) return;
  HashLanes(lanes, [this, epoch] { return epoch != epoch_; });
  for (std::size_t i = 0; i < claims.size(); ++i) {
    claims[i].share = ShareOf(lanes[i].crc, claims[i].bytes, claims[i].behind);
  }
  Publish(epoch, claims, lanes);
}

void CaptureImpl::Publish(std::uint64_t epoch, const std::vector<Claim>& claims, const std::vector<HashLane>& lanes) {
  const absl::MutexLock lock(&mutex_);
  if (epoch != epoch_) return;
  --jobs_;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    WindowTable::Chunk& chunk = table_.chunks()[claims[i].chunk];
    chunk.hash = lanes[i].hash;
    chunk.hashed += claims[i].bytes;
    taken_[claims[i].chunk] = false;
    if (chunk.hashed == chunk.bytes) --chunks_unhashed_;
    if (chunk.filled > chunk.hashed) MakeReady(claims[i].chunk);
    WindowTable::Window& window = table_.windows()[claims[i].window];
    window.crc ^= claims[i].share;
    window.unhashed -= claims[i].bytes;
  }
  PostHashing();
  Release();
  Settle();
}

// --- Writing ---

void CaptureImpl::Open() {
  absl::StatusOr<std::unique_ptr<File>> file =
      disk_.Open(spec_.work_path, {.direct = true, .writable = true, .create = true});
  absl::Status status = file.status();
  // At its full length from the begin, no write has to extend it: extending ones exclude each other.
  if (status.ok()) status = (*file)->Truncate(spec_.layout.file_bytes_f());
  const absl::MutexLock lock(&mutex_);
  --busy_;
  if (file.ok()) file_ = *std::move(file);
  if (status.ok()) {
    opened_ = true;
  } else {
    Fail(std::move(status));
  }
  PostWriting();
  Settle();
}

std::optional<CaptureImpl::Run> CaptureImpl::NextRun() {
  if (table_.ring()) {
    if (writable_.empty()) return std::nullopt;
    const Run run{writable_.front(), 1};
    writable_.pop_front();
    return run;
  }
  if (!committed_ || next_window_ == table_.windows().size()) return std::nullopt;
  const Run run{next_window_, std::min(kRunWindowsMax, table_.windows().size() - next_window_)};
  next_window_ += run.count;
  return run;
}

void CaptureImpl::PostWriting() {
  if (!opened_ || !failure_.ok() || writer_posted_ || writes_ == kWritesMax) return;
  if (table_.ring() ? writable_.empty() : !committed_ || next_window_ == table_.windows().size()) return;
  writer_posted_ = true;
  ++busy_;
  pool_.PostWaiting([self = Self()] { self->WriteSome(); });
}

void CaptureImpl::WriteSome() {
  while (true) {
    std::optional<Run> run;
    {
      const absl::MutexLock lock(&mutex_);
      if (failure_.ok() && writes_ < kWritesMax) run = NextRun();
      if (!run.has_value()) {
        writer_posted_ = false;
        --busy_;
        Settle();
        return;
      }
      ++writes_;
      ++busy_;
    }
    Write(*run);
  }
}

void CaptureImpl::Write(const Run& run) {
  const std::size_t end = run.first + run.count;
  for (std::size_t i = run.first; i < end; ++i) table_.ZeroGaps(i, image_);
  const WindowTable::Window& first = table_.windows()[run.first];
  const std::uint64_t offset = table_.WindowBegin(run.first);
  std::uint64_t bytes = table_.WindowBegin(end - 1) + table_.windows()[end - 1].bytes - offset;
  if (end == table_.windows().size()) {
    bytes -= data_rest_.size();
    std::copy_n(image_.data() + first.image_offset + bytes, data_rest_.size(), data_rest_.begin());
  }
  if (bytes == 0) return Written(run, absl::OkStatus());
  file_->WriteAsync(offset, image_.subspan(first.image_offset, bytes),
                    [self = Self(), run](absl::Status status) { self->Written(run, status); });
}

void CaptureImpl::Written(const Run& run, const absl::Status& status) {
  const absl::MutexLock lock(&mutex_);
  --writes_;
  --busy_;
  if (!status.ok()) Fail(status);
  for (std::size_t i = run.first; i < run.first + run.count; ++i) table_.windows()[i].written = true;
  windows_unwritten_ -= run.count;
  Release();
  PostWriting();
  Settle();
}

void CaptureImpl::Release() {
  if (!table_.ring() || !failure_.ok()) return;
  const std::uint64_t before = released_;
  while (!unreleased_.empty()) {
    const WindowTable::Window& window = table_.windows()[unreleased_.front()];
    if (!window.written || window.unhashed > 0) break;
    unreleased_.pop_front();
    ++released_;
  }
  if (released_ != before) callbacks_.on_released(released_);
}

// --- The end ---

void CaptureImpl::Fail(absl::Status status) {
  if (!failure_.ok() || ended_) return;
  failure_ = std::move(status);
  hold_.reset();
  ++epoch_;
  writable_.clear();
}

void CaptureImpl::Settle() {
  if (finishing_ || busy_ > 0) return;
  if (failure_.ok() && (!committed_ || windows_unwritten_ > 0 || chunks_unhashed_ > 0)) return;
  finishing_ = true;
  pool_.PostWaiting([self = Self()] { self->Finish(); });
}

void CaptureImpl::Finish() {
  absl::Status status;
  {
    const absl::MutexLock lock(&mutex_);
    status = failure_;
  }
  absl::StatusOr<CaptureResult> result = status.ok() ? WriteEnd() : status;
  std::function<void(absl::StatusOr<CaptureResult>)> on_end;
  {
    const absl::MutexLock lock(&mutex_);
    if (result.ok() && !failure_.ok()) result = failure_;
    ended_ = true;
    on_end = std::move(callbacks_.on_end);
    callbacks_ = {};
  }
  file_ = nullptr;
  if (!result.ok()) {
    disk_.Remove(spec_.work_path).IgnoreError();  // not there if it could not be made; a work name is garbage anyway
  }
  on_end(std::move(result));
}

absl::StatusOr<CaptureResult> CaptureImpl::WriteEnd() {
  const ftiff::FileLayout& layout = spec_.layout;
  std::vector<Md5Digest> hashes(layout.containers.size(), Md5({}));
  std::vector<BlockCrc> windows;
  {
    const absl::MutexLock lock(&mutex_);
    for (const WindowTable::Chunk& chunk : table_.chunks()) hashes[chunk.container] = chunk.hash.Finish();
    windows.reserve(table_.windows().size());
    for (const WindowTable::Window& window : table_.windows()) windows.push_back(window.crc);
  }
  const ftiff::FileHeader header{.checkpoint_id = spec_.checkpoint_id, .timestamp_ns = spec_.timestamp_ns};
  CaptureResult result = SumUp(layout.data_bytes, windows, ftiff::EncodeMetadata(layout, hashes, header));
  CAIRN_RETURN_IF_ERROR(WriteTail(*file_, layout.data_bytes, data_rest_, result.metadata));
  CAIRN_RETURN_IF_ERROR(file_->Sync());
  return result;
}

}  // namespace

std::shared_ptr<Capture> Capture::Start(Disk& disk, WorkPool& pool, Spec spec, Callbacks callbacks) {
  auto capture = std::make_shared<CaptureImpl>(disk, pool, std::move(spec), std::move(callbacks));
  capture->Begin();
  return capture;
}

}  // namespace cairn
