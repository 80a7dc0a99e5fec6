#include "tests/integration/tcp_proxy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <thread>

#include "storage/base/unique_fd.h"

namespace cairn::testing {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool SendAll(int fd, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = ::send(fd, data, bytes, MSG_NOSIGNAL);
    if (n <= 0) return false;
    data += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

// One client's connection and the one to the daemon that belongs to it; a thread for each direction.
struct Link {
  UniqueFd client, daemon;
  std::optional<TcpProxy::Cut> cut;
  std::thread to_daemon, to_client;

  void Break() const {
    ::shutdown(client.get(), SHUT_RDWR);
    ::shutdown(daemon.get(), SHUT_RDWR);
  }
};

class TcpProxyImpl final : public TcpProxy {
 public:
  explicit TcpProxyImpl(int daemon_port) : daemon_port_(daemon_port) {}

  bool Listen() {
    listener_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = Loopback(0);
    socklen_t bytes = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_.get(), generic, bytes) != 0 || ::listen(listener_.get(), 64) != 0 ||
        ::getsockname(listener_.get(), generic, &bytes) != 0) {
      ADD_FAILURE() << "no port for a proxy: " << std::strerror(errno);
      return false;
    }
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { Accept(); });
    return true;
  }

  ~TcpProxyImpl() override {
    ::shutdown(listener_.get(), SHUT_RDWR);  // accept answers
    if (acceptor_.joinable()) acceptor_.join();
    CutAllNow();
    for (Link& link : links_) {
      link.to_daemon.join();
      link.to_client.join();
    }
  }

  int port() const override { return port_; }
  void CutNext(std::vector<Cut> cuts) override {
    const std::lock_guard lock(mutex_);
    cuts_.assign(cuts.begin(), cuts.end());
  }
  void CutAllNow() override {
    const std::lock_guard lock(mutex_);
    for (const Link& link : links_) link.Break();
  }
  void LetIn(bool let_in) override { let_in_ = let_in; }
  std::uint64_t bytes_to_daemon() const override { return bytes_to_daemon_; }
  std::uint64_t bytes_to_client() const override { return bytes_to_client_; }
  std::uint64_t cuts_made() const override { return cuts_made_; }

 private:
  void Accept() {
    for (;;) {
      UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client.valid()) return;
      if (!let_in_) continue;
      UniqueFd daemon(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const sockaddr_in address = Loopback(daemon_port_);
      // A daemon that is away: the client finds its connection ended.
      if (::connect(daemon.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) continue;
      Join(std::move(client), std::move(daemon));
    }
  }

  void Join(UniqueFd client, UniqueFd daemon) {
    const int on = 1;
    for (const int fd : {client.get(), daemon.get()}) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const std::lock_guard lock(mutex_);
    Link& link = links_.emplace_back();
    link.client = std::move(client);
    link.daemon = std::move(daemon);
    if (!cuts_.empty()) {
      link.cut = cuts_.front();
      cuts_.pop_front();
    }
    link.to_daemon = std::thread([this, &link] { Pump(link, Cut::Direction::kToDaemon); });
    link.to_client = std::thread([this, &link] { Pump(link, Cut::Direction::kToClient); });
  }

  void Pump(const Link& link, Cut::Direction direction) {
    const bool up = direction == Cut::Direction::kToDaemon;
    const int from = (up ? link.client : link.daemon).get(), to = (up ? link.daemon : link.client).get();
    const bool is_cut = link.cut.has_value() && link.cut->direction == direction;
    std::uint64_t left = is_cut ? link.cut->bytes : UINT64_MAX;
    std::array<char, 16384> block;
    while (left > 0) {
      const ssize_t got = ::recv(from, block.data(), std::min<std::uint64_t>(block.size(), left), 0);
      if (got <= 0 || !SendAll(to, block.data(), static_cast<std::size_t>(got))) break;
      (up ? bytes_to_daemon_ : bytes_to_client_) += static_cast<std::uint64_t>(got);
      left -= static_cast<std::uint64_t>(got);
    }
    if (left == 0) {
      if (link.cut->shut) let_in_ = false;
      ++cuts_made_;
    }
    link.Break();
  }

  const int daemon_port_;
  int port_ = 0;
  UniqueFd listener_;
  std::thread acceptor_;
  std::atomic<bool> let_in_{true};
  std::atomic<std::uint64_t> bytes_to_daemon_{0}, bytes_to_client_{0}, cuts_made_{0};
  std::mutex mutex_;
  std::deque<Cut> cuts_;
  std::list<Link> links_;  // their descriptors stay open until the end, so that Break never meets another's
};

}  // namespace

std::unique_ptr<TcpProxy> TcpProxy::Start(int daemon_port) {
  auto proxy = std::make_unique<TcpProxyImpl>(daemon_port);
  if (!proxy->Listen()) return nullptr;
  return proxy;
}

}  // namespace cairn::testing
