// One end of a link, between the strand, where its owner is, and the threads of gRPC, where its stream is. Internal to
// the peer door; knows of gRPC only what Stream says.
//
// Reads in turn: the next begins when the strand has delivered the last, so that a slow owner slows the peer. Writes in
// turn: one is with gRPC, the others queue. The owner hears of the end only when gRPC has said its last word.
#ifndef CAIRN_DAEMON_DOOR_PEER_LINK_H_
#define CAIRN_DAEMON_DOOR_PEER_LINK_H_

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/synchronization/mutex.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "daemon/door/outlet.h"
#include "daemon/peers/link.h"
#include "proto/peer.pb.h"

namespace cairn {

class LinkEnd : public std::enable_shared_from_this<LinkEnd> {
 public:
  // What gRPC's streams of both kinds can do. Called under the end's mutex; none calls back inside.
  class Stream {
   public:
    virtual ~Stream() = default;
    virtual void Read(peer::Frame* frame) = 0;
    virtual void Write(const peer::Frame* frame) = 0;
    // Once, after the last write. False: no read may be asked for any more, either.
    virtual bool EndWriting() = 0;
    virtual void Cancel() = 0;
    virtual void EndReading() = 0;  // once, after a read that failed: none will be asked for any more
  };

  struct Plan {
    PeerIdentity peer;
    std::shared_ptr<Outlet> strand;
    std::function<void(std::chrono::milliseconds)> end_within;  // of the connection below
    std::chrono::milliseconds drain{};
    std::size_t frame_bytes_max = 0;
    std::uint64_t queue_bytes_max = 0;
  };
  explicit LinkEnd(Plan plan) : plan_(std::move(plan)) {}

  // What the owner holds. Once.
  static std::unique_ptr<PeerLink> Own(std::shared_ptr<LinkEnd> end);

  // Of the stream, on gRPC's threads. Begin first, Done last: the stream is not used afterwards.
  void Begin(Stream* stream);
  void ReadDone(bool ok);
  void WriteDone(bool ok);
  void Broken();  // neither reads nor writes have a future
  void Done(const absl::Status& why);

 private:
  class Owned;

  // Strand.
  void Start(PeerLink::Reports reports);
  void Send(peer::Frame frame);
  void Abandon();
  void Arrived(peer::Frame frame);
  void Ended(const absl::Status& why);

  void CutOff(absl::Status why);
  void ReadNext();
  void ReadNextLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropUnwritten() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndIfWritten() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Plan plan_;

  // Of the strand.
  std::shared_ptr<const PeerLink::Reports> reports_;  // null: not started
  bool abandoned_ = false;
  std::optional<peer::Frame> kept_;    // came before Start
  std::optional<absl::Status> ended_;  // so did this

  absl::Mutex mutex_;
  Stream* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;       // null before Begin and after Done
  peer::Frame incoming_;                                   // of the one read that is under way
  std::deque<peer::Frame> queue_ ABSL_GUARDED_BY(mutex_);  // the front is with gRPC while writing_
  std::uint64_t queue_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool discards_ ABSL_GUARDED_BY(mutex_) = false;  // nobody takes what is read
  bool read_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;  // nothing new is queued
  bool write_ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status why_ ABSL_GUARDED_BY(mutex_);  // not OK: why this side has cut it off
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_PEER_LINK_H_
