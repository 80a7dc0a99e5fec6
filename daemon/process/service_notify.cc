#include "daemon/process/service_notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

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
  iovec part{.iov_base = const_cast<char*>(state.data()), .iov_len = state.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket->size());
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  }
  const UniqueFd from(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!from.valid() || ::sendmsg(from.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    return Unavailable("NOTIFY_SOCKET {}: {}", *socket, std::strerror(errno));
  }
  return absl::OkStatus();
}

}  // namespace cairn
