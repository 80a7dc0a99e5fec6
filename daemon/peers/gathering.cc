#include "daemon/peers/gathering.h"

#include <algorithm>

namespace cairn {
namespace {

using coordinator_lease::ShortNode;

// Who was below a coordinator that is silent notices within half a term, looks for the next one every tenth of a term,
// and may be dialling the old one for a quarter of it. Who was told that it ends looks at once.
constexpr int kOfTermIfLost = 2, kOfTermIfTold = 4;

}  // namespace

Awaited AwaitedAfter(const coordinator_lease::Found& over, bool lapsed, const CoordinatorRecord& self) {
  const std::chrono::milliseconds term(self.term_ms);
  Awaited awaited{.anybody = lapsed, .count = 0, .nodes = {}, .within = term / kOfTermIfLost};
  if (!over.record) return awaited;
  const CoordinatorRecord& record = *over.record;
  if (record.run != self.run || record.members.count == 1) return {};
  if (record.members.count == 0) return awaited;  // as releases before write it
  awaited.anybody = true;
  awaited.count = record.members.count - 1;
  awaited.told = record.state == CoordinatorRecord::State::kEnded;
  if (awaited.told) awaited.within = term / kOfTermIfTold;
  if (record.members.others.empty()) return awaited;
  awaited.nodes = record.members.others;
  awaited.nodes.erase(ShortNode(self.node));
  awaited.count = static_cast<std::uint32_t>(awaited.nodes.size());
  awaited.anybody = !awaited.nodes.empty();
  return awaited;
}

void Gathering::Came(const NodeId& node) {
  if (!named_) came_.insert(node);
  if (awaited_.nodes.erase(ShortNode(node)) == 0) return;
  awaited_.anybody = --awaited_.count != 0;
}

Awaited Besides(Awaited awaited, const std::vector<NodeId>& known) {
  if (awaited.nodes.empty()) return awaited.count > known.size() ? awaited : Awaited();
  for (const NodeId& node : known) awaited.nodes.erase(ShortNode(node));
  awaited.count = static_cast<std::uint32_t>(awaited.nodes.size());
  return awaited.count > 0 ? awaited : Awaited();
}

KnownMembers CountToTell(std::size_t known, const Awaited& awaited) {
  if (awaited.anybody && awaited.count == 0) return {};
  const std::size_t count = std::min<std::size_t>(known + awaited.count, coordinator_lease::kMembersMax);
  return {.count = static_cast<std::uint32_t>(count), .others = {}};
}

KnownMembers MembersToTell(const NodeId& self, const std::vector<NodeId>& known, const Awaited& awaited) {
  const bool is_known = std::ranges::find(known, self) != known.end();
  KnownMembers members = CountToTell(known.size() + (is_known ? 0 : 1), awaited);
  const bool unnamed = awaited.anybody && awaited.nodes.empty();
  if (unnamed || members.count > coordinator_lease::kOthersMax + 1) return members;
  members.others = awaited.nodes;
  for (const NodeId& node : known) {
    if (node != self) members.others.insert(ShortNode(node));
  }
  members.count = static_cast<std::uint32_t>(members.others.size()) + 1;
  return members;
}

}  // namespace cairn
