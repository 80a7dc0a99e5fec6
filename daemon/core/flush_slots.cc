#include "daemon/core/flush_slots.h"

namespace cairn {

std::uint32_t FlushSlots::CopiesMoving(SteadyTime now, std::chrono::milliseconds stalled) {
  std::uint32_t moving = 0;
  for (auto& [progress, seen] : copies_) {
    if (progress->GotOn(seen.progress)) seen.since = now;
    if (now < seen.since + stalled) ++moving;
  }
  return moving;
}

std::optional<SteadyTime> FlushSlots::StalledSince(const Progress& progress, SteadyTime now,
                                                   std::chrono::milliseconds stalled) const {
  const auto seen = copies_.find(progress);
  if (seen == copies_.end() || now < seen->second.since + stalled) return std::nullopt;
  return seen->second.since;
}

}  // namespace cairn
