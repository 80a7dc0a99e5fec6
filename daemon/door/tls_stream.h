// TLS on a TCP connection, as the peer door has it. Internal to it: brings Asio.
#ifndef CAIRN_DAEMON_DOOR_TLS_STREAM_H_
#define CAIRN_DAEMON_DOOR_TLS_STREAM_H_

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>

#include <memory>
#include <string>
#include <utility>

#include "daemon/trust/tls_handshake.h"

namespace cairn {

struct TlsStream {
  using Stream = boost::asio::ssl::stream<boost::asio::ip::tcp::socket>;

  TlsStream(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context& context,
            std::unique_ptr<TlsHandshake> its_handshake)
      : handshake(std::move(its_handshake)), stream(std::move(socket), context) {}

  boost::asio::ip::tcp::socket& tcp() { return stream.next_layer(); }
  void Close() {
    boost::system::error_code ignored;  // it is closed, whatever this says
    tcp().close(ignored);
  }
  // What was written goes out, and then the end of the stream.
  void EndWriting() {
    boost::system::error_code ignored;  // the peer may have gone
    tcp().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
  }

  const std::unique_ptr<TlsHandshake> handshake;  // outlives the stream, which points to it
  Stream stream;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_TLS_STREAM_H_
