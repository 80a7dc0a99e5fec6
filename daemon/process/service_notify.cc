#include "daemon/process/service_notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "storage/base/descriptor_message.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace cairn {

absl::Status NotifyService(const std::optional<std::string>& socket, std::string_view state, int fd) {
  if (!socket || socket->empty()) return absl::OkStatus();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if ((socket->front() != '/' && socket->front() != '@') || socket->size() >= sizeof address.sun_path) {
    return InvalidArgument("NOTIFY_SOCKET: \"{}\" is no address of a socket", *socket);
  }
  std::memcpy(address.sun_path, socket->data(), socket->size());
  if (socket->front() == '@') address.sun_path[0] = '\0';
  const UniqueFd from(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SocketAddress to{.name = reinterpret_cast<const sockaddr*>(&address),
                         .bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket->size())};
  if (!from.valid() || SendWithDescriptor(from.get(), state, fd, to) < 0) {
    return Unavailable("NOTIFY_SOCKET {}: {}", *socket, std::strerror(errno));
  }
  return absl::OkStatus();
}

}  // namespace cairn
