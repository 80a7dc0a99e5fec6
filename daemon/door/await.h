// How coroutines of the doors wait: errors come back beside the result, not as exceptions.
#ifndef CAIRN_DAEMON_DOOR_AWAIT_H_
#define CAIRN_DAEMON_DOOR_AWAIT_H_

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cairn {

inline constexpr auto kAwait = boost::asio::as_tuple(boost::asio::use_awaitable);

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_AWAIT_H_
