// A daemon's way to a launch's home: one link to its parent in the launch's tree, looked for, kept, and looked for anew
// when it breaks. Strand only. No report comes inside a call.
#ifndef CAIRN_DAEMON_RELAY_WAY_UP_H_
#define CAIRN_DAEMON_RELAY_WAY_UP_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/loop.h"
#include "daemon/peers/link.h"
#include "daemon/peers/member.h"
#include "daemon/relay/hop.h"
#include "daemon/relay/settings.h"
#include "proto/peer.pb.h"

namespace cairn {

class WayUp {
 public:
  struct Given {
    Loop& loop;
    PeerNet& net;  // borrowed
    RunId run;
    NodeId self, home;
    RelaySettings settings;
    std::uint64_t& ways;  // borrowed: so often this daemon has attached anywhere, in this life
  };
  struct Reports {
    std::function<void()> on_attached;
    std::function<void()> on_broken;  // another way is looked for
    // None was found within the patience; or, at the first try, the home itself was not reached. Seek begins anew.
    std::function<void(const absl::Status& why)> on_end;
    std::function<void(const peer::Carried& carried)> on_carried;  // from above
  };
  WayUp(Given given, Reports reports);
  WayUp(const WayUp&) = delete;
  ~WayUp();

  // The home listens at `address`. Nothing happens if a way is there; if one is looked for, the patience begins anew.
  void Seek(const std::string& address);
  bool attached() const { return attached_; }
  // REQUIRES: attached(). The nodes from the home down to the parent, and which life of the home's daemon it is.
  const std::vector<NodeId>& path() const { return path_; }
  std::uint64_t home_incarnation() const { return home_incarnation_; }
  std::uint64_t number() const { return number_; }                     // of this way: later ones have higher numbers
  void Send(peer::Carried carried, std::chrono::milliseconds gather);  // lost, unless attached
  void IsMissing(const NodeId& node);  // if it is the parent, the link to it leads nowhere

 private:
  void Dial(const std::string& address, std::size_t hops);
  void Dialled(const std::string& address, std::size_t hops, absl::StatusOr<std::unique_ptr<PeerLink>> link);
  void OnAnswer(const std::string& address, std::size_t hops, const peer::Frame& frame);
  absl::Status TakeAnswer(const peer::Attached& answer);
  void AttemptFailed(const absl::Status& why, bool for_good);
  void Lost(const absl::Status& why);
  void Drop();

  const Given given_;
  const Reports reports_;
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  std::shared_ptr<int> attempt_;  // null: none is under way; what belongs to one that was given up finds it gone
  Loop::TimerId timer_ = 0;       // of its answer, or of the pause before the next
  Loop::TimerId patience_ = 0;    // while a way is looked for anew
  std::chrono::milliseconds pause_{};
  std::string address_;
  absl::Status why_;  // the last attempt failed
  std::unique_ptr<Hop> hop_;
  bool attached_ = false;
  bool asked_once_ = false;  // since it is looked for
  std::vector<NodeId> path_;
  std::uint64_t home_incarnation_ = 0, number_ = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_RELAY_WAY_UP_H_
