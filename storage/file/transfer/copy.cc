#include <absl/base/thread_annotations.h>
#include <absl/cleanup/cleanup.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <span>
#include <utility>

#include "storage/base/at_once.h"
#include "storage/base/caught.h"
#include "storage/base/checksum.h"
#include "storage/base/modes.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/transfer/checks.h"
#include "storage/file/transfer/transfer.h"
#include "storage/file/transfer/work_file.h"
#include "storage/io/io_priority.h"
#include "storage/io/lost_syncs.h"

namespace cairn {
namespace {

// Each file costs the target some round trips: to make it, to sync it.
constexpr std::size_t kFilesAtOnce = 4;

absl::Status OnSource(const absl::Status& status) {
  return Annotate(status, "source");
}
absl::Status OnTarget(const absl::Status& status) {
  return Annotate(status, "target");
}

// One file on its way.
class FileCopy {
 public:
  // Ends with kCancelled once `stopped` says so, which any thread may ask. All is borrowed.
  FileCopy(Disk& source, Disk& target, const CopyJob& job, PieceShape shape, Throttle& throttle,
           TransferProgress& progress, const Stopped& stopped)
      : source_disk_(source),
        target_disk_(target),
        job_(job),
        entry_(*job.entry),
        work_path_(TransferWorkName(job.to, entry_, job.owner)),
        buffers_(entry_.bytes(), shape),
        throttle_(throttle),
        progress_(progress),
        stopped_(stopped) {}

  absl::StatusOr<CopiedFile> Run() {
    CAIRN_RETURN_IF_ERROR(OnTarget(MakeDirectories(target_disk_, ParentOf(job_.to), kPrefixFolderMode)));
    CopiedFile copied{.work = "", .to = job_.to, .in_place = {}};
    CAIRN_ASSIGN_OR_RETURN(const bool arrived, HasArrived(&copied.in_place));
    if (arrived) {
      CAIRN_RETURN_IF_ERROR(OnTarget(RemoveWork()));
      return copied;
    }
    CAIRN_RETURN_IF_ERROR(OpenSource());
    CAIRN_RETURN_IF_ERROR(OpenWork());
    CAIRN_RETURN_IF_ERROR(OpenTail());
    CAIRN_RETURN_IF_ERROR(CopyBlocks());
    if (entry_.has_crc32() && crc32_ != entry_.crc32()) {
      source_damaged_ = true;
      return DataLoss("source: {}: CRC-32 {:08x} instead of {:08x}, though every block matches", job_.from, crc32_,
                      entry_.crc32());
    }
    CAIRN_RETURN_IF_ERROR(OnTarget(Finish()));
    copied.work = work_path_;
    return copied;
  }
  bool source_damaged() const { return source_damaged_; }

 private:
  absl::StatusOr<bool> HasArrived(FileInfo* in_place);
  absl::Status RemoveWork();
  absl::Status OpenSource();
  absl::Status OpenWork();
  absl::Status ContinueWork(const FileInfo& info);
  absl::Status OpenTail();
  absl::Status CopyBlocks();
  absl::Status CopyPiece(BlockStream& stream, const BlockStream::Piece& piece);
  absl::Status CheckPiece(const BlockStream::Piece& piece);
  absl::StatusOr<std::span<const std::byte>> WriteTail(const BlockStream::Piece& piece);
  absl::Status Finish();
  absl::Status WriteStatus() {
    const absl::MutexLock lock(&mutex_);
    return OnTarget(write_status_);
  }
  std::uint64_t BytesOfBlocks(std::uint64_t blocks) const { return std::min(blocks * kCrcBlockBytes, entry_.bytes()); }
  std::uint64_t BlockCount() const { return static_cast<std::uint64_t>(entry_.crc32c_size()); }

  Disk& source_disk_;
  Disk& target_disk_;
  const CopyJob& job_;
  const catalogue::FileEntry& entry_;
  const std::string work_path_;
  BlockBuffers buffers_;
  Throttle& throttle_;
  TransferProgress& progress_;
  const Stopped& stopped_;

