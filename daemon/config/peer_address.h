// Addresses and ports of daemons on other nodes, as settings, records and PeerNet have them. Numbers only: no name is
// looked up, so nothing waits for a name server. Pure; stateless, hence thread-safe.
#ifndef CAIRN_DAEMON_CONFIG_PEER_ADDRESS_H_
#define CAIRN_DAEMON_CONFIG_PEER_ADDRESS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

struct PortRange {
  std::uint16_t first = 0, last = 0;
};
// "17600-17699", or one port. kInvalidArgument: not that, port 0, or the last before the first.
absl::StatusOr<PortRange> ParsePorts(std::string_view text);

struct PeerAddress {
  std::string ip;  // "10.0.0.7", "fe80::1%ib0"
  std::uint16_t port = 0;
};
// "10.0.0.7:17001", "[fe80::1%ib0]:17001". kInvalidArgument: anything else.
absl::StatusOr<PeerAddress> ParsePeerAddress(std::string_view text);
std::string TextOf(const PeerAddress& address);

// Several, with commas and blanks between them; empty: none.
absl::StatusOr<std::vector<PeerAddress>> ParsePeerAddresses(std::string_view text);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CONFIG_PEER_ADDRESS_H_
