#include "daemon/core/run_cache.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "daemon/core/descriptor.h"
#include "daemon/core/facts.h"
#include "daemon/policy/policy.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/names.h"

namespace cairn {
namespace {

// Whose part, of those here, or of those elsewhere, the file belongs to. `name`: below the dataset's folder.
std::optional<Rank> RankOf(const Dataset& dataset, bool elsewhere, const std::string& name) {
  for (Rank rank = 0; rank < dataset.parts.size(); ++rank) {
    const Part& part = dataset.parts[rank];
    if (part.elsewhere != elsewhere || !part.known() || !part.stored()) continue;
    const auto& files = part.catalogue.file();
    const auto is_it = [&name](const catalogue::FileEntry& entry) { return entry.name() == name; };
    if (name == CatalogueName(rank) || std::ranges::any_of(files, is_it)) return rank;
  }
  return std::nullopt;
}

}  // namespace

RunCache::RunCache(const Context& context, const Given& given, Reports reports)
    : context_(context),
      given_(given),
      reports_(std::move(reports)),
      asides_(context, given.run_name, given.cache, given.ledger, given.folders),
      spares_(context, given.cache, given.ledger, given.folders) {}

std::uint64_t RunCache::BytesUsed() const {
  std::uint64_t used = asides_.bytes() + spares_.bytes();
  for (const auto& [id, dataset] : ledger().InPlay()) {
    if (dataset->in_cache() || dataset->cache == Place::kArriving) used += dataset->bytes_here();
  }
  return used;
}

std::uint64_t RunCache::BytesOccupied() const {
  const bool shares = given_.cache->shares_extents();
  std::uint64_t sum = 0, largest = 0, alone = 0;
  for (const auto& [id, dataset] : ledger().InPlay()) {
    const bool arriving = dataset->cache == Place::kArriving;  // a rank's file has its blocks from the begin
    if (!dataset->in_cache() && !arriving) continue;
    // Files share nothing with what is older, nor does what arrives without a base. Of what is whole nobody remembers
    // whether it had one: it is taken to share, since what is counted too low leaves rather more of the disk free.
    if (shares && (dataset->kind.files || (arriving && !given_.bases.PlanOf(id)))) {
      alone += dataset->bytes_here();
      continue;
    }
    sum += dataset->bytes_here();
    if (arriving) continue;
    largest = std::max(largest, dataset->bytes_here());
  }
  return asides_.bytes() + spares_.bytes() + (shares ? alone + largest : sum);
}

// --- Room for what is to come ---

DatasetPtr RunCache::SpareFor(std::uint64_t rank_bytes, std::uint32_t nranks) const {
  if (!given_.bases.KeepsSpare()) return nullptr;
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(rank_bytes, std::uint64_t{nranks}, &bytes)) return nullptr;
  // Ranks may differ in size: the last dataset of as many ranks tells more than one of them.
  const Datasets& datasets = ledger().InPlay();
  const auto last = std::find_if(datasets.rbegin(), datasets.rend(), [nranks](const auto& item) {
    return item.second->in_cache() && !item.second->kind.files && item.second->nranks == nranks;
  });
  if (last != datasets.rend()) bytes = std::max(rank_bytes, last->second->bytes_here());
  const std::uint64_t used = given_.room.BytesUsed() - given_.room.BytesRemovable();
  const std::uint64_t room = given_.room.limit() - std::min(used, given_.room.limit());
  const Config& config = context_.config;
  const std::optional<DatasetId> spare =
      ChooseSpare(FactsOf(ledger(), config.flush), config.cache.keep, config.flush, bytes - std::min(bytes, room));
  return spare ? ledger().Get(*spare) : nullptr;
}

void RunCache::GiveFiles(const DatasetPtr& spare, DatasetId to) {
  if (!spare->in_cache()) return;
  given_.bases.Give(*spare, to);
  Leave(spare, fmt::format("dataset {} is written into its files", to));
}

void RunCache::RemoveFolder(DatasetId id, std::uint64_t kept_bytes, std::function<void()> then) {
  const std::uint64_t room = given_.room.limit() - std::min(given_.room.BytesUsed(), given_.room.limit());
  spares_.RemoveFolder(id, std::min(kept_bytes, room), std::move(then));
}

// --- Out of it ---

