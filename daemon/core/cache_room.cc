#include "daemon/core/cache_room.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/core/facts.h"
#include "daemon/core/run_cache.h"
#include "storage/base/status.h"

namespace cairn {

std::uint64_t CacheRoom::BytesUsed() const {
  std::uint64_t used = 0;
  for (const RunCache* run : runs_) used += run->BytesUsed();
  return used;
}

std::uint64_t CacheRoom::BytesOccupied() const {
  std::uint64_t occupied = 0;
  for (const RunCache* run : runs_) occupied += run->BytesOccupied();
  return occupied;
}

absl::StatusOr<CacheRoom::Room> CacheRoom::Find(RunCache& run, std::uint64_t bytes, const DatasetPtr& spare) const {
  std::uint64_t used = BytesUsed();
  if (spare) used -= std::min(used, spare->bytes());
  const auto fits = [&] { return bytes <= bytes_max_ && used <= bytes_max_ - bytes; };
  Room room;
  if (fits()) return room;
  auto& leaving = room.leaving;
  const auto leave = [&](RunCache* owner, DatasetId id) {
    const DatasetPtr dataset = owner->ledger().Get(id);
    used -= std::min(used, dataset->bytes());
    leaving.emplace_back(owner, dataset);
  };
  std::vector<RunCache*> order{&run};
  for (RunCache* other : runs_) {
    if (other != &run) order.push_back(other);
  }
  for (RunCache* owner : order) {
    if (fits() || bytes > bytes_max_) break;
    const std::uint64_t missing = used + std::min(bytes, bytes_max_) - bytes_max_;
    std::vector<DatasetFacts> facts = FactsOf(owner->ledger(), context_.config.flush);
    for (DatasetFacts& dataset : facts) dataset.held |= owner == &run && spare && dataset.id == spare->id;
    for (DatasetId id : EvictForRoom(facts, missing)) leave(owner, id);
  }
  // Then runs without an application give what they have once more on the prefix.
  for (RunCache* owner : order) {
    if (fits() || bytes > bytes_max_) break;
    if (!owner->ledger().over()) continue;
    const std::optional<DatasetId> last = EvictWhenOver(FactsOf(owner->ledger(), context_.config.flush));
    if (!last || std::ranges::find(leaving, std::pair(owner, owner->ledger().Get(*last))) != leaving.end()) continue;
    leave(owner, *last);
  }
  if (!fits()) {
    return ResourceExhausted("the cache {} is full: {} bytes are wanted, {} of {} are in use by what may not go",
                             context_.config.cache.path, bytes, used, bytes_max_);
  }
  return room;
}

void CacheRoom::Make(const Room& room) {
  for (const auto& [owner, dataset] : room.leaving) owner->Evict(dataset, "its place was needed");
}

absl::Status CacheRoom::Reserve(RunCache& run, std::uint64_t bytes, const DatasetPtr& spare) {
  CAIRN_ASSIGN_OR_RETURN(const Room room, Find(run, bytes, spare));
  Make(room);
  return absl::OkStatus();
}

}  // namespace cairn
