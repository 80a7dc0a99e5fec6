// The way down: the links of those who have joined below this member, at most `fan_in`, and of those who come and have
// not said what they want. Who finds no room is sent to a child, the one with the fewest below it; a whole branch that
// comes takes the place of a smaller one, so that the tree stays flat.
//
// Strand only. No report comes inside a call, but for what calls say.
#ifndef CAIRN_DAEMON_PEERS_CHILDREN_H_
#define CAIRN_DAEMON_PEERS_CHILDREN_H_

#include <absl/status/status.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/environment.h"
#include "daemon/core/loop.h"
#include "daemon/peers/branches.h"
#include "daemon/peers/frames.h"
#include "daemon/peers/link.h"
#include "daemon/peers/member.h"

namespace cairn {

class Children {
 public:
  static constexpr std::size_t kNewcomersMax = 256;

  struct Given {
    Loop& loop;
    Clocks clocks;
    RunId run;
    NodeId self;
    std::chrono::milliseconds silence;  // after which a child, or a newcomer, is given up
    std::size_t fan_in, depth_max, members_max;
  };
  struct Reports {
    std::function<frames::Place()> place;             // of this member
    std::function<std::string()> address;             // of this member
    std::function<std::vector<peer::Frame>()> table;  // whole, for a new child
    // Who is below has changed.
    std::function<void(const frames::BelowChange& change)> on_below;
    // Somebody knows of this epoch, above that of the place.
    std::function<void(std::uint64_t epoch)> on_newer;
  };

  Children(const Given& given, Reports reports);
  Children(const Children&) = delete;
  ~Children() = default;

  void OnLink(std::unique_ptr<PeerLink> link);
  void Send(const std::vector<peer::Frame>& frames);
  // A sign of life to each; and gives up those that give none.
  void Beat();
  // The place of this member has changed.
  void TellPlace();
  // All children go. on_below says so, inside the call.
  void LetGo(peer::Elsewhere::Why why, const std::string& text);
  // All links go, after this if there is something to be said. Nothing is reported any more.
  void Stop(const std::optional<peer::Frame>& last);

  const std::map<NodeId, Member>& below() const { return branches_.all(); }
  std::uint32_t height() const;  // 0: no children

 private:
  using Id = Branches::Id;
  struct Child {
    std::shared_ptr<PeerLink> link;
    std::string address;
    std::uint32_t height = 0;
    SteadyTime heard;
  };
  struct Newcomer {
    std::shared_ptr<PeerLink> link;
    SteadyTime came;
  };
  struct Refusal {
    peer::Elsewhere::Why why;
    std::string text, address;
  };

  void OnFrame(Id id, const peer::Frame& frame);
  void OnJoin(Id id, const peer::Join& join);
  void OnChildFrame(Id id, Child& child, const peer::Frame& frame);
  void OnBelow(Id id, Child& child, const peer::Below& message);
  std::optional<Refusal> WhyNot(Id id, const peer::Join& join, const std::vector<Member>& members);
  std::optional<Refusal> MakeRoom(const peer::Join& join, const std::vector<Member>& members);
  void Accept(Id id, const peer::Join& join, const std::vector<Member>& members);
  void Refuse(Id id, const Refusal& refusal);
  Id FormerOf(const NodeId& node) const;                             // 0: none
  Id Smallest(Id but, const std::vector<Member>& not_one_of) const;  // 0: none
  // The link closes after what was sent. The caller tells the change.
  frames::BelowChange Close(Id id);
  void Lose(Id id);

  const Given given_;
  const Reports reports_;
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  Branches branches_;
  Id last_id_ = 0;
  std::map<Id, Newcomer> newcomers_;
  std::map<Id, Child> children_;
  std::map<NodeId, Id> ids_;  // of children
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_PEERS_CHILDREN_H_
