// What the core knows of runs: from the cache's folders at a start, from the prefix when a run is first opened.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "daemon/core/core_impl.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

// Whether the prefix has another dataset under the id of one that is known. A launch gives out an id once; what no
// launch has made tells by its time.
bool IsAnother(const Dataset& known, const CommittedDataset& found) {
  const LaunchId launch = found.descriptor.launch.value_or(0);
  return known.launch != launch || (launch == 0 && known.created_us != found.descriptor.created_us);
}

bool IsCopyOfScrs(const Dataset& dataset) {
  return dataset.launch == 0 && !dataset.name.empty();
}

}  // namespace

absl::Status CoreImpl::LoadCachedRuns() {
  const std::string cache = config_.cache.path;
  CAIRN_RETURN_IF_ERROR(MakeDirectories(cache_disk_, cache, 0700));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<CacheFolder::Found> found,
                         CacheFolder::Find(cache_disk_, cache, process_.user));
  std::vector<std::string> warnings;  // one run's folder that cannot be read is no reason to leave the others alone
  std::vector<std::pair<CacheFolder::Found, Loaded>> loaded;
  for (const CacheFolder::Found& run : found) {
    auto folder = CacheFolder::Open(cache_disk_, cache, process_.user, run.run_name, run.run, run.prefix);
    if (!folder.ok()) {
      warnings.push_back(fmt::format("{}: {}", run.path, MessageOf(folder.status())));
      continue;
    }
    auto parts = LoadFolder(std::shared_ptr<CacheFolder>(std::move(*folder)));
    if (!parts.ok()) {
      warnings.push_back(fmt::format("{}: {}", run.path, MessageOf(parts.status())));
      continue;
    }
    loaded.emplace_back(run, std::move(*parts));
  }
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t free_bytes, cache_disk_.FreeBytes(cache));
  loop_.Run([&] {
    for (std::string& warning : warnings) Warn(std::move(warning));
    for (auto& [run, parts] : loaded) {
      const RunPtr known = AddRun(run.run, run.prefix, parts.cache);
      AdoptCached(known, std::move(parts));
    }
    cache_bytes_max_ = config_.cache.bytes_max;
    // Nine tenths of what we have or could have; the rest is for others on the same file system.
    if (cache_bytes_max_ == 0) cache_bytes_max_ = (free_bytes + CacheBytesOccupied()) / 10 * 9;
    for (auto& [id, run] : runs_) ApplyPolicy(run);
    for (auto& [id, run] : runs_) LookAtGrowing(run);
    for (auto& [id, run] : runs_) TellRunsApart(run->prefix_path);
  });
  return absl::OkStatus();
}

CoreImpl::RunPtr CoreImpl::AddRun(const RunId& id, const std::string& prefix_path, std::shared_ptr<CacheFolder> cache) {
  // The callback needs the run that owns the ledger that owns the callback: a weak pointer breaks the circle.
  auto self = std::make_shared<std::weak_ptr<Run>>();
  auto run = std::make_shared<Run>([this, self](DatasetPtr dataset, const std::string& why) {
    if (RunPtr owner = self->lock()) OnFailed(owner, dataset, why);
  });
  *self = run;
  run->id = id;
  run->name = BaseOf(prefix_path);
  run->prefix_path = prefix_path;
  run->cache = std::move(cache);
  run->flush_file = std::make_shared<FlushFile>(fmt::format("{}:{}", process_.host, run->cache->path()));
  runs_[id] = run;
  return run;
}

absl::StatusOr<CoreImpl::Loaded> CoreImpl::LoadFolder(std::shared_ptr<CacheFolder> cache) {
  Loaded loaded{.cache = std::move(cache), .load = {}, .record = {}};
  CAIRN_ASSIGN_OR_RETURN(loaded.load, loaded.cache->Load());
  auto record = loaded.cache->LoadFlushRecord();
  if (record.ok()) {
    loaded.record = *std::move(record);
  } else {
    loaded.load.warnings.push_back(fmt::format("{}: {}", loaded.cache->path(), MessageOf(record.status())));
  }
  return loaded;
}

