// The ranks of this daemon's launches that other nodes' daemons serve: a link from each such daemon, and what is said
// over it, of ranks and of their parts. README.md, "A launch over nodes". Strand only.
//
// A rank there is a connection like any other: what it asks goes to the receiver, as if a door had brought it. When a
// link breaks, its ranks' connections are lost, and can be resumed; what its daemon has of datasets that are not whole
// yet is asked for when it comes again, and given up with its ranks if it does not.
#ifndef CAIRN_DAEMON_CORE_AWAY_H_
#define CAIRN_DAEMON_CORE_AWAY_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/core/away_orders.h"
#include "daemon/core/context.h"
#include "daemon/core/dataset.h"
#include "daemon/core/door.h"
#include "daemon/core/prefix_gate.h"
#include "daemon/peers/link.h"
#include "daemon/peers/member.h"
#include "daemon/relay/relay.h"
#include "proto/catalogue.pb.h"
#include "proto/peer.pb.h"
#include "proto/redundancy.pb.h"
#include "storage/base/ids.h"

namespace cairn {

class Away {
 public:
  struct Given {
    const RunId& run;
    const std::string& run_name;
    const PrefixGate& gate;
    Receiver& receiver;  // that all connections go to
  };
  struct Reports {
    // All that a daemon has of the launch's datasets that are not over; the rest is lost. When its link has come.
    std::function<void(const NodeId& node, const peer::PartsThere& there)> on_there;
    std::function<void(const NodeId& node)> on_lost;  // it did not come again in time
    std::function<void(const NodeId& node, const catalogue::Catalogue& catalogue)> on_stored;
    std::function<void(const NodeId& node, const peer::PartFailed& failed)> on_failed;
    std::function<void(const NodeId& node, const peer::PartsLeft& left)> on_left;
  };
  Away(const Context& context, const Given& given, Reports reports);
  ~Away();
  Away(const Away&) = delete;

  // Links of other daemons come over `relay` from now on, until Stop.
  void Serve(Relay& relay);
  void Stop();
  bool any() const { return !daemons_.empty(); }
  bool HasLink(const NodeId& node) const;  // and it has said what it has

  // --- What their daemons are told of datasets. Nothing, if they have no link ---
  void Begun(const NodeId& node, const Dataset& dataset);  // before the first answer to a Begin of it
  // All that serve ranks, of the launch's next checkpoint (Foretold in peer.proto).
  void Foretell(LaunchId launch, DatasetId dataset);
  void Failed(const Dataset& dataset, const std::string& why);
  void AllEnded(const Dataset& dataset);  // an output of files, by all ranks
  void Whole(const Dataset& dataset);
  void OnPrefix(const Dataset& dataset);
  void AllKept(const Dataset& dataset);  // it is redundant
  void Leaves(const Dataset& dataset, bool useless, const std::string& why);
  struct Leaving {
    std::set<DatasetId> may;   // all that may leave the other caches for room
    std::set<DatasetId> will;  // that will be among them when their flushes have ended
    friend bool operator==(const Leaving&, const Leaving&) = default;
  };
  void MayLeave(const Leaving& leaving);
  // Of one daemon: what it may not know of a dataset in which it has parts.
  void TellFailed(const NodeId& node, DatasetId dataset, const std::string& why);
  void TellState(const NodeId& node, const Dataset& dataset);

  // --- What they are asked to do. As AwayOrders::Give ---
  // All daemons that have parts of the dataset note, durably, that these are whole.
  void Complete(const Dataset& dataset, std::function<void(const absl::Status& status)> then);
  void CompleteAt(const NodeId& node, const Dataset& dataset, std::function<void(const absl::Status& status)> then);
  // Those that have a link bring them to the prefix. The first that fails is told when all have ended.
  void Copy(const Dataset& dataset, LaunchId committer, std::function<void(const OrderEnded& copied)> then);

  // One keeps what it should for redundancy sets (keeping.h).
  void Keep(const NodeId& node, const peer::Keep& order, std::function<void(const absl::Status& status)> then);

  // One makes parts anew that no node has any more (rebuilder.h): by which sets.
  using Made = std::function<void(const absl::StatusOr<std::map<Rank, kept::Set>>& by)>;
  void Rebuild(const NodeId& node, const peer::Rebuild& order, Made then);

  // --- Restores: steps of one rank's, in its daemon ---
  using Moved = std::function<void(const absl::Status& status, std::size_t copy, bool delivered)>;
  // `step` without session and call. `moved` runs once, unless Abandon comes before.
  void Find(const Connection& connection, std::uint64_t call, peer::Find step, Moved moved);
  void Start(const Connection& connection, std::uint64_t call, Moved moved);
  void Abandon(const Connection& connection, std::uint64_t call);

 private:
  class Rank;
  struct Daemon;
  using DaemonPtr = std::shared_ptr<Daemon>;

  static absl::Status TooLong(std::string_view what, std::size_t bytes);
  void OnLink(std::unique_ptr<PeerLink> link);
  void OnFrame(const DaemonPtr& daemon, peer::Frame frame);
  void OnNews(const DaemonPtr& daemon, const peer::ToHome& said);
  void OnClosed(const DaemonPtr& daemon, const absl::Status& why);
  void OnRebuilt(const DaemonPtr& daemon, const peer::Rebuilt& rebuilt);
  void Refuse(const DaemonPtr& daemon, const std::string& field);
  void OnParts(const DaemonPtr& daemon, peer::PartsThere there);
  void OnRank(const DaemonPtr& daemon, peer::FromRank said);
  void RankGone(const DaemonPtr& daemon, std::uint64_t session);
  void OnMoved(const DaemonPtr& daemon, const peer::Moved& moved);
  bool Send(const NodeId& node, peer::FromHome frame);  // false: it has no link
  void TellBegun(const NodeId& node, const Dataset& dataset);
  peer::FromHome LeavingFrame() const;
  void SendToHolders(const Dataset& dataset, const peer::FromHome& frame);
  std::shared_ptr<Rank> RankOf(const Connection& connection) const;

  const Context& context_;
  const Given given_;
  const Reports reports_;
  Relay* relay_ = nullptr;
  std::map<NodeId, DaemonPtr> daemons_;      // that have a link
  std::map<NodeId, Loop::TimerId> missing_;  // that had one, until they are lost
  AwayOrders orders_;
  Leaving leaving_;
};

// The nodes whose daemons have parts of it.
std::set<NodeId> HoldersOf(const Dataset& dataset);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_AWAY_H_
