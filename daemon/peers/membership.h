// This daemon as a member of one run: it finds the others, knows which there are, and which of them coordinates; if
// nobody does, it may be the one. README.md tells how.
//
// Strand only. Nothing blocks, and every wait ends. No report comes inside a call. A report may call anything of this,
// but not destroy it.
//
// What a launch over nodes sends goes by a tree of its own (daemon/relay), whoever coordinates here.
#ifndef CAIRN_DAEMON_PEERS_MEMBERSHIP_H_
#define CAIRN_DAEMON_PEERS_MEMBERSHIP_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/environment.h"
#include "daemon/core/loop.h"
#include "daemon/peers/link.h"
#include "daemon/peers/member.h"
#include "daemon/peers/on_arbiter.h"
#include "storage/base/ids.h"

namespace cairn {

struct MembershipSettings {
  // Of the coordinator's lease: a coordinator that has stood still for so long is replaced. Short, since what it
  // decides waits while there is none; not so short that a prefix which is slow for some seconds costs the coordinator
  // its place (it stops acting after half of it). Launches' leases (lease.term) are for people who wait, and longer.
  std::chrono::milliseconds term{12'000};
  std::size_t fan_in = 32;    // links to children, at most; at least 2
  std::size_t depth_max = 8;  // links between the coordinator and any member
  std::size_t members_max = 16'384;
  // Addresses of some members, for a daemon that cannot read the lease, or cannot reach whoever holds it.
  std::vector<std::string> peers;
  std::chrono::milliseconds settle{50};            // the coordinator gathers changes for so long before it tells them
  std::chrono::milliseconds summary_pause{2'000};  // between two changes of what this member says of itself

  std::chrono::milliseconds beat() const { return term / 6; }           // between two signs of life
  std::chrono::milliseconds silence() const { return term / 2; }        // after which a link is given up
  std::chrono::milliseconds missing_after() const { return term / 2; }  // without any link
  std::chrono::milliseconds gone_after() const { return 3 * term; }     // without any link
};

class Membership {
 public:
  struct Self {
    RunId run;
    NodeId node;
    std::uint64_t incarnation = 0;  // above those of this node's former daemons
    std::string host;
    std::int64_t since_us = 0;
    std::string group = {};  // Member::group
  };
  struct Given {
    Loop& loop;
    Clocks clocks;
    PeerNet& net;          // borrowed; nobody else serves this run with it
    OnArbiter on_arbiter;  // may answer after the membership has gone
    Self self;
    MembershipSettings settings;
  };
  // Who coordinates, as this member knows. `acting`: this daemon does, now.
  struct Coordinator {
    CoordinatorName name;   // of the newest epoch that it knows
    bool attached = false;  // it is that one, or links lead from here to it
    bool acting = false;
    friend bool operator==(const Coordinator&, const Coordinator&) = default;
  };
  // How much of the members that are there does table() have?
  enum class Knowledge : std::uint8_t {
    kNothing,  // no links lead to a coordinator, and there is no word of the arbiter's that they will; or there is, but
               // this member goes by the table that it has had, which has all of the newest coordinator's members
    kSoon,     // the coordinator's table is on its way; or there is no such table, but the arbiter answers, and a
               // coordinator is to be found, or to be followed by another within its term
    kSome,     // the coordinator has taken over without such a table: those come whom the one before it knew
    kAll,
  };
  struct Reports {
    // The table has changed, and is so now.
    std::function<void(const TableChange& change)> on_table_change;
    std::function<void(const Coordinator& coordinator)> on_coordinator_change;
    std::function<void(std::string text)> warn;  // for people; the same trouble once
  };

  static std::unique_ptr<Membership> Make(Given given, Reports reports);
  virtual ~Membership() = default;  // as Stop(false), if it was not stopped; `done` of a Stop may not run any more

  // Once.
  virtual void Start() = 0;
  // Once; no report comes any more. In good order, the others are told, so that they need not wait for this one, and a
  // lease says that it has ended. Else it is as if the daemon had died. `done` runs once, on the strand, within a term;
  // after it nothing of this membership is sent.
  virtual void Stop(bool orderly, std::function<void()> done) = 0;

  // All members but those that have gone, this one among them. Epoch 0: not registered yet.
  virtual const MemberTable& table() const = 0;
  // Ask whenever it matters: a coordinator that could not renew its lease stops acting by its clock alone.
  virtual Coordinator coordinator() const = 0;
  virtual Knowledge knowledge() const = 0;  // changes with time alone, too
  // Told to the others soon, the newest one.
  virtual void UpdateSelf(const MemberSummary& summary) = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_PEERS_MEMBERSHIP_H_
