// Whom a coordinator waits for that has taken over without a table that has all members: those whom the coordinator
// before it knew, as its lease says. They look for the next one, and join it. Until they have, more may be there than
// the table has (MemberTable::gathers). Nobody acts by this. Pure: times are the caller's.
#ifndef CAIRN_DAEMON_PEERS_GATHERING_H_
#define CAIRN_DAEMON_PEERS_GATHERING_H_

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
  std::chrono::milliseconds within{0};  // they are not waited for any longer
};

// What a lease that is over (`lapsed`: CoordinatorWatch::Judged) says of those whom its holder knew. Not waited for is
// the holder, nor `self`, who takes over.
Awaited AwaitedAfter(const coordinator_lease::Found& over, bool lapsed, const CoordinatorRecord& self);

class Gathering {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Gathering(Awaited awaited, Time now) : awaited_(std::move(awaited)), until_(now + awaited_.within) {}

  // All that are named have come, or nobody is waited for any longer.
  bool IsOver(Time now) const { return now >= until_ || (named_ && awaited_.nodes.empty()); }
  Time until() const { return until_; }
  void Came(const NodeId& node);
  const Awaited& left() const { return awaited_; }

 private:
  Awaited awaited_;  // those who have not come
  const Time until_;
  const bool named_ = !awaited_.nodes.empty();
};

// What a lease of `self` is to say: `known` are those whom it knows, and `awaited` may be there besides.
KnownMembers MembersToTell(const NodeId& self, const std::vector<NodeId>& known, const Awaited& awaited);
// The same for so many (with itself) that they cannot be named.
KnownMembers CountToTell(std::size_t known, const Awaited& awaited);

}  // namespace cairn

#endif  // CAIRN_DAEMON_PEERS_GATHERING_H_
