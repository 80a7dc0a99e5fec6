#include "daemon/door/peer_listener.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "storage/base/quoted.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

namespace asio = boost::asio;
namespace ip = boost::asio::ip;
using boost::system::error_code;

std::optional<ip::address> FromSystem(const sockaddr* address) {
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, address, sizeof(in));
    return ip::address_v4(ntohl(in.sin_addr.s_addr));
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  sockaddr_in6 in{};
  std::memcpy(&in, address, sizeof(in));
  ip::address_v6::bytes_type bytes;
  std::memcpy(bytes.data(), &in.sin6_addr, bytes.size());
  return ip::address_v6(bytes, in.sin6_scope_id);
}

// The smaller, the better: others reach it.
int PreferenceOf(const ip::address& address) {
  if (address.is_v4()) return address.to_v4().to_uint() >> 16 == 0xa9fe ? 2 : 0;  // 169.254/16: the link alone
  return address.to_v6().is_link_local() ? 3 : 1;
}

}  // namespace

absl::StatusOr<ip::address> AddressOf(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return Unavailable("network interfaces cannot be listed: {}", std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  bool found = false;
  std::optional<ip::address> best;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (interface != entry->ifa_name) continue;
    found = true;
    const auto address = FromSystem(entry->ifa_addr);
    if (address && (!best || PreferenceOf(*address) < PreferenceOf(*best))) best = address;
  }
  if (best) return *best;
  if (found) return Unavailable("network interface {} has no address", interface);
  error_code error;
  const ip::address address = ip::make_address(interface, error);
  if (error) return InvalidArgument("{} is neither a network interface here nor an address", Quoted(interface));
  if (address.is_unspecified()) {
    return InvalidArgument("{} stands for any address: others cannot be told where this node is", interface);
  }
  return address;
}

absl::StatusOr<ip::tcp::acceptor> ListenOn(asio::io_context& io, const ip::address& address, const PortRange& ports) {
  for (std::uint32_t port = ports.first; port <= ports.last; ++port) {
    const ip::tcp::endpoint endpoint(address, static_cast<std::uint16_t>(port));
    ip::tcp::acceptor acceptor(io);
    error_code error;
    acceptor.open(endpoint.protocol(), error);
    // Connections that ended keep no port from a daemon that starts again; one that listens does.
    if (!error) acceptor.set_option(ip::tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (!error) return acceptor;
    if (error == asio::error::address_in_use) continue;
    const auto code = error == boost::system::errc::permission_denied ? absl::StatusCode::kPermissionDenied
                                                                      : absl::StatusCode::kUnavailable;
    return MakeError(code, "cannot listen on {}: {}", TextOf(endpoint), error.message());
  }
  return Unavailable("cannot listen on {}: all ports from {} to {} are taken", address.to_string(), ports.first,
                     ports.last);
}

absl::StatusOr<ip::tcp::endpoint> EndpointOf(const std::string& address) {
  CAIRN_ASSIGN_OR_RETURN(const PeerAddress parsed, ParsePeerAddress(address));
  error_code error;
  const ip::address ip = ip::make_address(parsed.ip, error);
  if (error) return InvalidArgument("{}: {}", Quoted(address), error.message());
  return ip::tcp::endpoint(ip, parsed.port);
}

std::string TextOf(const ip::tcp::endpoint& endpoint) {
  return TextOf(PeerAddress{.ip = endpoint.address().to_string(), .port = endpoint.port()});
}

}  // namespace cairn
