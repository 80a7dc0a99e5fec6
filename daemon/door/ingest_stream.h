// One client's stream of Ingest. Internal to ingest_door: brings gRPC.
#ifndef CAIRN_DAEMON_DOOR_INGEST_STREAM_H_
#define CAIRN_DAEMON_DOOR_INGEST_STREAM_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <grpcpp/alarm.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/door/in_flight.h"
#include "daemon/door/ingest_door.h"

namespace cairn {

// The streams of one door, so that it can end them.
struct IngestStreams;

// Reads in turn: OnReadDone starts the next read or pauses. Writes in turn: one is with gRPC, the others queue. Finish
// comes once, when the stream is closing and nothing is being written; OnDone, gRPC's last word, detaches.
class IngestStream final : public Connection,
                           public grpc::ServerBidiReactor<local::Request, local::Reply>,
                           public std::enable_shared_from_this<IngestStream> {
 public:
  // gRPC owns it until OnDone.
  static std::shared_ptr<IngestStream> Begin(std::shared_ptr<IngestStreams> streams, Receiver& receiver,
                                             grpc::CallbackServerContext* context);
  IngestStream(std::shared_ptr<IngestStreams> streams, Receiver& receiver, grpc::CallbackServerContext* context);

  void Send(const local::Reply& reply, SharedFd descriptor) override;
  void Close() override;
  bool shares_memory() const override { return false; }
  // On the node a stream breaks only because its client is gone.
  bool resumable() const override { return !address_.starts_with("unix:"); }
  Peer peer() const override;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  void Take(std::unique_ptr<local::Request> request);
  void TakeFirst(const local::Request& request);
  void Reject(std::uint64_t call, local::Code code, std::string_view why);
  void Resume();  // the core has caught up
  void Cut(grpc::StatusCode code, std::string_view why);

  void ReadNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BeginClose() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishIfDrained() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<IngestStreams> streams_;
  Receiver& receiver_;
  const std::string address_;
  InFlight in_flight_;
  std::shared_ptr<IngestStream> self_;  // until OnDone
  grpc::Alarm hello_alarm_;
  grpc::Alarm drain_alarm_;

  bool greeted_ = false;  // of the one read at a time
  std::unique_ptr<local::Request> incoming_;

  mutable absl::Mutex mutex_;
  Peer peer_ ABSL_GUARDED_BY(mutex_);
  std::deque<local::Reply> queue_ ABSL_GUARDED_BY(mutex_);  // the front is with gRPC while writing_
  std::uint64_t queue_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;                   // no read was started: too much in flight
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;                  // nothing new is read or queued
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;                 // Finish was called
  grpc::CallbackServerContext* context_ ABSL_GUARDED_BY(mutex_);  // null once gRPC is done with us
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
};

struct IngestStreams {
  explicit IngestStreams(IngestDoor::Options door_options) : options(std::move(door_options)) {}

  const IngestDoor::Options options;
  std::atomic<bool> accepting{true};
  absl::Mutex mutex;
  std::map<IngestStream*, std::weak_ptr<IngestStream>> live ABSL_GUARDED_BY(mutex);
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_INGEST_STREAM_H_
