// A box of a global array, put together from the boxes that ranks have stored. Pure.
#ifndef CAIRN_DAEMON_CORE_ASSEMBLY_H_
#define CAIRN_DAEMON_CORE_ASSEMBLY_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "storage/base/box.h"
#include "storage/base/ids.h"

namespace cairn {

struct StoredBox {
  Rank rank = 0;
  Box box;
};

// What of the wanted box comes from one rank: boxes that do not overlap, one if no higher rank has stored any of it.
struct Share {
  StoredBox from;
  std::vector<Box> parts;
};

struct Assembly {
  std::vector<Share> shares;  // by falling rank
  std::optional<Box> hole;    // that nobody has stored; begins at the first such element
  std::uint64_t work = 0;     // what it took, counted as work_max
};

// Of elements that several ranks have stored, the last one in `stored` counts. `work_max` bounds how often a stored box
// is held against a part that is still missing: what overlaps in many ways falls apart into very many parts. REQUIRES:
// all boxes sound and of equally many dimensions; elements of each fit into 64 bits.
//   kResourceExhausted  more work than that
absl::StatusOr<Assembly> Assemble(const Box& wanted, std::span<const StoredBox> stored, std::uint64_t work_max);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_ASSEMBLY_H_
