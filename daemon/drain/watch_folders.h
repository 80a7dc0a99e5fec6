// The folders that the daemon drains, each on a thread of its own with threads of its own, all in the background: they
// take what processors and disks have left over. One that hangs or vanishes holds up no other, nor the daemon.
#ifndef CAIRN_DAEMON_DRAIN_WATCH_FOLDERS_H_
#define CAIRN_DAEMON_DRAIN_WATCH_FOLDERS_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/config/drains.h"
#include "proto/admin.pb.h"
#include "storage/file/transfer/throttle.h"

namespace cairn {

// Thread-safe; Set and WaitForEnd from one thread at a time. What happens in the folders is logged.
class WatchFolders {
 public:
  // `background`: what the drains copy counts there; null: nowhere.
  explicit WatchFolders(std::shared_ptr<BackgroundBudget> background = nullptr) : background_(std::move(background)) {}
  ~WatchFolders();  // Stop, without a wait
  WatchFolders(const WatchFolders&) = delete;

  // From now on these: new ones begin, others end, those that changed end and begin again.
  void Set(const std::vector<DrainFolder>& folders);
  // All are told to end: what is under way is committed, nothing new is begun.
  void Stop();
  // Waits for that, at most so long. False: some hang with their file systems; the process must not wait for their
  // threads either.
  bool WaitForEnd(std::uint64_t ms_max);
  const std::shared_ptr<BackgroundBudget>& background() const { return background_; }
  // Adds what each is doing, for `cairn status`. Waits for no file system.
  void Describe(admin::StatusReply& reply) const;

 private:
  struct Watch;

  std::shared_ptr<Watch> Begin(const DrainFolder& folder, std::shared_ptr<Watch> after) const;
  std::vector<DrainFolder> Change(const std::vector<DrainFolder>& folders);  // those that it begins

  const std::shared_ptr<BackgroundBudget> background_;
  mutable absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<Watch>> watches_ ABSL_GUARDED_BY(mutex_);  // by the folder that is drained
  std::vector<std::shared_ptr<Watch>> ending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DRAIN_WATCH_FOLDERS_H_
