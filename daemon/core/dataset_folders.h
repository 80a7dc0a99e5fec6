// The folders that one run's datasets have, in the cache or past it: who writes to them, who changes them, when one
// goes. Strand only, but that a lease may be let go of on any thread.
#ifndef CAIRN_DAEMON_CORE_DATASET_FOLDERS_H_
#define CAIRN_DAEMON_CORE_DATASET_FOLDERS_H_

#include <absl/status/status.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/context.h"
#include "storage/base/ids.h"

namespace cairn {

class DatasetFolders {
 public:
  using Then = std::function<void(absl::Status)>;

  // `on_unused`: a failed dataset's last lease has ended: its folder can be removed.
  DatasetFolders(const Context& context, std::function<void(DatasetId)> on_unused);
  ~DatasetFolders() { Stop(); }
  DatasetFolders(const DatasetFolders&) = delete;

  // Leases that end from now on tell nobody: the next start removes what was never whole.
  void Stop() { *serving_ = false; }

  // While anybody holds a lease, something may still write to the dataset's folder.
  std::shared_ptr<void> Lease(DatasetId id);
  // It has failed: waits end with `why`, and `on_unused` comes once the last lease has ended.
  void Failed(DatasetId id, const std::string& why);

  // The folder, made by the first that needs it: then `make` is called, which ends with Made. `then` runs once it is
  // there, at once if it is.
  void Want(DatasetId id, Then then, const std::function<void()>& make);
  void Made(DatasetId id, const absl::Status& status);
  void Known(DatasetId id);  // it is there, from before
  void Left(DatasetId id);   // nobody writes to it any more

  // Removes it, or sets files in it aside: on the cache's pool. An error is a warning. Who makes the folder anew waits
  // for such changes (WhenUnchanged).
  void Change(DatasetId id, std::function<absl::Status()> work, std::function<void()> then = nullptr);
  void WhenUnchanged(DatasetId id, std::function<void()> next);

 private:
  struct Making {
    bool ready = false;
    std::vector<Then> waiting;
  };
  struct Changes {
    std::uint32_t pending = 0;
    std::vector<std::function<void()>> waiting;  // for all of them to end
  };
  void LeaseEnded(DatasetId id);

  const Context& context_;
  const std::function<void(DatasetId)> on_unused_;
  const std::shared_ptr<std::atomic<bool>> serving_ =
      std::make_shared<std::atomic<bool>>(true);  // leases may outlive it
  std::map<DatasetId, std::weak_ptr<void>> leases_;
  std::set<DatasetId> failed_;
  std::map<DatasetId, Making> making_;
  std::map<DatasetId, Changes> changes_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_DATASET_FOLDERS_H_
