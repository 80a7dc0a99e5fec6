// The seam between the core and its doors: the Unix socket (daemon/door/local_door.h) and gRPC
// (daemon/door/ingest_door.h) speak the same messages; a door only carries them.
#ifndef CAIRN_DAEMON_CORE_DOOR_H_
#define CAIRN_DAEMON_CORE_DOOR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "proto/local.pb.h"
#include "storage/base/unique_fd.h"

namespace cairn {

// One connected client, as the core sees it. Implemented by the doors, owned by both.
class Connection {
 public:
  virtual ~Connection() = default;
  // Queues a reply; any thread, never blocks. `descriptor`, if given, goes with the frame, and is kept until it is
  // sent. REQUIRES: none unless the connection shares memory. A connection whose queue is over its maximum closes
  // itself.
  virtual void Send(const local::Reply& reply, SharedFd descriptor) = 0;
  // Sends what is queued, then closes.
  virtual void Close() = 0;
  // False: payload comes and goes as Pieces.
  virtual bool shares_memory() const = 0;
  // True: when the connection breaks without Close, its session is kept for the resume time.
  virtual bool resumable() const = 0;
  // Of a rank of a launch over nodes: the node whose daemon has its bytes, and which this connection leads to. Only
  // what is decided comes over it. Empty: the bytes come here.
  virtual std::string node() const { return ""; }
  // For errors and logs: who is it? Known from the kernel (Unix socket) or from Hello.
  struct Peer {
    std::string host;
    std::uint32_t pid = 0;
    std::string program;
    bool operator==(const Peer&) const = default;
  };
  virtual Peer peer() const = 0;
};

// What a door hands requests to: the core. Any thread; requests of one connection stay in order.
class Receiver {
 public:
  virtual ~Receiver() = default;
  virtual void Attach(std::shared_ptr<Connection> connection) = 0;
  virtual void Receive(const std::shared_ptr<Connection>& connection, std::unique_ptr<local::Request> request) = 0;
  // The connection is gone; called once, after the last Receive.
  virtual void Detach(const std::shared_ptr<Connection>& connection) = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_DOOR_H_
