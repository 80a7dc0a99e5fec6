#include "tests/daemon/door/raw_peer.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

namespace cairn::testing {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A name of a protocol as TLS has it: behind its length.
std::string WireOf(const std::string& protocol) {
  return std::string(1, static_cast<char>(protocol.size())) + protocol;
}

// Takes the one protocol that it is told, if it is offered.
int TakeOurs(SSL*, const unsigned char** chosen, unsigned char* bytes, const unsigned char* offered,
             unsigned int offered_bytes, void* wire) {
  const auto& ours = *static_cast<const std::string*>(wire);
  unsigned char* out = nullptr;
  const int found = SSL_select_next_proto(&out, bytes, reinterpret_cast<const unsigned char*>(ours.data()),
                                          static_cast<unsigned int>(ours.size()), offered, offered_bytes);
  *chosen = out;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

UniqueFd NewSocket() {
  return UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

}  // namespace

UniqueFd ListenOnLoopback(int& port) {
  UniqueFd fd = NewSocket();
  sockaddr_in address = Loopback(0);
  socklen_t bytes = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(fd.get(), generic, bytes), 0);
  EXPECT_EQ(::listen(fd.get(), 16), 0);
  EXPECT_EQ(::getsockname(fd.get(), generic, &bytes), 0);
  port = ntohs(address.sin_port);
  return fd;
}

UniqueFd ConnectToLoopback(int port) {
  UniqueFd fd = NewSocket();
  const sockaddr_in address = Loopback(port);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}

RawPeer RawPeer::Connect(int port) {
  return RawPeer(ConnectToLoopback(port));
}

RawPeer::RawPeer(UniqueFd fd) : fd_(std::move(fd)) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without a word against it
  const timeval patience{.tv_sec = 60, .tv_usec = 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

std::string RawPeer::Dial(const Tls& tls) {
  return Shake(TlsSide::kDials, tls);
}
std::string RawPeer::Answer(const Tls& tls) {
  return Shake(TlsSide::kAnswers, tls);
}

std::string RawPeer::Shake(TlsSide side, const Tls& tls) {
  context_ = TlsContext(SSL_CTX_new(side == TlsSide::kDials ? TLS_client_method() : TLS_server_method()));
  SSL_CTX_set_max_proto_version(context_.get(), tls.version_max);
  std::string wire = WireOf(tls.protocol);
  if (!tls.protocol.empty()) SSL_CTX_set_alpn_select_cb(context_.get(), TakeOurs, &wire);  // during this call
  if (side == TlsSide::kAnswers) SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_verify_callback(
      context_.get(), [](X509_STORE_CTX*, void*) { return 1; }, nullptr);
  ssl_.reset(SSL_new(context_.get()));
  if (tls.shown != nullptr) {
    SSL_use_certificate(ssl_.get(), tls.shown->certificate.get());
    SSL_use_PrivateKey(ssl_.get(), tls.shown->key.get());
  }
  if (!tls.server_name.empty()) SSL_set_tlsext_host_name(ssl_.get(), tls.server_name.c_str());
  if (!tls.protocol.empty()) {
    SSL_set_alpn_protos(ssl_.get(), reinterpret_cast<const unsigned char*>(wire.data()),
                        static_cast<unsigned int>(wire.size()));
  }
  SSL_set_fd(ssl_.get(), fd_.get());
  ERR_clear_error();
  const int done = side == TlsSide::kDials ? SSL_connect(ssl_.get()) : SSL_accept(ssl_.get());
  return done == 1 ? "" : OpenSslErrors();
}

bool RawPeer::Send(const std::string& bytes) {
  if (ssl_ != nullptr) return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0;
  return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0;
}

int RawPeer::Read(char* to, int bytes) {
  ERR_clear_error();
  return ssl_ != nullptr ? SSL_read(ssl_.get(), to, bytes)
                         : static_cast<int>(::recv(fd_.get(), to, static_cast<std::size_t>(bytes), 0));
}

std::string RawPeer::Receive(std::size_t bytes) {
  std::string got;
  while (got.size() < bytes) {
    char block[4096];
    const int n = Read(block, static_cast<int>(std::min(bytes - got.size(), sizeof block)));
    if (n <= 0) break;
    got.append(block, static_cast<std::size_t>(n));
  }
  return got;
}

std::string RawPeer::End() {
  char block[4096];
  for (;;) {
    errno = 0;
    const int n = Read(block, sizeof block);
    if (n > 0) continue;
    if (ssl_ != nullptr && ERR_peek_error() != 0) return OpenSslErrors();
    if (errno == ECONNRESET) return "reset";
    return errno == EAGAIN ? "still open after a minute" : "closed";
  }
}

bool RawPeer::Introduce(const std::string& introduction, std::string* theirs) {
  const auto send = [this](const std::string& body) {
    Send(std::string{static_cast<char>(body.size() >> 8), static_cast<char>(body.size() & 0xff)} + body);
  };
  send(introduction);
  const std::string head = Receive(2);
  if (head.size() < 2) return false;
  const std::string shown =
      Receive(static_cast<std::size_t>(static_cast<unsigned char>(head[0])) << 8 | static_cast<unsigned char>(head[1]));
  if (theirs != nullptr) *theirs = shown;
  send("");  // welcome
  return Receive(2) == std::string(2, '\0');
}

void RawPeer::Carry(UniqueFd near) {
  for (;;) {
    pollfd both[] = {{.fd = fd_.get(), .events = POLLIN, .revents = 0},
                     {.fd = near.get(), .events = POLLIN, .revents = 0}};
    if (SSL_pending(ssl_.get()) == 0 && ::poll(both, 2, 60'000) <= 0) return;
    char block[4096];
    if (both[1].revents != 0) {
      const ssize_t n = ::recv(near.get(), block, sizeof block, 0);
      if (n <= 0) return;
      Send(std::string(block, static_cast<std::size_t>(n)));
    }
    if (both[0].revents == 0 && SSL_pending(ssl_.get()) == 0) continue;
    const int n = Read(block, sizeof block);
    if (n <= 0 || ::send(near.get(), block, static_cast<std::size_t>(n), MSG_NOSIGNAL) != n) return;
  }
}

std::string RawPeer::Binding(const std::string& use) const {
  std::string bytes(32, '\0');
  const std::string label = "EXPORTER-cairn-" + use;
  EXPECT_EQ(SSL_export_keying_material(ssl_.get(), reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(),
                                       label.data(), label.size(), nullptr, 0, 0),
            1);
  return bytes;
}

RawServer::RawServer(std::function<void(RawPeer peer)> serve, int connections) : fd_(ListenOnLoopback(port_)) {
  thread_ = std::thread([this, connections, serve = std::move(serve)] {
    for (int i = 0; i < connections; ++i) {
      UniqueFd fd(::accept(fd_.get(), nullptr, nullptr));
      if (!fd.valid()) return;
      serve(RawPeer(std::move(fd)));
    }
  });
}

RawServer::~RawServer() {
  ::shutdown(fd_.get(), SHUT_RDWR);  // accept ends
  thread_.join();
}

}  // namespace cairn::testing
