// The Admin service (proto/admin.proto): carries questions of the `cairn` command to the core, and answers back.
#ifndef CAIRN_DAEMON_DOOR_ADMIN_SERVICE_H_
#define CAIRN_DAEMON_DOOR_ADMIN_SERVICE_H_

#include <functional>
#include <memory>

#include "daemon/core/core.h"
#include "proto/admin.pb.h"

namespace grpc {
class Service;
}

namespace cairn {

// Given to IngestDoor::Listen, which serves it on the node's socket only. A call whose client has gone or whose
// deadline has passed ends at once; the core's late answer to it is dropped.
class AdminService {
 public:
  // Adds to a status what is not the core's; called on gRPC's threads.
  using Also = std::function<void(admin::StatusReply& reply)>;
  // `core` is borrowed and outlives the service.
  static std::unique_ptr<AdminService> Make(Core& core, Also also = {});
  virtual ~AdminService() = default;
  virtual grpc::Service& service() = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_ADMIN_SERVICE_H_
