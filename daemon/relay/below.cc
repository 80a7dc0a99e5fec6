#include "daemon/relay/below.h"

#include <algorithm>
#include <utility>

#include "daemon/peers/frames.h"
#include "daemon/relay/carried_links.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

bool IsNode(const std::string& text) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == 32 && std::ranges::all_of(text, is_hex);
}

}  // namespace

// --- Who comes ---

std::string Below::WhyNot(const Hop& hop, const std::vector<NodeId>& path) const {
  if (path.empty()) return "it is not attached itself";
  if (path.size() > given_.settings.depth_max) return "it is too far below the home";
  if (std::ranges::find(path, hop.peer().node) != path.end()) return "it is below the sender";
  return "";
}

void Below::Take(std::shared_ptr<Hop> hop, const std::string& address, std::uint64_t home_incarnation,
                 const std::vector<NodeId>& path) {
  if (const std::string why_not = WhyNot(*hop, path); !why_not.empty()) {
    return hop->SendAlone(frames::Elsewhere(peer::Elsewhere::UNATTACHED, why_not, {}));
  }
  IsMissing(hop->peer().node);  // the link that it had before
  if (children_.size() >= given_.settings.fan_in) {
    // By turns: how many nodes go by way of it is known late, and one that nobody reaches would have the fewest.
    const auto next = std::ranges::min_element(children_, {}, [](const auto& item) { return item.second->sent_there; });
    ++next->second->sent_there;
    return hop->SendAlone(frames::Elsewhere(peer::Elsewhere::FULL, "as many as it takes", {}, next->second->address));
  }
  peer::Frame frame;
  frame.mutable_attached()->set_incarnation(home_incarnation);
  for (const NodeId& node : path) frame.mutable_attached()->add_path(node);
  hop->SendAlone(std::move(frame));
  std::size_t turns = 0;  // a child that comes later has missed none
  for (const auto& [other, child] : children_) turns = std::max(turns, child->sent_there);
  const Hop* const key = hop.get();
  children_[key] = std::make_unique<Child>(Child{.hop = std::move(hop), .address = address, .sent_there = turns});
}

// --- What comes ---

absl::Status Below::Check(const Hop& hop, const peer::Carried& carried) const {
  if (!IsNode(carried.node()) || carried.node() == given_.self) return InvalidArgument("carried.node: not one below");
  if (carried.node() == hop.peer().node && carried.incarnation() != hop.peer().incarnation) {
    return InvalidArgument("carried.incarnation: {}, its link has {}", carried.incarnation(), hop.peer().incarnation);
  }
  if (carried.ByteSizeLong() > CarriedLinks::kBytesMax) return InvalidArgument("carried: too long");
  if (carried.way() == 0) return InvalidArgument("carried.way: 0");
  if (carried.has_from_home()) return InvalidArgument("carried.from_home: from below");
  if (!routes_.contains(carried.node()) && routes_.size() >= CarriedLinks::kNodesMax)
    return InvalidArgument("carried.node: too many");
  return absl::OkStatus();
}

void Below::OnCarried(const Hop& hop, const peer::Carried& carried) {
  const auto from = children_.find(&hop);
  if (from == children_.end()) return;
  if (!Check(hop, carried).ok()) {
    Lose(from);
    return;
  }
  Child& child = *from->second;
  auto route = routes_.find(carried.node());
  const auto age = [](const auto& of) { return std::pair(of.incarnation(), of.way()); };
  if (carried.kind() == peer::Carried::LOST) {
    // What has come another way since then is not lost.
    if (route == routes_.end() || route->second.child != &child ||
        std::pair(route->second.incarnation, route->second.way) > age(carried)) {
      return;
    }
    return Forget(route);
  }
  if (route == routes_.end()) route = routes_.try_emplace(carried.node()).first;
  Route& known = route->second;
  if (std::pair(known.incarnation, known.way) > age(carried)) return;  // it has come another way since then
  known = {.child = &child, .incarnation = carried.incarnation(), .way = carried.way()};
  reports_.on_carried(carried);
}

void Below::Send(const peer::Carried& carried) {
  const auto route = routes_.find(carried.node());
  if (route != routes_.end() && route->second.incarnation == carried.incarnation()) {
    route->second.child->hop->Send(carried);
  }
}

// --- Who goes ---

void Below::OnClosed(const Hop& hop) {
  const auto child = children_.find(&hop);
  if (child != children_.end()) Lose(child);
}

void Below::IsMissing(const NodeId& node) {
  const auto child = Find(node);
  if (child != children_.end()) Lose(child);
}

Below::Children::iterator Below::Find(const NodeId& node) {
  return std::ranges::find_if(children_, [&](const auto& item) { return item.second->hop->peer().node == node; });
}

void Below::Lose(Children::iterator child) {
  const std::unique_ptr<Child> gone = std::move(child->second);
  children_.erase(child);
  for (auto route = routes_.begin(); route != routes_.end();) {
    const auto next = std::next(route);
    if (route->second.child == gone.get()) Forget(route);
    route = next;
  }
  if (children_.empty()) reports_.on_empty();
}

void Below::Forget(std::map<NodeId, Route>::iterator route) {
  peer::Carried lost;
  lost.set_kind(peer::Carried::LOST);
  lost.set_node(route->first);
  lost.set_incarnation(route->second.incarnation);
  lost.set_way(route->second.way);
  routes_.erase(route);
  reports_.on_carried(lost);
}

void Below::LetGo() {
  routes_.clear();
  children_.clear();
}

}  // namespace cairn
