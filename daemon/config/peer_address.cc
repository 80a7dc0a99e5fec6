#include "daemon/config/peer_address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "daemon/config/stripped.h"
#include "storage/base/quoted.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

std::optional<std::uint16_t> ParsePort(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

bool IsIpv4(const std::string& ip) {
  in_addr bytes{};
  return inet_pton(AF_INET, ip.c_str(), &bytes) == 1;
}

// With the interface that it is valid on behind a '%', if it says one.
bool IsIpv6(const std::string& ip) {
  const std::string address = ip.substr(0, ip.find('%'));
  const std::string scope = address.size() == ip.size() ? "none" : ip.substr(address.size() + 1);
  const bool scope_fits = !scope.empty() && scope.size() < IF_NAMESIZE &&
                          std::all_of(scope.begin(), scope.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  in6_addr bytes{};
  return scope_fits && inet_pton(AF_INET6, address.c_str(), &bytes) == 1;
}

}  // namespace

absl::StatusOr<PortRange> ParsePorts(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = ParsePort(text.substr(0, dash));
  const auto last = dash == text.npos ? first : ParsePort(text.substr(dash + 1));
  if (!first || !last || *first > *last) {
    return InvalidArgument("{} is no range of ports such as 17600-17699", Quoted(text));
  }
  return PortRange{.first = *first, .last = *last};
}

absl::StatusOr<PeerAddress> ParsePeerAddress(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const auto port = ParsePort(colon == text.npos ? "" : text.substr(colon + 1));
  std::string host(text.substr(0, colon));
  const bool brackets = host.size() > 2 && host.starts_with('[') && host.ends_with(']');
  if (brackets) host = host.substr(1, host.size() - 2);
  if (!port || host.find('\0') != host.npos || (brackets ? !IsIpv6(host) : !IsIpv4(host))) {
    return InvalidArgument("{} is no address and port such as 10.0.0.7:17600 or [fd00::7]:17600", Quoted(text));
  }
  return PeerAddress{.ip = std::move(host), .port = *port};
}

std::string TextOf(const PeerAddress& address) {
  const bool v6 = address.ip.find(':') != address.ip.npos;
  return v6 ? fmt::format("[{}]:{}", address.ip, address.port) : fmt::format("{}:{}", address.ip, address.port);
}

absl::StatusOr<std::vector<PeerAddress>> ParsePeerAddresses(std::string_view text) {
  std::vector<PeerAddress> addresses;
  if (Stripped(text).empty()) return addresses;
  for (;;) {
    const std::size_t comma = text.find(',');
    CAIRN_ASSIGN_OR_RETURN(PeerAddress address, ParsePeerAddress(Stripped(text.substr(0, comma))));
    addresses.push_back(std::move(address));
    if (comma == text.npos) return addresses;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace cairn
