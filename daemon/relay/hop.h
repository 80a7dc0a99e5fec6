// One link of a launch's tree, with all that is carried over it: what is to go in the same turn of the strand goes in
// one frame, and no more is on the way than the other end has taken. Strand only.
#ifndef CAIRN_DAEMON_RELAY_HOP_H_
#define CAIRN_DAEMON_RELAY_HOP_H_

#include <absl/status/status.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "daemon/core/loop.h"
#include "daemon/peers/link.h"
#include "proto/peer.pb.h"

namespace cairn {

class Hop {
 public:
  static constexpr std::size_t kFrameBytes = 256 << 10;            // of one frame, unless what it carries is one piece
  static constexpr std::uint64_t kInFlightBytes = 8u << 20;        // not taken by the other end
  static constexpr std::uint64_t kTellBytes = kInFlightBytes / 8;  // after so much that was taken it is told
  static constexpr std::uint64_t kWaitingBytesMax = 256u << 20;    // beyond, the link is lost (kResourceExhausted)

  // None comes inside a call. The owner may let go of the hop in each of them.
  struct Reports {
    std::function<void(const peer::Carried& carried)> on_carried;
    std::function<void(const peer::Frame& frame)> on_other;  // what carries nothing
    std::function<void(const absl::Status& why)> on_closed;  // the last one
  };
  Hop(Loop& loop, std::unique_ptr<PeerLink> link, Reports reports);
  Hop(const Hop&) = delete;
  ~Hop();  // what was given to it still goes out if the other end takes it soon

  const PeerIdentity& peer() const { return link_->peer(); }
  // Goes behind all that was given before, with what comes within this time (0: in this turn).
  void Send(peer::Carried carried, std::chrono::milliseconds gather = {});
  void SendAlone(peer::Frame frame) { link_->Send(std::move(frame)); }

 private:
  void OnFrame(const peer::Frame& frame);
  void OnCarry(const peer::Carry& carry, std::uint64_t bytes);
  void FlushSoon(std::chrono::milliseconds gather);
  void Flush();
  void Fail(absl::Status why);

  Loop& loop_;
  std::unique_ptr<PeerLink> link_;
  const std::shared_ptr<const Reports> reports_;  // who is called may end this
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  std::deque<peer::Carried> waiting_;
  std::uint64_t waiting_bytes_ = 0;
  bool flush_due_ = false, failed_ = false;
  std::uint64_t sent_ = 0, sent_taken_ = 0;  // bytes of frames that carry something
  std::uint64_t came_ = 0, came_told_ = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_RELAY_HOP_H_
