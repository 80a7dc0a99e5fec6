// What the run's nodes have of its datasets, as they say: which of these are whole in one cache, which in parts in
// several, of which parts no node has any more, but the others of their redundancy sets keep enough. Pure.
#ifndef CAIRN_DAEMON_CORE_IN_PARTS_H_
#define CAIRN_DAEMON_CORE_IN_PARTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "daemon/core/ledger.h"
#include "daemon/core/nodes.h"
#include "daemon/peers/member.h"
#include "proto/redundancy.pb.h"
#include "storage/base/ids.h"

namespace cairn {

// A dataset that this cache has not, or not all of.
struct Candidate {
  Dataset dataset;
  Member member;          // that has it; in parts: one that has some
  bool in_parts = false;  // in several caches, this one perhaps among them: it stays where it is
  // In parts. Each rank is here (then it is in none of these), at a member, or lost, and then in a set of which enough
  // members are left, as far as their numbers tell.
  std::map<Rank, Member> at = {};
  std::map<Rank, std::vector<kept::Set>> lost = {};  // sets that may make it anew: those with the most left first
  std::map<Rank, kept::Set> keeps = {};              // of `at`: the newest set for which that rank keeps something
  // InPartsOptions::lacking: so many ranks are neither here nor at a member, and not all of them can be made anew.
  std::uint32_t nowhere = 0;
};

struct InPartsOptions {
  std::function<bool(const Dataset&)> wanted;  // a launch would choose it
  std::function<bool(const Dataset&)> left;    // an output that is to go to the prefix; not if some node sees to it
  // That node's word for the rank's part is not believed: it was found not to be so. Empty: all are believed.
  std::function<bool(DatasetId, Rank, const NodeId&)> bad = {};
  Member own = {};       // this node, for messages
  bool lacking = false;  // also those `wanted` of which parts are nowhere
};

// The datasets in parts of which all parts are there, or can be made anew; also of what this cache alone has kept.
std::vector<Candidate> InParts(const Nodes::Holdings& holdings, const Ledger& ledger, const InPartsOptions& options);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_IN_PARTS_H_
