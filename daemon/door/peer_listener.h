// Where the peer door listens. Internal to it: brings Asio.
#ifndef CAIRN_DAEMON_DOOR_PEER_LISTENER_H_
#define CAIRN_DAEMON_DOOR_PEER_LISTENER_H_

#include <absl/status/statusor.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <string>

#include "daemon/config/peer_address.h"

namespace cairn {

// The address of the network interface of this name (IPv4 before IPv6, addresses of the link alone last), or
// `interface` itself if it is an address.
//   kInvalidArgument  neither; an address that others cannot reach, because it stands for any
//   kUnavailable      the interface has no address
absl::StatusOr<boost::asio::ip::address> AddressOf(const std::string& interface);

// On the first port of the range that is free. kUnavailable: none is, or the address is not this node's.
// kPermissionDenied: the ports are not for this user.
absl::StatusOr<boost::asio::ip::tcp::acceptor> ListenOn(boost::asio::io_context& io,
                                                        const boost::asio::ip::address& address,
                                                        const PortRange& ports);

absl::StatusOr<boost::asio::ip::tcp::endpoint> EndpointOf(const std::string& address);  // kInvalidArgument
std::string TextOf(const boost::asio::ip::tcp::endpoint& endpoint);

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_PEER_LISTENER_H_
