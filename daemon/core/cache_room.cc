#include "daemon/core/cache_room.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "daemon/core/facts.h"
#include "daemon/core/run_cache.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr char kToCome[] = "cairn/room-to-come";
constexpr std::chrono::seconds kLookEvery(1);

}  // namespace

bool IsRoomToCome(const absl::Status& status) {
  return status.GetPayload(kToCome).has_value();
}

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

std::uint64_t CacheRoom::BytesRemovable() const {
  std::uint64_t bytes = 0;
  for (const auto& [owner, aside] : RemovableAsides()) bytes += aside.bytes;
  for (RunCache* owner : runs_) {
    bytes += owner->spares().bytes();
    for (DatasetId id : owner->BeyondKeep()) bytes += owner->ledger().Get(id)->bytes_here();
  }
  return bytes;
}

// --- What others leave of the file system ---

void CacheRoom::WatchDisk(std::uint64_t free_bytes) {
  if (context_.config.cache.reserve != 0) Looked(free_bytes, BytesOccupied());
  WatchDisk();
}

void CacheRoom::WatchDisk() {
  if (watching_ || context_.config.cache.reserve == 0) return;
  watching_ = true;
  LookAtDisk();
}

void CacheRoom::LookAtDisk() {
  const auto ask = [&disk = context_.env.cache_disk, path = context_.config.cache.path] {
    return disk.FreeBytes(path);
  };
  context_.OnCache(ask, [this, occupied = BytesOccupied()](const absl::StatusOr<std::uint64_t>& free_bytes) {
    watching_ = context_.config.cache.reserve != 0;
    if (!watching_) {  // the settings were read anew
      ceiling_ = UINT64_MAX;
      return Changed();
    }
    if (free_bytes.ok()) Looked(*free_bytes, occupied);  // else what was last known holds
    context_.loop().After(kLookEvery, [this] { LookAtDisk(); });
  });
}

// `occupied`: when that was asked. What came to the disk since is counted as not free, and what has left it as not
// removed: until the next look there is rather less room than more.
void CacheRoom::Looked(std::uint64_t free_bytes, std::uint64_t occupied) {
  const std::uint64_t reserve = context_.config.cache.reserve, before = ceiling_;
  const std::uint64_t ours = std::min(occupied, BytesOccupied());
  const std::uint64_t reachable = ours + std::min(free_bytes, UINT64_MAX - ours);
  ceiling_ = reachable - std::min(reserve, reachable);
  if (free_bytes < reserve && !told_) {
    context_.Warn(
        fmt::format("the file system of the cache {} has {} bytes free, cache.reserve is {}: this cache gets "
                    "no more of it",
                    context_.config.cache.path, free_bytes, reserve));
  }
  told_ = free_bytes < reserve || (told_ && free_bytes < reserve + reserve / 4);
  if (ceiling_ > before) Changed();
}

// --- Who gives way ---

CacheRoom::LeavingAsides CacheRoom::RemovableAsides() const {
  LeavingAsides all;
  for (RunCache* owner : runs_) {
    for (Aside& aside : owner->asides().Removable()) all.emplace_back(owner, std::move(aside));
  }
  std::ranges::stable_sort(all, {}, [](const auto& item) { return item.second.since_us; });
  return all;
}

// " (dataset 3 of run heat, 20 bytes: goes once it is on the prefix; …)": the largest few.
std::string CacheRoom::WhoStays(const std::vector<RunCache*>& order, const Leaving& leaving) const {
  constexpr std::size_t kToldMax = 3;
  std::vector<std::pair<std::uint64_t, std::string>> staying;
  for (RunCache* owner : order) {
    for (const DatasetFacts& facts : FactsOf(owner->ledger(), context_.config.flush)) {
      const DatasetPtr dataset = owner->ledger().Get(facts.id);
      if (facts.cache_bytes == 0 || std::ranges::find(leaving, std::pair(owner, dataset)) != leaving.end()) continue;
      std::string_view what_frees = "goes once it is on the prefix";
      const std::string by_owner = owner->WhatFrees();
      if (facts.pinned) {
        what_frees = "is pinned";
      } else if (!by_owner.empty()) {
        what_frees = by_owner;
      } else if (facts.in_prefix) {
        what_frees = "is in use";
      }
      staying.emplace_back(facts.cache_bytes, fmt::format("dataset {} of run {}, {} bytes: {}", facts.id,
                                                          owner->run_name(), facts.cache_bytes, what_frees));
    }
  }
  for (RunCache* owner : order) {
    for (const Aside& aside : owner->asides().all()) {
      if (aside.kind != Aside::Kind::kTaken) continue;
      staying.emplace_back(aside.bytes,
                           fmt::format("{}/{}, {} bytes: is whole, but another dataset has its number; stays until it "
                                       "is removed (`cairn rm {} --set-aside all`)",
                                       owner->folder().path(), aside.name, aside.bytes, owner->run_name()));
    }
  }
  std::ranges::sort(staying, std::greater());
  std::vector<std::string> told;
  for (std::size_t i = 0; i < std::min(kToldMax, staying.size()); ++i) told.push_back(staying[i].second);
  if (staying.size() > kToldMax) told.push_back(fmt::format("and {} more", staying.size() - kToldMax));
  return told.empty() ? "" : fmt::format(" ({})", fmt::join(told, "; "));
}

// Of runs that nobody will ask for again.
CacheRoom::Leaving CacheRoom::Forgettable(const std::vector<RunCache*>& order) {
  Leaving all;
  for (RunCache* owner : order) {
    for (DatasetPtr& dataset : owner->Forgettable()) all.emplace_back(owner, std::move(dataset));
  }
  std::ranges::stable_sort(all, {}, [](const auto& item) { return item.second->created_us; });
  return all;
}

