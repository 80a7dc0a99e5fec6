#include <fmt/format.h>

#include "storage/base/check.h"
#include "storage/file/fti/execution.h"

namespace cairn::fti {

std::string NameOf(Level level) {
  return level == Level::kDifferential ? "differential" : fmt::format("level {}", static_cast<int>(level));
}

std::vector<std::uint32_t> Topology::GroupOf(std::uint32_t rank) const {
  CAIRN_CHECK(rank < ranks);
  const std::uint32_t first_node = rank / node_size / group_size * group_size;
  std::vector<std::uint32_t> group(group_size);
  for (std::uint32_t i = 0; i < group_size; ++i) group[i] = (first_node + i) * node_size + rank % node_size;
  return group;
}

std::uint32_t Topology::LeftOf(std::uint32_t rank) const {
  CAIRN_CHECK(rank < ranks);
  // The node before, or the last one of the group.
  return group_rank(rank) > 0 ? rank - node_size : rank + (group_size - 1) * node_size;
}

}  // namespace cairn::fti