  std::unique_ptr<File> source_;
  std::unique_ptr<File> work_;
  std::unique_ptr<File> tail_;     // for an end that direct I/O would write longer than it is; null: it would not
  std::uint64_t blocks_kept_ = 0;  // of what an interrupted copy has left
  std::uint32_t crc32_ = 0;        // of the blocks so far
  bool source_damaged_ = false;
  absl::Mutex mutex_;
  absl::Status write_status_ ABSL_GUARDED_BY(mutex_);  // the first error
};

// There already, whole: synced once more, since we cannot know who wrote it.
absl::StatusOr<bool> FileCopy::HasArrived(FileInfo* in_place) {
  const auto info = target_disk_.Info(job_.to);
  if (absl::IsNotFound(info.status())) return false;
  if (!info.ok()) return OnTarget(info.status());
  if (!info->is_regular() || info->bytes != entry_.bytes() || HasLostSync(*info)) return false;
  const auto file = target_disk_.Open(job_.to, {.direct = true});
  if (!file.ok()) return false;
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t matching, CountMatchingBlocks(**file, info->bytes, entry_, buffers_,
                                                                           throttle_, progress_, stopped_, nullptr));
  if (matching != BlockCount() || !SyncOrDistrust(**file).ok()) return false;
  progress_.bytes_done += entry_.bytes();
  *in_place = *info;
  return true;
}

// An interrupted copy's, which nobody would end any more. It has its whole length from its beginning, and whoever puts
// what waits in its place later, goes by that: so it is gone for good before anybody hears that the file has arrived.
absl::Status FileCopy::RemoveWork() {
  const absl::Status removed = target_disk_.Remove(work_path_);
  if (absl::IsNotFound(removed)) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(removed);
  return target_disk_.SyncDirectory(ParentOf(work_path_));
}

absl::Status FileCopy::OpenSource() {
  auto file = source_disk_.Open(job_.from, {.direct = true});
  if (!file.ok()) return OnSource(file.status());
  source_ = *std::move(file);
  const auto info = source_->Info();
  if (!info.ok()) return OnSource(info.status());
  if (info->bytes == entry_.bytes()) return absl::OkStatus();
  source_damaged_ = true;
  return DataLoss("source: {}: {} bytes instead of {}", job_.from, info->bytes, entry_.bytes());
}

absl::Status FileCopy::OpenWork() {
  const auto info = target_disk_.Info(work_path_);
  if (info.ok()) {
    if (info->is_regular()) {
      constexpr std::uint32_t kOwnerWrites = 0200;
      if ((info->mode & kOwnerWrites) == 0) {  // it has the application's mode already
        const std::uint32_t mode = (info->mode | kOwnerWrites) & 07777;
        CAIRN_RETURN_IF_ERROR(OnTarget(target_disk_.SetModeAndTimes(work_path_, mode, info->atime, info->mtime)));
      }
      auto file = target_disk_.Open(work_path_, {.direct = true, .writable = true});
      if (file.ok()) {
        work_ = *std::move(file);
        return ContinueWork(*info);
      }
    }
    CAIRN_RETURN_IF_ERROR(OnTarget(target_disk_.Remove(work_path_)));
  } else if (!absl::IsNotFound(info.status())) {
    return OnTarget(info.status());
  }
  auto file = target_disk_.Open(
      work_path_, {.direct = true, .writable = true, .create = true, .exclusive = true, .mode = kPrefixFileMode});
  if (!file.ok()) return OnTarget(file.status());
  work_ = *std::move(file);
  // Its room at once: a full target says so now, and writes need not extend it one after the other.
  return OnTarget(work_->Truncate(entry_.bytes()));
}

absl::Status FileCopy::ContinueWork(const FileInfo& info) {
  if (!HasLostSync(info)) {
    CAIRN_ASSIGN_OR_RETURN(blocks_kept_, CountMatchingBlocks(*work_, info.bytes, entry_, buffers_, throttle_, progress_,
                                                             stopped_, entry_.has_crc32() ? &crc32_ : nullptr));
    progress_.bytes_done += BytesOfBlocks(blocks_kept_);
  }
  if (info.bytes >= entry_.bytes()) return absl::OkStatus();
  return OnTarget(work_->Truncate(entry_.bytes()));
}

// The file never becomes longer than it is to be: another node's daemon may write the same bytes to the same file, and
// may have put it in its place by now.
absl::Status FileCopy::OpenTail() {
  if (!work_->direct() || DirectBytes(entry_.bytes()) == entry_.bytes()) return absl::OkStatus();
  auto tail = target_disk_.Open(work_path_, {.direct = false, .writable = true});
  if (!tail.ok()) return OnTarget(tail.status());
  tail_ = *std::move(tail);
  return absl::OkStatus();
}

absl::Status FileCopy::CopyBlocks() {
  absl::Status status;
  BlockStream stream(*source_, entry_.bytes(), blocks_kept_, buffers_);
  while (status.ok() && !stream.done()) {
    const auto piece = stream.Next();
    status = piece.ok() ? CopyPiece(stream, *piece) : OnSource(piece.status());
    if (absl::IsDataLoss(piece.status())) source_damaged_ = true;
    if (status.ok()) status = WriteStatus();
  }
  stream.Drain();  // writes give their pieces back when they are done
  return status.ok() ? WriteStatus() : status;
}

absl::Status FileCopy::CopyPiece(BlockStream& stream, const BlockStream::Piece& piece) {
  absl::Cleanup back = [&] { stream.GiveBack(piece.slot); };
  CAIRN_RETURN_IF_ERROR(CheckPiece(piece));
  if (stopped_() || !TakeBandwidth(throttle_, piece.bytes.size(), progress_)) {
    return Cancelled("copy of {} to {} was stopped at offset {}", job_.from, job_.to, piece.offset());
  }
  if (progress_.waited_for) IoPriority().Use().IgnoreError();  // until the end of the file: CopyOne
  const std::size_t bytes = piece.bytes.size();
  CAIRN_ASSIGN_OR_RETURN(const std::span<const std::byte> rest, WriteTail(piece));
  auto written = [this, &stream, slot = piece.slot, bytes](absl::Status status) {
    const absl::Cleanup back = [&] { stream.GiveBack(slot); };  // last: after it the copy may be over
    if (status.ok()) {
      progress_.bytes_done += bytes;
    } else {
      const absl::MutexLock lock(&mutex_);
      write_status_.Update(std::move(status));
    }
  };
  if (rest.empty()) {
    progress_.bytes_done += bytes;
    return absl::OkStatus();
  }
  work_->WriteAsync(piece.offset(), rest, written);
  std::move(back).Cancel();
  return absl::OkStatus();
}

absl::Status FileCopy::CheckPiece(const BlockStream::Piece& piece) {
  const auto differs = FirstDiffering(piece, entry_, entry_.has_crc32() ? &crc32_ : nullptr);
  if (!differs) return absl::OkStatus();
  source_damaged_ = true;
  return OnSource(BlockDiffers(job_.from, *differs, entry_));
}

// What direct I/O cannot write of a last piece. The rest of it.
absl::StatusOr<std::span<const std::byte>> FileCopy::WriteTail(const BlockStream::Piece& piece) {
  const std::size_t odd = piece.bytes.size() % kDirectAlignment;
  if (!tail_ || odd == 0) return work_->direct() ? piece.padded : piece.bytes;
  const std::size_t even = piece.bytes.size() - odd;
  CAIRN_RETURN_IF_ERROR(OnTarget(tail_->WriteAt(piece.offset() + even, piece.bytes.subspan(even))));
  return piece.bytes.first(even);
}

absl::Status FileCopy::Finish() {
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, work_->Info());
  // What an interrupted copy has left may be longer.
  if (info.bytes != entry_.bytes()) CAIRN_RETURN_IF_ERROR(work_->Truncate(entry_.bytes()));
  if (entry_.mode() != 0) {
    const timespec atime{.tv_sec = entry_.atime_s(), .tv_nsec = static_cast<long>(entry_.atime_ns())};
    const timespec mtime{.tv_sec = entry_.mtime_s(), .tv_nsec = static_cast<long>(entry_.mtime_ns())};
    CAIRN_RETURN_IF_ERROR(target_disk_.SetModeAndTimes(work_path_, entry_.mode() & 07777, atime, mtime));
  }
  if (absl::Status synced = SyncOrDistrust(*work_, /*written_anew=*/blocks_kept_ == 0); !synced.ok()) {
    // Whatever of it reads back well may not be on the disk: nothing of it is continued. If it cannot be removed, the
    // sync's error counts all the same, and it is remembered. It is not cut instead: another node's daemon may have put
    // it in its place by now.
    // And what is removed may be another of that name, made since then: only a file without a name is gone.
    const absl::Status removed = target_disk_.Remove(work_path_);
    const auto left = work_->Info();
    if (removed.ok() && left.ok() && left->links == 0) ForgetLostSync(info);
    return synced;
  }
  return absl::OkStatus();
}

