// One client's connection on the Unix socket. Internal to local_door: included by its .cc files only, brings Asio.
#ifndef CAIRN_DAEMON_DOOR_LOCAL_CONNECTION_H_
#define CAIRN_DAEMON_DOOR_LOCAL_CONNECTION_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/core/door.h"
#include "daemon/door/frame_parser.h"
#include "daemon/door/in_flight.h"
#include "daemon/door/local_door.h"

namespace cairn {

// Reads, timers and the end happen on the door's one thread ("the thread"). Replies are sent by whoever has one, under
// the mutex; only what the socket does not take at once waits for the thread.
class LocalConnection final : public Connection, public std::enable_shared_from_this<LocalConnection> {
 public:
  using Socket = boost::asio::local::stream_protocol::socket;
  using OnGone = std::function<void(LocalConnection*)>;

  LocalConnection(std::shared_ptr<boost::asio::io_context> io, Socket socket, Peer peer,
                  std::shared_ptr<const LocalDoor::Options> options, Receiver& receiver, OnGone on_gone);

  // On the thread: begins to read.
  void Start();
  // On the thread: answers with this error and hangs up, without ever reading.
  void Refuse(local::Code code, std::string_view why);
  // On the thread: closes now, detaches, and takes leave of the door. Again: nothing. An offence of the client's is
  // worth a warning.
  enum class Blame { kNobody, kClient };
  void Drop(std::string_view why, Blame blame = Blame::kNobody);

  void Send(const local::Reply& reply, SharedFd descriptor) override;
  void Close() override;
  bool shares_memory() const override { return true; }
  bool resumable() const override { return false; }
  Peer peer() const override { return peer_; }

 private:
  struct Frame {
    std::string bytes;
    SharedFd descriptor;  // goes with the first byte
    std::size_t sent = 0;
  };

  void WatchProcess();
  void WaitReadable();
  void Read();
  void ResumeReading();                 // any thread
  bool Take(std::string_view message);  // false: closing, take no more
  bool TakeFirst(const local::Request& request);
  void Reject(std::uint64_t call, local::Code code, std::string_view why);
  void StartTimer(std::uint32_t ms, std::string_view why);
  // Asks the thread to drop the connection.
  // REQUIRES: not closed_.
  void PostDrop(std::string_view why, Blame blame = Blame::kNobody) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendQueued() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WaitWritable();

  const std::shared_ptr<boost::asio::io_context> io_;
  const Peer peer_;
  const std::shared_ptr<const LocalDoor::Options> options_;
  Receiver& receiver_;
  const OnGone on_gone_;
  InFlight in_flight_;

  // Of the thread alone.
  Socket socket_;
  boost::asio::posix::stream_descriptor process_;  // readable: it is gone
  boost::asio::steady_timer timer_;
  FrameParser parser_;
  bool greeted_ = false;  // Hello was accepted: the core knows us
  bool dropped_ = false;
  bool orphaned_ = false;  // its process is gone: what it has sent is still read, then that is all
  bool reading_ = true;    // false: closing, or too much in flight

  absl::Mutex mutex_;
  std::deque<Frame> queue_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t queue_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;  // the thread waits until the socket takes more
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;  // nothing new is queued
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;   // the descriptor is gone
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_LOCAL_CONNECTION_H_
