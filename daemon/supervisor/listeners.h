// The supervisor's sockets: given by the service manager, or made.
#ifndef CAIRN_DAEMON_SUPERVISOR_LISTENERS_H_
#define CAIRN_DAEMON_SUPERVISOR_LISTENERS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "proto/supervisor.h"
#include "storage/base/unique_fd.h"

namespace cairn {

struct Listener {
  Door door = Door::kLocal;
  UniqueFd fd;       // does not block
  std::string path;  // to be removed at the end; empty: it was given
};

// Takes the sockets that LISTEN_PID and LISTEN_FDS name (sd_listen_fds(3)); what each is for tells the last part of its
// path. Empty: none are given to this process. What is a deposit by its name (deposits.h) is no matter of this. Removes
// the variables. REQUIRES: one thread.
//   kInvalidArgument  what is given is no listening stream socket at a path that ends in one of the three names
absl::StatusOr<std::vector<Listener>> TakeGivenListeners();

// Makes those that are missing in `runtime_dir`, one of ours (folders.h): for everybody; the status socket for us
// alone. A socket that is there is replaced: whoever holds the lock of the folder is the only one who listens there.
//   kFailedPrecondition  something else than a socket is there
absl::Status MakeListeners(const std::string& runtime_dir, std::vector<Listener>* listeners);

// Closes it, and removes its name if it was made here and is still the same.
void CloseListener(Listener* listener);

}  // namespace cairn

#endif  // CAIRN_DAEMON_SUPERVISOR_LISTENERS_H_
