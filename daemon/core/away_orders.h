// What this daemon, a launch's home, has ordered of other nodes' daemons (away.h), and waits for. Each order has a
// number, which comes back with its answer: of one that was given up, or went over an earlier link, nothing counts any
// more. Strand only.
#ifndef CAIRN_DAEMON_CORE_AWAY_ORDERS_H_
#define CAIRN_DAEMON_CORE_AWAY_ORDERS_H_

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "daemon/core/context.h"
#include "daemon/peers/member.h"
#include "proto/peer.pb.h"
#include "proto/redundancy.pb.h"
#include "storage/base/ids.h"

namespace cairn {

struct OrderEnded {
  absl::Status status;
  std::string damaged_file = {};        // of a copy of parts to the prefix: in that node's cache
  std::map<Rank, kept::Set> made = {};  // of what was made anew: by which set
};

class AwayOrders {
 public:
  enum class Kind : std::uint8_t { kComplete, kCopy, kKeep, kRebuild };
  using Then = std::function<void(const OrderEnded& how)>;
  // False: the node has no link.
  using Send = std::function<bool(const NodeId& node, const peer::FromHome& order)>;
  AwayOrders(const Context& context, Send send) : context_(context), send_(std::move(send)) {}
  ~AwayOrders();
  AwayOrders(const AwayOrders&) = delete;

  // To all of `nodes`; the number is filled in here. `then` runs once, when all have answered, not inside the call:
  // with the first failure, if there was one. Without nodes: OK, soon. Of one dataset a node is given each kind once at
  // a time.
  //   kUnavailable       a node has no link, or loses it, or is being asked already
  //   kDeadlineExceeded  a copy, or what is made anew, has not got on for flush.stalled
  //   others             as the node says
  void Give(Kind kind, DatasetId dataset, const std::set<NodeId>& nodes, const peer::FromHome& order, Then then);

  void Answered(Kind kind, const NodeId& node, DatasetId dataset, std::uint64_t number, const OrderEnded& how);
  void CopyGoesOn(const NodeId& node, const peer::CopyGoesOn& said);
  void LinkLost(const NodeId& node, const absl::Status& why);

 private:
  using Key = std::tuple<Kind, DatasetId, NodeId>;
  struct Waiting {
    std::uint64_t number = 0;
    Then then;
    Loop::TimerId timer = 0;  // of what says that it goes on: until it is given up
  };
  void GiveOne(const Key& key, const peer::FromHome& order, Then then);
  void End(const Key& key, const OrderEnded& how);
  void ExpectToGoOn(const Key& key, Waiting& waiting);

  const Context& context_;
  const Send send_;
  std::map<Key, Waiting> waiting_;
  std::uint64_t last_ = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_AWAY_ORDERS_H_