std::uint64_t RunCache::Evict(const DatasetPtr& dataset, const std::string& why, std::uint64_t spares_max) {
  if (!dataset || !dataset->in_cache()) return 0;
  const DatasetId id = dataset->id;
  const std::uint64_t spares = std::min(dataset->kept_bytes, spares_max);  // as of now: it keeps nothing any more then
  Leave(dataset, why);
  return spares_.RemoveFolder(id, spares, [this, id] { given_.ledger.FolderGone(id); });
}

std::uint64_t RunCache::GiveRoom(const DatasetPtr& dataset, std::uint64_t spares_max) {
  if (!given_.watch.MayForget()) return Evict(dataset, "its place was needed", spares_max);
  const std::string why = fmt::format("its place was needed, and the run is not at {} any more", given_.gate.path());
  if (dataset->in_cache() && !dataset->in_prefix()) {
    context_.Warn(fmt::format("run {}: dataset {} (step {}) is removed from the cache, which alone had it: {}",
                              given_.run_name, dataset->id, dataset->step, why));
  }
  return Evict(dataset, why, /*spares_max=*/0);
}

std::vector<DatasetPtr> RunCache::Forgettable() const {
  std::vector<DatasetPtr> all;
  if (!given_.watch.MayForget()) return all;
  for (const DatasetPtr& dataset : ledger().SinceOldestInPlay()) {
    const bool moving = dataset->prefix == Place::kArriving || dataset->prefix == Place::kLeaving;
    if (dataset->in_cache() && !moving && !dataset->pinned && dataset->readers == 0) all.push_back(dataset);
  }
  return all;
}

void RunCache::AskWhetherLost() {
  if (ledger().over() && !given_.watch.lost()) given_.watch.Look();
}

std::string RunCache::WhatFrees() const {
  if (!given_.watch.lost()) return "";
  return context_.config.cache.grace_ms == 0 ? "its run is not at the prefix any more: `cairn rm` removes it"
                                             : "its run is not at the prefix any more: goes when cache.grace is over";
}

void RunCache::PutAside(const DatasetPtr& dataset, const std::string& why) {
  Leave(dataset, why);
  given_.ledger.Forget(dataset->id, {.why = Gone::Why::kFailed, .message = why, .step = dataset->step});
  SetAsideWhole(dataset->id, CacheFolder::Why::kNumberTaken);
}

void RunCache::SetAsideWhole(DatasetId id, CacheFolder::Why why) {
  given_.folders.Change(
      id, [cache = given_.cache, id, why] { return cache->SetDatasetAside(id, why); }, [this] { asides_.Look(); });
}

// Nobody counts on it being in the cache any more; its files are still there.
void RunCache::Leave(const DatasetPtr& dataset, const std::string& why) {
  spdlog::info("run {}: dataset {} (step {}) leaves the cache: {}", given_.run_name, dataset->id, dataset->step, why);
  if (dataset->over_nodes()) reports_.on_parts_left(*dataset, Left::kRemoved, why);
  given_.ledger.LeftCache(*dataset, why);  // first: what an image that comes back sets off must not find it there
  given_.folders.Left(dataset->id);
  given_.images.DropKept(given_.run, dataset->id);
  context_.loop().Post([this] { reports_.on_left(); });
}

// While checkpoints come faster than they become whole, several begin before one can leave by `cache.keep`. Each is to
// find files to write over: a new file takes the disk half as long again.
std::size_t RunCache::SparesWanted() const {
  if (!given_.bases.KeepsSpare() || ledger().over()) return SparesKept();
  const auto arriving = std::ranges::count_if(ledger().InPlay(), [this](const auto& item) {
    const Dataset& dataset = *item.second;
    if (dataset.cache != Place::kArriving || dataset.kind.files || dataset.all_stored()) return false;
    // Those of several nodes stay on all of them until the home lets them go: not for this.
    const Launch* const launch = ledger().Find(dataset.launch);
    return !dataset.over_nodes() && (launch == nullptr || launch->elsewhere == 0);
  });
  if (arriving == 0 || given_.room.BytesUsed() > given_.room.limit()) return SparesKept();
  return SparesKept() + static_cast<std::size_t>(arriving);
}

std::size_t RunCache::SparesKept() const {
  return given_.bases.KeepsSpare() && given_.bases.Differential() && context_.config.cache.keep == 0 ? 1 : 0;
}

