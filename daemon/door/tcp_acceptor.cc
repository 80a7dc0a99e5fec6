#include "daemon/door/tcp_acceptor.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr int kPauseMs = 10;  // after so many that could not be taken: a flood of them costs little
constexpr unsigned kRefusedAtOnce = 256;

// The number of a new descriptor is the lowest that is free: above this, so many are in use.
int DescriptorsMax() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur > INT32_MAX) return INT32_MAX / 2;
  return static_cast<int>(files.rlim_cur / 2);
}

absl::StatusOr<UniqueFd> ListenOne(const std::string& host, std::uint16_t port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0) {
    return InvalidArgument("ingest.listen: {}: {}", host, gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1, no = 0;
  if (fd.valid()) {
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);  // connections have it, too
    if (found->ai_family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  }
  if (fd.valid() && ::bind(fd.get(), found->ai_addr, found->ai_addrlen) == 0 && ::listen(fd.get(), SOMAXCONN) == 0) {
    return fd;
  }
  const int error = errno;
  if (error == EADDRINUSE) return Unavailable("port {} is taken", port);
  return InvalidArgument("ingest.listen: {}:{}: {}", host, port, std::strerror(error));
}

}  // namespace

bool StandsForAny(const std::string& host) {
  return host == "0.0.0.0" || host == "[::]" || host == "*";
}

absl::StatusOr<UniqueFd> ListenAtPort(const std::string& host, std::uint16_t port) {
  if (StandsForAny(host)) {
    absl::StatusOr<UniqueFd> both = ListenOne("::", port);  // IPv4, too
    return absl::IsInvalidArgument(both.status()) ? ListenOne("0.0.0.0", port) : std::move(both);
  }
  const bool brackets = host.starts_with('[') && host.ends_with(']');
  return ListenOne(brackets ? host.substr(1, host.size() - 2) : host, port);
}

absl::StatusOr<int> PortOf(const UniqueFd& listener) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    return Unavailable("port: {}", std::strerror(errno));
  }
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

absl::StatusOr<std::unique_ptr<TcpAcceptor>> TcpAcceptor::Start(UniqueFd listener, std::unique_ptr<Server> server) {
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) return Unavailable("eventfd: {}", std::strerror(errno));
  return std::unique_ptr<TcpAcceptor>(new TcpAcceptor(std::move(listener), std::move(stop), std::move(server)));
}

TcpAcceptor::TcpAcceptor(UniqueFd listener, UniqueFd stop, std::unique_ptr<Server> server)
    : listener_(std::move(listener)), stop_(std::move(stop)), server_(std::move(server)), thread_([this] { Run(); }) {}

TcpAcceptor::~TcpAcceptor() {
  ::eventfd_write(stop_.get(), 1);  // of 2^64 - 2 this is the first: it cannot fail
  thread_.join();
}

void TcpAcceptor::Pause() const {
  pollfd stop{.fd = stop_.get(), .events = POLLIN, .revents = 0};
  ::poll(&stop, 1, kPauseMs);
}

void TcpAcceptor::Run() {
  const int descriptors_max = DescriptorsMax();
  unsigned refused = 0;
  while (true) {
    pollfd waits[] = {{.fd = listener_.get(), .events = POLLIN, .revents = 0},
                      {.fd = stop_.get(), .events = POLLIN, .revents = 0}};
    if (::poll(waits, 2, -1) < 0) Pause();
    if (waits[1].revents != 0) return;
    if (waits[0].revents == 0) continue;
    UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.valid()) {
      Pause();
      continue;
    }
    if (connection.get() >= descriptors_max) {  // all that is there goes before others are waited for
      if (++refused % kRefusedAtOnce == 0) Pause();
      continue;
    }
    Server::NewConnectionParameters parameters;
    parameters.listener_fd = listener_.get();
    parameters.fd = connection.Release();
    server_->HandleNewConnection(&parameters);
  }
}

}  // namespace cairn
