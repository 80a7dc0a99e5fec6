// One connection between two daemons until both have proven who they are. Internal to the peer door: brings Asio.
#ifndef CAIRN_DAEMON_DOOR_PEER_CONNECTION_H_
#define CAIRN_DAEMON_DOOR_PEER_CONNECTION_H_

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "daemon/core/loop.h"
#include "daemon/door/tls_stream.h"
#include "daemon/trust/introduction.h"

namespace cairn {

// What comes of a connection that went well.
struct ProvenPeer {
  std::unique_ptr<TlsStream> tls;
  PeerIdentity identity;
  std::string_view protocol;
  std::string token;  // hex; both ends of this connection have it, and nobody else
};

// Connects (who dials), does TLS' handshake, and then the introductions. All on the door's thread; keeps itself until
// it is over.
class PeerConnection : public std::enable_shared_from_this<PeerConnection> {
 public:
  using Result = std::variant<ProvenPeer, Refusal>;
  struct Plan {
    std::chrono::milliseconds deadline;
    std::shared_ptr<const Munge> munge;
    bool munge_required = false;
    BlockingPool* munge_pool = nullptr;     // not null, if munge is not
    std::function<void(Result)> on_result;  // once; after that what the other side is told may still go out
    std::function<void()> on_gone;          // the last call
    // Asked last, of this peer, which speaks that: why there is no room for it; empty: there is.
    std::function<std::string(std::string_view protocol, const PeerIdentity& peer)> crowded =
        [](std::string_view, const PeerIdentity&) { return std::string(); };
  };

  PeerConnection(boost::asio::io_context& io, std::unique_ptr<TlsStream> tls, Plan plan);

  void Answer();
  void Dial(const boost::asio::ip::tcp::endpoint& where);
  // Ends it now, if it is not over.
  void Drop(Refusal why);

 private:
  using Endpoint = boost::asio::ip::tcp::endpoint;
  template <typename T>
  using Awaitable = boost::asio::awaitable<T>;

  void Begin(std::optional<Endpoint> where);
  Awaitable<void> Run(std::optional<Endpoint> where);
  Awaitable<Result> Prove(std::optional<Endpoint> where);
  Awaitable<std::optional<Refusal>> Secure(std::optional<Endpoint> where);
  Awaitable<Result> Introduce();
  Awaitable<std::optional<Refusal>> Write(const google::protobuf::MessageLite& message);
  Awaitable<std::optional<Refusal>> Read(google::protobuf::MessageLite& message);
  template <typename Work>
  Awaitable<std::invoke_result_t<Work>> WhereItMayBlock(const IntroductionFacts& facts, Work work);
  Awaitable<void> LetItHear();

  Refusal Explain(const boost::system::error_code& error) const;
  void StopAfter(std::chrono::milliseconds time);
  void Tell(Result result);

  boost::asio::io_context& io_;
  std::unique_ptr<TlsStream> tls_;  // until it is proven
  const Plan plan_;
  boost::asio::steady_timer deadline_;
  std::optional<Refusal> dropped_;
  bool told_ = false;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_PEER_CONNECTION_H_
