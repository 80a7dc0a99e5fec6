#include "daemon/door/crowd.h"

#include <algorithm>

namespace cairn {

std::optional<Crowd::Id> Crowd::Victim() const {
  std::map<std::string_view, std::size_t> counts;
  std::size_t most = 0;
  for (const auto& [id, from] : members_) most = std::max(most, ++counts[from]);
  for (const auto& [id, from] : members_) {
    if (counts[from] == most) return id;
  }
  return std::nullopt;
}

}  // namespace cairn
