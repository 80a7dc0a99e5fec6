#include "client/grpc/node_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "client/cairn.h"

namespace cairn::transport {
namespace {

Outcome CheckServer(int fd) {
  ucred server{};
  socklen_t bytes = sizeof(server);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &server, &bytes) != 0) {
    return {CAIRN_UNAVAILABLE, std::string("SO_PEERCRED: ") + std::strerror(errno)};
  }
  if (server.uid == 0 || server.uid == geteuid()) return {};
  return {CAIRN_PERMISSION_DENIED, "user " + std::to_string(server.uid) +
                                       " listens there, neither root nor this user, " + std::to_string(geteuid())};
}

Outcome Connect(int fd, const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return {CAIRN_INVALID_ARGUMENT, path + ": too long for a socket"};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return {CAIRN_UNAVAILABLE, path + ": " + std::strerror(errno)};
  }
  Outcome believed = CheckServer(fd);
  if (!believed.ok()) believed.text = path + ": " + believed.text;
  return believed;
}

}  // namespace

Outcome ConnectToNode(const std::string& path, int* fd) {
  *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (*fd < 0) return {CAIRN_UNAVAILABLE, std::string("socket: ") + std::strerror(errno)};
  Outcome connected = Connect(*fd, path);
  if (!connected.ok()) close(*fd);
  return connected;
}

}  // namespace cairn::transport
