#include "storage/base/id_ranges.h"

#include <algorithm>

namespace cairn {

bool IdRanges::Contains(DatasetId id) const {
  const auto after = ranges_.upper_bound(id);
  return after != ranges_.begin() && std::prev(after)->second >= id;
}

void IdRanges::AddRange(DatasetId first, DatasetId last) {
  auto at = ranges_.upper_bound(first);
  if (at != ranges_.begin() && std::prev(at)->second + 1 >= first) --at;
  while (at != ranges_.end() && at->first <= last + 1) {  // those that it touches become one with it
    first = std::min(first, at->first);
    last = std::max(last, at->second);
    at = ranges_.erase(at);
  }
  ranges_[first] = last;
}

void IdRanges::Remove(DatasetId id) {
  const auto after = ranges_.upper_bound(id);
  if (after == ranges_.begin()) return;
  const auto at = std::prev(after);
  const auto [first, last] = *at;
  if (last < id) return;
  ranges_.erase(at);
  if (first < id) ranges_[first] = id - 1;
  if (id < last) ranges_[id + 1] = last;
}

}  // namespace cairn
