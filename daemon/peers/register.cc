#include "daemon/peers/register.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace cairn {

Register::Register(const Given& given, MemberTable known, const Awaited& awaited, std::uint64_t epoch,
                   const Member& self, Time now)
    : given_(given), self_(self.node), table_(std::move(known)) {
  if (awaited.anybody) gathering_.emplace(awaited, now, given.gone_after);
  table_.gathers = gathering_.has_value();
  table_.epoch = epoch;
  table_.version = 0;
  for (const auto& [node, entry] : table_.entries) cut_.emplace(node, now);
  SetSelf(self);
}

void Register::SetSelf(const Member& self) {
  present_[self_] = self;
  cut_.erase(self_);
  Touch(self_);
}

void Register::Change(const frames::BelowChange& change, Time now) {
  for (const GoneMember& gone : change.gone) {
    const auto there = present_.find(gone.node);
    const bool has_left = gone.why == GoneWhy::kLeft;
    if (gone.node == self_ || (has_left && there != present_.end() && there->second.incarnation != gone.incarnation)) {
      continue;
    }
    if (there != present_.end()) present_.erase(there);
    const auto known = table_.entries.find(gone.node);
    if (has_left && (known == table_.entries.end() || known->second.member.incarnation == gone.incarnation)) {
      left_[gone.node] = gone;
      Touch(gone.node);
    }
    cut_.try_emplace(gone.node, now);
    Touch(gone.node);
  }
  for (const Member& member : change.now) {
    if (member.node == self_) continue;
    present_[member.node] = member;
    cut_.erase(member.node);
    left_.erase(member.node);
    if (gathering_) gathering_->Came(member.node);
    Touch(member.node);
  }
}

TableChange Register::Publish(Time now) {
  TableChange change;
  std::set<NodeId> due = std::exchange(touched_, {});
  for (const auto& [node, since] : cut_) {
    if (now >= since + given_.missing_after) due.insert(node);
  }
  for (const NodeId& node : due) {
    if (const auto there = present_.find(node); there != present_.end()) {
      change.entries.push_back({.member = there->second, .missing = false});
      continue;
    }
    const auto known = table_.entries.find(node);
    const auto cut = cut_.find(node);
    if (cut == cut_.end()) continue;
    const auto left = left_.find(node);
    if (known == table_.entries.end()) {  // it has come and gone between two versions
      cut_.erase(cut);
    } else if (left != left_.end()) {
      change.gone.push_back(left->second);
      cut_.erase(cut);
    } else if (now >= cut->second + given_.gone_after) {
      change.gone.push_back({.node = node, .incarnation = known->second.member.incarnation, .why = GoneWhy::kLost});
      cut_.erase(cut);
    } else if (now >= cut->second + given_.missing_after) {
      change.entries.push_back({.member = known->second.member, .missing = true});
    }
  }
  left_.clear();
  change = Apply(std::move(change), table_);
  const bool has_gathered = gathering_ && gathering_->IsOver(now);
  if (has_gathered) gathering_.reset();
  table_.gathers = gathering_.has_value();
  if (!change.empty() || has_gathered || table_.version == 0) ++table_.version;
  return change;
}

std::optional<Register::Time> Register::next() const {
  std::optional<Time> next;
  if (gathering_) next = gathering_->until();
  for (const auto& [node, since] : cut_) {
    const auto known = table_.entries.find(node);
    const bool told = known != table_.entries.end() && known->second.missing;
    const Time due = since + (told ? given_.gone_after : given_.missing_after);
    if (!next || due < *next) next = due;
  }
  return next;
}

// For each change of a large run: it takes no time that grows with the run.
KnownMembers Register::MembersToTell() const {
  const Awaited awaited = gathering_ ? gathering_->left() : Awaited();
  const std::size_t count = present_.size() + cut_.size();  // with those who have just left
  if (count > coordinator_lease::kOthersMax + 1) return CountToTell(count, awaited);
  std::vector<NodeId> known;
  for (const auto& [node, member] : present_) known.push_back(node);
  for (const auto& [node, since] : cut_) {
    if (!left_.contains(node)) known.push_back(node);
  }
  return cairn::MembersToTell(self_, known, awaited);
}

}  // namespace cairn
