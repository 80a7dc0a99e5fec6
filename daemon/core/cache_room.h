// The room that all runs share in this node's cache: how much is in use, and who gives way to whom. What others leave
// of the file system bounds it, too: cache.reserve of it stays free. Strand only.
#ifndef CAIRN_DAEMON_CORE_CACHE_ROOM_H_
#define CAIRN_DAEMON_CORE_CACHE_ROOM_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/context.h"
#include "daemon/core/ledger.h"
#include "daemon/policy/policy.h"
#include "storage/place/cache/aside.h"

namespace cairn {

class RunCache;

// kResourceExhausted for now: flushes that are under way, or are to come, make the room.
bool IsRoomToCome(const absl::Status& status);

class CacheRoom {
 public:
  explicit CacheRoom(const Context& context) : context_(context) {}
  CacheRoom(const CacheRoom&) = delete;

  void Add(RunCache* run) { runs_.push_back(run); }  // borrowed
  void SetBytesMax(std::uint64_t bytes) { bytes_max_ = bytes; }
  std::uint64_t bytes_max() const { return bytes_max_; }
  // The same, less what cache.reserve forbids now.
  std::uint64_t limit() const { return std::min(bytes_max_, ceiling_); }
  // With a cache.reserve: so much of the file system is free now; from then on it is asked again each second. Also
  // after a change of the settings.
  void WatchDisk(std::uint64_t free_bytes);
  void WatchDisk();
  // What is on its way counts as planned, what lies aside as it is; what is only on the prefix does not count.
  std::uint64_t BytesUsed() const;
  // Of that, what goes first when room is needed: what lies aside, spares, and datasets beyond cache.keep.
  std::uint64_t BytesRemovable() const;
  // What is on the disk of that: clones may share nearly all that they have. What ranks have begun counts, though its
  // file may not be made yet: for that moment what begins beside it may take as much of the reserve.
  std::uint64_t BytesOccupied() const;

  // Room that can be had by evictions, until something else has changed.
  using Leaving = std::vector<std::pair<RunCache*, DatasetPtr>>;
  using LeavingAsides = std::vector<std::pair<RunCache*, Aside>>;
  struct Room {
    std::vector<RunCache*> spares;  // whose go
    LeavingAsides asides;
    Leaving leaving;
    std::size_t unneeded = 0;  // so many of these, the first, are beyond cache.keep
    std::uint64_t left = 0;    // beyond what is wanted
  };
  // For `bytes` of `run`. First go spares, then datasets beyond cache.keep, then what lies aside as damaged, oldest
  // first. Then the run that wants room gives way; then what is left of runs whose prefix was lost for longer than
  // cache.grace, oldest first; last what runs would restart from, and only if it is on the prefix. `spare`, if given,
  // makes room by giving its files to what is to come. kResourceExhausted: the cache is full of what may not go; the
  // message names the largest and what would free them. IsRoomToCome, if flushes would that nothing is known to be in
  // the way of.
  absl::StatusOr<Room> Find(RunCache& run, std::uint64_t bytes, const DatasetPtr& spare = nullptr) const;
  static void Make(const Room& room);
  // Both. Nobody loses anything for what will not fit anyway.
  absl::Status Reserve(RunCache& run, std::uint64_t bytes, const DatasetPtr& spare = nullptr);

  // `then` runs once, not within a call, when something has changed for which there may be room now.
  void WhenChanged(std::function<void()> then) { waiting_.push_back(std::move(then)); }
  void Changed();

 private:
  // Room that was looked for, and what would be in use with it.
  struct Search {
    Room room;
    std::uint64_t used = 0;
    bool fits = false;
  };
  // `flushed`: as if all flushes had ended that are under way or to come.
  Search Look(RunCache& run, std::uint64_t bytes, const DatasetPtr& spare, bool flushed) const;
  std::vector<DatasetFacts> Facts(const RunCache& owner, bool flushed) const;
  LeavingAsides RemovableAsides() const;
  static Leaving Forgettable(const std::vector<RunCache*>& order);
  std::string WhoStays(const std::vector<RunCache*>& order, const Leaving& leaving) const;
  void LookAtDisk();
  void Looked(std::uint64_t free_bytes, std::uint64_t occupied);

  const Context& context_;
  std::vector<RunCache*> runs_;
  std::uint64_t bytes_max_ = 0;
  std::uint64_t ceiling_ = UINT64_MAX;  // more than this in use would leave less than cache.reserve free
  bool watching_ = false;               // the file system is asked again and again
  bool told_ = false;                   // that it has less free than that
  std::vector<std::function<void()>> waiting_;
  bool asking_ = false;  // the waiting ones, as soon as the strand comes to it
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_CACHE_ROOM_H_
