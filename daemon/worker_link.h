// A worker's side of its supervisor (proto/supervisor.h): connections come in, counters go out.
#ifndef CAIRN_DAEMON_WORKER_LINK_H_
#define CAIRN_DAEMON_WORKER_LINK_H_

#include <absl/status/statusor.h>

#include <memory>

#include "daemon/data/deposits.h"
#include "daemon/server.h"
#include "proto/admin.pb.h"
#include "proto/supervisor.h"

namespace cairn {

// What a worker tells of itself: numbers, nothing private. It is busy as long as anything of what it does, or of what
// it alone has, is needed. `linked`: daemons on other nodes may want what it has cached.
WorkerCounters CountersOf(const admin::StatusReply& status, std::uint64_t connections, bool linked);

class WorkerLink {
 public:
  // Takes the descriptors that a worker is given. kInvalidArgument: link or page are not there.
  static absl::StatusOr<std::unique_ptr<WorkerLink>> Take();
  // What outlives the worker; null: its supervisor holds nothing.
  virtual std::shared_ptr<Deposits> deposits() const = 0;

  // Begins to hand connections to `server`, which is borrowed until End, and to count, on threads of its own.
  virtual void Serve(Server& server, bool linked) = 0;
  // Readable once the supervisor is gone.
  virtual int gone() const = 0;
  // Takes nothing more: the supervisor finds the link closed, and lets new connections wait for the next worker.
  virtual void End() = 0;
  // As End.
  virtual ~WorkerLink() = default;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_WORKER_LINK_H_
