// A plain gRPC client of Ingest, and the certificates that tests of it use.
#ifndef CAIRN_TESTS_DAEMON_DOOR_INGEST_CLIENT_H_
#define CAIRN_TESTS_DAEMON_DOOR_INGEST_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "proto/frame.h"
#include "proto/local.pb.h"

namespace cairn::testing {

struct Certificates {
  std::string ca, cert, key;  // PEM; empty: none
  std::string name = {};      // that the daemon's certificate must have; empty: the target's
};

// One stream, driven by one thread. Every call ends within 20 s.
class IngestClient {
 public:
  enum class Code { kOk, kUnavailable, kResourceExhausted, kDeadlineExceeded, kCancelled, kOther };

  // `target` as gRPC has it; with `tls` null without TLS.
  static std::unique_ptr<IngestClient> Connect(const std::string& target, const Certificates* tls = nullptr);
  virtual ~IngestClient() = default;

  virtual bool Send(const local::Request& request) = 0;
  virtual bool Hello(std::uint32_t protocol_min = CAIRN_PROTOCOL_OLDEST,
                     std::uint32_t protocol_max = CAIRN_PROTOCOL_NEWEST) = 0;
  // Nullopt: the stream has ended.
  virtual std::optional<local::Reply> Receive() = 0;
  virtual void Cancel() = 0;
  // After the end: how it ended.
  virtual Code Finish(std::string* message = nullptr) = 0;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_DAEMON_DOOR_INGEST_CLIENT_H_
