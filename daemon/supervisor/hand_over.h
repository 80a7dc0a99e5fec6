// Connections on their way from the supervisor to a worker: one byte, and a descriptor. Stateless, hence thread-safe.
#ifndef CAIRN_DAEMON_SUPERVISOR_HAND_OVER_H_
#define CAIRN_DAEMON_SUPERVISOR_HAND_OVER_H_

#include <absl/status/statusor.h>

#include "proto/supervisor.h"
#include "storage/base/unique_fd.h"

namespace cairn {

struct Link {
  UniqueFd supervisor;  // sends without waiting, receives nothing: what the worker sends is refused by the kernel
  UniqueFd worker;
};
// The kernel keeps a handful of connections that the worker has not taken, and no more. kUnavailable: no sockets.
absl::StatusOr<Link> MakeLink();

// The same for deposits: requests come back (proto/supervisor.h).
absl::StatusOr<Link> MakeDepositLink();

// Sends one; the caller still has its descriptor, and may close it. 0, or errno: EAGAIN, the link is full.
int SendConnection(int link, Door door, int connection);

int SendByte(int link, Door door);  // without a descriptor

struct HandedOver {
  Door door = Door::kLocal;
  UniqueFd connection;  // not valid: that message brought none, go on with the next
};
// Waits for the next, as long as the socket's SO_RCVTIMEO says. kUnavailable: the other end is gone. kInvalidArgument:
// `link` is no such socket.
absl::StatusOr<HandedOver> ReceiveConnection(int link);

}  // namespace cairn

#endif  // CAIRN_DAEMON_SUPERVISOR_HAND_OVER_H_