// The very one that was looked at: a rename over it gives another inode.
bool IsTheSame(const FileInfo& a, const FileInfo& b) {
  return a.inode == b.inode && a.device == b.device && a.bytes == b.bytes && a.mtime.tv_sec == b.mtime.tv_sec &&
         a.mtime.tv_nsec == b.mtime.tv_nsec;
}

absl::Status CheckStillInPlace(Disk& target, const CopiedFile& file) {
  const auto info = target.Info(file.to);
  if (info.ok() && IsTheSame(*info, file.in_place)) return absl::OkStatus();
  if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
  return Aborted("{}: was in its place, and is gone or another by now", file.to);
}

struct Copied {
  absl::StatusOr<CopiedFile> file;
  bool source_damaged = false;
};

void CopyOne(Disk& source, Disk& target, const CopyJob& job, PieceShape shape, Throttle& throttle,
             TransferProgress& progress, const Stopped& stopped, Copied& copied) {
  copied.file = Caught([&]() -> absl::StatusOr<CopiedFile> {
    if (stopped()) return Cancelled("copy of {} was stopped", job.from);
    const absl::Cleanup again = [own = IoPriority::OfThisThread()] { own.Use().IgnoreError(); };
    FileCopy copy(source, target, job, shape, throttle, progress, stopped);
    const absl::Cleanup note = [&] { copied.source_damaged = copy.source_damaged(); };
    return copy.Run();
  });
}

