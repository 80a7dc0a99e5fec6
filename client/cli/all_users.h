// What a supervisor tells root of all users' workers (proto/supervisor.h): numbers, nothing of what they hold.
#ifndef CAIRN_CLIENT_CLI_ALL_USERS_H_
#define CAIRN_CLIENT_CLI_ALL_USERS_H_

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "client/cli/json.h"
#include "proto/supervisor.h"

namespace cairn::cli {

struct AllUsers {
  SupervisorStatus supervisor{};
  std::vector<WorkerStatus> workers;
};

// The supervisor's socket beside the daemon's own at `admin_socket`.
std::string StatusSocketBeside(const std::string& admin_socket);

// Ends within 10 s.
//   kPermissionDenied  this is not root, or neither root nor this user listens there
//   kUnavailable       no supervisor is there, or it has said nothing
//   kDataLoss          what it says is not whole, or not understood
absl::StatusOr<AllUsers> AskSupervisor(const std::string& socket);

// Reads all bytes that came. kDataLoss as above.
absl::StatusOr<AllUsers> ParseAllUsers(std::string_view bytes);

std::string DescribeAllUsers(const AllUsers& all);  // ended lines
Json ToJson(const AllUsers& all);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_ALL_USERS_H_