std::vector<DatasetId> RunCache::BeyondKeep() const {
  const Config& config = context_.config;
  return EvictBeyondKeep(FactsOf(ledger(), config.flush), config.cache.keep, config.flush, SparesKept());
}

void RunCache::ApplyPolicy() {
  const Config& config = context_.config;
  for (DatasetId id :
       EvictBeyondKeep(FactsOf(ledger(), config.flush), config.cache.keep, config.flush, SparesWanted())) {
    EvictOlder(ledger().Get(id), "cache.keep");
  }
  ApplyLinger();
  spares_.Update();
  given_.bases.Forget();
  given_.room.Changed();
}

void RunCache::ApplyLinger() {
  const std::uint64_t linger_ms = context_.config.cache.linger_ms;
  if (linger_ms == 0 || !ledger().over()) return idle_since_.reset();
  if (!idle_since_) {
    idle_since_ = context_.now();
    context_.loop().After(std::chrono::milliseconds(linger_ms), [this] { reports_.look_again(); });
  }
  const auto idle = std::chrono::duration_cast<std::chrono::milliseconds>(context_.now() - *idle_since_);
  for (DatasetId id :
       EvictLingering(FactsOf(ledger(), context_.config.flush), static_cast<std::uint64_t>(idle.count()), linger_ms)) {
    Evict(ledger().Get(id), "cache.linger");
  }
}

void RunCache::FoundDamaged(const DatasetPtr& dataset, const std::string& file, const absl::Status& why) {
  const std::string text(MessageOf(why));
  const std::string path = folder().DatasetPath(dataset->id) + "/";
  const auto rank = RankOf(*dataset, /*elsewhere=*/false, file.starts_with(path) ? file.substr(path.size()) : file);
  if (MayBeMadeAnew(*dataset)) return rank ? LosePart(dataset, *rank, text) : LoseParts(dataset, text);
  // It is for the home to say whether others keep enough.
  const bool one_of_several = rank && dataset->in_cache() && dataset->followed && !LiesHereAlone(*dataset, *rank);
  if (one_of_several && dataset->parts[*rank].keeps) {
    reports_.on_part_damaged(*dataset, *rank, text);
    return LosePart(dataset, *rank, text);
  }
  if (dataset->in_cache() && dataset->over_nodes()) reports_.on_parts_left(*dataset, Left::kDamaged, text);
  if (dataset->in_cache()) given_.ledger.CacheDamaged(*dataset, text);
  given_.bases.Distrust();
  SetAside(*dataset, file, text);
}

void RunCache::LoseParts(const DatasetPtr& dataset, const std::string& why) {
  context_.Warn(fmt::format("run {}: dataset {} (step {}): its parts in this cache go aside: {}", given_.run_name,
                            dataset->id, dataset->step, why));
  given_.ledger.OwnPartsLost(*dataset);
  given_.folders.Left(dataset->id);
  given_.bases.Distrust();
  given_.images.DropKept(given_.run, dataset->id);
  SetAsideWhole(dataset->id, CacheFolder::Why::kDamaged);
  reports_.on_parts_lost();
}

bool RunCache::LiesHereAlone(const Dataset& dataset, Rank rank) const {
  for (Rank other = 0; other < dataset.parts.size(); ++other) {
    if (other != rank && !dataset.parts[other].elsewhere) return false;
  }
  return true;
}

void RunCache::LosePart(const DatasetPtr& dataset, Rank rank, const std::string& why) {
  if (dataset->parts[rank].elsewhere) return;  // it has gone already
  if (LiesHereAlone(*dataset, rank)) return LoseParts(dataset, why);
  context_.Warn(fmt::format("run {}: dataset {} (step {}): rank {}'s part in this cache goes aside: {}",
                            given_.run_name, dataset->id, dataset->step, rank, why));
  given_.ledger.PartLost(*dataset, rank);
  given_.bases.Distrust();
  given_.images.DropKept(given_.run, dataset->id, rank);
  const auto gone = std::make_shared<absl::Status>();
  const auto take_out = [cache = given_.cache, id = dataset->id, rank, gone] {
    return *gone = cache->SetRankAside(id, rank);
  };
  given_.folders.Change(dataset->id, take_out, [this, dataset, gone] {
    asides_.Look();
    // It would be believed by the next start: then none of it is.
    if (gone->ok() || !given_.ledger.Has(dataset) || !dataset->in_cache()) return;
    const std::string text(MessageOf(*gone));
    if (!dataset->followed) return LoseParts(dataset, text);
    reports_.on_parts_left(*dataset, Left::kDamaged, text);
    given_.ledger.CacheDamaged(*dataset, text);
    SetAsideWhole(dataset->id, CacheFolder::Why::kDamaged);
  });
  reports_.on_parts_lost();
}

