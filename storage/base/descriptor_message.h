// Messages to other processes of this machine that a descriptor may go along with (SCM_RIGHTS). Stateless, hence
// thread-safe.
#ifndef CAIRN_STORAGE_BASE_DESCRIPTOR_MESSAGE_H_
#define CAIRN_STORAGE_BASE_DESCRIPTOR_MESSAGE_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string_view>

#include "storage/base/unique_fd.h"

namespace cairn {

// To whom a socket that is not connected sends.
struct SocketAddress {
  const sockaddr* name = nullptr;  // null: to whom it is connected
  socklen_t bytes = 0;
};

// Sends what `socket` takes of `bytes` now; `fd` goes along with the first of them: the other end gets a descriptor of
// its own. -1: none does. As send(2): the number of bytes, or -1 and errno. Neither waits nor raises a signal, and is
// not interrupted by one.
ssize_t SendWithDescriptor(int socket, std::string_view bytes, int fd, SocketAddress to = {});

// Receives as recv(2) does with `flags`, and is not interrupted by a signal. `fd` gets the descriptor that came along,
// which no program that is started inherits; not valid: none came, or this process may open no more. The kernel closes
// all but the first.
ssize_t ReceiveWithDescriptor(int socket, std::span<char> into, UniqueFd* fd, int flags = 0);

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_DESCRIPTOR_MESSAGE_H_
