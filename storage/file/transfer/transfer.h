// Moving datasets between cache and prefix: each byte read once, checked against the catalogue on the way.
// Files arrive under work names, are synced, renamed, their directories synced; what has already arrived whole (size
// and CRCs match) is not copied again. Calls block: I/O pool. Thread-safe.
#ifndef CAIRN_STORAGE_FILE_TRANSFER_TRANSFER_H_
#define CAIRN_STORAGE_FILE_TRANSFER_TRANSFER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/file/transfer/throttle.h"
#include "storage/io/disk.h"

namespace cairn {

struct TransferProgress {
  std::atomic<std::uint64_t> bytes_done{0};
  std::atomic<std::uint64_t> compared{0};   // bytes that were there before and may count as done
  std::atomic<std::uint32_t> throttled{0};  // so many of its files wait for their share of the bandwidth
  std::atomic<bool> queued{false};          // set by the owner: no thread has begun it yet
  std::atomic<bool> waited_for{false};      // set by the owner: it does not give way to what is more urgent any more
  std::atomic<bool> stop{false};            // set by the owner: the copy ends with kCancelled at the next piece

  // Has it got on since `seen` was what this has set? It has, too, while it waits for bandwidth: that is no hang.
  bool GotOn(std::uint64_t& seen) const {
    const std::uint64_t now = bytes_done + compared;
    return std::exchange(seen, now) != now || throttled != 0;
  }
};

// Throttle::Take for a transfer, which is `throttled` meanwhile.
inline bool TakeBandwidth(Throttle& throttle, std::uint64_t bytes, TransferProgress& progress) {
  ++progress.throttled;
  const bool taken = throttle.Take(bytes, progress.stop, &progress.waited_for);
  --progress.throttled;
  return taken;
}

inline bool TakeToCompare(Throttle& throttle, std::uint64_t bytes, TransferProgress& progress) {
  ++progress.throttled;
  const bool taken = throttle.TakeToCompare(bytes, progress.stop, &progress.waited_for);
  --progress.throttled;
  return taken;
}

struct CopyJob {
  std::string from;                             // absolute
  std::string to;                               // absolute; its directories are made
  const catalogue::FileEntry* entry = nullptr;  // size, CRC32C per MiB, CRC-32 if known, mode and times (if mode != 0)
  std::uint64_t owner = 0;  // where several datasets may have a file of this name, even of the same bytes: which one
};

// Copies the files, several at once if both disks gain by that (Disk::syncs_at_once): all of them, or nothing has
// changed under a final name. kDataLoss: a *source* block differs from its CRC (the message names file and offset;
// `damaged` receives the index of the job). kUnavailable, kResourceExhausted, …: of either side, the message says
// which.
absl::Status CopyFiles(Disk& source, Disk& target, const std::vector<CopyJob>& jobs, Throttle& throttle,
                       TransferProgress& progress, std::size_t* damaged);

// CopyFiles in two steps, so that others can be told between them what will be replaced.
struct CopiedFile {
  std::string work;  // where it is now, whole and synced; empty: in its place, and was so before
  std::string to;
  FileInfo in_place;  // of the one that was in its place
};
// Nothing changes under a final name. What a crash or an error leaves is continued by the next call. Errors as above.
absl::StatusOr<std::vector<CopiedFile>> CopyToWork(Disk& source, Disk& target, const std::vector<CopyJob>& jobs,
                                                   Throttle& throttle, TransferProgress& progress,
                                                   std::size_t* damaged);
// Renames, and syncs the directories. kAborted: what was in its place is not any more, so copy again; nothing was
// renamed.
absl::Status PutInPlace(Disk& target, const std::vector<CopiedFile>& files);

// Reads the whole file once and fills entry: bytes, crc32c, crc32, inode, mode and times. kFailedPrecondition if the
// file changed (inode, size, mtime) against `before` while or before it was read. The file is synced first if `sync`.
absl::Status ChecksumFile(Disk& disk, const std::string& path, const FileInfo& before, bool sync,
                          catalogue::FileEntry* entry);

// Reads and compares with the entry. kDataLoss naming file and offset, kNotFound. `progress`: null: nobody looks at it;
// else it ends with kCancelled at the next block when that says so.
absl::Status VerifyFile(Disk& disk, const std::string& path, const catalogue::FileEntry& entry,
                        TransferProgress* progress = nullptr);
// The same as a part of a flush: it takes its share of the bandwidth.
absl::Status VerifyFile(Disk& disk, const std::string& path, const catalogue::FileEntry& entry, Throttle& throttle,
                        TransferProgress& progress);

}  // namespace cairn

#endif  // CAIRN_STORAGE_FILE_TRANSFER_TRANSFER_H_