bool RunCache::MakeAnew(const DatasetPtr& dataset, const std::string& file, const std::string& why) {
  if (!MayBeMadeAnew(*dataset)) return false;
  const std::string folder = "/" + RecordsFolderName(dataset->id) + "/";
  const auto rank = RankOf(*dataset, /*elsewhere=*/true, file.starts_with(folder) ? file.substr(folder.size()) : file);
  if (!rank) return dataset->unknown > 0;  // its own daemon has said so already
  context_.Warn(fmt::format("run {}: dataset {} (step {}): rank {}'s part is bad: {}", given_.run_name, dataset->id,
                            dataset->step, *rank, why));
  given_.ledger.PartIsBad(*dataset, *rank);
  reports_.on_parts_lost();
  return true;
}

void RunCache::GiveUpParts(const DatasetPtr& dataset, const std::string& why) {
  if (!dataset->in_cache()) return;
  context_.Warn(fmt::format("run {}: dataset {} (step {}): a part of it is damaged: {}", given_.run_name, dataset->id,
                            dataset->step, why));
  reports_.on_parts_left(*dataset, Left::kUseless, why);
  given_.ledger.CacheDamaged(*dataset, why);
  given_.bases.Distrust();
  given_.images.DropKept(given_.run, dataset->id);
  SetAsideWhole(dataset->id, CacheFolder::Why::kDamaged);
}

void RunCache::SetAside(const Dataset& dataset, const std::string& file, const std::string& why) {
  given_.folders.Change(
      dataset.id, [cache = given_.cache, id = dataset.id, file, why] { return cache->SetAside(id, file, why); },
      [this] { asides_.Look(); });
}

// --- Into it again ---

void RunCache::RefetchNoted(const DatasetPtr& dataset, std::function<void()> then) {
  if (context_.quiescing() || dataset->readers > 0) return;
  if (to_refetch_.erase(dataset->id) == 0 || dataset->in_cache()) return;
  if (!dataset->in_prefix() && !dataset->in_folder()) return;
  Refetch(dataset, /*waited_for=*/false,
          [this, id = dataset->id, then = std::move(then)](const FetchResult& refetched) {
            if (refetched.status.ok()) {
              spdlog::info("run {}: dataset {} is whole in the cache again", given_.run_name, id);
            } else {
              context_.Warn(fmt::format("run {}: dataset {} could not be made anew in the cache: {}", given_.run_name,
                                        id, MessageOf(refetched.status)));
            }
            then();
          });
}

void RunCache::Refetch(const DatasetPtr& dataset, bool waited_for, Then then) {
  auto [under_way, first] = refetching_.try_emplace(dataset->id);
  under_way->second.tell.push_back(std::move(then));
  under_way->second.waited_for |= waited_for;
  if (waited_for) fetching_.waited_for = true;
  if (!first) return;  // two at once would take the folder from each other
  // Before it begins: what is damaged in its place may give the room.
  const absl::StatusOr<DamagedCopy> copy = ReserveForRefetch(dataset);
  const bool in_place = dataset->in_cache();
  given_.ledger.RefetchBegan(*dataset);
  given_.folders.Left(dataset->id);
  if (!copy.ok()) {
    given_.ledger.RefetchFailed(*dataset);
    if (in_place) SetAsideWhole(dataset->id, CacheFolder::Why::kDamaged);
    return context_.loop().Post([this, id = dataset->id, why = copy.status()] { RefetchEnded(id, {.status = why}); });
  }
  given_.ledger.ReadBegan(*dataset);
  const auto start = [this, dataset, copy = *copy] {
    // Whose copy it is must be known to the next daemon: it goes when SCR's entry in the index has gone.
    if (!dataset->foreign) return ClearPlace(dataset, copy);
    given_.record.Store([this, dataset, copy](const absl::Status&) { ClearPlace(dataset, copy); });
  };
  given_.folders.WhenUnchanged(dataset->id, start);
}

