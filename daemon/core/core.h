// The core: runs, launches, sessions, datasets and their levels; what every door and command asks.
// One strand owns all of its state; blocking work goes to pools and comes back by post.
#ifndef CAIRN_DAEMON_CORE_CORE_H_
#define CAIRN_DAEMON_CORE_CORE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <memory>

#include "daemon/config/config.h"
#include "daemon/core/door.h"
#include "proto/admin.pb.h"
#include "storage/base/disk.h"

namespace cairn {

// What steering takes the time from; tests give their own.
struct Clocks {
  std::function<std::chrono::steady_clock::time_point()> steady = std::chrono::steady_clock::now;
  std::function<std::chrono::system_clock::time_point()> wall = std::chrono::system_clock::now;
};

class Core : public Receiver {
 public:
  // Starts threads; `cache_disk` and `prefix_disk` are borrowed. Reads what the cache holds (every run's folder of this
  // user) before it answers. kFailedPrecondition and others: the cache cannot be used, with why.
  static absl::StatusOr<std::unique_ptr<Core>> Start(const Config& config, Disk& cache_disk, Disk& prefix_disk,
                                                     Clocks clocks = {});

  // Takes nothing new, brings captured datasets to `local`, ends flushes at the next block; at most quiesce_ms. False:
  // that was not enough for some captured dataset.
  virtual bool Quiesce() = 0;
  // What SIGHUP may change: flush.*, ftiff.*, prefix.*, checkpoint.*, cache.keep, cache.bytes_max, cache.bypass,
  // cache.linger_ms, quiesce_ms.
  virtual void Reload(const Config& config) = 0;

  // For the Admin service; any thread, `done` runs once on a core thread. Messages carry a local.Status where a
  // request can be refused.
  virtual void Status(std::function<void(admin::StatusReply)> done) = 0;
  virtual void List(const admin::ListRequest& request, std::function<void(absl::StatusOr<admin::ListReply>)> done) = 0;
  virtual void Show(const admin::DatasetRequest& request,
                    std::function<void(absl::StatusOr<admin::ShowReply>)> done) = 0;
  virtual void Wait(const admin::WaitRequest& request, std::function<void(admin::WaitReply)> done) = 0;
  virtual void Flush(const admin::FlushRequest& request, std::function<void(admin::FlushReply)> done) = 0;
  virtual void Pin(const admin::PinRequest& request, std::function<void(admin::PinReply)> done) = 0;
  virtual void Remove(const admin::RemoveRequest& request, std::function<void(admin::RemoveReply)> done) = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_CORE_H_
