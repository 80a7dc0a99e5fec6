// Carries bytes between a TLS stream and a local socket, both ways, until either ends. Internal to the peer door:
// brings Asio.
//
// TLS' own farewell is neither sent nor awaited: that nothing is missing, gRPC says inside.
#ifndef CAIRN_DAEMON_DOOR_TLS_PUMP_H_
#define CAIRN_DAEMON_DOOR_TLS_PUMP_H_

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <memory>

#include "daemon/door/tls_stream.h"

namespace cairn {

// All on the door's thread; keeps itself until both ends are closed.
class TlsPump : public std::enable_shared_from_this<TlsPump> {
 public:
  using Near = boost::asio::local::stream_protocol::socket;
  TlsPump(boost::asio::io_context& io, std::unique_ptr<TlsStream> far, Near near, std::function<void()> on_gone);

  void Start();
  // It is cut off after `time`, unless Begun is called before.
  void BeginWithin(std::chrono::milliseconds time);
  void Begun() { begin_.cancel(); }
  // Whatever is under way then, it is cut off after `time`. The shortest counts.
  void EndWithin(std::chrono::milliseconds time);

 private:
  boost::asio::awaitable<void> Outward();
  boost::asio::awaitable<void> Inward();
  void Close();
  void CloseWhenOver(boost::asio::steady_timer& timer);

  boost::asio::io_context& io_;
  const std::unique_ptr<TlsStream> far_;
  Near near_;
  boost::asio::steady_timer begin_, end_;
  const std::function<void()> on_gone_;
  int ways_ = 2;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_TLS_PUMP_H_