void CoreImpl::AdoptCached(const RunPtr& run, Loaded loaded) {
  for (const std::string& warning : loaded.load.warnings) Warn(warning);
  run->highest_id = std::max(run->highest_id, loaded.load.highest_id);
  for (auto& [id, cached] : loaded.load.whole) {
    DatasetPtr dataset = run->ledger.Get(id);
    if (!dataset) {
      dataset = std::make_shared<Dataset>();
      dataset->id = id;
      dataset->launch = cached.descriptor.launch.value_or(0);
      dataset->step = cached.descriptor.step.value_or(0);
      dataset->nranks = static_cast<std::uint32_t>(cached.ranks.size());
      dataset->files = cached.descriptor.own_files;
      dataset->checkpoint = cached.descriptor.checkpoint;
      dataset->output = cached.descriptor.output;
      dataset->created_us = cached.descriptor.created_us;
      dataset->user = cached.descriptor.user;
      dataset->job = cached.descriptor.job_id;
      const kvtree::Tree* noted = loaded.record.FindPath({"DATASET", std::to_string(id)});
      dataset->foreign = noted != nullptr && noted->GetBool("FOREIGN").value_or(false);
      if (cached.descriptor.name != fmt::format("ckpt.{}", id)) dataset->name = cached.descriptor.name;
      dataset->parts.resize(cached.ranks.size());
      dataset->captured = dataset->local = dataset->nranks;
      for (Rank rank = 0; rank < dataset->nranks; ++rank) {
        Part& part = dataset->parts[rank];
        part.state = Part::State::kLocal;
        part.catalogue = std::move(cached.ranks[rank]);
        for (const catalogue::FileEntry& file : part.catalogue.file()) part.bytes += file.bytes();
      }
      run->ledger.Adopt(dataset);
    }
    dataset->in_cache = true;
    run->directories[id].ready = true;
  }
  // What this node knows of the prefix without asking it: it may be out of reach now.
  const kvtree::Tree* datasets = loaded.record.Find("DATASET");
  if (datasets == nullptr) return;
  for (const auto& [key, entry] : datasets->elements()) {
    const DatasetId id = std::strtoull(key.c_str(), nullptr, 10);
    if (entry.GetBool("BEGUN").value_or(false)) run->begun.insert(id);
    DatasetPtr dataset = run->ledger.Get(id);
    if (const kvtree::Tree* grown = entry.Find("GROWING")) {
      for (const auto& [name, nothing] : grown->elements()) run->growing[id].directories[name].placed = true;
      if (dataset) run->asked.insert(id);
    }
    if (!dataset) {
      if (entry.GetBool("PINNED").value_or(false)) run->pinned.insert(id);
      continue;
    }
    dataset->gave_way = entry.GetBool("GAVE_WAY").value_or(false);
    dataset->id_taken = entry.GetBool("ID_TAKEN").value_or(false);
    if (dataset->gave_way) run->flush_dropped.insert(id);
    dataset->in_prefix = entry.GetBool("PREFIX").value_or(false);
    dataset->pinned = entry.GetBool("PINNED").value_or(false);
    dataset->ordinal = entry.GetUnsigned("ORDINAL").value_or(0);
    if (entry.GetBool("DROPPED").value_or(false)) run->flush_dropped.insert(dataset->id);
    dataset->doubted = entry.GetBool("DOUBTED").value_or(false);
  }
  for (const auto& [id, dataset] : run->ledger.datasets()) {
    dataset->doubted |= dataset->files && dataset->in_prefix && run->begun.upper_bound(id) != run->begun.end();
  }
}

void CoreImpl::AdoptCommitted(const RunPtr& run, const Committed& committed) {
  const std::map<DatasetId, DatasetPtr> cached = run->ledger.datasets();
  for (const auto& [id, dataset] : cached) {
    // Removed there by someone else, unless this daemon has put it there after that was looked up.
    if (!committed.found.datasets.contains(id) && !run->flushed.contains(id)) TakenOut(run, dataset, committed);
  }
  run->bound = committed.found.bound;
  run->bound_set_us = committed.found.bound_set_us;
  run->bad = committed.found.bad;
  for (const auto& [id, found] : committed.found.datasets) AdoptOne(run, id, committed);
}

