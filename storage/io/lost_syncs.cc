#include "storage/io/lost_syncs.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <cstdint>
#include <set>
#include <utility>

#include "storage/base/status.h"

namespace cairn {
namespace {

class LostSyncs {
 public:
  void Add(const FileInfo& file) {
    const absl::MutexLock lock(&mutex_);
    if (files_.size() < kLostSyncsMax) {
      files_.insert(KeyOf(file));
    } else if (!files_.contains(KeyOf(file))) {
      too_many_ = true;
    }
  }
  bool Has(const FileInfo& file) const {
    const absl::MutexLock lock(&mutex_);
    return too_many_ || files_.contains(KeyOf(file));
  }
  void Remove(const FileInfo& file) {
    const absl::MutexLock lock(&mutex_);
    files_.erase(KeyOf(file));
  }

 private:
  // A new file may get the inode of one that is gone: it is written once more for nothing, and then forgotten.
  using Key = std::pair<std::uint64_t, std::uint64_t>;
  static Key KeyOf(const FileInfo& file) { return {file.device, file.inode}; }

  mutable absl::Mutex mutex_;
  std::set<Key> files_ ABSL_GUARDED_BY(mutex_);
  bool too_many_ ABSL_GUARDED_BY(mutex_) = false;
};

LostSyncs& OfThisProcess() {
  static auto* const lost = new LostSyncs;  // never destroyed: threads may still use it while the process ends
  return *lost;
}

}  // namespace

absl::Status SyncOrDistrust(File& file, bool written_anew) {
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file.Info());  // before: then it is known which file has lost it
  absl::Status synced = file.Sync();
  if (!synced.ok()) {
    OfThisProcess().Add(info);
  } else if (written_anew) {
    OfThisProcess().Remove(info);
  }
  return synced;
}

bool HasLostSync(const FileInfo& file) {
  return OfThisProcess().Has(file);
}

void ForgetLostSync(const FileInfo& file) {
  OfThisProcess().Remove(file);
}

}  // namespace cairn
