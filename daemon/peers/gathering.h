// Whom a coordinator waits for that has taken over without a table that has all members: those whom the coordinator
// before it knew, as its lease says. They look for the next one, and join it. Until they have, more may be there than
// the table has (MemberTable::gathers): one that is late may have no part in what was lost but the way to the arbiter.
// Nobody acts by this. Pure: times are the caller's.
#ifndef CAIRN_DAEMON_PEERS_GATHERING_H_
#define CAIRN_DAEMON_PEERS_GATHERING_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/peers/member.h"
#include "storage/place/prefix/coordinator_lease.h"

namespace cairn {

struct Awaited {
  bool anybody = false;
  std::uint32_t count = 0;              // so many, at most; 0: nobody has said how many
  std::set<std::string> nodes = {};     // who they are, as coordinator_lease::ShortNode; none: nobody has said
  std::chrono::milliseconds within{0};  // so long they may take to come
  bool told = false;                    // that it ends: who has not come in that time has ended, too
};

// What a lease that is over (`lapsed`: CoordinatorWatch::Judged) says of those whom its holder knew. Not waited for is
// the holder, nor `self`, who takes over.
Awaited AwaitedAfter(const coordinator_lease::Found& over, bool lapsed, const CoordinatorRecord& self);

// Those of them whom nobody knows: `known` is all that the table of the same epoch has, and who has left since. A lease
// may be newer than the table of a member that was cut off.
Awaited Besides(Awaited awaited, const std::vector<NodeId>& known);

class Gathering {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Who was not told and does not come is given up as any other member is to which no link leads.
  Gathering(Awaited awaited, Time now, std::chrono::milliseconds gone_after)
      : awaited_(std::move(awaited)),
        until_(now + awaited_.within),
        gone_at_(awaited_.told ? until_ : now + gone_after) {}

  // All that are named have come. Where none is, as many have as are awaited, and their time is over; so is it if
  // nobody has said how many. Or they are given up.
  bool IsOver(Time now) const { return now >= gone_at_ || (named_ ? HaveCome() : HaveCome() && now >= until_); }
  // When the time alone ends it.
  Time until() const { return !named_ && HaveCome() ? std::min(until_, gone_at_) : gone_at_; }
  void Came(const NodeId& node);
  const Awaited& left() const { return awaited_; }

 private:
  bool HaveCome() const { return named_ ? awaited_.nodes.empty() : came_.size() >= awaited_.count; }

  Awaited awaited_;  // those who have not come, if they are named
  const Time until_, gone_at_;
  const bool named_ = !awaited_.nodes.empty();
  std::set<NodeId> came_;  // if none is named
};

// What a lease of `self` is to say: `known` are those whom it knows, and `awaited` may be there besides.
KnownMembers MembersToTell(const NodeId& self, const std::vector<NodeId>& known, const Awaited& awaited);
// The same for so many (with itself) that they cannot be named.
KnownMembers CountToTell(std::size_t known, const Awaited& awaited);

}  // namespace cairn

#endif  // CAIRN_DAEMON_PEERS_GATHERING_H_
