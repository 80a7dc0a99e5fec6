#include "storage/base/descriptor_message.h"

#include <array>
#include <cerrno>
#include <cstring>

namespace cairn {
namespace {

struct Message {
  explicit Message(std::span<char> bytes) : part{.iov_base = bytes.data(), .iov_len = bytes.size()} {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
  }
  Message(const Message&) = delete;

  // Not CMSG_SPACE, which has room for two descriptors: of two that come the kernel closes the second.
  void AddRoomForOne() {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_LEN(sizeof(int));
  }

  iovec part;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
};

}  // namespace

ssize_t SendWithDescriptor(int socket, std::string_view bytes, int fd, SocketAddress to) {
  Message message({const_cast<char*>(bytes.data()), bytes.size()});
  message.header.msg_name = const_cast<sockaddr*>(to.name);
  message.header.msg_namelen = to.bytes;
  if (fd >= 0) {
    message.AddRoomForOne();
    cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(control), &fd, sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message.header, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

ssize_t ReceiveWithDescriptor(int socket, std::span<char> into, UniqueFd* fd, int flags) {
  Message message(into);
  message.AddRoomForOne();
  fd->Reset();
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message.header, flags | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return got;
  const cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
  if (control == nullptr || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS ||
      control->cmsg_len != CMSG_LEN(sizeof(int))) {
    return got;
  }
  int received = -1;
  std::memcpy(&received, CMSG_DATA(control), sizeof(int));
  *fd = UniqueFd(received);
  return got;
}

}  // namespace cairn
