// The members of a run: daemons that serve it, each as it describes itself, and the table of them that all hold.
// Plain values.
#ifndef CAIRN_DAEMON_PEERS_MEMBER_H_
#define CAIRN_DAEMON_PEERS_MEMBER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace cairn {

using NodeId = std::string;  // 32 hex digits, of its cache (storage/place/cache/node_identity.h)

// What a daemon holds of the run.
struct MemberSummary {
  std::uint32_t datasets = 0;  // in its cache
  std::uint64_t bytes = 0;
  std::uint32_t sessions = 0;
  std::uint64_t newest_dataset = 0;  // 0: none
  friend bool operator==(const MemberSummary&, const MemberSummary&) = default;
};

struct Member {
  NodeId node;
  std::uint64_t incarnation = 0;  // one life of the daemon; a later one has a higher number
  std::uint64_t revision = 0;     // grows with each change in that life
  std::string host;
  std::string address;        // where members reach it
  std::int64_t since_us = 0;  // it serves the run, by its own wall clock
  MemberSummary summary;
  std::string group = {};  // of what may fail together with it, by a name of the site's; empty: its host
  friend bool operator==(const Member&, const Member&) = default;
};

// `a` was said later than `b`, by the same node.
bool IsNewer(const Member& a, const Member& b);

// Missing: no link leads to it just now, but it is not given up. One that has gone is in no table.
struct TableEntry {
  Member member;
  bool missing = false;
  friend bool operator==(const TableEntry&, const TableEntry&) = default;
};

enum class GoneWhy : std::uint8_t {
  kLost,  // it was missing for too long
  kLeft,  // it has ended in good order
};

struct GoneMember {
  NodeId node;
  std::uint64_t incarnation = 0;
  GoneWhy why = GoneWhy::kLost;
  friend bool operator==(const GoneMember&, const GoneMember&) = default;
};

// All members, as the coordinator of an epoch knew them.
struct MemberTable {
  std::uint64_t epoch = 0;  // 0: nobody has told this daemon yet
  std::uint64_t version = 0;
  std::map<NodeId, TableEntry> entries;
  bool gathers = false;  // the coordinator does not know all yet who are there (gathering.h)
  // It has all members that its coordinator could know of.
  bool has_all() const { return epoch != 0 && !gathers; }
  friend bool operator==(const MemberTable&, const MemberTable&) = default;
};

// What has become of a table. A node whose daemon was started again is in `entries`, with another incarnation.
struct TableChange {
  std::vector<TableEntry> entries;  // new, or as they are now
  std::vector<GoneMember> gone;
  bool empty() const { return entries.empty() && gone.empty(); }
};

// What makes `to` of `from`; who is not in `to` is lost, as far as one can see.
TableChange ChangeBetween(const MemberTable& from, const MemberTable& to);
// What of `change` was not so yet; the table has it then.
TableChange Apply(TableChange change, MemberTable& table);

// Who coordinates a run, as its lease says.
struct CoordinatorName {
  std::uint64_t epoch = 0;  // they only grow, and the highest counts; 0: none is known
  NodeId node;
  std::uint64_t incarnation = 0;
  std::string host;
  std::string address;
  friend bool operator==(const CoordinatorName&, const CoordinatorName&) = default;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_PEERS_MEMBER_H_
