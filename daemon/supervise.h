// Root's daemon: the supervisor, made of settings.
#ifndef CAIRN_DAEMON_SUPERVISE_H_
#define CAIRN_DAEMON_SUPERVISE_H_

#include <absl/status/statusor.h>

#include <functional>
#include <string_view>

#include "daemon/config/command_line.h"
#include "daemon/config/config.h"

namespace cairn {

struct Supervision {
  std::function<absl::Status()> set_up_log;                           // once nobody else's log can be meant
  std::function<void(std::string_view state)> notify;                 // "READY=1", …
  std::function<bool(std::string_view state, int fd)> notify_holder;  // Supervisor::Options'
};

// Serves until it is told to stop, and all workers have ended. True: each of them in order.
//   kFailedPrecondition  another daemon is there
//   kInvalidArgument     settings, or sockets that were given, are no such
//   others               a folder or a socket cannot be had: the message says which and why
absl::StatusOr<bool> Supervise(const CommandLine& line, const Config& config, const Supervision& with);

}  // namespace cairn

#endif  // CAIRN_DAEMON_SUPERVISE_H_
