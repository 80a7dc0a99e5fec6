#include "storage/place/cache/sync_batch.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <span>
#include <utility>

#include "storage/base/at_once.h"
#include "storage/base/caught.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

struct FirstError {
  absl::Mutex mutex;
  absl::Status status ABSL_GUARDED_BY(mutex);
};

}  // namespace

absl::Status SyncBatch::Write(const std::string& path, std::string_view bytes) {
  const absl::Status removed = disk_.Remove(path);
  if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  CAIRN_ASSIGN_OR_RETURN(auto file, disk_.Open(path, {.writable = true, .create = true, .exclusive = true}));
  if (!bytes.empty()) CAIRN_RETURN_IF_ERROR(file->WriteAt(0, std::as_bytes(std::span(bytes))));
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status SyncBatch::Run() {
  const std::vector<std::string> directories(directories_.begin(), directories_.end());
  const std::size_t count = files_.size() + directories.size();
  FirstError first;
  EachAtOnce(count, disk_.syncs_at_once(), [&](std::size_t i) {
    const absl::Status status = Caught(
        [&] { return i < files_.size() ? files_[i]->Sync() : disk_.SyncDirectory(directories[i - files_.size()]); });
    const absl::MutexLock lock(&first.mutex);
    if (first.status.ok() && !status.ok()) first.status = status;
    return true;  // what can be synced is
  });
  files_.clear();
  directories_.clear();
  const absl::MutexLock lock(&first.mutex);
  return first.status;
}

}  // namespace cairn
