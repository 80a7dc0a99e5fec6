#include "daemon/data/restore.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "daemon/data/restore_plan.h"
#include "storage/base/caught.h"
#include "storage/base/checksum.h"
#include "storage/base/status.h"
#include "storage/base/transfer_shape.h"

namespace cairn {
namespace {

constexpr std::size_t kUncheckedMax = 8;  // runs beside those that a disk reads: being checked, copied, or lent

// How a source's blocks are read: so many adjacent ones at once, so often at once, in transfers of so many bytes.
struct Reading {
  std::size_t run_blocks_max = 1;
  std::size_t reads_max = 1;
  std::uint64_t transfer_bytes = kWindowBytes;
};

Reading ReadingIn(const TransferShape& shape) {
  const std::uint64_t run = std::max<std::uint64_t>(shape.bytes, kWindowBytes);
  return {.run_blocks_max = run / kWindowBytes,
          .reads_max = std::max<std::uint64_t>(1, shape.bytes_in_flight() / run),
          .transfer_bytes = shape.bytes};
}

class RestoreImpl final : public Restore {
 public:
  RestoreImpl(Disk& disk, WorkPool& pool, std::vector<RestoreSource> sources, const std::vector<RestorePiece>& pieces,
              std::shared_ptr<Image> image, Callbacks callbacks, Waiting waiting, SharedBlocks* shared)
      : disk_(disk),
        pool_(pool),
        waiting_(OrPoolsOwn(std::move(waiting), pool)),
        sources_(std::move(sources)),
        kept_alive_(std::move(image)),
        image_(kept_alive_ == nullptr ? std::span<std::byte>() : kept_alive_->bytes()),
        slots_(image_.size() / kWindowBytes),
        plan_(PlanRestore(sources_, pieces, slots_)),
        shared_(sources_.size()),
        callbacks_(std::move(callbacks)),
        checked_(plan_.blocks.size()),
        blocks_left_(sources_.size()) {
    for (std::size_t i = 0; i < sources_.size(); ++i) reading_.push_back(ReadingIn(DiskOf(i).shapes().read));
    for (const RestoreBlock& block : plan_.blocks) ++blocks_left_[block.source];
    for (std::size_t i = 0; shared != nullptr && i < sources_.size(); ++i) {
      if (sources_[i].kept == nullptr) shared_[i] = shared->FileOf(DiskOf(i), sources_[i].path);
    }
  }

  void Begin(const std::vector<RestorePiece>& pieces) {
    const absl::MutexLock lock(&mutex_);
    CheckRequest(pieces);
    PostReading();
    Settle();
  }

  const std::vector<PlanPiece>& plan() const override { return plan_.pieces; }
  absl::Status Copied(std::uint64_t pieces) override;
  void Abort() override;

 private:
  // Adjacent blocks, in the file and in the image.
  struct Run {
    std::size_t first = 0;
    std::size_t count = 0;
    bool lent = false;  // one block, which another restore reads
  };

  std::shared_ptr<RestoreImpl> Self() { return std::static_pointer_cast<RestoreImpl>(shared_from_this()); }
  std::span<std::byte> Slot(const RestoreBlock& block) const {
    return image_.subspan(block.slot * kWindowBytes, kWindowBytes);
  }
  // Whether the disk reads this run; otherwise it is in memory.
  bool FromDisk(const Run& run) const { return !run.lent && sources_[plan_.blocks[run.first].source].kept == nullptr; }
  Disk& DiskOf(std::size_t source) const { return sources_[source].disk != nullptr ? *sources_[source].disk : disk_; }
  bool Claim(std::size_t block);
  void Forget(std::size_t block);

  void CheckRequest(const std::vector<RestorePiece>& pieces) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayRead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PostReading() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Run NextRun() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fail(absl::Status status, std::size_t source) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Without the lock, on threads of the pool or of the disk.
  void ReadSome();
  absl::StatusOr<File*> OpenSource(std::size_t source);
  void CloseFinished();
  void Read(const Run& run);
  void ReadParts(File& file, const Run& run, std::span<std::byte> target);
  void ReadDone(const Run& run, const absl::Status& status);
  void CheckRun(const Run& run);
  void TakeLent(const Run& run, const SharedFile::Lent& lent);
  void Took(const Run& run, absl::Status status);
  void CopyKept(const RestoreBlock& block);
  absl::Status CheckBlock(const RestoreBlock& block) const;
  void Finish();

