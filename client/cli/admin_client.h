// The daemon's Admin service (proto/admin.proto) as plain calls. gRPC stays behind it.
#ifndef CAIRN_CLIENT_CLI_ADMIN_CLIENT_H_
#define CAIRN_CLIENT_CLI_ADMIN_CLIENT_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proto/admin.pb.h"

namespace cairn::cli {

// The paths of the daemon's Admin socket to try, in order.
//   `address` given, else $CAIRN_ADMIN_ADDRESS: grpc+unix:PATH or an absolute path (kInvalidArgument: anything else)
//   else where libcairn looks: $XDG_RUNTIME_DIR/cairn, /tmp/cairn-<uid> (if it is the user's and 0700), /run/cairn
using Variable = std::function<const char*(const char* name)>;
absl::StatusOr<std::vector<std::string>> AdminSockets(const std::string& address, const Variable& variable);

// Every call ends within 30 s (Wait, Leave: their own timeout and 30 s; Rebuild: a day) with the service's answer or
//   kUnavailable       the daemon has gone or is going away
//   kDeadlineExceeded  it did not answer
// and the errors of the service itself.
class AdminClient {
 public:
  // The first of `sockets` that a process listens on. kUnavailable: none; the message names them.
  static absl::StatusOr<std::unique_ptr<AdminClient>> Connect(const std::vector<std::string>& sockets);
  virtual ~AdminClient() = default;

  virtual const std::string& socket() const = 0;
  absl::StatusOr<admin::StatusReply> StatusOfThisNode();
  virtual absl::StatusOr<admin::StatusReply> Status(const admin::StatusRequest& request) = 0;
  virtual absl::StatusOr<admin::ListReply> List(const admin::ListRequest& request) = 0;
  virtual absl::StatusOr<admin::ShowReply> Show(const admin::DatasetRequest& request) = 0;
  virtual absl::StatusOr<admin::WaitReply> Wait(const admin::WaitRequest& request) = 0;
  virtual absl::StatusOr<admin::FlushReply> Flush(const admin::FlushRequest& request) = 0;
  virtual absl::StatusOr<admin::PinReply> Pin(const admin::PinRequest& request) = 0;
  virtual absl::StatusOr<admin::RemoveReply> Remove(const admin::RemoveRequest& request) = 0;
  virtual absl::StatusOr<admin::RebuildReply> Rebuild(const admin::RebuildRequest& request) = 0;
  virtual absl::StatusOr<admin::LeaveReply> Leave(const admin::LeaveRequest& request) = 0;
  virtual absl::StatusOr<admin::NodesReply> Nodes(const admin::NodesRequest& request) = 0;
};

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_ADMIN_CLIENT_H_
