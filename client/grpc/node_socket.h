// The socket on the node that "grpc+unix:PATH" names. Anybody may listen at a path that others look at: only a daemon
// of root or of this user is talked to, as over "unix:" (client/library/unix_transport.c).
#ifndef CAIRN_CLIENT_GRPC_NODE_SOCKET_H_
#define CAIRN_CLIENT_GRPC_NODE_SOCKET_H_

#include <string>

#include "client/grpc/address.h"

namespace cairn::transport {

// A connection that does not block. `*fd` is the caller's to close.
//   CAIRN_INVALID_ARGUMENT   too long for a socket
//   CAIRN_UNAVAILABLE        nobody listens there
//   CAIRN_PERMISSION_DENIED  somebody else does: names the user
Outcome ConnectToNode(const std::string& path, int* fd);

}  // namespace cairn::transport

#endif  // CAIRN_CLIENT_GRPC_NODE_SOCKET_H_
