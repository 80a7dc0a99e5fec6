// What the `cairn` command asks, answered on the strand.
#ifndef CAIRN_DAEMON_CORE_ADMIN_DESK_H_
#define CAIRN_DAEMON_CORE_ADMIN_DESK_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "daemon/core/cache_room.h"
#include "daemon/core/context.h"
#include "daemon/core/image_store.h"
#include "daemon/core/runs.h"
#include "proto/admin.pb.h"

namespace cairn {

class AdminDesk {
 public:
  AdminDesk(const Context& context, Runs& runs, const CacheRoom& room, const ImageStore& images,
            std::uint64_t incarnation);
  AdminDesk(const AdminDesk&) = delete;

  admin::StatusReply Status() const;
  absl::StatusOr<admin::ListReply> List(const admin::ListRequest& request) const;
  void Show(const admin::DatasetRequest& request, std::function<void(absl::StatusOr<admin::ShowReply>)> done) const;
  void Wait(const admin::WaitRequest& request, std::function<void(admin::WaitReply)> done) const;
  admin::FlushReply Flush(const admin::FlushRequest& request) const;
  void Pin(const admin::PinRequest& request, std::function<void(admin::PinReply)> done) const;
  void Remove(const admin::RemoveRequest& request, std::function<void(admin::RemoveReply)> done) const;
  absl::StatusOr<admin::NodesReply> Nodes(const admin::NodesRequest& request) const;

 private:
  const Context& context_;
  Runs& runs_;
  const CacheRoom& room_;
  const ImageStore& images_;
  const std::uint64_t incarnation_;
  const SteadyTime started_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_ADMIN_DESK_H_
