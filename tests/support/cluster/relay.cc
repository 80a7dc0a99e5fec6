#include "tests/support/cluster/relay.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <deque>
#include <vector>

#include "storage/base/unique_fd.h"

namespace cairn::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kOnTheWayMax = 64 << 20;
// A segment of TCP may come whole, to be cut by whoever sends it on: the header before each frame, struct
// virtio_net_hdr (whose linux/virtio_net.h is no C++), says so.
constexpr std::size_t kHeaderBytes = 10, kFrameMax = kHeaderBytes + ETH_HLEN + 65536;

struct Frame {
  Clock::time_point due;
  std::vector<std::byte> bytes;
};

struct Direction {
  int from, to;
  std::deque<Frame> on_the_way;
  std::size_t bytes = 0;
};

UniqueFd OpenDevice(const std::string& name) {
  // Nothing is received before the socket is bound to the device.
  UniqueFd fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1, buffer = 8 << 20;
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(::if_nametoindex(name.c_str()));
  // A larger buffer is a wish only: an ordinary user may not exceed the system's maximum.
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
  if (address.sll_ifindex == 0 || ::setsockopt(fd.get(), SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) != 0 ||
      ::setsockopt(fd.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) != 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    fmt::print(stderr, "{}: {}\n", name, std::strerror(errno));
    fd.Reset();
  }
  return fd;
}

void Take(Direction& direction, std::chrono::milliseconds delay) {
  static std::array<std::byte, kFrameMax> buffer;
  for (;;) {
    const ssize_t n = ::recv(direction.from, buffer.data(), buffer.size(), MSG_TRUNC);
    if (n < 0) return;  // no more for now; an error of the device is over when it is up again
    const auto size = static_cast<std::size_t>(n);
    if (size > buffer.size() || direction.bytes + size > kOnTheWayMax) continue;
    direction.bytes += size;
    direction.on_the_way.push_back({Clock::now() + delay, {buffer.begin(), buffer.begin() + n}});
  }
}

void Give(Direction& direction) {
  while (!direction.on_the_way.empty() && direction.on_the_way.front().due <= Clock::now()) {
    const Frame& frame = direction.on_the_way.front();
    // What the device does not take is lost, as on any cable.
    (void)!::send(direction.to, frame.bytes.data(), frame.bytes.size(), 0);
    direction.bytes -= frame.bytes.size();
    direction.on_the_way.pop_front();
  }
}

// Until the first frame is due, or for ever.
bool Await(const std::array<Direction, 2>& directions) {
  std::array<pollfd, 2> polls{};
  auto due = Clock::time_point::max();
  for (std::size_t i = 0; i < 2; ++i) {
    polls[i] = {.fd = directions[i].from, .events = POLLIN, .revents = 0};
    if (!directions[i].on_the_way.empty()) due = std::min(due, directions[i].on_the_way.front().due);
  }
  if (due == Clock::time_point::max()) return ::poll(polls.data(), polls.size(), -1) >= 0 || errno == EINTR;
  const auto left = std::max(due - Clock::now(), Clock::duration::zero());
  const timespec timeout{.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(left).count(),
                         .tv_nsec = (left % std::chrono::seconds(1)).count()};
  return ::ppoll(polls.data(), polls.size(), &timeout, nullptr) >= 0 || errno == EINTR;
}

}  // namespace

int RunRelay(const std::string& one, const std::string& other, std::chrono::milliseconds delay) {
  const UniqueFd first = OpenDevice(one), second = OpenDevice(other);
  if (!first.valid() || !second.valid()) return 1;
  std::array<Direction, 2> directions{{{first.get(), second.get(), {}}, {second.get(), first.get(), {}}}};
  fmt::print("ready\n");
  std::fflush(stdout);
  while (Await(directions)) {
    for (Direction& direction : directions) {
      Take(direction, delay);
      Give(direction);
    }
  }
  return 1;
}

}  // namespace cairn::testing
