// A TLS stream of bulk frames with a deadline for whatever is under way on it. Internal to this folder: brings Asio.
#ifndef CAIRN_DAEMON_BULK_BULK_STREAM_H_
#define CAIRN_DAEMON_BULK_BULK_STREAM_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "daemon/bulk/frame.h"
#include "daemon/door/tls_stream.h"

namespace cairn {

// A condition's change, for coroutines of one thread: who waits looks at the condition anew after each.
class Signal {
 public:
  explicit Signal(boost::asio::io_context& io) : timer_(io) {}
  boost::asio::awaitable<void> Wait();
  void Raise() { timer_.cancel(); }

 private:
  boost::asio::steady_timer timer_;
};

// Runs `over` when time is up, unless it is set anew or cleared before. `over` must hold nothing that may be gone.
class Deadline {
 public:
  explicit Deadline(boost::asio::io_context& io) : timer_(io) {}
  void Set(std::chrono::milliseconds time, std::function<void()> over);
  void Clear() { timer_.cancel(); }

 private:
  boost::asio::steady_timer timer_;
};

// All on its connection's thread.
class BulkStream {
 public:
  template <typename T>
  using Awaitable = boost::asio::awaitable<T>;
  explicit BulkStream(std::unique_ptr<TlsStream> tls);

  // kUnavailable: the connection has ended; kInvalidArgument: what has come is no frame.
  Awaitable<absl::StatusOr<BulkPrefix>> ReadHeader(google::protobuf::MessageLite& header);
  // `crc32c`: of what was read. It is made piece by piece, while each is in the processor's cache.
  Awaitable<absl::Status> ReadPayload(std::span<std::byte> target, std::uint32_t& crc32c);
  Awaitable<absl::Status> Write(std::string head, std::span<const std::byte> payload);
  // True: Interrupt was called. False: the other side has said something, or has gone.
  Awaitable<bool> Rest();
  void Interrupt();

  // Each read and write ends soon, with `why` if this was the first.
  void Close(absl::Status why);
  bool closed() const { return !why_.ok(); }
  const absl::Status& why() const { return why_; }

 private:
  absl::Status StatusOf(const boost::system::error_code& error) const;

  const std::unique_ptr<TlsStream> tls_;
  absl::Status why_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_BULK_BULK_STREAM_H_