// The index does not offer it any more. What someone has taken out of it, or an application under SCR has refused, is
// not chosen from the cache either; what failed on the prefix may be whole here.
void CoreImpl::TakenOut(const RunPtr& run, const DatasetPtr& dataset, const Committed& committed) {
  const DatasetId id = dataset->id;
  const bool was_there = std::exchange(dataset->in_prefix, false);
  // What this daemon has removed itself was not there any more for it.
  const PrefixContents& found = committed.found;
  // Of what SCR wrote the cache holds copies only, and no commit of Cairn's says that it was there.
  const bool scrs_entry_gone = dataset->foreign && !found.failed.contains(id) && !found.bad.contains(id);
  const bool removed = was_there && found.removed.contains(id);
  // The daemon before this one withdrew it for a newer one's files, and did not live to note that.
  const bool gave_way = removed && std::exchange(dataset->doubted, false);
  dataset->dropped =
      found.dropped.contains(id) || found.refused.contains(id) || scrs_entry_gone || (removed && !gave_way);
  if (gave_way) {
    run->flush_dropped.insert(id);
    dataset->gave_way = true;
    StoreFlushRecord(run);
  }
  if (dataset->dropped) {
    run->taken_out.insert(id);
    run->flush_dropped.insert(id);
    dataset->gave_way = true;
    if (dataset->readers == 0 && !dataset->pinned) Evict(run, dataset, "it was taken out of the prefix' index");
  }
  if (!was_there || dataset->in_cache || !run->ledger.Get(id)) return;
  run->taken_out.insert(id);
  run->ledger.Forget(id, {.why = Gone::Why::kRemoved,
                          .message = "is not in the prefix' index any more, or failed there",
                          .step = dataset->step});
}

// What has come and gone since the prefix was last looked at; `had`: what was there when that began. Of what this
// daemon knows, it knows better what has become of it: a copy found damaged stays so, and what is being removed does
// not come back.
void CoreImpl::AdoptSince(const RunPtr& run, const Committed& committed, const std::set<DatasetId>& had) {
  run->bound = committed.found.bound;
  run->bound_set_us = committed.found.bound_set_us;
  run->bad = committed.found.bad;
  for (const DatasetId id : had) {
    const DatasetPtr dataset = run->ledger.Get(id);
    if (!dataset || !dataset->in_prefix || committed.found.datasets.contains(id)) continue;
    if (dataset->readers > 0 || run->flushes.contains(id)) continue;
    TakenOut(run, dataset, committed);
    spdlog::info("run {}: dataset {} (step {}) was taken out of the prefix by someone else", run->name, id,
                 dataset->step);
  }
  DatasetId newest = 0;
  for (const auto& [id, found] : committed.found.datasets) {
    if (const DatasetPtr dataset = run->ledger.Get(id); dataset && IsAnother(*dataset, found)) {
      AdoptOne(run, id, committed);
      continue;
    }
    const bool back = !had.contains(id) && run->taken_out.erase(id) > 0;
    if (back) run->flush_dropped.erase(id);
    if (const DatasetPtr dataset = run->ledger.Get(id); dataset && back) {
      dataset->in_prefix = true;
      dataset->dropped = dataset->gave_way = dataset->damaged = false;
    }
    const bool going = run->flushes.contains(id) || run->flush_dropped.contains(id);
    if (const DatasetPtr dataset = run->ledger.Get(id); dataset && dataset->damaged && !had.contains(id) && !going) {
      // Its copy there was bad, and someone has put that right since: the index says so.
      dataset->in_prefix = true;
      dataset->damaged = dataset->described = false;
    }
    if (run->ledger.Get(id) || (!back && run->ledger.FindGone(id) != nullptr) || run->flush_dropped.contains(id)) {
      continue;
    }
    AdoptOne(run, id, committed);
    if (!run->ledger.Get(id)) continue;
    newest = id;
    spdlog::info("run {}: dataset {} (step {}) was committed on the prefix by someone else", run->name, id,
                 found.descriptor.step.value_or(0));
  }
  // The newer of two datasets has the higher id: those that were reserved before are not given out any more.
  if (run->ids.first <= newest) run->ids = std::exchange(run->next_ids, {});
  if (run->ids.first <= newest) run->ids = {};
}

// SCR has given out the id again that a dataset of Cairn's has (SCR specification, section 8). What is in the cache may
// be the only copy: it stays as it is, and what the prefix has under this id is not known meanwhile. A copy of SCR's
// own earlier dataset is history, and so is what the prefix had.
void CoreImpl::GiveUpId(const RunPtr& run, const DatasetPtr& dataset, const Committed& committed) {
  const DatasetId id = dataset->id;
  const bool was_there = std::exchange(dataset->in_prefix, false);
  const bool history = IsCopyOfScrs(*dataset) || (was_there && committed.found.removed.contains(id));
  dataset->foreign = false;
  dataset->gave_way = true;
  dataset->dropped = history;
  if (!std::exchange(dataset->id_taken, true) && !history) {
    Warn(
        fmt::format("run {}: dataset {} of the prefix is another one now, which SCR has written; the one in this cache "
                    "(step {}) stays there and will not go to the prefix",
                    run->name, id, dataset->step));
  }
  if (dataset->in_cache && history && dataset->readers == 0 && !dataset->pinned) {
    Evict(run, dataset, "its id is another's on the prefix");
  } else if (!dataset->in_cache && was_there && dataset->readers == 0) {
    run->ledger.Forget(
        id, {.why = Gone::Why::kRemoved, .message = "its id is another's on the prefix", .step = dataset->step});
  }
  StoreFlushRecord(run);
}

