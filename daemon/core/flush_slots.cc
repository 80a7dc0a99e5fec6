#include "daemon/core/flush_slots.h"

#include <algorithm>
#include <ranges>

namespace cairn {

std::uint32_t FlushSlots::CopiesMoving(SteadyTime now, std::chrono::milliseconds stalled) {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      std::views::keys(copies_), [&](const Progress& progress) { return !HasStalled(progress, now, stalled); }));
}

bool FlushSlots::HasStalled(const Progress& progress, SteadyTime now, std::chrono::milliseconds stalled) {
  const auto copy = copies_.find(progress);
  if (copy == copies_.end()) return false;
  if (progress->GotOn(copy->second.progress)) copy->second.since = now;
  return now >= copy->second.since + stalled;
}

std::optional<SteadyTime> FlushSlots::StalledSince(const Progress& progress, SteadyTime now,
                                                   std::chrono::milliseconds stalled) const {
  const auto seen = copies_.find(progress);
  if (seen == copies_.end() || now < seen->second.since + stalled) return std::nullopt;
  return seen->second.since;
}

}  // namespace cairn
