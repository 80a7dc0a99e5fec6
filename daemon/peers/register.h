// The table as the coordinator keeps it: who is below it now, who was and is waited for, who has gone. It begins with
// the table that the coordinator had as an ordinary member, so that a take-over loses nobody who is there: those who do
// not come are missing, then gone. If that table does not have all, those who may be there besides are waited for
// (gathering.h). Pure; the caller has the clock.
#ifndef CAIRN_DAEMON_PEERS_REGISTER_H_
#define CAIRN_DAEMON_PEERS_REGISTER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "daemon/peers/frames.h"
#include "daemon/peers/gathering.h"
#include "daemon/peers/member.h"
#include "storage/place/prefix/coordinator_lease.h"

namespace cairn {

class Register {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Given {
    std::chrono::milliseconds missing_after, gone_after;  // without a link
  };

  // `known`: the table so far, of any epoch; `awaited`: who may be there besides. The first Publish is due at once.
  Register(const Given& given, MemberTable known, const Awaited& awaited, std::uint64_t epoch, const Member& self,
           Time now);

  void Change(const frames::BelowChange& change, Time now);
  void SetSelf(const Member& self);

  // Makes what was changed since, and what the time has brought, a new version of the table.
  TableChange Publish(Time now);
  bool changed() const { return !touched_.empty(); }
  // When the time alone makes a Publish due.
  std::optional<Time> next() const;
  const MemberTable& table() const { return table_; }
  KnownMembers MembersToTell() const;  // in the lease

 private:
  void Touch(const NodeId& node) { touched_.insert(node); }

  const Given given_;
  const NodeId self_;
  MemberTable table_;                  // as published
  std::map<NodeId, Member> present_;   // links lead to them
  std::map<NodeId, Time> cut_;         // none does since; in the table
  std::map<NodeId, GoneMember> left_;  // since the last Publish
  std::set<NodeId> touched_;           // since the last Publish
  std::optional<Gathering> gathering_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_PEERS_REGISTER_H_