void CoreImpl::AdoptOne(const RunPtr& run, DatasetId id, const Committed& committed) {
  const CommittedDataset& found = committed.found.datasets.at(id);
  const auto ranks = committed.catalogues.find(id);
  const bool described = ranks != committed.catalogues.end();
  // One of the newest without catalogues has been warned of. Those of SCR's own are made when they are asked for.
  const bool older = committed.catalogues.empty() || id < committed.catalogues.begin()->first;
  const bool usable = described || ((older || !found.by_cairn) && found.descriptor.ranks.value_or(0) > 0);
  run->highest_id = std::max(run->highest_id, id);
  DatasetPtr dataset = run->ledger.Get(id);
  if (dataset && IsAnother(*dataset, found)) {
    GiveUpId(run, dataset, committed);
    dataset = run->ledger.Get(id);
  } else if (dataset) {
    dataset->in_prefix = dataset->in_prefix || usable;
    if (usable) dataset->damaged = false;  // a cached copy was
    dataset->id_taken = dataset->doubted = false;
    dataset->foreign = !found.by_cairn;
    dataset->gave_way |= dataset->foreign;
  }
  if (dataset || !usable) return;
  dataset = std::make_shared<Dataset>();
  dataset->id = id;
  dataset->launch = found.descriptor.launch.value_or(0);
  dataset->step = found.descriptor.step.value_or(0);
  dataset->nranks = described ? static_cast<std::uint32_t>(ranks->second.size()) : *found.descriptor.ranks;
  dataset->described = described;
  dataset->files = found.descriptor.own_files;
  dataset->checkpoint = found.descriptor.checkpoint;
  dataset->output = found.descriptor.output;
  dataset->created_us = found.descriptor.created_us;
  dataset->user = found.descriptor.user;
  dataset->job = found.descriptor.job_id;
  dataset->in_prefix = true;
  dataset->foreign = dataset->gave_way = !found.by_cairn;
  if (dataset->foreign) dataset->name = found.descriptor.name;
  dataset->pinned = run->pinned.contains(id);
  dataset->parts.resize(dataset->nranks);
  dataset->captured = dataset->local = dataset->nranks;
  for (Part& part : dataset->parts) part.state = Part::State::kLocal;
  if (described) {
    PutCatalogues(*dataset, ranks->second);
  } else {
    dataset->parts[0].bytes = found.descriptor.bytes;
  }
  run->ledger.Adopt(std::move(dataset));
}

void CoreImpl::PutCatalogues(Dataset& dataset, const std::vector<catalogue::Catalogue>& catalogues) {
  CAIRN_CHECK(catalogues.size() == dataset.parts.size());
  for (Rank rank = 0; rank < dataset.nranks; ++rank) {
    Part& part = dataset.parts[rank];
    part.catalogue = catalogues[rank];
    part.bytes = 0;
    for (const catalogue::FileEntry& file : part.catalogue.file()) part.bytes += file.bytes();
  }
  dataset.described = true;
}

// Reads the catalogues of a dataset that is only on the prefix, if they are not here: once, however many ranks ask.
void CoreImpl::Describe(const RunPtr& run, const DatasetPtr& dataset, std::function<void(absl::Status)> then) {
  if (dataset->described) return then(absl::OkStatus());
  if (!run->prefix) return then(Unavailable("{} is out of reach", run->prefix_path));
  auto [under_way, first] = run->describing.try_emplace(dataset->id);
  under_way->second.push_back(std::move(then));
  if (!first) return;
  BlockingPrefix([prefix = run->prefix, id = dataset->id] { return prefix->Catalogues(id); },
                 [run, dataset](absl::StatusOr<std::vector<catalogue::Catalogue>> catalogues) {
                   absl::Status status = catalogues.status();
                   if (status.ok() && catalogues->size() != dataset->parts.size()) {
                     status = DataLoss("dataset {}: {} catalogues of {} ranks", dataset->id, catalogues->size(),
                                       dataset->parts.size());
                   }
                   if (status.ok()) PutCatalogues(*dataset, *catalogues);
                   const auto waiting = std::move(run->describing.extract(dataset->id).mapped());
                   for (const auto& told : waiting) told(status);
                 });
}

}  // namespace cairn
