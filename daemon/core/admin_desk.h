// What the `cairn` command asks, answered on the strand. Status, List and Show tell of all nodes of a run: others are
// asked first, for some seconds at most, unless the request is for this node only.
#ifndef CAIRN_DAEMON_CORE_ADMIN_DESK_H_
#define CAIRN_DAEMON_CORE_ADMIN_DESK_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "daemon/core/cache_room.h"
#include "daemon/core/context.h"
#include "daemon/core/disk_tuner.h"
#include "daemon/core/image_store.h"
#include "daemon/core/nodes.h"
#include "daemon/core/run.h"
#include "daemon/core/runs.h"
#include "proto/admin.pb.h"
#include "proto/peer.pb.h"
#include "storage/base/ids.h"

namespace cairn {

class AdminDesk {
 public:
  AdminDesk(const Context& context, Runs& runs, const CacheRoom& room, const ImageStore& images, const DiskTuner& tuner,
            std::uint64_t incarnation);
  AdminDesk(const AdminDesk&) = delete;

  void Status(const admin::StatusRequest& request, std::function<void(admin::StatusReply)> done) const;
  void List(const admin::ListRequest& request, std::function<void(absl::StatusOr<admin::ListReply>)> done) const;
  void Show(const admin::DatasetRequest& request, std::function<void(absl::StatusOr<admin::ShowReply>)> done) const;
  void Wait(const admin::WaitRequest& request, std::function<void(admin::WaitReply)> done) const;
  void Flush(const admin::FlushRequest& request, std::function<void(admin::FlushReply)> done) const;
  void Pin(const admin::PinRequest& request, std::function<void(admin::PinReply)> done) const;
  void Remove(const admin::RemoveRequest& request, std::function<void(admin::RemoveReply)> done) const;
  void Rebuild(const admin::RebuildRequest& request, std::function<void(admin::RebuildReply)> done) const;
  void Leave(const admin::LeaveRequest& request, std::function<void(admin::LeaveReply)> done) const;
  absl::StatusOr<admin::NodesReply> DescribeNodes(const admin::NodesRequest& request) const;

 private:
  // What the other nodes of runs have said; nothing of a run without others.
  using Heard = std::map<RunId, std::vector<Nodes::Said>>;
  absl::StatusOr<std::vector<Run*>> Named(const std::string& run) const;
  void AskOthers(std::vector<Run*> runs, const peer::Question& question, std::function<void(Heard heard)> then) const;
  template <typename Request, typename Reply>
  void Do(const Request& request, void (*command)(Run&, const Request&, std::function<void(Reply)>),
          std::function<void(Reply)> done) const;
  void ShowHere(Run& run, DatasetId id, std::function<void(absl::StatusOr<admin::ShowReply>)> done) const;
  admin::StatusReply StatusHere() const;

  const Context& context_;
  Runs& runs_;
  const CacheRoom& room_;
  const ImageStore& images_;
  const DiskTuner& tuner_;
  const std::uint64_t incarnation_;
  const SteadyTime started_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_ADMIN_DESK_H_
