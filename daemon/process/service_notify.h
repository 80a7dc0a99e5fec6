// Tells the service manager how the daemon is doing, over the datagram socket that it names (sd_notify(3)).
#ifndef CAIRN_DAEMON_PROCESS_SERVICE_NOTIFY_H_
#define CAIRN_DAEMON_PROCESS_SERVICE_NOTIFY_H_

#include <absl/status/status.h>

#include <optional>
#include <string>
#include <string_view>

namespace cairn {

// Sends `state` ("READY=1") to `socket`: $NOTIFY_SOCKET, a path or '@' and an abstract name; absent: does nothing.
//   kInvalidArgument  neither of both, or too long
//   kUnavailable      nobody takes it
// `fd`: goes along; -1: none.
absl::Status NotifyService(const std::optional<std::string>& socket, std::string_view state, int fd = -1);

}  // namespace cairn

#endif  // CAIRN_DAEMON_PROCESS_SERVICE_NOTIFY_H_
