// What the flushes of all runs share. Copies to a file system that hangs hold no slot of the others. Strand only.
#ifndef CAIRN_DAEMON_CORE_FLUSH_SLOTS_H_
#define CAIRN_DAEMON_CORE_FLUSH_SLOTS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/core/environment.h"
#include "storage/file/transfer/throttle.h"
#include "storage/file/transfer/transfer.h"

namespace cairn {

class FlushSlots {
 public:
  explicit FlushSlots(std::uint64_t bytes_per_s, std::shared_ptr<BackgroundBudget> background = nullptr)
      : throttle(bytes_per_s, std::move(background)) {}

  using Progress = std::shared_ptr<const TransferProgress>;
  void CopyBegins(const Progress& progress, SteadyTime now) {
    copies_[progress] = {.progress = 0, .since = now, .queued = progress->queued};
    if (give_way_) give_way_();
  }
  // Runs within each CopyBegins: whatever uses the same disk stops. Once.
  void OnCopyBegins(std::function<void()> give_way) { give_way_ = std::move(give_way); }
  void CopyEnds(const Progress& progress) { copies_.erase(progress); }
  std::uint32_t copies() const { return static_cast<std::uint32_t>(copies_.size()); }
  // Those that have got on within `stalled`, as far as they have been looked at.
  std::uint32_t CopiesMoving(SteadyTime now, std::chrono::milliseconds stalled);
  // Has this one not got on within `stalled`? It is looked at now. Of one that has waited for a thread, the time counts
  // from when that is seen to have begun it.
  bool HasStalled(const Progress& progress, SteadyTime now, std::chrono::milliseconds stalled);
  // Since when this one has not got on, if it has not within `stalled`. One that waits for a thread does not hang.
  std::optional<SteadyTime> StalledSince(const Progress& progress, SteadyTime now,
                                         std::chrono::milliseconds stalled) const;

  std::uint32_t commits = 0;  // under way
  Throttle throttle;

 private:
  struct Seen {
    std::uint64_t progress = 0;  // TransferProgress::GotOn
    SteadyTime since;
    bool queued = false;  // no thread had begun it
  };
  std::map<Progress, Seen> copies_;
  std::function<void()> give_way_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_FLUSH_SLOTS_H_
