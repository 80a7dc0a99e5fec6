// Accepts TCP connections for a gRPC server. gRPC would take as many as come, before it knows from whom: strangers
// could take all descriptors of this process. Here connections that come while half of the descriptors are in use are
// closed.
#ifndef CAIRN_DAEMON_DOOR_TCP_ACCEPTOR_H_
#define CAIRN_DAEMON_DOOR_TCP_ACCEPTOR_H_

#include <absl/status/statusor.h>
#include <grpcpp/server_builder.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "storage/base/unique_fd.h"

namespace cairn {

// `host`: as in an address, "[…]" around IPv6; "0.0.0.0", "[::]" and "*" stand for all addresses of this machine.
//   kUnavailable      the port is taken
//   kInvalidArgument  the host is none of this machine's
absl::StatusOr<UniqueFd> ListenAtPort(const std::string& host, std::uint16_t port);
absl::StatusOr<int> PortOf(const UniqueFd& listener);
bool StandsForAny(const std::string& host);

class TcpAcceptor {
 public:
  using Server = grpc::experimental::ExternalConnectionAcceptor;
  // From now on, on a thread of its own. REQUIRES: the server runs, and is shut down only when this is destroyed.
  static absl::StatusOr<std::unique_ptr<TcpAcceptor>> Start(UniqueFd listener, std::unique_ptr<Server> server);
  TcpAcceptor(const TcpAcceptor&) = delete;
  ~TcpAcceptor();

 private:
  TcpAcceptor(UniqueFd listener, UniqueFd stop, std::unique_ptr<Server> server);
  void Run();
  void Pause() const;

  const UniqueFd listener_, stop_;
  const std::unique_ptr<Server> server_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_TCP_ACCEPTOR_H_
