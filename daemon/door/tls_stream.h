// TLS on a TCP connection, as the peer door has it, and whoever takes one out of it. Brings Asio.
//
// OpenSSL works on the socket itself: nothing that has come, and nothing that is to go, lies anywhere but in its own
// object. So a connection moves to another thread as it is.
#ifndef CAIRN_DAEMON_DOOR_TLS_STREAM_H_
#define CAIRN_DAEMON_DOOR_TLS_STREAM_H_

#include <absl/status/status.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "daemon/door/peer_line.h"
#include "daemon/trust/openssl.h"
#include "daemon/trust/tls_handshake.h"

namespace cairn {

// One thread at a time. At most one read and one write at once. Errors of OpenSSL's are of Asio's category of those;
// the end of the connection is asio::error::eof, farewell or not.
class TlsStream {
 public:
  using Tcp = boost::asio::ip::tcp;
  template <typename T>
  using Awaitable = boost::asio::awaitable<T>;
  using Error = boost::system::error_code;

  // Before the handshake. `context`: of that side's.
  TlsStream(Tcp::socket socket, SSL_CTX* context, std::unique_ptr<TlsHandshake> handshake);
  // Of a line that was taken out.
  static absl::StatusOr<std::unique_ptr<TlsStream>> Continue(boost::asio::io_context& io, PeerLine line);
  // Out of its thread. REQUIRES: proven; nothing is being read or written.
  static PeerLine TakeOut(std::unique_ptr<TlsStream> stream, PeerIdentity peer, std::string address);

  absl::Status Attach();  // once the socket is connected, before the handshake
  Awaitable<Error> Handshake();
  Awaitable<std::pair<Error, std::size_t>> ReadSome(std::span<std::byte> target);  // at least one byte
  Awaitable<Error> Read(std::span<std::byte> target);                              // all of it
  Awaitable<Error> Write(std::span<const std::byte> bytes);                        // all of it

  const TlsHandshake& handshake() const { return *handshake_; }
  TlsHandshake& handshake() { return *handshake_; }
  Tcp::socket& tcp() { return socket_; }
  SSL* ssl() { return ssl_.get(); }
  void Close();
  // What was written goes out, and then the end of the stream.
  void EndWriting();

 private:
  TlsStream(Tcp::socket socket, PeerLine line);
  template <typename Operation>
  Awaitable<std::pair<Error, std::size_t>> Do(Operation operation);

  Tcp::socket socket_;
  std::unique_ptr<TlsHandshake> handshake_;  // outlives the next, which points to it
  std::unique_ptr<SSL, FreedBy<&SSL_free>> ssl_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_TLS_STREAM_H_
