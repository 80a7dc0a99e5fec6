#include "daemon/peers/member.h"

#include <tuple>
#include <utility>

namespace cairn {

bool IsNewer(const Member& a, const Member& b) {
  return std::tie(a.incarnation, a.revision) > std::tie(b.incarnation, b.revision);
}

TableChange ChangeBetween(const MemberTable& from, const MemberTable& to) {
  TableChange change;
  for (const auto& [node, entry] : to.entries) {
    const auto before = from.entries.find(node);
    if (before == from.entries.end() || before->second != entry) change.entries.push_back(entry);
  }
  for (const auto& [node, entry] : from.entries) {
    if (!to.entries.contains(node)) {
      change.gone.push_back({.node = node, .incarnation = entry.member.incarnation, .why = GoneWhy::kLost});
    }
  }
  return change;
}

TableChange Apply(TableChange change, MemberTable& table) {
  TableChange done;
  for (TableEntry& entry : change.entries) {
    TableEntry& there = table.entries[entry.member.node];
    if (there == entry) continue;
    there = entry;
    done.entries.push_back(std::move(entry));
  }
  for (GoneMember& gone : change.gone) {
    if (table.entries.erase(gone.node) != 0) done.gone.push_back(std::move(gone));
  }
  return done;
}

}  // namespace cairn
