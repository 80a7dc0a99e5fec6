#include "daemon/data/capture.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
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
        data_rest_(spec_.layout.data_bytes % kDirectAlignment),
        callbacks_(std::move(callbacks)),
        table_(spec_.layout, spec_.plan, image_.size()) {
    chunks_unhashed_ = table_.chunks().size();
    taken_.resize(table_.chunks().size());
    for (const WindowTable::Window& window : table_.windows()) {
      if (!table_.ring() || window.content > 0) ++windows_unwritten_;
    }
  }

  void Begin() {
    const std::lock_guard lock(mutex_);
    if (!table_.ring() && !spec_.plan.empty()) hold_.emplace(pool_.HoldForClient());
    ++busy_;
    pool_.PostWaiting([self = Self()] { self->Open(); });
  }

  const std::vector<PlanPiece>& plan() const override { return spec_.plan; }
  absl::Status Filled(std::uint64_t pieces) override;
  absl::Status Put(std::uint64_t index, std::span<const std::byte> bytes, std::uint32_t crc32c) override;
  std::uint64_t pieces_filled() const override {
    const std::lock_guard lock(mutex_);
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
  // Works on copies: a job that starves on an idle thread is voided, others do its work, and its results do not count.
  struct HashJob {
    std::atomic<bool> voided{false};  // changes under the lock, as do the next two
    bool claimed = false;
    bool published = false;
    std::vector<Claim> claims;  // made under the lock; then only the job itself changes the shares
    std::vector<HashLane> lanes;
  };

  std::shared_ptr<CaptureImpl> Self() { return std::static_pointer_cast<CaptureImpl>(shared_from_this()); }

  // Under the lock.
  absl::Status CheckFilled(std::uint64_t pieces) const;
  void TakePieces(std::uint64_t pieces);
  void MakeReady(std::size_t chunk);
  void PostHashing();
  void PostWriting();
  std::optional<Run> NextRun();
  void Release();
  void Fail(absl::Status status);
  void Settle();
  std::vector<Md5Digest> ChunkHashes();  // all is hashed

  // Without it, on threads of the pool or of the disk.
  void HashSome(HashJob& job);
  bool ClaimSome(HashJob& job);
  void Publish(HashJob& job);
  void TakeBack(HashJob& job);
  void Open();
  void WriteSome();
  void Write(const Run& run);
  void Written(const Run& run, const absl::Status& status);
  void Finish();
  absl::StatusOr<CaptureResult> WriteEnd();

  Disk& disk_;
  WorkPool& pool_;
  const Spec spec_;
  const std::span<std::byte> image_;

  // Each of one thread after the other.
  std::vector<std::byte> data_rest_;  // what the last window leaves to WriteTail; of its writer, then of Finish
  std::unique_ptr<File> file_;        // set by Open before any other waiter runs

  mutable std::mutex mutex_;  // guards all that follows, but for the places in table_, which never change
  Callbacks callbacks_;
  WindowTable table_;
  std::optional<WorkPool::Hold> hold_;

  std::uint64_t filled_ = 0;
  bool committed_ = false;

  // Hashing.
  std::vector<std::pair<std::uint64_t, std::size_t>> ready_;  // heap: bytes left, chunk
  std::vector<bool> taken_;                                   // chunk is in ready_ or claimed
  std::size_t jobs_ = 0;                                      // posted or running, not voided
  std::size_t jobs_unclaimed_ = 0;                            // of these, with nothing claimed yet
  std::size_t chunks_unhashed_ = 0;

  // Writing.
  bool opened_ = false;
  bool writer_posted_ = false;
  std::size_t writes_ = 0;
  std::size_t next_window_ = 0;       // whole file: the next one to be written
  std::deque<std::size_t> writable_;  // ring: complete windows
  std::size_t windows_unwritten_ = 0;
  std::deque<std::size_t> unreleased_;  // ring: in the order of their completion
  std::uint64_t released_ = 0;

  // The end. `busy_` counts what still uses the file: the opening, the writer, writes in flight.
  std::size_t busy_ = 0;
  absl::Status failure_;
  std::atomic<bool> stopping_{false};  // failure_ is set; changes under the lock
  bool finishing_ = false;
  bool ended_ = false;
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
  const std::lock_guard lock(mutex_);
  CAIRN_RETURN_IF_ERROR(CheckFilled(pieces));
  TakePieces(pieces);
  PostHashing();
  PostWriting();
  return absl::OkStatus();
}

