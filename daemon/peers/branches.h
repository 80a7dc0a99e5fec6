// Who is below a member: for each of its children a replica of what that child has said, and all of them together. A
// node may be in two replicas for a while, after it has moved: so a replica that loses it takes it away only if it is
// in no other. Pure.
#ifndef CAIRN_DAEMON_PEERS_BRANCHES_H_
#define CAIRN_DAEMON_PEERS_BRANCHES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "daemon/peers/frames.h"
#include "daemon/peers/member.h"

namespace cairn {

class Branches {
 public:
  using Id = std::uint64_t;  // of a child's link

  // Never below itself, whatever children say.
  explicit Branches(NodeId self) : self_(std::move(self)) {}

  // What of it is news for all together. That a node has left is passed on once, and counts for all replicas.
  frames::BelowChange Apply(Id child, const frames::BelowChange& change);
  frames::BelowChange Remove(Id child);

  const std::map<NodeId, Member>& all() const { return all_; }
  bool Has(Id child, const NodeId& node) const;
  std::size_t size(Id child) const;  // the child is one of them

 private:
  frames::BelowChange News(const std::set<NodeId>& touched);

  const NodeId self_;
  std::map<Id, std::map<NodeId, Member>> replicas_;
  std::map<NodeId, Member> all_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_PEERS_BRANCHES_H_
