#include "daemon/core/inventory.h"

#include <spdlog/spdlog.h>

#include "storage/base/status.h"
#include "storage/place/cache/redundancy_record.h"
#include "storage/place/names.h"

namespace cairn {
namespace {

constexpr std::size_t kDescribedAtOpen = 8;

scr::IndexEntry EntryOf(const scr::Descriptor& descriptor) {
  scr::IndexEntry entry;
  entry.descriptor = descriptor;
  return entry;
}

Dataset DatasetOf(DatasetId id, const scr::Descriptor& descriptor) {
  Dataset dataset;
  dataset.id = id;
  dataset.launch = descriptor.launch.value_or(0);
  dataset.mark = descriptor.mark;
  dataset.step = descriptor.step.value_or(0);
  dataset.kind.files = descriptor.own_files;
  dataset.kind.checkpoint = descriptor.checkpoint;
  dataset.kind.output = descriptor.output;
  dataset.created_us = descriptor.created_us;
  dataset.unverified_files = descriptor.unverified_files;
  dataset.user = descriptor.user;
  dataset.job = descriptor.job_id;
  if (descriptor.name != DatasetName(id)) dataset.name = descriptor.name;
  return dataset;
}

}  // namespace

absl::StatusOr<CacheContents> LookAtCache(CacheFolder& cache) {
  CacheContents contents;
  CAIRN_ASSIGN_OR_RETURN(contents.load, cache.Load());
  const absl::StatusOr<kvtree::Tree> record = cache.LoadFlushRecord();
  if (record.ok()) {
    contents.notes = DecodeNodeRecord(*record);
  } else {
    contents.load.warnings.push_back(fmt::format("{}: {}", cache.path(), MessageOf(record.status())));
  }
  return contents;
}

absl::StatusOr<PrefixLook> LookAtPrefix(Prefix& prefix, CacheFolder& folder, const std::set<DatasetId>& known,
                                        const std::vector<CachedOrigin>& cached) {
  PrefixLook look;
  CAIRN_ASSIGN_OR_RETURN(look.found, prefix.Contents());
  CAIRN_ASSIGN_OR_RETURN(std::vector<ScrCached> scrs, folder.FindScrs());
  for (ScrCached& one : scrs) {
    CAIRN_ASSIGN_OR_RETURN(const bool taken_out, prefix.WasTakenOut(one.descriptor));
    one.whole = one.whole && !taken_out;
    look.scrs.push_back(std::move(one));
  }
  for (const CachedOrigin& origin : cached) {
    using Origin = Prefix::Origin;
    if (origin.mark.empty()) {
      look.origins[origin.id] = origin.of_path ? Origin::kOurs : Origin::kAnothers;
    } else {
      CAIRN_ASSIGN_OR_RETURN(look.origins[origin.id], prefix.OriginOf(origin.launch, origin.mark));
    }
    const bool removed = look.origins[origin.id] == Prefix::Origin::kOurs && look.found.removed.contains(origin.id);
    const absl::StatusOr<bool> by_user = removed ? prefix.WasRemovedByUser(origin.id) : false;
    if (absl::IsDataLoss(by_user.status())) {  // it stays here, and comes back nowhere
      look.warnings.push_back(fmt::format("dataset {}: {}", origin.id, MessageOf(by_user.status())));
    } else if (!by_user.ok()) {
      return by_user.status();
    } else if (*by_user) {
      look.removed_by_user.insert(origin.id);
    }
  }
  for (std::string& warning : prefix.TakeWarnings()) look.warnings.push_back(std::move(warning));
  const auto& datasets = look.found.datasets;
  std::size_t read = 0;
  for (auto at = datasets.rbegin(); at != datasets.rend() && read < kDescribedAtOpen; ++at) {
    const DatasetId id = at->first;
    if (known.contains(id) || !at->second.by_cairn) continue;  // SCR's own are described by reading all their data
    ++read;
    auto catalogues = prefix.Catalogues(id);
    if (catalogues.ok()) {
      look.catalogues[id] = *std::move(catalogues);
    } else {
      look.warnings.push_back(fmt::format("dataset {}: {}", id, MessageOf(catalogues.status())));
    }
  }
  return look;
}

// --- The cache ---

void Inventory::AdoptCache(CacheContents contents) {
  for (const std::string& warning : contents.load.warnings) context_.Warn(warning);
  given_.ids.Seen(contents.load.highest_id);
  TakeScrs(std::move(contents.load.scrs));
  given_.cache.asides().Are(std::move(contents.load.asides));
  for (auto& [id, cached] : contents.load.whole) {
    const auto note = contents.notes.find(id);
    const bool foreign = note != contents.notes.end() && note->second.foreign;
    if (const DatasetPtr dataset = given_.ledger.Get(id)) {
      given_.ledger.FoundInCache(*dataset);
    } else {
      AdoptCached(id, std::move(cached), foreign);
    }
    given_.folders.Known(id);
  }
  // What this node knows of the prefix without asking it: it may be out of reach now.
  given_.record.Adopt(contents.notes);
  const std::set<DatasetId>& begun = given_.record.begun();
  for (const auto& [id, note] : contents.notes) {
    const DatasetPtr dataset = given_.ledger.Get(id);
    if (!dataset) continue;
    Ledger::Noted noted = NotedOf(note);
    const bool newer_begun = begun.upper_bound(id) != begun.end();
    if (noted.standing == Standing::kCurrent && noted.in_prefix && dataset->kind.files && newer_begun) {
      noted.standing = Standing::kDoubted;
    }
    given_.ledger.AdoptNoted(*dataset, noted);
  }
}

void Inventory::AdoptCached(DatasetId id, CachedDataset cached, bool foreign) {
  Dataset dataset = DatasetOf(id, cached.descriptor);
  dataset.foreign = foreign;
  dataset.cache = Place::kWhole;
  PutPartsHere(dataset, *cached.descriptor.ranks, std::move(cached.ranks));
  const DatasetPtr adopted = given_.ledger.Adopt(std::move(dataset));
  given_.ledger.KeptHere(*adopted, cached.redundancy);
}

// --- The prefix ---

Inventory::Known Inventory::WhatIsKnown() const {
  Known known;
  for (const auto& [id, dataset] : given_.ledger.datasets()) {
    known.known.insert(id);
    if (dataset->in_prefix() || marking_failed_.contains(id)) known.had.insert(id);
  }
  for (const auto& [id, gone] : given_.ledger.gone()) {
    if (!taken_out_.contains(id)) known.known.insert(id);
  }
  known.cached = CachedOrigins();
  return known;
}

// What was adopted or is SCR's own has no launch: it is of this run, and of its directory.
std::vector<CachedOrigin> Inventory::CachedOrigins() const {
  std::vector<CachedOrigin> origins;
  for (const auto& [id, dataset] : given_.ledger.InPlay()) {
    if (!(dataset->in_cache() || dataset->in_folder()) || dataset->launch == 0) continue;
    if (provisional_(dataset->mark)) continue;  // its launch is not on the prefix yet
    origins.push_back({.id = id,
                       .launch = dataset->launch,
                       .mark = dataset->mark,
                       .of_path = dataset->standing != Standing::kAnothers});
  }
  return origins;
}

void Inventory::AdoptOrigins(const PrefixLook& look) {
  for (const auto& [id, origin] : look.origins) {
    const DatasetPtr dataset = given_.ledger.Get(id);
    if (!dataset || !(dataset->in_cache() || dataset->in_folder())) continue;
    if (origin == Prefix::Origin::kOurs) {  // what was fenced there may be committed under the next launch
      given_.ledger.CountsAgain(*dataset);
      continue;
    }
    if (origin == Prefix::Origin::kAbandoned) {  // when it was another's, its launch was not there yet
      given_.ledger.CountsAgain(*dataset);
      given_.ledger.Fenced(*dataset, /*there=*/false);
    } else if (!dataset->of_no_line()) {
      context_.Warn(
          fmt::format("run {}: dataset {} (step {}) of the cache is not of {}: launch {} there is another, or "
                      "none; it is not restored",
                      given_.run_name, id, dataset->step, given_.gate.path(), dataset->launch));
      given_.ledger.IsAnothers(*dataset);
    }
  }
}

// By `cairn rm` at another node, which this daemon has not heard of: it was not there, or had no link.
void Inventory::LetGoOfRemoved(const PrefixLook& look) {
  for (const DatasetId id : look.removed_by_user) {
    const DatasetPtr dataset = given_.ledger.Get(id);
    if (!dataset || !(dataset->in_cache() || dataset->in_folder()) || dataset->in_prefix()) continue;
    if (dataset->readers > 0 || dataset->pinned || flushing_(id)) continue;
    spdlog::info("run {}: dataset {} (step {}) was removed by the user, at another node", given_.run_name, id,
                 dataset->step);
    given_.cache.Evict(dataset, "removed by the user");
    given_.ledger.Forget(id, {.why = Gone::Why::kRemoved, .message = "was removed", .step = dataset->step});
  }
}

// Whole on the prefix, but under a launch that another had followed: chosen by number only.
void Inventory::AdoptFenced(const PrefixLook& look) {
  for (const auto& [id, found] : look.found.fenced) {
    given_.ids.Seen(id);
    DatasetPtr dataset = given_.ledger.Get(id);
    if (dataset && (IsAnother(*dataset, found.descriptor) || flushing_(id))) continue;
    // Whole in the cache: whoever serves the newest launch commits it under that.
    const bool in_cache =
        dataset && (dataset->in_cache() || dataset->in_folder() || dataset->cache == Place::kArriving);
    if (in_cache && !dataset->of_no_line()) {
      given_.ledger.NotOnPrefix(*dataset);
      continue;
    }
    if (!dataset && given_.ledger.FindGone(id) == nullptr && found.descriptor.ranks.value_or(0) > 0) {
      dataset = AdoptNew(id, found, nullptr);
    }
    if (dataset) given_.ledger.Fenced(*dataset, /*there=*/true);
  }
  for (const auto& [id, found] : look.found.datasets) {
    const DatasetPtr dataset = given_.ledger.Get(id);
    if (dataset && dataset->standing == Standing::kFenced && !IsAnother(*dataset, found.descriptor)) {
      given_.ledger.CountsAgain(*dataset);
    }
  }
}

void Inventory::AdoptPrefix(const PrefixLook& look) {
  prefix_adopted_ = true;
  TakeNumbers(look.found);
  const std::map<DatasetId, DatasetPtr> known = given_.ledger.datasets();
  for (const auto& [id, dataset] : known) {
    // Removed there by someone else, unless this daemon has put it there after that was looked up.
    if (!look.found.datasets.contains(id) && !committed_here_.contains(id)) TakenOut(dataset, look.found);
  }
  TakeRules(look);
  AdoptOrigins(look);
  LetGoOfRemoved(look);
  AdoptFenced(look);
  for (const auto& [id, found] : look.found.datasets) AdoptOne(id, look);
  AdoptRejected(look, /*had=*/{});
}

void Inventory::TakeRules(const PrefixLook& look) {
  bound_ = look.found.bound;
  bound_set_us_ = look.found.bound_set_us;
  unusable_ = look.found.bad;
  refused_ = look.found.refused;
  TakeScrs(look.scrs);
}

void Inventory::AdoptSince(const PrefixLook& look, const std::set<DatasetId>& had) {
  const std::set<DatasetId> freed = TakeNumbers(look.found);
  TakeRules(look);
  AdoptOrigins(look);
  LetGoOfRemoved(look);
  AdoptFenced(look);
  for (const DatasetId id : freed) {
    if (look.found.datasets.contains(id)) AdoptOne(id, look);
  }
  for (const DatasetId id : had) {
    const DatasetPtr dataset = given_.ledger.Get(id);
    if (!dataset || !dataset->in_prefix() || look.found.datasets.contains(id)) continue;
    if (look.found.fenced.contains(id)) continue;
    if (dataset->readers > 0 || flushing_(id)) continue;
    TakenOut(dataset, look.found);
    spdlog::info("run {}: dataset {} (step {}) was taken out of the prefix by someone else", given_.run_name, id,
                 dataset->step);
  }
  DatasetId newest = 0;
  for (const auto& [id, found] : look.found.datasets) {
    if (!AdoptChange(id, look, had.contains(id))) continue;
    newest = id;
    spdlog::info("run {}: dataset {} (step {}) was committed on the prefix by someone else", given_.run_name, id,
                 found.descriptor.step.value_or(0));
  }
  AdoptRejected(look, had);
  // The newer of two datasets has the higher id: those that were reserved before are not given out any more.
  given_.ids.NewestSeen(newest);
}

bool Inventory::IsOnlyCached(const Dataset& dataset) {
  const bool cached = dataset.in_cache() || dataset.in_folder() || dataset.cache == Place::kArriving;
  return cached && dataset.prefix == Place::kAbsent && dataset.standing < Standing::kGaveWay;
}

// Whether someone else has committed the dataset since the prefix was last looked at.
bool Inventory::AdoptChange(DatasetId id, const PrefixLook& look, bool had) {
  const CommittedDataset& found = look.found.datasets.at(id);
  const DatasetPtr dataset = given_.ledger.Get(id);
  if (dataset && IsAnother(*dataset, found.descriptor)) {
    AdoptOne(id, look);
    return false;
  }
  const bool back = !had && taken_out_.erase(id) > 0;
  if (dataset && back) {
    given_.ledger.CameBack(*dataset);
  } else if (dataset && IsOnlyCached(*dataset) && !had && !flushing_(id)) {
    // Two nodes' caches have it, and the other's daemon was first.
    given_.ledger.SeenOnPrefix(*dataset, found.by_cairn);
  } else if (dataset && dataset->damaged() && !had && !dataset->flush_dropped() && !flushing_(id)) {
    // Its copy there was bad, and someone has put that right since: the index says so.
    given_.ledger.SeenOnPrefix(*dataset, found.by_cairn);
    given_.ledger.CataloguesChanged(*dataset);
  }
  if (dataset || (!back && given_.ledger.FindGone(id) != nullptr)) return false;
  AdoptOne(id, look);
  return given_.ledger.Get(id) != nullptr;
}

// The index does not offer it any more. What someone has taken out of it, or an application under SCR has refused, is
// not chosen from the cache either; what failed on the prefix may be whole here.
void Inventory::TakenOut(const DatasetPtr& dataset, const PrefixContents& found) {
  const DatasetId id = dataset->id;
  // What this daemon has removed itself was not there any more for it.
  const bool was_there = dataset->in_prefix();
  if (found.fenced.contains(id)) return;
  const auto scrs = found.scrs.find(id);  // of another of that number its entry says nothing
  if (scrs != found.scrs.end() && IsAnother(*dataset, scrs->second.descriptor)) return;
  const bool removed = was_there && found.removed.contains(id);
  // The daemon before this one withdrew it for a newer one's files, and did not live to note that.
  const bool gave_way = removed && dataset->standing == Standing::kDoubted;
  // Of what SCR wrote the cache holds copies only, and no commit of Cairn's says that it was there.
  const bool scrs_entry_gone = dataset->foreign && !found.failed.contains(id) && !found.bad.contains(id);
  const bool dropped =
      found.dropped.contains(id) || found.refused.contains(id) || scrs_entry_gone || (removed && !gave_way);
  given_.ledger.NotOnPrefix(*dataset);
  if (gave_way && dataset->in_cache()) {
    given_.ledger.GaveWay(*dataset, /*to=*/0, "");  // to which one is not known; in the cache it stays
    given_.record.Store();
  }
  if (dropped) GiveUp(dataset, "it was taken out of the prefix' index");
  if (!was_there || dataset->in_cache() || dataset->in_folder() || !given_.ledger.Has(dataset)) return;
  taken_out_.insert(id);
  given_.ledger.Forget(id, {.why = Gone::Why::kRemoved,
                            .message = "is not in the prefix' index any more, or failed there",
                            .step = dataset->step});
}

void Inventory::GiveUp(const DatasetPtr& dataset, const std::string& why) {
  taken_out_.insert(dataset->id);
  given_.ledger.TakenOut(*dataset);
  if (dataset->readers == 0 && !dataset->pinned) given_.cache.Evict(dataset, why);
}

// What this node has noted as rejected, and what the prefix says of it: that it was told, that someone has added it
// again since, or that it was not told yet. `had`: as AdoptSince; a look that is older than the mark tells nothing.
void Inventory::AdoptRejected(const PrefixLook& look, const std::set<DatasetId>& had) {
  NodeRecord& record = given_.record;
  if (record.rejected().empty()) return;
  for (const auto& [id, marked] : std::map(record.rejected())) {
    const DatasetPtr dataset = given_.ledger.Get(id);
    const auto found = look.found.datasets.find(id);
    if (found == look.found.datasets.end()) {
      if (refused_.contains(id)) record.RejectionMarked(id);
      // It is nowhere any more; but another node's cache may have it, and not know.
      const bool nowhere = !dataset && context_.env.peers == nullptr;
      if (!refused_.contains(id) && nowhere && marked) record.NotRejected(id);
    } else if (dataset && IsAnother(*dataset, found->second.descriptor)) {
      continue;
    } else if (marked && !had.contains(id)) {
      record.NotRejected(id);
      taken_out_.erase(id);
      if (dataset) given_.ledger.CameBack(*dataset);
    } else if (!marked && dataset) {
      given_.ledger.TakenOut(*dataset);
      Refuse(dataset, [](const absl::Status&) {});  // else at the next look
    }
  }
  record.Store();
}

void Inventory::AdoptOne(DatasetId id, const PrefixLook& look) {
  const CommittedDataset& found = look.found.datasets.at(id);
  // One of the newest without catalogues has been warned of. Those of SCR's own are made when they are asked for.
  const bool older = look.catalogues.empty() || id < look.catalogues.begin()->first;
  const bool usable =
      look.catalogues.contains(id) || ((older || !found.by_cairn) && found.descriptor.ranks.value_or(0) > 0);
  given_.ids.Seen(id);
  if (const DatasetPtr dataset = given_.ledger.Get(id); dataset && !IsOfAnotherPrefix(dataset, found)) {
    if (IsAnother(*dataset, found.descriptor)) {
      if (found.by_cairn) IdTaken(dataset, look.found, EntryOf(found.descriptor));
    } else if (usable) {
      given_.ledger.SeenOnPrefix(*dataset, found.by_cairn);
    } else {
      given_.ledger.ListedOnPrefix(*dataset, found.by_cairn);
    }
  }
  if (!usable || given_.ledger.Get(id)) return;
  const auto ranks = look.catalogues.find(id);
  AdoptNew(id, found, ranks == look.catalogues.end() ? nullptr : &ranks->second);
}

// The cache has a dataset of this number that is not of this prefix, and the prefix one of its own: the cache's goes
// aside, with all its bytes.
bool Inventory::IsOfAnotherPrefix(const DatasetPtr& dataset, const CommittedDataset& found) {
  if (dataset->standing != Standing::kAnothers || !IsAnother(*dataset, found.descriptor)) return false;
  if (dataset->readers > 0 || dataset->in_prefix()) return false;
  if (dataset->in_cache()) {
    given_.cache.PutAside(dataset, "it was another prefix's");
  } else {
    given_.ledger.Forget(dataset->id,
                         {.why = Gone::Why::kRemoved, .message = "was another prefix's", .step = dataset->step});
  }
  return true;
}

DatasetPtr Inventory::AdoptNew(DatasetId id, const CommittedDataset& found,
                               const std::vector<catalogue::Catalogue>* catalogues) {
  Dataset dataset = DatasetOf(id, found.descriptor);
  dataset.prefix = Place::kWhole;
  dataset.foreign = !found.by_cairn;
  dataset.pinned = given_.record.IsPinned(id);
  if (catalogues != nullptr) {
    dataset.nranks = static_cast<std::uint32_t>(catalogues->size());
    for (const catalogue::Catalogue& catalogue : *catalogues) dataset.bytes_there += FileBytes(catalogue);
  } else {
    dataset.nranks = *found.descriptor.ranks;
    dataset.bytes_there = found.descriptor.bytes;
  }
  return given_.ledger.Adopt(std::move(dataset));
}

// --- Catalogues ---

void Inventory::Describe(const DatasetPtr& dataset, std::function<void(absl::Status)> then) {
  if (dataset->described()) return then(absl::OkStatus());
  if (!given_.gate.prefix()) return then(given_.gate.OutOfReach());
  given_.ledger.ForgetUnreadParts();
  auto [under_way, first] = describing_.try_emplace(dataset->id);
  under_way->second.push_back(std::move(then));
  if (!first) return;
  context_.OnPrefix(
      given_.gate.path(), [prefix = given_.gate.prefix(), id = dataset->id] { return prefix->Catalogues(id); },
      [this, dataset](const absl::StatusOr<std::vector<catalogue::Catalogue>>& catalogues) {
        absl::Status status = catalogues.status();
        if (status.ok() && catalogues->size() != dataset->nranks) {
          status = DataLoss("dataset {}: {} catalogues of {} ranks", dataset->id, catalogues->size(), dataset->nranks);
        }
        if (status.ok()) given_.ledger.Described(*dataset, *catalogues);
        const auto waiting = std::move(describing_.extract(dataset->id).mapped());
        for (const auto& told : waiting) told(status);
      });
}

// --- What SCR is told ---

void Inventory::Mark(DatasetId id, absl::Status (Prefix::*mark)(DatasetId), std::function<void()> then) {
  if (!given_.gate.prefix()) return then();
  context_.OnPrefix(
      given_.gate.path(), [prefix = given_.gate.prefix(), mark, id] { return (prefix.get()->*mark)(id); },
      [this, id, then = std::move(then)](const absl::Status& status) {
        if (!status.ok()) context_.Warn(fmt::format("dataset {}: {}", id, MessageOf(status)));
        then();
      });
}

void Inventory::MarkFailed(DatasetId id) {
  marking_failed_.insert(id);
  Mark(id, &Prefix::MarkFailed, [this, id] { marking_failed_.erase(id); });
}

void Inventory::Refuse(const DatasetPtr& dataset, std::function<void(absl::Status)> then) {
  context_.OnPrefix(
      given_.gate.path(), [prefix = given_.gate.prefix(), id = dataset->id] { return prefix->MarkRefused(id); },
      [this, dataset, then = std::move(then)](const absl::Status& marked) {
        if (!marked.ok() && !absl::IsNotFound(marked)) return then(marked);
        given_.record.RejectionMarked(dataset->id);
        if (marked.ok() && dataset->readers == 0) {  // else the next look finds it so
          given_.ledger.NotOnPrefix(*dataset);
          GiveUp(dataset, "the application has rejected it");
          if (!dataset->in_cache() && given_.ledger.Has(dataset)) {
            given_.ledger.Forget(dataset->id,
                                 {.why = Gone::Why::kRemoved, .message = "was rejected", .step = dataset->step});
          }
        }
        given_.record.Store(then);
      });
}

void Inventory::RejectedElsewhere(const DatasetPtr& dataset) {
  if (dataset->standing >= Standing::kTakenOut) return;
  spdlog::info("run {}: dataset {} (step {}) was rejected by the application, on another node", given_.run_name,
               dataset->id, dataset->step);
  given_.ledger.FlushCancelled(*dataset);
  given_.ledger.TakenOut(*dataset);
  given_.record.Rejected(dataset->id);
  given_.record.Store();
}

void Inventory::MarkFetched(DatasetId id) {
  Mark(id, &Prefix::MarkFetched);
}

void Inventory::MarkUnusable(const Launch& launch, DatasetId chosen) {
  for (auto at = unusable_.upper_bound(chosen); at != unusable_.end();) {
    if (launch.bound != 0 && at->first > launch.bound) break;
    MarkFailed(at->first);
    at = unusable_.erase(at);
  }
}

}  // namespace cairn
