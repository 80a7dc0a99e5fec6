// What a watch folder is doing, for `cairn status`. The thread that drains it writes, any thread reads: nobody waits
// for a file system here.
#ifndef CAIRN_DAEMON_DRAIN_FOLDER_STATE_H_
#define CAIRN_DAEMON_DRAIN_FOLDER_STATE_H_

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "proto/admin.pb.h"
#include "storage/job/drain/report.h"

namespace cairn {

// Thread-safe.
class FolderState {
 public:
  FolderState() = default;
  FolderState(const FolderState&) = delete;

  // Where the drains of this folder tell how far they are, one after the other.
  DrainProgress& progress() { return progress_; }
  // As DrainWatchOptions calls them.
  void Passed(const DrainReport& report);
  void Trouble(const absl::Status& status);
  // It was told to end; its thread has ended, well or by an error.
  void Ending() { ending_ = true; }
  void Ended(const absl::Status& status);

  // All but the folders' names.
  void Describe(admin::DrainStatus& status) const;

 private:
  std::string StateNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  DrainProgress progress_;
  std::atomic<bool> ending_{false};
  mutable absl::Mutex mutex_;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;  // it has ended by an error
  absl::Status trouble_ ABSL_GUARDED_BY(mutex_);
  std::int64_t trouble_since_us_ ABSL_GUARDED_BY(mutex_) = 0;
  // What the last pass has left behind.
  std::int64_t passed_us_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t failed_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
  drain::Told waits_ ABSL_GUARDED_BY(mutex_), failed_last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DRAIN_FOLDER_STATE_H_
