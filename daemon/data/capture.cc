#include "daemon/data/capture.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "daemon/data/base_file.h"
#include "daemon/data/hash_company.h"
#include "daemon/data/hash_queue.h"
#include "daemon/data/layout_a.h"
#include "daemon/data/tail.h"
#include "daemon/data/window_table.h"
#include "daemon/data/write_queue.h"
#include "storage/base/caught.h"
#include "storage/base/status.h"
#include "storage/format/ftiff/codec.h"

namespace cairn {
namespace {

// What a ring, which has no place for windows without content, writes over what a base has there.
alignas(kDirectAlignment) std::array<std::byte, kWindowBytes> zeros;  // never written, so that no page of it is made

class CaptureImpl final : public Capture, public HashPartner {
 public:
  CaptureImpl(Disk& disk, WorkPool& pool, Spec spec, Callbacks callbacks, Waiting waiting,
              std::shared_ptr<HashCompany> company)
      : disk_(disk),
        pool_(pool),
        waiting_(OrPoolsOwn(std::move(waiting), pool)),
        company_(company ? std::move(company) : std::make_shared<HashCompany>(pool)),
        spec_(std::move(spec)),
        image_(spec_.image == nullptr ? std::span<std::byte>() : spec_.image->bytes()),
        places_(table_),
        data_rest_(spec_.layout.data_bytes % kDirectAlignment),
        callbacks_(std::move(callbacks)),
        table_(spec_.layout, spec_.plan, image_.size()),
        waits_(spec_.waits && !table_.ring()),
        hashes_(table_, image_),
        writes_(table_, spec_.layout.data_bytes, disk.shapes().write) {
    for (WindowTable::Chunk& chunk : table_.chunks()) {
      if (chunk.container < spec_.scans.size()) chunk.scan = spec_.scans[chunk.container];
    }
  }

  void Begin() {
    const absl::MutexLock lock(&mutex_);
    if (!table_.ring() && !spec_.plan.empty()) hold_.emplace(pool_.HoldForClient());
    ++busy_;
    waiting_([self = Self()] { self->Open(); });
  }

  const std::vector<PlanPiece>& plan() const override { return spec_.plan; }
  absl::Status Filled(std::uint64_t pieces) override;
  absl::Status Put(std::uint64_t index, std::span<const std::byte> bytes, std::uint32_t crc32c) override;
  std::uint64_t pieces_filled() const override {
    const absl::MutexLock lock(&mutex_);
    return filled_;
  }
  absl::Status Commit() override;
  void Go() override;
  void Abort() override;

  bool Claim(HashPart& part, std::size_t lanes_max) override;
  void Publish(const HashPart& part) override;
  void GiveBack(const HashPart& part) override;
  bool NoMore() const override { return stopping_; }
  void HashingFailed(const absl::Status& why) override { FailUnless(why); }

 private:
  using Run = WriteQueue::Run;

  std::shared_ptr<CaptureImpl> Self() { return std::static_pointer_cast<CaptureImpl>(shared_from_this()); }

  bool digesting() const;

