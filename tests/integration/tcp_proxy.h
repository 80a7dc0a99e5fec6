// A proxy between a client and a daemon, on loopback, that breaks connections. What it can do: cut one after so many
// bytes in either direction, cut all of them now, let nobody in.
#ifndef CAIRN_TESTS_INTEGRATION_TCP_PROXY_H_
#define CAIRN_TESTS_INTEGRATION_TCP_PROXY_H_

#include <cstdint>
#include <memory>
#include <vector>

namespace cairn::testing {

class TcpProxy {
 public:
  // Of one connection: it ends after exactly so many bytes have been passed on in that direction.
  struct Cut {
    enum class Direction { kToDaemon, kToClient } direction = Direction::kToDaemon;
    std::uint64_t bytes = 0;
    bool shut = false;  // and nobody is let in from then on
  };

  // Connections to port() go on to 127.0.0.1:`daemon_port`. Fails the test if there is no port to be had.
  static std::unique_ptr<TcpProxy> Start(int daemon_port);
  virtual ~TcpProxy() = default;

  virtual int port() const = 0;
  // The next connections get these cuts, one each, in this order; those after them none.
  virtual void CutNext(std::vector<Cut> cuts) = 0;
  virtual void CutAllNow() = 0;
  // False: connections are accepted and ended at once.
  virtual void LetIn(bool let_in) = 0;

  virtual std::uint64_t bytes_to_daemon() const = 0;
  virtual std::uint64_t bytes_to_client() const = 0;
  // So many of CutNext's cuts have happened.
  virtual std::uint64_t cuts_made() const = 0;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_INTEGRATION_TCP_PROXY_H_
