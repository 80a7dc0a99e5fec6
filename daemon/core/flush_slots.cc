#include "daemon/core/flush_slots.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace cairn {

std::uint32_t FlushSlots::CopiesMoving(SteadyTime now, std::chrono::milliseconds stalled) {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      std::views::keys(copies_), [&](const Progress& progress) { return !HasStalled(progress, now, stalled); }));
}

bool FlushSlots::HasStalled(const Progress& progress, SteadyTime now, std::chrono::milliseconds stalled) {
  const auto copy = copies_.find(progress);
  if (copy == copies_.end()) return false;
  Seen& seen = copy->second;
  const bool was_queued = std::exchange(seen.queued, progress->queued.load());
  const bool begun = was_queued && !seen.queued;
  if (progress->GotOn(seen.progress) || begun) seen.since = now;
  return now >= seen.since + stalled;
}

std::optional<SteadyTime> FlushSlots::StalledSince(const Progress& progress, SteadyTime now,
                                                   std::chrono::milliseconds stalled) const {
  const auto seen = copies_.find(progress);
  if (seen == copies_.end() || seen->second.queued || now < seen->second.since + stalled) return std::nullopt;
  return seen->second.since;
}

}  // namespace cairn