  absl::Status CheckFilled(std::uint64_t pieces) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakePieces(std::uint64_t pieces) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GoOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PostHashing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PostWriting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Release() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fail(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Once all is hashed.
  std::vector<Md5Digest> ChunkHashes() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<view::Bounds> ChunkBounds() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Without the lock, on threads of the pool or of the disk.
  void FailUnless(const absl::Status& status);
  void Open();
  void PrepareDigests();
  bool UsesBase() const;
  absl::StatusOr<std::unique_ptr<File>> OpenFile();
  void WriteSome();
  void BeginWindows(const Run& run);
  void Write(const Run& run);
  void Written(const Run& run, const absl::Status& status);
  void Finish();
  absl::StatusOr<CaptureResult> WriteEnd();

  Disk& disk_;
  WorkPool& pool_;
  const Waiting waiting_;
  const std::shared_ptr<HashCompany> company_;
  const Spec spec_;
  const std::span<std::byte> image_;

  // table_, to be read without the lock: only where the windows lie, which never changes.
  const WindowTable& places_;

  // Each of one thread after the other.
  std::vector<std::byte> data_rest_;  // what the last window leaves to WriteTail; of its writer, then of Finish
  std::unique_ptr<File> file_;        // set by Open before any other waiter runs

  mutable absl::Mutex mutex_;
  Callbacks callbacks_ ABSL_GUARDED_BY(mutex_);
  WindowTable table_ ABSL_GUARDED_BY(mutex_);
  std::optional<WorkPool::Hold> hold_ ABSL_GUARDED_BY(mutex_);

  std::uint64_t filled_ ABSL_GUARDED_BY(mutex_) = 0;
  bool committed_ ABSL_GUARDED_BY(mutex_) = false;
  bool waits_ ABSL_GUARDED_BY(mutex_);  // for Go

  HashQueue hashes_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<BlockDigests> digests_ ABSL_GUARDED_BY(mutex_);  // null: none are made, or not yet
  std::size_t jobs_ ABSL_GUARDED_BY(mutex_) = 0;                   // posted, or running for it
  std::size_t jobs_unclaimed_ ABSL_GUARDED_BY(mutex_) = 0;         // of these, not begun

  WriteQueue writes_ ABSL_GUARDED_BY(mutex_);
  bool opened_ ABSL_GUARDED_BY(mutex_) = false;
  bool writer_posted_ ABSL_GUARDED_BY(mutex_) = false;
  std::size_t writes_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status base_status_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::size_t> unreleased_ ABSL_GUARDED_BY(mutex_);  // ring: in the order of their completion
  std::uint64_t released_ ABSL_GUARDED_BY(mutex_) = 0;

  // The end. `busy_` counts what still uses the file: the opening, the writer, writes in flight.
  std::size_t busy_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> stopping_{false};  // failure_ is set; changes under the lock
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
    hashes_.Add(chunk);
    const std::size_t index = table_.WindowAt(piece.file_offset);
    WindowTable::Window& window = table_.windows()[index];
    window.unfilled -= piece.bytes;
    if (window.unfilled > 0 || !table_.ring()) continue;
    writes_.Complete(index);
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
    hold_.reset();  // no client shares the cores: the bytes come from elsewhere
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
  hold_.reset();
  GoOn();
  return absl::OkStatus();
}

void CaptureImpl::Go() {
  const absl::MutexLock lock(&mutex_);
  if (!std::exchange(waits_, false) || !committed_) return;
  GoOn();
}

// With what is committed.
void CaptureImpl::GoOn() {
  if (waits_) return;
  writes_.Committed();
  PostHashing();
  PostWriting();
  Settle();
}

void CaptureImpl::Abort() {
  const absl::MutexLock lock(&mutex_);
  Fail(Cancelled("capture {}: aborted", spec_.work_path));
  Settle();
}

// --- Hashing ---

bool CaptureImpl::digesting() const {
  return spec_.letter == ftiff::Letter::kF && (spec_.want_digests || (spec_.base.has_value() && spec_.base->compared));
}

void CaptureImpl::PostHashing() {
  if (stopping_ || ((!committed_ || waits_) && !table_.ring()) || (digesting() && digests_ == nullptr)) return;
  while (jobs_unclaimed_ < hashes_.jobs_wanted() && jobs_ < pool_.threads()) {
    ++jobs_;
    ++jobs_unclaimed_;
    company_->Post(Self());
  }
}

bool CaptureImpl::Claim(HashPart& part, std::size_t lanes_max) {
  const absl::MutexLock lock(&mutex_);
  if (part.posted) {  // the job that was posted begins
    --jobs_unclaimed_;
    --jobs_;
  }
  if (!stopping_) part.work = hashes_.Claim(lanes_max);
  if (part.work.claims.empty()) return false;
  ++jobs_;
  return true;
}

// It ends at once, unless something else of it is still under way.
void CaptureImpl::FailUnless(const absl::Status& status) {
  if (status.ok()) return;
  const absl::MutexLock lock(&mutex_);
  Fail(status);
  Settle();
}

void CaptureImpl::Publish(const HashPart& part) {
  const absl::MutexLock lock(&mutex_);
  --jobs_;
  if (stopping_) return;
  for (const std::size_t window : hashes_.Publish(part.work)) writes_.Hashed(window);
  PostHashing();
  PostWriting();
  Release();
  Settle();
}

void CaptureImpl::GiveBack(const HashPart& part) {
  const absl::MutexLock lock(&mutex_);
  --jobs_;
  hashes_.GiveBack(part.work);
  PostHashing();
}

// --- Writing ---

void CaptureImpl::Open() {
  auto file = Caught([this] {
    PrepareDigests();
    return OpenFile();
  });
  const absl::MutexLock lock(&mutex_);
  --busy_;
  if (file.ok()) {
    file_ = *std::move(file);
    opened_ = true;
  } else {
    Fail(file.status());
  }
  PostWriting();
  Settle();
}

void CaptureImpl::PrepareDigests() {
  if (!digesting()) return;
  auto digests = std::make_shared<BlockDigests>(ZeroDigests(spec_.layout.data_bytes));
  const absl::MutexLock lock(&mutex_);
  digests_ = std::move(digests);
  hashes_.MakeDigests(digests_.get());
  PostHashing();
}

// A ring leaves windows without content as they are in a new file: zeros.
bool CaptureImpl::UsesBase() const {
  return spec_.letter == ftiff::Letter::kF && spec_.base.has_value() && (spec_.base->compared || !places_.ring());
}

// With the base in it, or new.
absl::StatusOr<std::unique_ptr<File>> CaptureImpl::OpenFile() {
  const std::uint64_t file_bytes = spec_.layout.file_bytes(ftiff::Letter::kF);
  if (UsesBase()) {
    absl::StatusOr<BaseFile> base = TakeBase(disk_, *spec_.base, spec_.work_path, spec_.layout.data_bytes, file_bytes,
                                             [this] { return stopping_.load(); });
    const absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    base_status_ = base.status();
    if (base.ok()) {
      const auto damaged = std::count(base->damaged.begin(), base->damaged.end(), true);
      if (damaged > 0) {
        base_status_ =
            DataLoss("base {}: {} of its MiB are not what its catalogue says: written anew", spec_.base->path, damaged);
      }
      std::unique_ptr<File> file = std::move(base->file);
      if (spec_.base->compared) writes_.Use(*std::move(base), digests_.get());
      return file;
    }
  }
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> file,
                         disk_.Open(spec_.work_path, {.direct = true, .writable = true, .create = true}));
  // At its full length from the begin, no write has to extend it: extending ones exclude each other.
  CAIRN_RETURN_IF_ERROR(file->Truncate(file_bytes));
  return file;
}

void CaptureImpl::PostWriting() {
  if (!opened_ || !failure_.ok() || writer_posted_ || writes_in_flight_ > writes_.in_flight_low()) return;
  if (!writes_.ready()) return;
  writer_posted_ = true;
  ++busy_;
  waiting_([self = Self()] { self->WriteSome(); });
}

void CaptureImpl::WriteSome() {
  while (true) {
    std::optional<Run> run;
    {
      const absl::MutexLock lock(&mutex_);
      if (failure_.ok() && writes_in_flight_ < writes_.in_flight_max()) {
        absl::Status found = Caught([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { run = writes_.Next(); });
        if (!found.ok()) Fail(std::move(found));
      }
      if (!run.has_value()) {
        writer_posted_ = false;
        --busy_;
        Settle();
        return;
      }
      ++writes_in_flight_;
      ++busy_;
    }
    // Whoever throws has not taken the run over: Written does not.
    if (const absl::Status begun = Caught([&] { Write(*run); }); !begun.ok()) Written(*run, begun);
  }
}

// The gaps become zeros, and the last bytes of data are kept for WriteTail, with the first of a window's writes.
void CaptureImpl::BeginWindows(const Run& run) {
  const std::size_t end = run.first + run.count;
  for (std::size_t i = run.first; i < end; ++i) places_.ZeroGaps(i, image_);
  if (end < places_.windows().size()) return;
  const WindowTable::Window& last = places_.windows().back();
  std::copy_n(image_.data() + last.image_offset + (last.bytes - data_rest_.size()), data_rest_.size(),
              data_rest_.begin());
}

void CaptureImpl::Write(const Run& run) {
  const bool in_image = !places_.ring() || places_.windows()[run.first].content > 0;
  if (run.begins && in_image) BeginWindows(run);
  if (run.bytes == 0) return Written(run, absl::OkStatus());
  const std::span<const std::byte> from =
      in_image ? image_.subspan(places_.ImageOffset(run.offset), run.bytes) : std::span(zeros).first(run.bytes);
  file_->WriteAsync(run.offset, from, [self = Self(), run](absl::Status status) { self->Written(run, status); });
}

void CaptureImpl::Written(const Run& run, const absl::Status& status) {
  const absl::MutexLock lock(&mutex_);
  --writes_in_flight_;
  --busy_;
  absl::Status taken = status;
  if (status.ok()) {
    taken = Caught([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      writes_.Written(run);
      Release();
    });
  }
  if (!taken.ok()) Fail(std::move(taken));
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
}

void CaptureImpl::Settle() {
  if (finishing_ || busy_ > 0) return;
  if (failure_.ok() && (!committed_ || !writes_.all_written() || !hashes_.all_hashed())) return;
  waiting_([self = Self()] { self->Finish(); });
  finishing_ = true;  // not if that has thrown: the next one to settle tries again
}

void CaptureImpl::Finish() {
  absl::Status status;
  {
    const absl::MutexLock lock(&mutex_);
    status = failure_;
  }
  absl::StatusOr<CaptureResult> result = status.ok() ? Caught([this] { return WriteEnd(); }) : status;
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
    // Not there if it could not be made; a work name is garbage anyway.
    Caught([this] { return disk_.Remove(spec_.work_path); }).IgnoreError();
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

std::vector<view::Bounds> CaptureImpl::ChunkBounds() {
  if (spec_.scans.empty()) return {};
  std::vector<view::Bounds> bounds(spec_.layout.containers.size());
  for (const WindowTable::Chunk& chunk : table_.chunks()) bounds[chunk.container] = chunk.scan.Finish();
  return bounds;
}

absl::StatusOr<CaptureResult> CaptureImpl::WriteEnd() {
  const ftiff::FileLayout& layout = spec_.layout;
  const ftiff::FileHeader header{.checkpoint_id = spec_.checkpoint_id, .timestamp_ns = spec_.timestamp_ns};
  std::vector<Md5Digest> hashes;
  std::vector<view::Bounds> bounds;
  std::vector<BlockCrc> windows;
  std::shared_ptr<const BlockDigests> digests;
  {
    const absl::MutexLock lock(&mutex_);
    hashes = ChunkHashes();
    bounds = ChunkBounds();
    digests = digests_;
    if (digests == nullptr) {
      windows.reserve(table_.windows().size());
      for (const WindowTable::Window& window : table_.windows()) windows.push_back(window.crc);
    }
  }
  // Nothing changes the digests any more.
  if (digests != nullptr) windows = WindowCrcs(*digests);
  CaptureResult result = SumUp(layout.data_bytes, windows, ftiff::EncodeMetadata(layout, hashes, header));
  CAIRN_RETURN_IF_ERROR(WriteTail(*file_, layout.data_bytes, data_rest_, result.metadata));
  if (spec_.letter == ftiff::Letter::kA) {
    file_ = nullptr;
    const ftiff::FileToWrite file{.letter = spec_.letter,
                                  .header = header,
                                  .layout = layout,
                                  .chunk_hashes = hashes,
                                  .registered = spec_.registered};
    CAIRN_ASSIGN_OR_RETURN(result, WriteLayoutA(disk_, spec_.work_path, file, [this] { return stopping_.load(); }));
  } else {
    CAIRN_RETURN_IF_ERROR(file_->Sync());
    const absl::MutexLock lock(&mutex_);
    result.bytes_written = writes_.bytes_written() + data_rest_.size() + result.metadata.size();
    if (spec_.want_digests) result.digests = std::move(digests);
    result.base_status = base_status_;
  }
  result.layout = layout;
  result.chunk_hashes = std::move(hashes);
  result.bounds = std::move(bounds);
  return result;
}

}  // namespace

std::shared_ptr<HashCompany> MakeHashCompany(WorkPool& pool) {
  return std::make_shared<HashCompany>(pool);
}

std::shared_ptr<Capture> Capture::Start(Disk& disk, WorkPool& pool, Spec spec, Callbacks callbacks, Waiting waiting,
                                        std::shared_ptr<HashCompany> company) {
  auto capture = std::make_shared<CaptureImpl>(disk, pool, std::move(spec), std::move(callbacks), std::move(waiting),
                                               std::move(company));
  capture->Begin();
  return capture;
}

}  // namespace cairn