// What those that go at the same time have together is what one of them has alone.
PieceShape ShapeOf(const std::vector<CopyJob>& jobs, std::size_t at_once) {
  const auto large = static_cast<std::size_t>(std::ranges::count_if(jobs, [](const CopyJob& job) {
    return job.entry->bytes() > kWholeFile.blocks * kWholeFile.pieces / kFilesAtOnce * kCrcBlockBytes;
  }));
  return {.blocks = kWholeFile.blocks, .pieces = kWholeFile.pieces / std::clamp<std::size_t>(large, 1, at_once)};
}

}  // namespace

absl::StatusOr<std::vector<CopiedFile>> CopyToWork(Disk& source, Disk& target, const std::vector<CopyJob>& jobs,
                                                   Throttle& throttle, TransferProgress& progress,
                                                   std::size_t* damaged) {
  for (const CopyJob& job : jobs) {
    if (job.entry == nullptr) return InvalidArgument("{}: nothing is known of the file", job.from);
    CAIRN_RETURN_IF_ERROR(CheckEntry(*job.entry));
  }
  // A source that does one thing after the other, as what is made of a redundancy set, would only read here and there.
  const std::size_t at_once = std::min({jobs.size(), source.syncs_at_once(), target.syncs_at_once(), kFilesAtOnce});
  const PieceShape shape = ShapeOf(jobs, std::max<std::size_t>(at_once, 1));
  std::vector<Copied> copied(jobs.size());
  constexpr std::size_t kNone = SIZE_MAX;
  std::atomic<std::size_t> failed{kNone};  // the first one, for which the others are stopped
  const Stopped stopped = [&] { return progress.stop || failed != kNone; };
  EachAtOnce(jobs.size(), at_once, [&](std::size_t i) {
    CopyOne(source, target, jobs[i], shape, throttle, progress, stopped, copied[i]);
    if (copied[i].file.ok()) return true;
    std::size_t none = kNone;
    failed.compare_exchange_strong(none, i);  // one that was stopped for another finds that one there
    return false;
  });
  if (failed != kNone) {
    const Copied& first = copied[failed];
    if (first.source_damaged && damaged != nullptr) *damaged = failed;
    return first.file.status();
  }
  std::vector<CopiedFile> files;
  files.reserve(copied.size());
  for (Copied& one : copied) files.push_back(*std::move(one.file));
  return files;
}

absl::Status PutInPlace(Disk& target, const std::vector<CopiedFile>& files) {
  for (const CopiedFile& file : files) {
    if (file.work.empty()) CAIRN_RETURN_IF_ERROR(OnTarget(CheckStillInPlace(target, file)));
  }
  std::set<std::string> folders;
  for (const CopiedFile& file : files) {
    if (!file.work.empty()) CAIRN_RETURN_IF_ERROR(OnTarget(target.Rename(file.work, file.to)));
    folders.insert(ParentOf(file.to));
  }
  for (const std::string& folder : folders) {
    CAIRN_RETURN_IF_ERROR(OnTarget(target.SyncDirectory(folder)));
  }
  return absl::OkStatus();
}

absl::Status CopyFiles(Disk& source, Disk& target, const std::vector<CopyJob>& jobs, Throttle& throttle,
                       TransferProgress& progress, std::size_t* damaged) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<CopiedFile> files,
                         CopyToWork(source, target, jobs, throttle, progress, damaged));
  return PutInPlace(target, files);
}

}  // namespace cairn