absl::Status CaptureImpl::Put(std::uint64_t index, std::span<const std::byte> bytes, std::uint32_t crc32c) {
  {
    const std::lock_guard lock(mutex_);
    if (index != filled_ || index >= spec_.plan.size()) {
      return InvalidArgument("capture {}: piece {} comes where {} of {} is due", spec_.work_path, index, filled_,
                             spec_.plan.size());
    }
    if (bytes.size() != spec_.plan[index].bytes) {
      return InvalidArgument("capture {}: piece {} has {} bytes, expected {}", spec_.work_path, index, bytes.size(),
                             spec_.plan[index].bytes);
    }
    CAIRN_RETURN_IF_ERROR(CheckFilled(index + 1));
    hold_.reset();  // no client shares the cores: the bytes come from elsewhere
  }
  if (const std::uint32_t found = Crc32c(bytes); found != crc32c) {
    return DataLoss("capture {}: piece {} has CRC32C {:08x}, expected {:08x}", spec_.work_path, index, found, crc32c);
  }
  std::memcpy(image_.data() + spec_.plan[index].image_offset, bytes.data(), bytes.size());
  return Filled(index + 1);
}

absl::Status CaptureImpl::Commit() {
  const std::lock_guard lock(mutex_);
  if (committed_) return FailedPrecondition("capture {}: committed twice", spec_.work_path);
  if (!failure_.ok()) return failure_;
  if (filled_ < spec_.plan.size()) {
    return FailedPrecondition("capture {}: committed with {} of {} pieces filled", spec_.work_path, filled_,
                              spec_.plan.size());
  }
  committed_ = true;
  hold_.reset();
  PostHashing();
  PostWriting();
  Settle();
  return absl::OkStatus();
}

void CaptureImpl::Abort() {
  const std::lock_guard lock(mutex_);
  Fail(Cancelled("capture {}: aborted", spec_.work_path));
  Settle();
}

// --- Hashing ---

// The chunk with the most bytes left comes first: so all end at about the same time, and lanes stay full.
void CaptureImpl::MakeReady(std::size_t chunk) {
  if (taken_[chunk]) return;
  taken_[chunk] = true;
  const WindowTable::Chunk& of = table_.chunks()[chunk];
  ready_.emplace_back(of.bytes - of.hashed, chunk);
  std::push_heap(ready_.begin(), ready_.end());
}

void CaptureImpl::PostHashing() {
  if (stopping_ || (!committed_ && !table_.ring())) return;
  const std::size_t wanted = (ready_.size() + kMd5LanesMax - 1) / kMd5LanesMax;
  while (jobs_unclaimed_ < wanted && jobs_ < pool_.threads()) {
    ++jobs_;
    ++jobs_unclaimed_;
    const auto job = std::make_shared<HashJob>();
    pool_.Post([self = Self(), job] { self->HashSome(*job); }, [self = Self(), job] { self->TakeBack(*job); });
  }
}

bool CaptureImpl::ClaimSome(HashJob& job) {
  const std::lock_guard lock(mutex_);
  if (job.voided) return false;
  job.claimed = true;
  --jobs_unclaimed_;
  std::size_t full_lanes = 0;
  while (!stopping_ && !ready_.empty() && full_lanes < kMd5LanesMax && job.claims.size() < kChunksOfJobMax) {
    const std::size_t index = ready_.front().second;
    std::pop_heap(ready_.begin(), ready_.end());
    ready_.pop_back();
    const WindowTable::Chunk& chunk = table_.chunks()[index];
    const std::uint64_t at = chunk.file_offset + chunk.hashed;
    const std::size_t window = table_.WindowAt(at);
    const std::uint64_t window_end = table_.WindowBegin(window) + table_.windows()[window].bytes;
    const std::uint64_t bytes = std::min({chunk.filled - chunk.hashed, window_end - at, kLaneBytesMax});
    job.claims.push_back({index, window, bytes, window_end - at - bytes, {}});
    job.lanes.push_back({chunk.hash, image_.subspan(table_.ImageOffset(at), bytes), {}});
    if (bytes >= kLaneBytesMin) ++full_lanes;
  }
  if (job.claims.empty()) --jobs_;
  return !job.claims.empty();
}

