// The core: runs, launches, sessions, datasets and their levels; what every door and command asks.
// One strand owns all of its state; blocking work goes to pools and comes back by post. Strand, pools, disks and clocks
// are given (environment.h).
#ifndef CAIRN_DAEMON_CORE_CORE_H_
#define CAIRN_DAEMON_CORE_CORE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <memory>

#include "daemon/config/config.h"
#include "daemon/core/door.h"
#include "daemon/core/environment.h"
#include "proto/admin.pb.h"

namespace cairn {

class Core : public Receiver {
 public:
  // What is in the environment is borrowed. Reads what the cache holds (every run's folder of this user) on the calling
  // thread before it answers. kFailedPrecondition and others: the cache cannot be used, with why; or the settings ask
  // for links to other nodes, and there can be none. REQUIRES: not on the strand; config.image.bytes_max is set.
  static absl::StatusOr<std::unique_ptr<Core>> Start(const Config& config, const Environment& environment);
  // Waits for nothing and uses nothing of the environment: it may be gone.
  // REQUIRES: loop and pools run nothing any more. All that the loop has not run has been let go of; the same of the
  // pools, unless Stop has ended.
  ~Core() override = default;

  // Takes nothing new, brings captured datasets to `local`, ends flushes at the next block. `done` runs once, on the
  // strand: true once all that is done, or after quiesce_ms if it is done but for flushes; false if some captured
  // dataset is not `local` by then. Any thread.
  virtual void Quiesce(std::function<void(bool all_local)> done) = 0;
  // Ends transfers and flushes at the next block. `done` runs once, on the strand, when no capture or restore uses
  // pools or disks any more. Nothing is promised from here on. Any thread.
  virtual void Stop(std::function<void()> done) = 0;
  // What SIGHUP may change: flush.*, ftiff.*, prefix.*, checkpoint.*, redundancy.* but for its group, cache.keep,
  // cache.bytes_max, cache.reserve, cache.bypass, cache.linger_ms, cache.grace_ms, cache.keep_damaged_ms, quiesce_ms.
  virtual void Reload(const Config& config) = 0;

  // What clients on other hosts are told of this daemon (proto/announcement.h), from now on: in the folder of each run,
  // and in ingest.announce. Empty: nothing; then what an earlier life of this daemon has told there goes. Any thread.
  virtual void Announce(std::string text) = 0;
  // For `cairn status`, and the log. Any thread.
  virtual void Warn(std::string text) = 0;

  // For the Admin service; any thread, `done` runs once on a core thread. Messages carry a local.Status where a
  // request can be refused.
  virtual void Status(const admin::StatusRequest& request, std::function<void(admin::StatusReply)> done) = 0;
  virtual void List(const admin::ListRequest& request, std::function<void(absl::StatusOr<admin::ListReply>)> done) = 0;
  virtual void Show(const admin::DatasetRequest& request,
                    std::function<void(absl::StatusOr<admin::ShowReply>)> done) = 0;
  virtual void Wait(const admin::WaitRequest& request, std::function<void(admin::WaitReply)> done) = 0;
  virtual void Flush(const admin::FlushRequest& request, std::function<void(admin::FlushReply)> done) = 0;
  virtual void Pin(const admin::PinRequest& request, std::function<void(admin::PinReply)> done) = 0;
  virtual void Remove(const admin::RemoveRequest& request, std::function<void(admin::RemoveReply)> done) = 0;
  virtual void Rebuild(const admin::RebuildRequest& request, std::function<void(admin::RebuildReply)> done) = 0;
  virtual void Leave(const admin::LeaveRequest& request, std::function<void(admin::LeaveReply)> done) = 0;
  virtual void Nodes(const admin::NodesRequest& request,
                     std::function<void(absl::StatusOr<admin::NodesReply>)> done) = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_CORE_H_
