#include "daemon/supervisor/hand_over.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "storage/base/descriptor_message.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

// The least that Linux gives. Descriptors in flight count for the supervisor's user: a worker that takes none must not
// use them up for all others.
constexpr int kSendBufferBytes = 1;

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
  const auto byte = static_cast<char>(door);
  return SendWithDescriptor(link, {&byte, 1}, connection) == 1 ? 0 : errno;
}

absl::StatusOr<HandedOver> ReceiveConnection(int link) {
  char byte = 0;
  HandedOver handed;
  const ssize_t got = ReceiveWithDescriptor(link, {&byte, 1}, &handed.connection);
  if (got == 0) return Unavailable("the supervisor has gone");
  if (got < 0) return InvalidArgument("descriptor {}: {}", link, std::strerror(errno));
  handed.door = static_cast<Door>(byte);
  return handed;
}

}  // namespace cairn
