// The far end of a TCP connection that keeps no rules: it says what it is told to, in TLS or without. Every wait ends
// after a minute.
#ifndef CAIRN_TESTS_DAEMON_DOOR_RAW_PEER_H_
#define CAIRN_TESTS_DAEMON_DOOR_RAW_PEER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "daemon/trust/authority.h"
#include "daemon/trust/tls_handshake.h"
#include "storage/base/unique_fd.h"

namespace cairn::testing {

// Sockets of TCP on loopback.
UniqueFd ListenOnLoopback(int& port);  // on a free one
UniqueFd ConnectToLoopback(int port);

class RawPeer {
 public:
  static RawPeer Connect(int port);  // on loopback
  explicit RawPeer(UniqueFd fd);

  struct Tls {
    const Credential* shown = nullptr;
    std::string server_name = {};  // of who dials
    int version_max = TLS1_3_VERSION;
    std::string protocol = std::string(kLinkProtocol);  // empty: names none
  };
  // What OpenSSL says if it fails; "": it is done. Trusts anybody.
  std::string Dial(const Tls& tls);
  std::string Answer(const Tls& tls);

  // In TLS, once it is there. False: the connection takes nothing any more.
  bool Send(const std::string& bytes);
  std::string Receive(std::size_t bytes);  // less: the connection has ended
  // What ended it: OpenSSL's error, "closed" or "reset".
  std::string End();
  // Shows this, takes whatever is shown, and says that it does. True: so does the other side.
  bool Introduce(const std::string& introduction = "", std::string* theirs = nullptr);
  // Carries bytes between TLS and `near` until either ends.
  void Carry(UniqueFd near);
  std::string Binding(const std::string& use) const;
  void Hang() { fd_.Reset(); }

 private:
  std::string Shake(TlsSide side, const Tls& tls);
  int Read(char* to, int bytes);

  UniqueFd fd_;
  TlsContext context_;
  std::unique_ptr<SSL, FreedBy<&SSL_free>> ssl_;
};

// Listens on loopback and does `serve` with the first that come, one after the other, on a thread of its own.
class RawServer {
 public:
  explicit RawServer(std::function<void(RawPeer peer)> serve, int connections = 1);
  ~RawServer();
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  int port_ = 0;
  UniqueFd fd_;
  std::thread thread_;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_DAEMON_DOOR_RAW_PEER_H_