  Disk& disk_;
  WorkPool& pool_;
  const Waiting waiting_;
  const std::vector<RestoreSource> sources_;
  const std::shared_ptr<Image> kept_alive_;
  const std::span<std::byte> image_;
  const std::uint64_t slots_;
  const RestorePlan plan_;
  std::vector<Reading> reading_;                     // by source
  std::vector<std::shared_ptr<SharedFile>> shared_;  // by source; null: its blocks are not shared

  std::map<std::size_t, std::unique_ptr<File>> files_;  // by source; of the one reader, then of Finish

  absl::Mutex mutex_;
  Callbacks callbacks_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> checked_ ABSL_GUARDED_BY(mutex_);               // by block
  std::vector<std::uint64_t> blocks_left_ ABSL_GUARDED_BY(mutex_);  // by source: not yet read and checked
  std::size_t next_ ABSL_GUARDED_BY(mutex_) = 0;                    // block to be read next
  std::deque<Run> again_ ABSL_GUARDED_BY(mutex_);                   // what could not be had from others; comes first
  std::size_t ready_blocks_ ABSL_GUARDED_BY(mutex_) = 0;            // all before are checked
  std::size_t free_blocks_ ABSL_GUARDED_BY(mutex_) = 0;             // all before are copied out
  std::uint64_t copied_ ABSL_GUARDED_BY(mutex_) = 0;                // pieces
  std::size_t reads_ ABSL_GUARDED_BY(mutex_) = 0;                   // runs being read or checked,
  std::size_t disk_reads_ ABSL_GUARDED_BY(mutex_) = 0;              // and those of them that a disk still reads
  bool reader_posted_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::size_t failed_source_ ABSL_GUARDED_BY(mutex_) = 0;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
};

void RestoreImpl::CheckRequest(const std::vector<RestorePiece>& pieces) {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (absl::Status status = CheckSource(sources_[i]); !status.ok()) Fail(std::move(status), i);
  }
  for (const RestorePiece& piece : pieces) {
    const std::size_t source = piece.source < sources_.size() ? piece.source : 0;
    if (absl::Status status = CheckPiece(sources_, piece); !status.ok()) Fail(std::move(status), source);
  }
  if (image_.size() < kRingBytesMin && slots_ < plan_.blocks.size()) {
    Fail(ResourceExhausted("restore: {} bytes of image for {} blocks, a ring has at least {}", image_.size(),
                           plan_.blocks.size(), kRingBytesMin),
         0);
  }
}

absl::Status RestoreImpl::Copied(std::uint64_t pieces) {
  const absl::MutexLock lock(&mutex_);
  const std::uint64_t ready = ready_blocks_ == 0 ? 0 : plan_.blocks[ready_blocks_ - 1].pieces_end;
  if (pieces < copied_ || pieces > ready) {
    return InvalidArgument("restore: {} pieces copied after {}, {} are ready", pieces, copied_, ready);
  }
  copied_ = pieces;
  while (free_blocks_ < ready_blocks_ && plan_.blocks[free_blocks_].pieces_end <= copied_) ++free_blocks_;
  PostReading();
  Settle();
  return absl::OkStatus();
}

void RestoreImpl::Abort() {
  const absl::MutexLock lock(&mutex_);
  Fail(Cancelled("restore: aborted"), 0);
  Settle();
}

// --- Reading ---

bool RestoreImpl::MayRead() const {
  if (!failure_.ok() || reads_ - disk_reads_ >= kUncheckedMax) return false;
  if (again_.empty() && (next_ >= plan_.blocks.size() || next_ >= free_blocks_ + slots_)) return false;
  const std::size_t block = again_.empty() ? next_ : again_.front().first;
  return disk_reads_ < reading_[plan_.blocks[block].source].reads_max;
}

void RestoreImpl::PostReading() {
  if (reader_posted_ || !MayRead()) return;
  reader_posted_ = true;
  waiting_([self = Self()] { self->ReadSome(); });
}

// True: the block is ours to read. Whoever had its slot before is not lent any more.
bool RestoreImpl::Claim(std::size_t block) {
  if (block >= slots_) Forget(block - slots_);
  const RestoreBlock& wanted = plan_.blocks[block];
  return shared_[wanted.source] == nullptr || shared_[wanted.source]->Claim(wanted.index, this);
}

void RestoreImpl::Forget(std::size_t block) {
  const RestoreBlock& known = plan_.blocks[block];
  if (shared_[known.source] != nullptr) shared_[known.source]->Forget(known.index, this);
}

RestoreImpl::Run RestoreImpl::NextRun() {
  if (!again_.empty()) {
    Run run = again_.front();
    again_.pop_front();
    run.lent = run.lent && !Claim(run.first);
    return run;
  }
  Run run{.first = next_++, .count = 1};
  run.lent = !Claim(run.first);
  const std::size_t count_max = reading_[plan_.blocks[run.first].source].run_blocks_max;
  while (!run.lent && run.count < count_max && next_ < plan_.blocks.size() && next_ < free_blocks_ + slots_) {
    const RestoreBlock& last = plan_.blocks[next_ - 1];
    const RestoreBlock& block = plan_.blocks[next_];
    if (block.source != last.source || block.index != last.index + 1 || block.slot != last.slot + 1) break;
    if (!Claim(next_)) break;
    ++run.count;
    ++next_;
  }
  return run;
}

void RestoreImpl::ReadSome() {
  while (true) {
    CloseFinished();
    Run run;
    {
      const absl::MutexLock lock(&mutex_);
      if (!MayRead()) {
        reader_posted_ = false;
        Settle();
        return;
      }
      const absl::Status found = Caught([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { run = NextRun(); });
      if (!found.ok()) {  // Finish forgets what it had claimed
        reader_posted_ = false;
        Fail(found, 0);
        Settle();
        return;
      }
      ++reads_;
      if (FromDisk(run)) ++disk_reads_;
    }
    // Whoever throws has not taken the run over: ReadDone and CheckRun do not.
    if (const absl::Status begun = Caught([&] { Read(run); }); !begun.ok()) ReadDone(run, begun);
  }
}

// Files whose blocks have all been read and checked.
void RestoreImpl::CloseFinished() {
  for (auto file = files_.begin(); file != files_.end();) {
    bool finished = false;
    {
      const absl::MutexLock lock(&mutex_);
      finished = blocks_left_[file->first] == 0;
    }
    file = finished ? files_.erase(file) : std::next(file);
  }
}

absl::StatusOr<File*> RestoreImpl::OpenSource(std::size_t source) {
  if (const auto found = files_.find(source); found != files_.end()) return found->second.get();
  const std::string& path = sources_[source].path;
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> file, DiskOf(source).Open(path, {.direct = true}));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
  if (!info.is_regular()) return DataLoss("{}: is no regular file", path);
  if (info.bytes != sources_[source].file_bytes) {
    return DataLoss("{}: ends at offset {}, expected {}", path, info.bytes, sources_[source].file_bytes);
  }
  return (files_[source] = std::move(file)).get();
}

void RestoreImpl::Read(const Run& run) {
  const RestoreBlock& first = plan_.blocks[run.first];
  if (sources_[first.source].kept != nullptr) {
    pool_.Post([self = Self(), run] { self->CheckRun(run); });
    return;
  }
  if (run.lent) {
    // What goes wrong here is not for the other restore to notice, on whose thread this may run.
    return shared_[first.source]->Ask(first.index, [self = Self(), run](SharedFile::Lent lent) {
      absl::Status posted =
          Caught([&] { self->pool_.Post([self, run, lent = std::move(lent)] { self->TakeLent(run, lent); }); });
      if (!posted.ok()) self->Took(run, std::move(posted));
    });
  }
  const absl::StatusOr<File*> file = OpenSource(first.source);
  if (!file.ok()) return ReadDone(run, file.status());
  std::uint64_t bytes = (run.count - 1) * kWindowBytes + plan_.blocks[run.first + run.count - 1].bytes;
  // The end of a file fills no block of direct I/O, but its slot has room for the whole block.
  if ((*file)->direct()) bytes = DirectBytes(bytes);
  ReadParts(**file, run, image_.subspan(first.slot * kWindowBytes, bytes));
}

// The run has been read when all transfers have ended: until then they write to its slots, whatever becomes of others.
void RestoreImpl::ReadParts(File& file, const Run& run, std::span<std::byte> target) {
  struct Parts {
    absl::Mutex mutex;
    std::size_t left ABSL_GUARDED_BY(mutex) = 0;
    absl::Status status ABSL_GUARDED_BY(mutex);
  };
  const RestoreBlock& first = plan_.blocks[run.first];
  const std::uint64_t part_bytes = reading_[first.source].transfer_bytes;
  const auto parts = std::make_shared<Parts>();
  {
    const absl::MutexLock lock(&parts->mutex);
    parts->left = (target.size() + part_bytes - 1) / part_bytes;
  }
  const auto ended = [self = Self(), run, parts](const absl::Status& status) {
    absl::Status of_all;
    {
      const absl::MutexLock lock(&parts->mutex);
      parts->status.Update(status);
      if (--parts->left > 0) return;
      of_all = std::move(parts->status);
    }
    self->ReadDone(run, of_all);
  };
  for (std::uint64_t at = 0; at < target.size(); at += part_bytes) {
    const std::span<std::byte> part = target.subspan(at, std::min<std::uint64_t>(part_bytes, target.size() - at));
    // Whoever throws has not taken it over.
    const absl::Status begun = Caught([&] { file.ReadAsync(first.index * kWindowBytes + at, part, ended); });
    if (!begun.ok()) ended(begun);
  }
}

void RestoreImpl::ReadDone(const Run& run, const absl::Status& status) {
  if (FromDisk(run)) {
    const absl::MutexLock lock(&mutex_);
    --disk_reads_;
    const absl::Status posted =
        status.ok() ? Caught([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { PostReading(); }) : absl::OkStatus();
    if (!posted.ok()) {  // nobody reads on: the restore ends when this run is settled
      reader_posted_ = false;
      Fail(posted, plan_.blocks[run.first].source);
    }
  }
  absl::Status failed = status;
  if (status.ok()) failed = Caught([&] { pool_.Post([self = Self(), run] { self->CheckRun(run); }); });
  if (!failed.ok()) Took(run, std::move(failed));
}

// --- Checking ---

void RestoreImpl::CopyKept(const RestoreBlock& block) {
  const KeptImage& kept = *sources_[block.source].kept;
  const std::uint64_t begin = block.index * kWindowBytes;
  const std::uint64_t of_data = begin < kept.data_bytes ? std::min(block.bytes, kept.data_bytes - begin) : 0;
  const std::span<std::byte> slot = Slot(block);
  if (of_data > 0) std::memcpy(slot.data(), kept.image->bytes().data() + begin, of_data);
  const std::uint64_t of_metadata = block.bytes - of_data;
  if (of_metadata == 0) return;
  std::memcpy(slot.data() + of_data, kept.metadata.data() + (begin + of_data - kept.data_bytes), of_metadata);
}

absl::Status RestoreImpl::CheckBlock(const RestoreBlock& block) const {
  const RestoreSource& source = sources_[block.source];
  const std::uint32_t found = Crc32c(Slot(block).first(block.bytes));
  const std::uint32_t expected = source.crc32c[block.index];
  if (found == expected) return absl::OkStatus();
  return DataLoss("{}: the block of {} bytes at offset {} has CRC32C {:08x}, expected {:08x}",
                  source.kept == nullptr ? source.path : "kept image", block.bytes, block.index * kWindowBytes, found,
                  expected);
}

void RestoreImpl::CheckRun(const Run& run) {
  const std::size_t source = plan_.blocks[run.first].source;
  Took(run, Caught([&]() -> absl::Status {
         for (std::size_t i = run.first; i < run.first + run.count; ++i) {
           const RestoreBlock& block = plan_.blocks[i];
           if (sources_[source].kept != nullptr) CopyKept(block);
           CAIRN_RETURN_IF_ERROR(CheckBlock(block));
           if (shared_[source] == nullptr) continue;
           shared_[source]->Lend(block.index, this, {kept_alive_, Slot(block).first(block.bytes)});
         }
         return absl::OkStatus();
       }));
}

// The owner's client may have changed it by now, or its slot may hold something else: then it comes from the file.
void RestoreImpl::TakeLent(const Run& run, const SharedFile::Lent& lent) {
  const RestoreBlock& block = plan_.blocks[run.first];
  absl::Status taken = Caught([&]() -> absl::Status {
    if (lent.image == nullptr || lent.bytes.size() != block.bytes) return Aborted("nothing is lent");
    std::copy(lent.bytes.begin(), lent.bytes.end(), Slot(block).begin());
    return CheckBlock(block);
  });
  if (taken.ok()) return Took(run, std::move(taken));
  const absl::MutexLock lock(&mutex_);
  --reads_;
  const absl::Status kept = Caught([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    again_.push_back({.first = run.first, .count = 1, .lent = lent.image == nullptr});
  });
  if (!kept.ok()) Fail(kept, block.source);
  PostReading();
  Settle();
}

// The blocks of the run are in their slots and checked, or not.
void RestoreImpl::Took(const Run& run, absl::Status status) {
  const std::size_t source = plan_.blocks[run.first].source;
  if (!status.ok()) {
    for (std::size_t i = run.first; i < run.first + run.count; ++i) Forget(i);
  }
  const absl::MutexLock lock(&mutex_);
  --reads_;
  if (status.ok()) {
    blocks_left_[source] -= run.count;
    std::fill_n(checked_.begin() + static_cast<std::ptrdiff_t>(run.first), run.count, true);
  } else {
    Fail(std::move(status), source);
  }
  const std::size_t before = ready_blocks_;
  while (ready_blocks_ < checked_.size() && checked_[ready_blocks_]) ++ready_blocks_;
  if (failure_.ok() && ready_blocks_ > before) {
    absl::Status told = Caught([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      callbacks_.on_ready(plan_.blocks[ready_blocks_ - 1].pieces_end);
    });
    if (!told.ok()) Fail(std::move(told), source);
  }
  PostReading();
  Settle();
}

// --- The end ---

void RestoreImpl::Fail(absl::Status status, std::size_t source) {
  if (!failure_.ok() || finishing_) return;
  failure_ = std::move(status);
  failed_source_ = source;
}

void RestoreImpl::Settle() {
  if (finishing_ || reads_ > 0 || reader_posted_) return;
  if (failure_.ok() && free_blocks_ < plan_.blocks.size()) return;
  finishing_ = true;
  waiting_([self = Self()] { self->Finish(); });
}

void RestoreImpl::Finish() {
  Callbacks callbacks;
  absl::Status status;
  std::size_t source = 0;
  {
    const absl::MutexLock lock(&mutex_);
    callbacks = std::exchange(callbacks_, {});
    status = std::move(failure_);
    source = failed_source_;
  }
  files_.clear();
  for (std::size_t i = 0; i < plan_.blocks.size(); ++i) Forget(i);  // whoever asks from now on reads for itself
  callbacks.on_end(std::move(status), source);
}

}  // namespace

std::uint64_t Restore::ImageBytes(const std::vector<RestoreSource>& sources, const std::vector<RestorePiece>& pieces) {
  return PlanRestore(sources, pieces, 0).blocks.size() * kWindowBytes;
}

std::shared_ptr<Restore> Restore::Start(Disk& disk, WorkPool& pool, std::vector<RestoreSource> sources,
                                        std::vector<RestorePiece> pieces, std::shared_ptr<Image> image,
                                        Callbacks callbacks, Waiting waiting, SharedBlocks* shared) {
  auto restore = std::make_shared<RestoreImpl>(disk, pool, std::move(sources), pieces, std::move(image),
                                               std::move(callbacks), std::move(waiting), shared);
  restore->Begin(pieces);
  return restore;
}

}  // namespace cairn
