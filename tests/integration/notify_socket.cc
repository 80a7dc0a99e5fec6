#include "tests/integration/notify_socket.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>

namespace cairn::testing {

NotifySocket::NotifySocket(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  ::unlink(path.c_str());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << path;
}

std::string NotifySocket::Await(Process& process, std::chrono::seconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  for (bool running = true; running && std::chrono::steady_clock::now() < end;) {
    // Once more after its end: it may have said it just before.
    running = process.running();
    pollfd poll{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&poll, 1, running ? 50 : 0) <= 0) continue;
    std::array<char, 64> text{};
    if (::recv(socket_.get(), text.data(), text.size() - 1, 0) > 0) return text.data();
  }
  return "";
}

}  // namespace cairn::testing
