// Out of the cache and off the prefix; daemon/flusher/policy.h says which.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/core/core_impl.h"
#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/prefix/bypass.h"

namespace cairn {

std::uint64_t CoreImpl::CacheBytesUsed() const {
  std::uint64_t used = 0;
  for (const auto& [id, run] : runs_) {
    for (const auto& [dataset_id, dataset] : run->ledger.datasets()) {
      // What is on its way counts as planned; what is only on the prefix does not count.
      if (dataset->in_cache || (!dataset->bypass && !dataset->in_prefix && !dataset->damaged)) used += dataset->bytes();
    }
  }
  return used;
}

// What is surely on the disk of that: clones may share nearly all that they have.
std::uint64_t CoreImpl::CacheBytesOccupied() const {
  std::uint64_t occupied = 0;
  for (const auto& [id, run] : runs_) {
    std::uint64_t sum = 0, largest = 0;
    for (const auto& [dataset_id, dataset] : run->ledger.datasets()) {
      if (!dataset->in_cache) continue;
      sum += dataset->bytes();
      largest = std::max(largest, dataset->bytes());
    }
    occupied += run->cache->shares_extents() ? largest : sum;
  }
  return occupied;
}

// `spare`, if given, makes room by giving its files to what is to come.
absl::Status CoreImpl::EnsureRoom(const RunPtr& run, std::uint64_t bytes, const DatasetPtr& spare) {
  std::uint64_t used = CacheBytesUsed();
  if (spare) used -= std::min(used, spare->bytes());
  auto fits = [&] { return bytes <= cache_bytes_max_ && used <= cache_bytes_max_ - bytes; };
  if (fits()) return absl::OkStatus();
  // Nobody loses anything for what will not fit anyway.
  std::vector<std::pair<RunPtr, DatasetId>> leaving;
  // The run that wants room gives way first.
  std::vector<RunPtr> order{run};
  for (const auto& [id, other] : runs_) {
    if (other != run) order.push_back(other);
  }
  for (const RunPtr& owner : order) {
    if (fits() || bytes > cache_bytes_max_) break;
    const std::uint64_t missing = used + std::min(bytes, cache_bytes_max_) - cache_bytes_max_;
    std::vector<DatasetFacts> facts = FactsOf(*owner);
    for (DatasetFacts& dataset : facts) dataset.held |= owner == run && spare && dataset.id == spare->id;
    for (DatasetId id : EvictForRoom(facts, missing)) {
      used -= std::min(used, owner->ledger.Get(id)->bytes());
      leaving.emplace_back(owner, id);
    }
  }
  // Then runs without an application give what they have once more on the prefix.
  for (const RunPtr& owner : order) {
    if (fits() || bytes > cache_bytes_max_) break;
    const Launch* newest = owner->ledger.newest();
    if (newest != nullptr && !newest->over()) continue;
    if (const std::optional<DatasetId> last = EvictWhenOver(FactsOf(*owner))) {
      if (std::ranges::find(leaving, std::pair(owner, *last)) != leaving.end()) continue;
      used -= std::min(used, owner->ledger.Get(*last)->bytes());
      leaving.emplace_back(owner, *last);
    }
  }
  if (!fits()) {
    return ResourceExhausted("the cache {} is full: {} bytes are wanted, {} of {} are in use by what may not go",
                             config_.cache.path, bytes, used, cache_bytes_max_);
  }
  for (const auto& [owner, id] : leaving) Evict(owner, owner->ledger.Get(id), "its place was needed");
  return absl::OkStatus();
}

void CoreImpl::EvictOf(const RunPtr& run) {
  const std::vector<DatasetFacts> facts = FactsOf(*run);
  for (DatasetId id : EvictBeyondKeep(facts, config_.cache.keep, config_.flush, KeepsSpare(*run))) {
    Evict(run, run->ledger.Get(id), "cache.keep");
  }
  const Launch* newest = run->ledger.newest();
  if (config_.cache.linger_ms == 0 || (newest != nullptr && !newest->over())) {
    run->idle_since.reset();
    return;
  }
  if (!run->idle_since) {
    run->idle_since = clocks_.steady();
    loop_.After(std::chrono::milliseconds(config_.cache.linger_ms), [this, run] { ApplyPolicy(run); });
  }
  const auto idle = std::chrono::duration_cast<std::chrono::milliseconds>(clocks_.steady() - *run->idle_since);
  for (DatasetId id :
       EvictLingering(FactsOf(*run), static_cast<std::uint64_t>(idle.count()), config_.cache.linger_ms)) {
    Evict(run, run->ledger.Get(id), "cache.linger");
  }
}

void CoreImpl::Evict(const RunPtr& run, const DatasetPtr& dataset, const std::string& why) {
  if (!dataset || !dataset->in_cache) return;  // gone by what an eviction before it has set free
  LeaveCache(run, dataset, why);
  ChangeFolder(run, dataset->id, [cache = run->cache, id = dataset->id] { return cache->Remove(id); });
}

// Nobody counts on it being in the cache any more; its files are still there.
void CoreImpl::LeaveCache(const RunPtr& run, const DatasetPtr& dataset, const std::string& why) {
  spdlog::info("run {}: dataset {} (step {}) leaves the cache: {}", run->name, dataset->id, dataset->step, why);
  dataset->in_cache = false;
  if (run->kept.erase(dataset->id) > 0) RetryImageWishes();
  run->directories.erase(dataset->id);
  run->restored_files.erase(dataset->id);
  if (dataset->in_prefix) {
    // A long run has many such datasets: what describes them is read again if they are ever asked for.
    for (Part& part : dataset->parts) part.catalogue.Clear();
    dataset->described = false;
  } else {
    DatasetPtr newest = run->ledger.NewestRestorable();
    run->ledger.Forget(
        dataset->id,
        {.why = Gone::Why::kSuperseded, .message = why, .successor = newest ? newest->id : 0, .step = dataset->step});
    run->flush_dropped.erase(dataset->id);
  }
  // Who waits for it is told at once, but not from deep within a call.
  loop_.Post([this, run] {
    TidyPrefix(run);
    LookAtWatchers(run);
  });
}

// Who makes the directory anew waits for such changes.
void CoreImpl::ChangeFolder(const RunPtr& run, DatasetId id, std::function<absl::Status()> work) {
  ++run->changing[id].pending;
  BlockingCache(std::move(work), [this, run, id](const absl::Status& status) {
    if (!status.ok()) Warn(fmt::format("dataset {}: {}", id, MessageOf(status)));
    auto change = run->changing.find(id);
    if (--change->second.pending > 0) return;
    auto waiting = std::move(change->second.waiting);
    run->changing.erase(change);
    for (auto& next : waiting) next();
  });
}

void CoreImpl::Unprefix(const RunPtr& run, const DatasetPtr& dataset) {
  RemoveFromPrefix(run, dataset, [this, id = dataset->id](const absl::Status& removed) {
    if (!removed.ok()) Warn(fmt::format("dataset {}: {}", id, MessageOf(removed)));
  });
}

absl::Status CoreImpl::IsScrs(DatasetId id) {
  return FailedPrecondition("dataset {} is SCR's own: only `cairn index remove` takes it from the prefix", id);
}

void CoreImpl::RemoveFromPrefix(const RunPtr& run, const DatasetPtr& dataset, std::function<void(absl::Status)> then) {
  if (dataset->foreign) return then(IsScrs(dataset->id));
  // A removal may take away what a commit has just put there: only one of the two at a time.
  const bool committing = std::any_of(run->flushes.begin(), run->flushes.end(), [](const auto& item) {
    return item.second->state == FlushJob::State::kCommitting;
  });
  if (committing || (dataset->files && FilesBypass(*run))) {
    run->after_flush.push_back([this, run, dataset, then] { RemoveFromPrefix(run, dataset, then); });
    return;
  }
  if (!run->prefix || run->replaced) return then(Unavailable("{} is out of reach", run->prefix_path));
  ++run->removals;
  std::vector<catalogue::Catalogue> catalogues;
  for (const Part& part : dataset->parts) {
    if (dataset->described) catalogues.push_back(part.catalogue);
  }
  dataset->in_prefix = false;
  run->begun.erase(dataset->id);
  run->flush_dropped.insert(dataset->id);  // what was removed there is not flushed again
  if (!dataset->in_cache) {
    run->ledger.Forget(dataset->id, {.why = Gone::Why::kRemoved, .message = "was removed", .step = dataset->step});
  }
  StoreFlushRecord(run);
  BlockingPrefix(
      [prefix = run->prefix, id = dataset->id, catalogues = std::move(catalogues)]() mutable -> absl::Status {
        if (catalogues.empty()) {
          CAIRN_ASSIGN_OR_RETURN(catalogues, prefix->Catalogues(id));
        }
        return prefix->Remove(id, catalogues);
      },
      [this, run, dataset, then = std::move(then)](const absl::Status& status) {
        --run->removals;
        if (!status.ok()) {  // it may be tried again
          dataset->in_prefix = true;
          run->flush_dropped.erase(dataset->id);
          if (!run->ledger.Get(dataset->id)) run->ledger.Adopt(dataset);
          StoreFlushRecord(run);
        }
        then(status);
        AfterFlush(run);
      });
}

// What was begun on the prefix and never committed, and is not in the cache any more, to go on with: it goes. Called
// when the prefix comes into reach, and when something of that kind has come about.
void CoreImpl::TidyPrefix(const RunPtr& run) {
  std::set<DatasetId> left;
  for (DatasetId id : std::set(run->begun)) {
    const DatasetPtr dataset = run->ledger.Get(id);
    const bool in_use = run->flushes.contains(id) || run->bypassing.contains(id) || run->growing.contains(id);
    if (!in_use && dataset && dataset->in_prefix) run->begun.erase(id);  // committed just before a crash
    if (!in_use && (!dataset || dataset->damaged)) left.insert(id);
  }
  if (left.empty() || !run->prefix || run->replaced) return;
  const bool committing = std::any_of(run->flushes.begin(), run->flushes.end(), [](const auto& item) {
    return item.second->state == FlushJob::State::kCommitting;
  });
  if (committing || FilesBypass(*run)) return run->after_flush.push_back([this, run] { TidyPrefix(run); });
  for (DatasetId id : left) run->begun.erase(id);
  ++run->removals;
  BlockingPrefix(
      [this, prefix = run->prefix, left]() mutable -> absl::StatusOr<std::set<DatasetId>> {
        CAIRN_ASSIGN_OR_RETURN(const PrefixContents there, prefix->Contents());
        std::erase_if(left, [&](DatasetId id) {
          // What was dropped from the index, or failed, was committed all the same: its files stay.
          const bool committed = there.datasets.contains(id) || there.dropped.contains(id) || there.failed.contains(id);
          return committed || RemoveUnfinished(prefix_disk_, *prefix, id).ok();
        });
        return left;
      },
      [this, run, left](const absl::StatusOr<std::set<DatasetId>>& rest) {
        --run->removals;
        for (DatasetId id : rest.ok() ? *rest : left) run->begun.insert(id);  // the next time
        StoreFlushRecord(run);
        AfterFlush(run);
      });
}

// One write at a time, of the state as it is when the write begins: the last one always tells the latest. `then` hears
// of the write that tells what is so now.
void CoreImpl::StoreFlushRecord(const RunPtr& run, std::function<void(const absl::Status&)> then) {
  if (then) run->record_waiting.push_back(std::move(then));
  if (run->record_storing) {
    run->record_stale = true;
    return;
  }
  run->record_storing = true;
  kvtree::Tree record;
  for (const auto& [id, dataset] : run->ledger.datasets()) {
    const bool dropped = run->flush_dropped.contains(id);
    const bool counted = dataset->in_cache && dataset->ordinal != 0;
    if (!dataset->in_prefix && !dataset->pinned && !dataset->gave_way && !dropped && !counted) continue;
    kvtree::Tree& entry = record.At("DATASET").At(fmt::format("{}", id));
    entry.SetBool("PREFIX", dataset->in_prefix);
    entry.SetBool("PINNED", dataset->pinned);
    if (counted) entry.Set("ORDINAL", dataset->ordinal);
    if (dropped) entry.SetBool("DROPPED", true);
    if (dataset->gave_way) entry.SetBool("GAVE_WAY", true);
    if (dataset->foreign) entry.SetBool("FOREIGN", true);
    if (dataset->id_taken) entry.SetBool("ID_TAKEN", true);
    if (dataset->doubted) entry.SetBool("DOUBTED", true);
  }
  for (const auto& [id, growth] : run->growing) {
    for (const std::string& name : GrownOf(*run, id)) {
      record.At("DATASET").At(fmt::format("{}", id)).At("GROWING").At(name);
    }
  }
  for (DatasetId id : run->begun) record.At("DATASET").At(fmt::format("{}", id)).SetBool("BEGUN", true);
  BlockingCache([cache = run->cache, record] { return cache->StoreFlushRecord(record); },
                [this, run, told = std::exchange(run->record_waiting, {})](const absl::Status& status) {
                  if (!status.ok()) Warn(fmt::format("run {}: {}", run->name, MessageOf(status)));
                  for (const auto& then : told) then(status);
                  run->record_storing = false;
                  if (std::exchange(run->record_stale, false)) StoreFlushRecord(run);
                });
}

}  // namespace cairn
