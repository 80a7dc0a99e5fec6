#include "daemon/door/tls_stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "daemon/door/await.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::size_t kAtOnceMax = 1 << 20;  // OpenSSL counts in int

// --- The socket as OpenSSL has it. Its own does not keep SIGPIPE away. ---

int Transferred(BIO* bio, ssize_t count, void (*retry)(BIO*)) {
  BIO_clear_retry_flags(bio);
  if (count >= 0) {
    if (count == 0) errno = 0;  // so that the end is told from an error
    return static_cast<int>(count);
  }
  if (errno == EAGAIN || errno == EINTR) retry(bio);
  return -1;
}
int FdOf(BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
}
int SocketWrite(BIO* bio, const char* bytes, int count) {
  return Transferred(bio, ::send(FdOf(bio), bytes, static_cast<std::size_t>(count), MSG_NOSIGNAL | MSG_DONTWAIT),
                     [](BIO* it) { BIO_set_retry_write(it); });
}
int SocketRead(BIO* bio, char* target, int count) {
  return Transferred(bio, ::recv(FdOf(bio), target, static_cast<std::size_t>(count), MSG_DONTWAIT),
                     [](BIO* it) { BIO_set_retry_read(it); });
}
long SocketControl(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* SocketMethod() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "cairn-socket");
    CAIRN_CHECK(made != nullptr);
    BIO_meth_set_write(made, SocketWrite);
    BIO_meth_set_read(made, SocketRead);
    BIO_meth_set_ctrl(made, SocketControl);
    return made;
  }();
  return method;
}

bool SetSocket(SSL* ssl, int fd) {
  BIO* const bio = BIO_new(SocketMethod());
  if (bio == nullptr) return false;
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl, bio, bio);  // owns it
  return true;
}

}  // namespace

TlsStream::TlsStream(Tcp::socket socket, SSL_CTX* context, std::unique_ptr<TlsHandshake> handshake)
    : socket_(std::move(socket)), handshake_(std::move(handshake)), ssl_(SSL_new(context)) {}

TlsStream::TlsStream(Tcp::socket socket, PeerLine line)
    : socket_(std::move(socket)), handshake_(std::move(line.handshake)), ssl_(std::move(line.ssl)) {}

absl::Status TlsStream::Attach() {
  if (ssl_ == nullptr || !SetSocket(ssl_.get(), socket_.native_handle()))
    return Internal("no TLS: {}", OpenSslErrors());
  SSL_set_mode(ssl_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  handshake_->side() == TlsSide::kDials ? SSL_set_connect_state(ssl_.get()) : SSL_set_accept_state(ssl_.get());
  return handshake_->Attach(ssl_.get());
}

absl::StatusOr<std::unique_ptr<TlsStream>> TlsStream::Continue(asio::io_context& io, PeerLine line) {
  sockaddr_storage name{};
  socklen_t bytes = sizeof(name);
  ::getsockname(line.fd.get(), reinterpret_cast<sockaddr*>(&name), &bytes);
  Tcp::socket socket(io);
  error_code error;
  socket.assign(name.ss_family == AF_INET6 ? Tcp::v6() : Tcp::v4(), line.fd.get(), error);
  if (error) return Unavailable("a connection cannot be used: {}", error.message());
  line.fd.Release();
  return std::unique_ptr<TlsStream>(new TlsStream(std::move(socket), std::move(line)));
}

PeerLine TlsStream::TakeOut(std::unique_ptr<TlsStream> stream, PeerIdentity peer, std::string address) {
  error_code error;
  const int fd = stream->socket_.release(error);
  return {.fd = UniqueFd(error ? -1 : fd),
          .handshake = std::move(stream->handshake_),
          .ssl = std::move(stream->ssl_),
          .peer = std::move(peer),
          .address = std::move(address)};
}

// What would block waits for the socket and is done again.
template <typename Operation>
asio::awaitable<std::pair<error_code, std::size_t>> TlsStream::Do(Operation operation) {
  for (;;) {
    // The number that OpenSSL has may be another connection's once this one is closed.
    if (!socket_.is_open()) co_return std::pair(error_code(asio::error::operation_aborted), std::size_t{0});
    ERR_clear_error();
    errno = 0;
    const int count = operation(ssl_.get());
    const int system = errno;
    if (count > 0) co_return std::pair(error_code(), static_cast<std::size_t>(count));
    auto wait_for = Tcp::socket::wait_read;
    switch (SSL_get_error(ssl_.get(), count)) {
      case SSL_ERROR_WANT_READ:
        break;
      case SSL_ERROR_WANT_WRITE:
        wait_for = Tcp::socket::wait_write;
        break;
      case SSL_ERROR_ZERO_RETURN:
        co_return std::pair(error_code(asio::error::eof), std::size_t{0});
      case SSL_ERROR_SYSCALL:
        co_return std::pair(
            system == 0 ? error_code(asio::error::eof) : error_code(system, boost::system::system_category()),
            std::size_t{0});
      default:
        co_return std::pair(error_code(static_cast<int>(ERR_get_error()), asio::error::get_ssl_category()),
                            std::size_t{0});
    }
    const auto [error] = co_await socket_.async_wait(wait_for, kAwait);
    if (error) co_return std::pair(error, std::size_t{0});
  }
}

asio::awaitable<error_code> TlsStream::Handshake() {
  const auto [error, ignored] = co_await Do([](SSL* ssl) { return SSL_do_handshake(ssl); });
  co_return error;
}

asio::awaitable<std::pair<error_code, std::size_t>> TlsStream::ReadSome(std::span<std::byte> target) {
  co_return co_await Do([target](SSL* ssl) {
    return SSL_read(ssl, target.data(), static_cast<int>(std::min(target.size(), kAtOnceMax)));
  });
}

asio::awaitable<error_code> TlsStream::Read(std::span<std::byte> target) {
  while (!target.empty()) {
    const auto [error, count] = co_await ReadSome(target);
    if (error) co_return error;
    target = target.subspan(count);
  }
  co_return error_code();
}

asio::awaitable<error_code> TlsStream::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto [error, count] = co_await Do([bytes](SSL* ssl) {
      return SSL_write(ssl, bytes.data(), static_cast<int>(std::min(bytes.size(), kAtOnceMax)));
    });
    if (error) co_return error;
    bytes = bytes.subspan(count);
  }
  co_return error_code();
}

void TlsStream::Close() {
  error_code ignored;  // it is closed, whatever this says
  socket_.close(ignored);
}

void TlsStream::EndWriting() {
  error_code ignored;  // the peer may have gone
  socket_.shutdown(Tcp::socket::shutdown_send, ignored);
}

}  // namespace cairn
