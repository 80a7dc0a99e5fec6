// Which ranks of a job protect each other. SCR specification, 10.1 and 10.2. Pure.
//
// SCR takes the i-th rank of each failure group for column i, and cuts columns into sets. Where groups have unequal
// numbers of ranks a column may be too short for any set; then the ranks of all groups are dealt to as many sets as
// the largest group has ranks. Either way no set has two ranks of one group: losing a group costs each set one member.
#ifndef CAIRN_STORAGE_FORMAT_SCR_SETS_H_
#define CAIRN_STORAGE_FORMAT_SCR_SETS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "storage/format/scr/redset_records.h"

namespace cairn::scr {

struct SetWish {
  Scheme scheme = Scheme::kSingle;
  std::uint32_t members_min = 8;  // SCR_SET_SIZE; where there are fewer, all are one set
  std::uint32_t checksums = 0;    // kRs: members of a set that may be lost
};

// By world rank: the set of each. `groups`: by world rank the failure group, by any names (a node's, a switch's).
// kSingle, or all ranks in one group: each is a set of its own, and nothing is protected. kRs with one checksum is
// kXor.
//   kInvalidArgument     members_min is not 2 … 64, or checksums not 1 … members_min - 1
//   kFailedPrecondition  a group has too many of the ranks for the others to protect them: names it
absl::StatusOr<std::vector<SetDescriptor>> MakeSets(const SetWish& wish, std::span<const std::string> groups);

}  // namespace cairn::scr

#endif  // CAIRN_STORAGE_FORMAT_SCR_SETS_H_
