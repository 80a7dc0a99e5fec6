#include "daemon/core/rebuild_order.h"

#include <set>

#include "daemon/core/holdings.h"

namespace cairn {

peer::Rebuild RebuildOrder(const Dataset& dataset, const std::map<Rank, std::vector<kept::Set>>& lost,
                           const std::function<bool(Rank)>& counts, const NodeId& here) {
  peer::Rebuild order;
  *order.mutable_dataset() = HoldingOf(dataset);
  std::set<Rank> members;
  for (const auto& [rank, sets] : lost) {
    peer::Rebuild::Lost& one = *order.add_lost();
    one.set_rank(rank);
    for (const kept::Set& set : sets) {
      *one.add_sets() = set;
      members.insert(set.ranks().begin(), set.ranks().end());
    }
  }
  for (const Rank rank : members) {
    const Part& part = dataset.parts.at(rank);
    if (lost.contains(rank) || !part.known() || !counts(rank)) continue;
    peer::Keep::Member& member = *order.add_members();
    member.set_rank(rank);
    member.set_node(part.elsewhere ? part.node : here);
  }
  return order;
}

}  // namespace cairn
