// The way up: one link to the parent, or one attempt at a time to get one. An attempt goes where it is sent (Elsewhere)
// for some hops, and is over after a deadline for each; then the owner says where to try next.
//
// What is sent up goes to whoever has got our Join, from that frame on: so nothing is lost that changes below while a
// Join is on its way. A parent whose answer comes after the attempt was given up is not heard: its link has gone, and
// with it, on its side, all that the link has carried.
//
// Strand only. No report comes inside a call.
#ifndef CAIRN_DAEMON_PEERS_UPLINK_H_
#define CAIRN_DAEMON_PEERS_UPLINK_H_

#include <absl/status/status.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/environment.h"
#include "daemon/core/loop.h"
#include "daemon/peers/frames.h"
#include "daemon/peers/link.h"
#include "daemon/peers/member.h"

namespace cairn {

class Uplink {
 public:
  struct Given {
    Loop& loop;
    Clocks clocks;
    PeerNet& net;
    RunId run;
    NodeId self;
    std::chrono::milliseconds deadline;  // of a dial, and of the answer to a Join
    std::chrono::milliseconds silence;   // after which the parent is given up
    std::size_t depth_max;
  };
  // Why there is no parent (any more).
  struct End {
    absl::Status status;
    bool was_attached = false;                  // else an attempt has failed
    std::optional<CoordinatorName> newer = {};  // that the peer has named
    std::optional<GoneMember> left = {};        // the parent, which ended in good order
  };
  struct Reports {
    // What a Join says now, and the frames that complete it.
    std::function<std::vector<peer::Frame>()> join;
    std::function<void()> let_go_below;            // the tree below makes it too deep: we come alone
    std::function<CoordinatorName()> coordinator;  // of the newest epoch that is known here
    std::function<void()> on_place;                // attached, or the parent's place has changed
    std::function<void(const frames::TablePart& part)> on_table;
    std::function<void(const End& end)> on_end;
  };

  Uplink(const Given& given, Reports reports) : given_(given), reports_(std::move(reports)) {}
  Uplink(const Uplink&) = delete;
  ~Uplink();

  // REQUIRES: idle()
  void Try(const std::string& address);
  bool idle() const { return attempt_ == nullptr; }
  bool attached() const { return attempt_ != nullptr && attempt_->welcome; }
  // Of this daemon below its parent. REQUIRES: attached()
  const frames::Place& place() const { return place_; }

  // To whoever has got our Join; else nothing happens: the next Join says it.
  void Send(const std::vector<peer::Frame>& frames);
  // A sign of life; and gives up a parent that gives none.
  void Beat(std::uint32_t height);
  // No parent, no attempt. Nothing is reported.
  void Leave(const std::vector<peer::Frame>& last = {});

 private:
  struct Attempt {
    std::string address;
    std::size_t hops = 0;
    std::unique_ptr<PeerLink> link;  // null: it is being dialled
    NodeId peer;
    std::uint64_t incarnation = 0;
    bool welcome = false;
    SteadyTime heard;
    Loop::TimerId timer = 0;
  };
  void Begin(const std::string& address, std::size_t hops);
  void Dialled(absl::StatusOr<std::unique_ptr<PeerLink>> link);
  void OnFrame(const peer::Frame& frame);
  void OnPlace(const peer::Place& message, bool welcome);
  void OnTable(const peer::Table& message);
  void OnElsewhere(const peer::Elsewhere& message);
  void Stale(std::uint64_t epoch);
  void Refuse(const absl::Status& status);
  void Fail(End end);
  void Drop();

  const Given given_;
  const Reports reports_;
  std::shared_ptr<Attempt> attempt_;  // callbacks of one that was given up find it gone
  frames::Place place_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_PEERS_UPLINK_H_