void CaptureImpl::HashSome(HashJob& job) {
  if (!ClaimSome(job)) return;
  HashLanes(job.lanes, [this, &job] { return job.voided || stopping_; });
  for (std::size_t i = 0; i < job.claims.size(); ++i) {
    Claim& claim = job.claims[i];
    claim.share = ShareOf(job.lanes[i].crc, claim.bytes, claim.behind);
  }
  Publish(job);
}

void CaptureImpl::Publish(HashJob& job) {
  const std::lock_guard lock(mutex_);
  if (job.voided || stopping_) return;
  job.published = true;
  --jobs_;
  for (std::size_t i = 0; i < job.claims.size(); ++i) {
    const Claim& claim = job.claims[i];
    WindowTable::Chunk& chunk = table_.chunks()[claim.chunk];
    chunk.hash = job.lanes[i].hash;
    chunk.hashed += claim.bytes;
    taken_[claim.chunk] = false;
    if (chunk.hashed == chunk.bytes) --chunks_unhashed_;
    if (chunk.filled > chunk.hashed) MakeReady(claim.chunk);
    WindowTable::Window& window = table_.windows()[claim.window];
    window.crc ^= claim.share;
    window.unhashed -= claim.bytes;
  }
  PostHashing();
  Release();
  Settle();
}

void CaptureImpl::TakeBack(HashJob& job) {
  const std::lock_guard lock(mutex_);
  if (job.published || job.voided) return;
  job.voided = true;
  if (!job.claimed) --jobs_unclaimed_;
  if (!job.claimed || !job.claims.empty()) --jobs_;
  for (const Claim& claim : job.claims) {
    taken_[claim.chunk] = false;
    MakeReady(claim.chunk);
  }
  PostHashing();
}

// --- Writing ---

void CaptureImpl::Open() {
  absl::StatusOr<std::unique_ptr<File>> file =
      disk_.Open(spec_.work_path, {.direct = true, .writable = true, .create = true});
  absl::Status status = file.status();
  // At its full length from the begin, no write has to extend it: extending ones exclude each other.
  if (status.ok()) status = (*file)->Truncate(spec_.layout.file_bytes(ftiff::Letter::kF));
  const std::lock_guard lock(mutex_);
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
      const std::lock_guard lock(mutex_);
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
  const std::lock_guard lock(mutex_);
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
  stopping_ = true;
  hold_.reset();
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
    const std::lock_guard lock(mutex_);
    status = failure_;
  }
  absl::StatusOr<CaptureResult> result = status.ok() ? WriteEnd() : status;
  std::function<void(absl::StatusOr<CaptureResult>)> on_end;
  {
    const std::lock_guard lock(mutex_);
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

std::vector<Md5Digest> CaptureImpl::ChunkHashes() {
  const std::vector<ftiff::Container>& containers = spec_.layout.containers;
  std::vector<Md5Digest> hashes(containers.size(), Md5({}));
  for (std::size_t i = 0; i < std::min(hashes.size(), spec_.last_hashes.size()); ++i) {
    if (!containers[i].has_content) hashes[i] = spec_.last_hashes[i];
  }
  for (const WindowTable::Chunk& chunk : table_.chunks()) hashes[chunk.container] = chunk.hash.Finish();
  return hashes;
}

absl::StatusOr<CaptureResult> CaptureImpl::WriteEnd() {
  const ftiff::FileLayout& layout = spec_.layout;
  std::vector<Md5Digest> hashes;
  std::vector<BlockCrc> windows;
  {
    const std::lock_guard lock(mutex_);
    hashes = ChunkHashes();
    windows.reserve(table_.windows().size());
    for (const WindowTable::Window& window : table_.windows()) windows.push_back(window.crc);
  }
  const ftiff::FileHeader header{.checkpoint_id = spec_.checkpoint_id, .timestamp_ns = spec_.timestamp_ns};
  CaptureResult result = SumUp(layout.data_bytes, windows, ftiff::EncodeMetadata(layout, hashes, header));
  result.bytes_written = result.file_bytes;
  result.layout = layout;
  result.chunk_hashes = std::move(hashes);
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
