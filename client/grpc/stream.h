// One stream of cairn.ingest.Ingest, with messages as bytes. gRPC stays behind it.
#ifndef CAIRN_CLIENT_GRPC_STREAM_H_
#define CAIRN_CLIENT_GRPC_STREAM_H_

#include <chrono>
#include <cstddef>
#include <memory>

#include "client/grpc/address.h"

namespace cairn::transport {

// gRPC's threads receive ahead of the caller, up to a bound, and send behind it. The codes are those of
// grpc_transport.h. One thread at a time.
class Stream {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Connects; OK once the daemon has accepted the stream.
  static Outcome Connect(const Address& address, Deadline deadline, std::unique_ptr<Stream>* stream);
  // Ends the stream; waits for gRPC's own threads to notice, not for the daemon.
  virtual ~Stream() = default;

  virtual Outcome Send(const void* bytes, std::size_t count, Deadline deadline) = 0;
  // `reply` comes from malloc.
  virtual Outcome Receive(Deadline deadline, void** reply, std::size_t* count) = 0;
};

}  // namespace cairn::transport

#endif  // CAIRN_CLIENT_GRPC_STREAM_H_
