// Files of which a sync has failed in this process. The kernel may have given up bytes that it still shows, and calls
// the next sync good: so what is read there says nothing about the disk until all of the file was written once more,
// and synced. Whoever continues what others have left, or takes what is in a place for written, asks here first. Of the
// same files on other nodes, and of another process before this one, nothing is known. Thread-safe.
#ifndef CAIRN_STORAGE_IO_LOST_SYNCS_H_
#define CAIRN_STORAGE_IO_LOST_SYNCS_H_

#include <absl/status/status.h>

#include <cstddef>

#include "storage/io/disk.h"

namespace cairn {

// File::Sync; if it fails the file has lost a sync. `written_anew`: all of it was written by the caller; then a good
// sync makes up for those that it has lost.
absl::Status SyncOrDistrust(File& file, bool written_anew = false);
bool HasLostSync(const FileInfo& file);
void ForgetLostSync(const FileInfo& file);  // the file is gone

// So many are remembered; when there are more, each file has lost a sync.
inline constexpr std::size_t kLostSyncsMax = 4096;

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_LOST_SYNCS_H_
