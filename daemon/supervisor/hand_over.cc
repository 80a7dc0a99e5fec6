#include "daemon/supervisor/hand_over.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "storage/base/status.h"

namespace cairn {
namespace {

// The least that Linux gives. Descriptors in flight count for the supervisor's user: a worker that takes none must not
// use them up for all others.
constexpr int kSendBufferBytes = 1;
constexpr std::size_t kControlBytes = CMSG_SPACE(sizeof(int));

}  // namespace

absl::StatusOr<Link> MakeDepositLink() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return Unavailable("a pair of sockets: {}", std::strerror(errno));
  }
  Link link{.supervisor = UniqueFd(ends[0]), .worker = UniqueFd(ends[1])};
  if (::setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof kSendBufferBytes) == 0) return link;
  return Unavailable("a pair of sockets: {}", std::strerror(errno));
}

absl::StatusOr<Link> MakeLink() {
  CAIRN_ASSIGN_OR_RETURN(Link link, MakeDepositLink());
  if (::shutdown(link.supervisor.get(), SHUT_RD) == 0) return link;
  return Unavailable("a pair of sockets: {}", std::strerror(errno));
}

int SendByte(int link, Door door) {
  const auto byte = static_cast<std::uint8_t>(door);
  return ::send(link, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 ? 0 : errno;
}

int SendConnection(int link, Door door, int connection) {
  auto byte = static_cast<std::uint8_t>(door);
  iovec part{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) std::array<char, kControlBytes> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &connection, sizeof(int));
  for (;;) {
    if (::sendmsg(link, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return 0;
    if (errno != EINTR) return errno;
  }
}

absl::StatusOr<HandedOver> ReceiveConnection(int link) {
  std::uint8_t byte = 0;
  iovec part{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) std::array<char, kControlBytes> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  do {
    got = ::recvmsg(link, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return Unavailable("the supervisor has gone");
  if (got < 0) return InvalidArgument("descriptor {}: {}", link, std::strerror(errno));
  HandedOver handed{.door = static_cast<Door>(byte), .connection = UniqueFd()};
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return handed;
  }
  int connection = -1;
  std::memcpy(&connection, CMSG_DATA(header), sizeof(int));
  handed.connection = UniqueFd(connection);
  return handed;
}

}  // namespace cairn
