#include "daemon/peers/branches.h"

#include <utility>

namespace cairn {

frames::BelowChange Branches::Apply(Id child, const frames::BelowChange& change) {
  std::map<NodeId, Member>& replica = replicas_[child];
  std::set<NodeId> touched;
  std::vector<GoneMember> left;
  for (const GoneMember& gone : change.gone) {
    const bool has_left = gone.why == GoneWhy::kLeft;
    if (has_left) left.push_back(gone);
    for (auto& [id, nodes] : replicas_) {
      const auto found = nodes.find(gone.node);
      if (found == nodes.end() || (id != child && !has_left)) continue;
      // The child's word on its own replica; of all others only on the very life that has left.
      if (id != child && found->second.incarnation != gone.incarnation) continue;
      nodes.erase(found);
      touched.insert(gone.node);
    }
  }
  for (const Member& member : change.now) {
    if (member.node == self_) continue;
    replica[member.node] = member;
    touched.insert(member.node);
  }
  frames::BelowChange news = News(touched);
  for (GoneMember& gone : left) {
    if (gone.node == self_ || all_.contains(gone.node)) continue;
    std::erase_if(news.gone, [&gone](const GoneMember& other) { return other.node == gone.node; });
    news.gone.push_back(std::move(gone));
  }
  return news;
}

frames::BelowChange Branches::Remove(Id child) {
  std::set<NodeId> touched;
  const auto found = replicas_.find(child);
  if (found == replicas_.end()) return {};
  for (const auto& [node, member] : found->second) touched.insert(node);
  replicas_.erase(found);
  return News(touched);
}

frames::BelowChange Branches::News(const std::set<NodeId>& touched) {
  frames::BelowChange news;
  for (const NodeId& node : touched) {
    const Member* best = nullptr;
    for (const auto& [id, replica] : replicas_) {
      const auto found = replica.find(node);
      if (found != replica.end() && (best == nullptr || IsNewer(found->second, *best))) best = &found->second;
    }
    const auto before = all_.find(node);
    if (best != nullptr && (before == all_.end() || before->second != *best)) {
      all_[node] = *best;
      news.now.push_back(*best);
    } else if (best == nullptr && before != all_.end()) {
      news.gone.push_back({.node = node, .incarnation = before->second.incarnation, .why = GoneWhy::kLost});
      all_.erase(before);
    }
  }
  return news;
}

bool Branches::Has(Id child, const NodeId& node) const {
  const auto found = replicas_.find(child);
  return found != replicas_.end() && found->second.contains(node);
}

std::size_t Branches::size(Id child) const {
  const auto found = replicas_.find(child);
  return found == replicas_.end() ? 0 : found->second.size();
}

}  // namespace cairn