// What is not whole yet is to be captured first: that does not fail as a rule.
std::vector<DatasetFacts> CacheRoom::Facts(const RunCache& owner, bool flushed) const {
  std::vector<DatasetFacts> facts = FactsOf(owner.ledger(), context_.config.flush);
  if (!flushed) return facts;
  for (DatasetFacts& dataset : facts) {
    const bool comes =
        dataset.kept ? dataset.will_go : ComesToPrefix(dataset, context_.config.flush) && owner.MayFlush(dataset.id);
    if (!comes) continue;
    dataset.in_prefix = dataset.safe = true;
    dataset.flushing = dataset.kept = false;
  }
  return facts;
}

CacheRoom::Search CacheRoom::Look(RunCache& run, std::uint64_t bytes, const DatasetPtr& spare, bool flushed) const {
  std::uint64_t used = BytesUsed();
  if (spare) used -= std::min(used, spare->bytes_here());
  const std::uint64_t limit = this->limit();
  const auto fits = [&] { return bytes <= limit && used <= limit - bytes; };
  const auto found = [&](Room room) {
    if (fits()) room.left = limit - bytes - used;
    return Search{.room = std::move(room), .used = used, .fits = fits()};
  };
  Room room;
  if (fits() || bytes > limit) return found(std::move(room));
  for (RunCache* owner : runs_) {
    if (fits()) break;
    if (owner->spares().bytes() == 0) continue;
    used -= std::min(used, owner->spares().bytes());
    room.spares.push_back(owner);
  }
  auto& leaving = room.leaving;
  const auto leave = [&](RunCache* owner, DatasetId id) {
    const DatasetPtr dataset = owner->ledger().Get(id);
    used -= std::min(used, dataset->bytes_here());
    leaving.emplace_back(owner, dataset);
  };
  std::vector<RunCache*> order{&run};
  for (RunCache* other : runs_) {
    if (other != &run) order.push_back(other);
  }
  const auto leaves = [&leaving](RunCache* owner, DatasetId id) {
    return std::ranges::find(leaving, std::pair(owner, owner->ledger().Get(id))) != leaving.end();
  };
  const auto is_spare = [&](const RunCache* owner, DatasetId id) { return owner == &run && spare && id == spare->id; };
  for (RunCache* owner : order) {
    if (fits()) break;
    for (DatasetId id : owner->BeyondKeep()) {
      if (!fits() && !is_spare(owner, id)) leave(owner, id);
    }
  }
  room.unneeded = leaving.size();
  for (auto& [owner, aside] : RemovableAsides()) {
    if (fits()) break;
    used -= std::min(used, aside.bytes);
    room.asides.emplace_back(owner, std::move(aside));
  }
  for (RunCache* owner : order) {
    if (fits()) break;
    std::vector<DatasetFacts> facts = Facts(*owner, flushed);
    for (DatasetFacts& dataset : facts) dataset.held |= is_spare(owner, dataset.id) || leaves(owner, dataset.id);
    for (DatasetId id : EvictForRoom(facts, used + bytes - limit)) leave(owner, id);
  }
  for (const auto& [owner, dataset] : Forgettable(order)) {
    if (fits()) break;
    if (!is_spare(owner, dataset->id) && !leaves(owner, dataset->id)) leave(owner, dataset->id);
  }
  // Then what a run would restart from, if it is on the prefix as well: first those without an application.
  std::stable_partition(order.begin(), order.end(), [](const RunCache* owner) { return owner->ledger().over(); });
  for (RunCache* owner : order) {
    if (fits()) break;
    const std::optional<DatasetId> last = EvictNewest(Facts(*owner, flushed));
    if (last && !is_spare(owner, *last) && !leaves(owner, *last)) leave(owner, *last);
  }
  return found(std::move(room));
}

absl::StatusOr<CacheRoom::Room> CacheRoom::Find(RunCache& run, std::uint64_t bytes, const DatasetPtr& spare) const {
  Search search = Look(run, bytes, spare, /*flushed=*/false);
  if (search.fits) return std::move(search.room);
  for (RunCache* owner : runs_) owner->AskWhetherLost();
  std::vector<RunCache*> order = runs_;
  std::stable_partition(order.begin(), order.end(), [&](const RunCache* owner) { return owner == &run; });
  const std::string reserve =
      ceiling_ < bytes_max_
          ? fmt::format(" (cache.reserve leaves {} bytes of its file system to others)", context_.config.cache.reserve)
          : "";
  absl::Status full = ResourceExhausted(
      "the cache {} is full: {} bytes are wanted, {} of {} are in use by what may not go{}{}",
      context_.config.cache.path, bytes, search.used, limit(), reserve, WhoStays(order, search.room.leaving));
  if (Look(run, bytes, spare, /*flushed=*/true).fits) full.SetPayload(kToCome, absl::Cord());
  return full;
}

void CacheRoom::Changed() {
  if (waiting_.empty() || asking_) return;
  asking_ = true;
  context_.loop().Post([this] {
    asking_ = false;
    for (const auto& then : std::exchange(waiting_, {})) then();
  });
}

void CacheRoom::Make(const Room& room) {
  for (RunCache* owner : room.spares) owner->spares().Drop();
  for (const auto& [owner, aside] : room.asides) owner->asides().Remove(aside, "its room was needed");
  std::uint64_t left = room.left;
  for (const auto& [owner, dataset] : room.leaving) left -= owner->GiveRoom(dataset, left);
}

absl::Status CacheRoom::Reserve(RunCache& run, std::uint64_t bytes, const DatasetPtr& spare) {
  CAIRN_ASSIGN_OR_RETURN(const Room room, Find(run, bytes, spare));
  Make(room);
  return absl::OkStatus();
}

}  // namespace cairn