absl::StatusOr<RunCache::DamagedCopy> RunCache::ReserveForRefetch(const DatasetPtr& dataset) {
  const auto for_both = FindRoom(dataset->bytes());
  if (!dataset->in_cache() || (for_both.ok() && for_both->leaving.size() == for_both->unneeded)) {
    CAIRN_RETURN_IF_ERROR(for_both.status());
    CacheRoom::Make(*for_both);
    return DamagedCopy::kStays;
  }
  CAIRN_RETURN_IF_ERROR(Reserve(dataset->bytes(), dataset));
  spdlog::info("run {}: dataset {}: its damaged copy is removed from the cache: its room was needed", given_.run_name,
               dataset->id);
  return DamagedCopy::kGoes;
}

void RunCache::ClearPlace(const DatasetPtr& dataset, DamagedCopy copy) {
  auto clear = [cache = given_.cache, id = dataset->id, copy] {
    return copy == DamagedCopy::kStays ? cache->SetDatasetAside(id) : cache->Remove(id);
  };
  context_.OnCache(std::move(clear), [this, dataset](const absl::Status& cleared) {
    asides_.Look();  // what lay there in place has a name of its own now
    if (cleared.ok()) return Fetch(dataset);
    Fetched(dataset, {.status = cleared});
  });
}

bool RunCache::ComesFromFolder(const Dataset& dataset) const {
  return dataset.in_folder() && !(dataset.in_prefix() && given_.gate.prefix());
}

void RunCache::Fetch(const DatasetPtr& dataset) {
  const auto fetch = [this, cache = given_.cache, catalogues = CataloguesOf(*dataset),
                      begun = DescriptorOf(*dataset, false),
                      complete = DescriptorOf(*dataset, true)](const FetchFrom& from) {
    return FetchDataset(from, *cache, catalogues, begun, complete, throttle_, fetching_);
  };
  const auto fetched = [this, dataset](const FetchResult& result) { Fetched(dataset, result); };
  // One that gives way must not have a thread that a client waits for.
  const bool waited_for = refetching_.at(dataset->id).waited_for;
  const auto aside = [](const std::string& lane) { return lane + " to the cache"; };
  if (ComesFromFolder(*dataset)) {
    const Given::InFolder there = given_.in_folder(dataset->id);
    const auto path_of = [path = there.path](const catalogue::FileEntry& file) { return path + "/" + file.name(); };
    return RunBlocking(
        waited_for ? context_.env.pools.far : context_.env.pools.flush, waited_for ? there.lane : aside(there.lane),
        context_.loop(), [fetch, path_of, &disk = there.disk] { return fetch({.disk = disk, .path_of = path_of}); },
        fetched);
  }
  const std::shared_ptr<Prefix> prefix = given_.gate.prefix();
  if (!prefix) return Fetched(dataset, {.status = Unavailable("{} is not in reach any more", given_.gate.path())});
  const auto path_of = [prefix](const catalogue::FileEntry& file) { return prefix->FilePath(file.prefix_name()); };
  const std::string& path = given_.gate.path();
  RunBlocking(
      waited_for ? context_.env.pools.prefix : context_.env.pools.flush, waited_for ? path : aside(path),
      context_.loop(),
      [fetch, path_of, &disk = context_.env.prefix_disk] { return fetch({.disk = disk, .path_of = path_of}); },
      fetched);
}

void RunCache::Fetched(const DatasetPtr& dataset, const FetchResult& refetched) {
  given_.ledger.ReadEnded(*dataset);
  if (refetched.status.ok()) {
    given_.ledger.Refetched(*dataset);
    given_.folders.Known(dataset->id);
  } else {
    given_.ledger.RefetchFailed(*dataset);
  }
  RefetchEnded(dataset->id, refetched);
}

void RunCache::RefetchEnded(DatasetId id, const FetchResult& refetched) {
  to_refetch_.erase(id);
  const auto ended = std::move(refetching_.extract(id).mapped());
  const auto is_waited_for = [](const auto& item) { return item.second.waited_for; };
  fetching_.waited_for = std::ranges::any_of(refetching_, is_waited_for);
  for (const Then& next : ended.tell) next(refetched);
}

}  // namespace cairn
